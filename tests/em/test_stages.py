"""Stages of streams, and settings as users see them."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.merged_cases import EXACT
from sklearn import config_context

from sklearn_onlineem import PoissonMixture, em
from sklearn_onlineem.em import Adaptive, Batch, BayesianOnline, Online
from sklearn_onlineem.em.schedules import PowerDecayInRows, rate_of
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.em.stages.base import Stage
from sklearn_onlineem.em.stages.memories import Remember
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.reinitialise import Reinitialise
from sklearn_onlineem.em.stages.sample import Challenge
from sklearn_onlineem.em.state import Carry
from sklearn_onlineem.em.step import Sampled, online_step
from sklearn_onlineem.estimators.learning import schedule_of


@pytest.mark.parametrize("case", EXACT, ids=repr)
def test_without_stages_a_step_is_online_em_and_nothing_else(case, rng):
    X = case.data(rng, 90)[0]
    stream = case(solver=Online(stages=())).partial_fit(X[:50])
    assert stream.n_rows_kept_ == 0 and stream._fitted.state.carry == {}
    state, schedule = stream._fitted.state, schedule_of(stream, stream._fitted.state)
    data = stream._input().read(X[50:])
    size = state.size_of(data)
    prior = state.prior_terms(state.counters.size + size, size / data.total_weight)
    eta = rate_of(schedule, state.counters.size, size)
    rng = state.rng() if state.model.draws else None
    expected = online_step(state.model, data, eta, prior, rng)[0]
    assert_identical(stream.partial_fit(X[50:]).model_, expected)


@dataclass(frozen=True)
class Counted(Carry):
    n: int = 0


@dataclass(frozen=True)
class CountSmall(Stage):
    """Counts batches of few rows, and says so."""

    fewest: int = 20
    name = "small"

    def step(self, inner, state, batch, stream, found=None):
        update, before = inner(state, batch, stream, found), state.carry.get(self.name, Counted())
        update.carry[self.name] = replace(before, n=before.n + (batch.n_rows < self.fewest))
        return update

    def warning(self, before, after, data):
        return "a small batch." if data.n_rows < self.fewest else None


def test_a_stage_of_a_user_takes_part_and_is_forgotten_after(rng):
    X = rng.poisson(3.0, (200, 1))
    stages = (Opening(20), CountSmall(), Reinitialise())
    stream = PoissonMixture(2, solver=Online(stages=stages), random_state=0).partial_fit(X[:100])
    with pytest.warns(UserWarning, match="PoissonMixture: a small batch."):
        stream.partial_fit(X[100:110])
    assert stream.partial_fit(X[110:150])._fitted.state.carry == {"small": Counted(1)}
    stream.set_params(solver=Online(stages=())).partial_fit(X[150:])
    assert stream._fitted.state.carry == {}


def test_settings_are_names_of_stages():
    names = [[one.name for one in solver.stream_stages()] for solver in (Batch(), Online())]
    assert names == 2 * [["first_rows", "gate", "latest_rows", "rows_of_a_level"]]
    assert Online(sample=30).stage(Challenge).size == 30 and Adaptive().stage(Remember)
    assert BayesianOnline().stream_stages() == (Opening(0),)
    assert BayesianOnline(forgetting=0.9).stream_stages() == (Opening(0), Reinitialise())


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
