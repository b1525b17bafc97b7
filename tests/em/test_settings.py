"""Settings are values: they are printed as they are written, and checked."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn import config_context

from sklearn_onlineem import em
from sklearn_onlineem.em.schedules import PowerDecayInRows
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.em.step import Sampled

NAMES = {name: getattr(em, name) for name in em.__all__} | {"Sampled": Sampled}
PRINTED = [
    "Auto()",
    "Batch(acceleration=None)",
    "Online(inertia=Sampled(n_pseudo_samples=500), sample=2000)",
    "SplitMerge(n_components='fixed')",
    "PowerDecay(eta0=0.5, beta=0.7, t0=10.0)",
]


@pytest.mark.parametrize("text", PRINTED)
def test_what_is_as_by_default_is_left_out(text):
    value = eval(text, NAMES)
    assert repr(value) == text
    with config_context(print_changed_only=False):
        everything = repr(value)
    assert eval(everything, NAMES) == value
    assert all(f"{name}=" in everything for name in value.get_params(deep=False))


def test_settings_of_users_may_print_themselves():
    @dataclass(frozen=True)
    class Own(Settings):
        size: int = 3

        def __repr__(self):
            return f"size {self.size}"

    assert repr(Own()) == "size 3"


HALF_LIVES = [(), [1.0], 1.0, (0.0,), (-1.0, 2.0), (math.nan,), ("a",)]
WRONG = {
    em.Adaptive: {"half_lives": HALF_LIVES, "start_rows": [-1], "reinitialises": [1]},
    em.Batch: {"acceleration": ["on"]},
    em.BayesianOnline: {"estimate": ["median"], "start_mass": [0.0], "forgetting": [0.0, 1.5]},
    em.Componentwise: {"order": ["random", None, 1, np.array(["gain"])]},
    em.SplitMerge: {"n_merges": [0], "n_components": [3]},
    em.PowerDecay: {"eta0": [0.0, math.inf, math.nan], "beta": [-0.1, 1.1], "t0": [-1.0, math.inf]},
    PowerDecayInRows: {"rows_needed": [0.0]},
    em.Harmonic: {"a": [0.0], "b": [-1.0], "c": [-1.0]},
    em.Constant: {"eta0": [0.0]},
    em.Forgetting: {"factor": [0.0, 1.1], "half_life": [0.0]},
}


@pytest.mark.parametrize("kind", WRONG)
def test_values_out_of_range_are_refused(kind):
    for name, values in WRONG[kind].items():
        for value in values:
            with pytest.raises(ValueError, match=f"{name} must be"):
                kind(**{name: value})
