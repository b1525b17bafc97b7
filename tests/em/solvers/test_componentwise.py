"""What holds of every mixture that is learnt one component at a time."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS, by_likelihood
from cases.states import state_of
from scipy import sparse

from sklearn_onlineem import PoissonMixture
from sklearn_onlineem.em import Componentwise, SplitMerge
from sklearn_onlineem.estimators import threads

all_mixtures = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
ORDERS = ("gain", "cyclic")
CONCENTRATION = -19.0


def fitted(case, X, n_components=4, **arguments):
    arguments = {"solver": "componentwise", "max_iter": 6, "tol": 0.0} | arguments
    return case(n_components, **arguments).fit(X)


@pytest.mark.parametrize("case", by_likelihood(ESTIMATORS), ids=repr)
def test_passes_are_counted_and_recorded_and_never_fall(case, rng):
    X = case.data(rng, 80)[0]
    mixture = fitted(case, X)
    assert mixture.n_iter_ == mixture.n_steps_ == len(mixture.history_) == 6
    assert {step.eta for step in mixture.history_} == {math.inf}
    found = np.array(mixture.lower_bounds_)
    assert (np.diff(found) >= -1e-10 * np.abs(found[1:])).all()
    assert mixture.score(X) >= found[-1] - 1e-8 * abs(found[-1])
    assert mixture.n_samples_seen_ == 80


@all_mixtures
def test_a_string_stands_for_a_value_and_fits_are_alike_to_the_bit(case, rng, monkeypatch):
    """Whatever the number of threads."""
    monkeypatch.setattr(threads, "_LEAST_WORK", 0)
    X = case.data(rng, 1200)[0]
    expected = fitted(case, X, max_iter=2)
    for other in ({"solver": Componentwise()}, {"n_jobs": 2}):
        assert_identical(state_of(fitted(case, X, max_iter=2, **other)), state_of(expected))


@pytest.mark.parametrize("case", [case for case in ESTIMATORS if not case.hidden], ids=repr)
def test_it_ends_where_batch_em_does(case, rng):
    X = case.data(rng, 120)[0]
    found, expected = (
        fitted(case, X, 3, solver=solver, max_iter=300, tol=1e-7)
        for solver in ("componentwise", "batch")
    )
    assert found.converged_
    np.testing.assert_allclose(found.score(X), expected.score(X), rtol=1e-5)


@all_mixtures
@pytest.mark.parametrize(
    "solver", [Componentwise(), SplitMerge()], ids=lambda one: type(one).__name__
)
def test_streams_take_online_steps(case, solver, rng):
    X = case.data(rng, 80)[0]
    found, expected = (fitted(case, X, solver="batch", max_iter=1) for _ in range(2))
    found.set_params(solver=solver)
    assert_identical(found.partial_fit(X[:20]).model_, expected.partial_fit(X[:20]).model_)


# ------------------------------------------------------------- priors that take weight, one by one


@pytest.mark.parametrize("case", [case for case in ESTIMATORS if not case.hidden], ids=repr)
def test_with_a_prior_that_takes_weight_steps_lower_the_objective_only_by_losses(case, rng):
    X = case.data(rng, 200)[0]
    start = fitted(case, X, 8, solver="batch", max_iter=1)
    data, model = start._input().read(X), start.model_
    empty = model.own_statistics() * 0.0
    prior = replace(empty, counts=np.full(8, CONCENTRATION - 1.0))
    steps, n_lost = model.component_steps(data, prior), 0
    before, left = penalised(model, data), 8
    for k in np.tile(np.arange(8), 4):
        steps.refresh(k)
        model = steps.model()
        after, n_left = penalised(model, data), model.n_active
        assert n_left in (left, left - 1)
        n_lost += n_left < left
        assert n_left < left or after >= before - 1e-6 * abs(before)
        before, left = after, n_left
    assert n_lost > 0


def penalised(model, data):
    """Log-likelihood plus log prior of the weights that there are."""
    weights = model.weights[model.weights > 0.0]
    return data.total_weight * model.e_step(data)[1] + (CONCENTRATION - 1.0) * np.log(weights).sum()


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.pinned("how many passes are saved depends on the draw")
def test_passes_attend_to_what_still_moves(rng):
    """Two rates that overlap, of eight that are far from these: fewer passes."""
    rates = np.array([[4.0], [5.5], [40.0], [80.0], [140.0], [220.0], [320.0], [440.0]])
    X = rng.poisson(rates[rng.integers(8, size=500)])
    passes = {}
    for order in ORDERS:
        mixture = PoissonMixture(
            8, solver=Componentwise(order), init=rates, tol=1e-6, max_iter=300, prior=None
        )
        passes[order] = mixture.fit(X).n_iter_
    assert 1.5 * passes["gain"] < passes["cyclic"]


@pytest.mark.parametrize("case", [case for case in ESTIMATORS if case.sparse], ids=repr)
def test_sparse_rows_are_dense_rows(case, rng):
    X = np.asarray(case.data(rng, 80)[0])
    assert_close(fitted(case, sparse.csr_array(X)).model_, fitted(case, X).model_, rtol=1e-6)
