"""Stages of streams: which solvers have which, and those that users write."""

from dataclasses import dataclass, replace

import pytest
from cases.comparing import assert_identical
from cases.merged_cases import EXACT

from sklearn_onlineem import PoissonMixture
from sklearn_onlineem.em import Adaptive, Batch, BayesianOnline, Online
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.stages.base import Stage
from sklearn_onlineem.em.stages.memories import Remember
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.reinitialise import Reinitialise
from sklearn_onlineem.em.stages.sample import Challenge
from sklearn_onlineem.em.state import Carry
from sklearn_onlineem.em.step import online_step
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
