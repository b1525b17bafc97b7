"""Settings are values: they are printed as they are written."""

from dataclasses import dataclass

import pytest
from sklearn import config_context

from sklearn_onlineem import em
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.em.step import Sampled

NAMES = {name: getattr(em, name) for name in em.__all__} | {"Sampled": Sampled}
PRINTED = [
    "Auto()",
    "Batch(acceleration=None)",
    "Online(inertia=Sampled(n_pseudo_samples=500), sample=2000)",
    "SplitMerge(n_components='fixed')",
    "PowerDecay(eta0=0.5, beta=0.7)",
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
