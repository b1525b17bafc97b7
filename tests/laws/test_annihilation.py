"""What holds where a prior takes weight from components: one at a time, and none comes back."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS

from sklearn_onlineem import GaussianMixture, combine_estimators
from sklearn_onlineem._kernels._responsibilities import weights_from_counts
from sklearn_onlineem.diagnostics import convergence_certificate
from sklearn_onlineem.em import BayesianOnline, Componentwise, SplitMerge

# Their components have no hidden variables, so that a pass is an exact M-step.
all_mixtures = pytest.mark.parametrize(
    "case", [case for case in ESTIMATORS if not case.hidden], ids=repr
)
all_solvers = pytest.mark.parametrize(
    "solver", ["batch", Componentwise("gain"), Componentwise("cyclic")], ids=repr
)
CONCENTRATION = -19.0


def sparse(case, n_components=8, **arguments):
    arguments = {"solver": "batch", "max_iter": 400, "tol": 1e-7} | arguments
    return case(n_components, weight_concentration_prior=CONCENTRATION, **arguments)


def models_of_passes(mixture, X):
    """The models of batch EM, from pass to pass."""
    mixture.set_params(max_iter=1, tol=0.0)
    models = [mixture.fit(X).model_]
    mixture.set_params(warm_start=True)
    models += [mixture.fit(X).model_ for _ in range(60)]
    return models


def penalised(model, weights, data):
    """Log-likelihood plus log prior of the weights, with these weights."""
    n, log_likelihood = data.total_weight, replace(model, weights=weights).e_step(data)[1]
    return n * log_likelihood + (CONCENTRATION - 1.0) * np.log(weights[weights > 0.0]).sum()


@all_mixtures
def test_components_go_one_at_a_time_and_the_penalised_objective_never_falls(case, rng):
    """On the way of the weight to nothing, too, at whose end the prior's density is infinite."""
    X = case.data(rng, 300)[0]
    mixture = sparse(case)
    models = models_of_passes(mixture, X)
    data, n_gone = mixture._input().read(X), 0
    for old, new in zip(models, models[1:], strict=False):
        gone = np.flatnonzero((old.weights > 0.0) & (new.weights == 0.0))
        assert len(gone) <= 1
        assert not (new.weights[old.weights == 0.0] > 0.0).any()
        n_gone += len(gone)
        before = penalised(old, old.weights, data)
        for share in (1.0, 0.3, 1e-3, 1e-9) if len(gone) else (0.0,):
            weights = new.weights.copy()
            if len(gone):
                left = share * old.weights[gone[0]]
                weights *= 1.0 - left
                weights[gone[0]] = left
            assert penalised(new, weights, data) >= before - 1e-6 * abs(before)
    assert n_gone > 0


@all_mixtures
@all_solvers
def test_a_fit_ends_when_the_prior_takes_no_more_than_there_is(solver, case, rng):
    X = case.data(rng, 300)[0]
    mixture = sparse(case, solver=solver, tol=1e-7 if solver == "batch" else 1e-6).fit(X)
    alive = mixture.weights_ > 0.0
    assert mixture.converged_ or solver == "batch"
    assert 1 <= mixture.n_components_ == np.count_nonzero(alive) < 8
    counts = mixture.model_.e_step(mixture._input().read(X))[0].counts * len(X)
    assert (counts[alive] > 1.0 - CONCENTRATION).all()
    numbers = [step.n_components for step in mixture.history_ if step.n_components is not None]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[-1] == mixture.n_components_
    assert solver != "batch" or (np.diff(numbers) == -1).all()


def merged(case):
    return case(6, solver=SplitMerge(), max_iter=500)


@all_mixtures
@pytest.mark.parametrize("make", [sparse, merged])
def test_those_that_are_gone_stay_gone(make, case, rng):
    X = case.data(rng, 300)[0]
    mixture = make(case).fit(X)
    gone = mixture.weights_ == 0.0
    assert gone.any()
    assert (mixture.predict_proba(X)[:, gone] == 0.0).all()
    assert not gone[mixture.sample(500)[1]].any()
    twin = pickle.loads(pickle.dumps(mixture))
    assert_identical(twin.model_, mixture.model_)
    assert_identical(twin.partial_fit(X[:20]).model_, mixture.partial_fit(X[:20]).model_)
    assert (mixture.weights_[gone] == 0.0).all()
    assert np.isfinite(combine_estimators([mixture, make(case).fit(X[::2])]).score(X))


@all_mixtures
def test_certificates_are_of_those_that_are_left(case, rng):
    X = case.data(rng, 300)[0]
    mixture = sparse(case).fit(X)
    assert mixture.n_components_ < 8
    certificate = convergence_certificate(mixture, X)
    assert 0.0 <= certificate.certificate <= certificate.gain + 1e-9
    assert certificate.gain < 1e-5


@all_solvers
def test_where_all_are_too_small_they_go_one_by_one_until_one_has_enough(solver, rng):
    """Together they would have to go at once, and leave nothing (Figueiredo & Jain)."""
    X = rng.standard_normal((60, 2))
    mixture = GaussianMixture(
        10, weight_concentration_prior=-14.0, solver=solver, max_iter=200, random_state=0
    ).fit(X)
    assert mixture.n_components_ >= 1
    assert 60 * mixture.weights_[mixture.weights_ > 0.0].min() > 15.0


@pytest.mark.parametrize("solver", ["auto", BayesianOnline()], ids=repr)
def test_streams_lose_components_one_in_a_step(solver, rng):
    centres = np.array([[0.0, 0.0], [12.0, 0.0]])
    mixture = GaussianMixture(6, weight_concentration_prior=-60.0, solver=solver, random_state=1)
    alive = [6]
    for _ in range(60):
        X = centres[rng.integers(2, size=100)] + rng.standard_normal((100, 2))
        alive.append(mixture.partial_fit(X).n_components_)
    assert set(-np.diff(alive[1:])) <= {0, 1}
    assert alive[-1] == 2
    np.testing.assert_allclose(np.sort(mixture.means_[mixture.weights_ > 0.0, 0]), [0, 12], atol=1)


def test_exact_numbers_by_a_prior_worth_schwarz_criterion(rng):
    """Half of a component's numbers, times the logarithm of the rows, below 1."""
    centres = 9.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    X = centres[rng.integers(5, size=2000)] + rng.standard_normal((2000, 2))
    mixture = GaussianMixture(
        15, weight_concentration_prior=1.0 - 6 / 2 * np.log(2000), solver="batch", tol=1e-8,
        max_iter=2000, random_state=0,
    ).fit(X)  # fmt: skip
    assert mixture.n_components_ == 5


def test_weights_by_the_book(rng):
    """The kernel against its definition, row by row."""
    for _ in range(200):
        K = rng.integers(1, 7)
        counts = np.round(rng.normal(0.3, 1.0, K), 1)
        old = rng.dirichlet(np.ones(K)) * (rng.random(K) < 0.8)
        if not old.any():
            continue
        old, new = old / old.sum(), np.empty(K)
        losers = np.flatnonzero((counts < 0.0) & (old > 0.0))
        keepers = losers[losers != losers[np.argmin(counts[losers])]] if len(losers) else losers
        winners = counts > 0.0
        shared = weights_from_counts(counts, old, new)
        assert shared == bool(winners.any() or len(keepers))
        if not shared:
            continue
        expected = np.zeros(K)
        expected[keepers] = old[keepers]
        if winners.any():
            rest = 1.0 - expected.sum()
            expected[winners] = rest * counts[winners] / counts[winners].sum()
        np.testing.assert_allclose(new, expected / expected.sum(), rtol=1e-12)
