"""Mixtures by collapsed Gibbs sampling."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_close, assert_identical
from cases.states import state_of
from numpy.testing import assert_allclose
from scipy.special import gammaln, logsumexp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from sklearn_onlineem import (
    BernoulliMixture,
    GaussianMixture,
    LatentDirichletAllocation,
    MultinomialMixture,
    PoissonMixture,
)
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Gibbs
from sklearn_onlineem.estimators.base import set_start

by_mixture = pytest.mark.parametrize("case", GIBBS, ids=repr)
SEVERAL = Gibbs(average_from=4, n_chains=3, n_draws=2)


@by_mixture
def test_it_finds_clusters(case, rng):
    X, y = case.data(rng)
    mixture = case(max_iter=20).fit(X)
    assert adjusted_rand_score(y, mixture.predict(X)) > 0.9
    assert mixture.n_iter_ == mixture.n_steps_ == 20
    assert mixture.lower_bounds_ == mixture.chains_.scores[0].tolist()
    assert not mixture.converged_


@by_mixture
def test_the_first_of_several_chains_is_the_one_alone(case, rng):
    X, _ = case.data(rng, 60)
    alone, several = (case(5, solver=Gibbs(n_chains=n), max_iter=4).fit(X) for n in (1, 3))
    assert_identical(several.chains_.scores[0], alone.chains_.scores[0])
    assert_identical(several.model_, alone.model_)
    assert several.chains_.scores.shape == several.chains_.entropies.shape == (3, 4)
    assert len(set(map(tuple, several.chains_.scores))) == 3


@by_mixture
def test_draws_are_spread_over_the_sweeps_that_count(case, rng):
    X, _ = case.data(rng, 60)
    mixture = case(solver=SEVERAL, max_iter=10).fit(X)
    draws = mixture.chains_.draws
    assert [len(of_chain) for of_chain in draws] == [2, 2, 2]
    assert all(draw.family == mixture.model_.family for part in draws for draw in part)
    assert mixture.chains_.first == 4
    assert case(solver=Gibbs(), max_iter=10).fit(X).chains_.first == 6
    assert case(solver=Gibbs(n_draws=5), max_iter=10).fit(X).chains_.draws[0][4] is not None
    with pytest.raises(
        ValueError, match=f"{case.make.__name__}: n_draws must be .* from 6 to 10, got 6"
    ):
        case(solver=Gibbs(n_draws=6), max_iter=10).fit(X)


@by_mixture
def test_it_is_kept_with_the_estimator(case, rng):
    X, _ = case.data(rng, 60)
    mixture = case(solver=SEVERAL, max_iter=6).fit(X)
    for loaded in (pickle.loads(pickle.dumps(mixture)), copy.deepcopy(mixture)):
        assert_identical(list(loaded.chains_), list(mixture.chains_))
    assert clone(mixture).solver == SEVERAL
    with pytest.raises(AttributeError, match="not fitted"):
        _ = clone(mixture).chains_
    # Streams take online steps, after a fit and on their own.
    resumed = [one.partial_fit(X) for one in (mixture, pickle.loads(pickle.dumps(mixture)))]
    assert_identical(state_of(resumed[0]), state_of(resumed[1]))
    stream = case().partial_fit(X)
    with pytest.raises(AttributeError, match=f"{case.make.__name__} has chains_ only"):
        _ = stream.chains_


@by_mixture
def test_known_components_number_the_others(case, rng):
    X, y = case.data(rng)
    labels = np.where(rng.random(len(y)) < 0.2, y, -1)
    for order in ([0, 1, 2], [2, 0, 1]):
        numbered = np.where(labels < 0, -1, np.array(order)[labels])
        mixture = case(semi_supervised=True, max_iter=20).fit(X, numbered)
        assert (mixture.predict(X) == np.array(order)[y]).mean() > 0.9
    supervised = [case(semi_supervised=True, solver=solver, max_iter=2, tol=0.0).fit(X, y)
                  for solver in ("gibbs", "batch")]  # fmt: skip
    assert_close(supervised[0].model_, supervised[1].model_, rtol=1e-9)


@by_mixture
def test_weights_of_rows_are_refused(case, rng):
    X, _ = case.data(rng, 60)
    unweighted, weighted = (case(max_iter=2).fit(X, sample_weight=w) for w in (None, np.ones(60)))
    assert_identical(state_of(weighted), state_of(unweighted))
    before = state_of(weighted)
    with pytest.raises(ValueError, match=f"{case.make.__name__}: sample_weight"):
        weighted.fit(X, sample_weight=np.full(60, 2.0))
    assert_identical(state_of(weighted), before)


# --------------------------------------------------------------------------------- known parts


@by_mixture
@pytest.mark.parametrize(
    "params",
    [
        "w",
        "p",
        {"weights": np.array([True, True, False])},
        {"parameters": np.array([False, True, False]), "weights": False},
    ],
    ids=["w", "p", "weights", "parameters"],
)
def test_what_params_fix_stays_in_all_chains_and_draws(case, params, rng):
    X, _ = case.data(rng, 60)
    prior = {"prior": None, "weight_concentration_prior": None} if params == "w" else {}
    start = set_start(case(params=params, warm_start=True, **prior), X)
    mixture = copy.deepcopy(start).set_params(solver=SEVERAL, max_iter=6).fit(X)
    before, fixed = start.model_, start.model_.fixed
    draws = [draw for of_chain in mixture.chains_.draws for draw in of_chain]
    for model in (mixture.model_, *draws):
        if fixed.weights is not None:
            assert_identical(model.weights[fixed.weights], before.weights[fixed.weights])
        if fixed.components is not None:
            means, known = (one.family.means(one.parameters) for one in (model, before))
            assert_identical(means[fixed.components], known[fixed.components])
        assert_allclose(model.weights.sum(), 1.0)
    assert min(draw.kl_divergence(before) for draw in draws) > 0.0


def test_weights_that_are_partly_fixed_have_the_exact_posterior(rng):
    """Of labels: fixed weights, and the rest as of a Dirichlet prior of the free ones."""
    X, alpha, weights = np.array([[1.0], [4.0], [2.0]]), 1.5, np.array([0.2, 0.3, 0.5])
    mixture = PoissonMixture.from_parameters(
        weights=weights, rates=[[1.0], [2.0], [5.0]], weight_concentration_prior=alpha,
        params={"weights": np.array([False, True, True])}, prior={"shape": 2.0, "rate": 1.0},
    )  # fmt: skip
    states = np.array(list(itertools.product(range(3), repeat=3)))
    counts = np.eye(3)[states].sum(axis=1)
    logs = counts[:, 0] * np.log(0.2) + (3 - counts[:, 0]) * np.log(0.8)
    logs += gammaln(counts[:, 1:] + alpha).sum(axis=1) - gammaln(3 - counts[:, 0] + 2 * alpha)
    totals = np.einsum("ink,nd->ik", np.eye(3)[states], X)
    logs += (gammaln(totals + 2.0) - (totals + 2.0) * np.log(counts + 1.0)).sum(axis=1)
    expected = np.exp(logs - logsumexp(logs))
    data, model = Rows(X), mixture.model_
    chain = model.chain(data, mixture._prior(model, 1), rng)
    n, visits = 2000, np.zeros(27)
    for _ in range(n):
        chain.sweep(rng)
        visits[chain.labels @ [9, 3, 1]] += 1
    assert np.abs(visits / n - expected).max() < 0.025
    assert np.abs(expected - 1 / 27).max() > 0.03


def test_params_that_leave_nothing_or_parts_of_means_are_refused_by_name(rng):
    X = rng.normal(size=(20, 2))
    known = {"weights": [0.5, 0.5], "means": np.zeros((2, 2)), "covariances": np.ones((2, 2)),
             "covariance_type": "diag", "solver": "gibbs", "warm_start": True}  # fmt: skip
    columns = {"means": np.array([[True, False], [True, True]])}
    prior = {"mean_precision": 1.0, "shape": 1.0, "scale": 1.0}
    for params, message in [
        ("", "params of GaussianMixture fixes everything"),
        ({"weights": np.array([True, False]), "parameters": False}, "fixes everything"),
        (columns, "params of GaussianMixture must fix means of whole components"),
    ]:
        mixture = GaussianMixture.from_parameters(**known, params=params, prior=prior)
        before = state_of(mixture)
        with pytest.raises(ValueError, match=message):
            mixture.fit(X)
        assert_identical(state_of(mixture), before)
    words = MultinomialMixture.from_parameters(
        weights=[0.5, 0.5], probabilities=[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], params="w",
        solver="gibbs", warm_start=True,
    )  # fmt: skip
    with pytest.raises(ValueError, match="MultinomialMixture: Some rows are impossible"):
        words.fit([[1, 1, 0], [0, 0, 1]])


# ------------------------------------------------------------------------------------ refusals

NEEDS_PRIOR = r"set prior=, and weight_concentration_prior="


@by_mixture
def test_without_a_prior_it_says_what_to_set(case, rng):
    X, _ = case.data(rng, 60)
    with pytest.raises(ValueError, match=f"{case.make.__name__}: .*{NEEDS_PRIOR}"):
        case(prior=None, weight_concentration_prior=None).fit(X)


def test_topics_have_a_record_of_their_chain(rng):
    X = rng.multinomial(20, [0.5, 0.3, 0.1, 0.1], size=30)
    lda = LatentDirichletAllocation(2, solver="gibbs", max_iter=8, random_state=0).fit(X)
    assert lda.chains_.scores.shape == (1, 8)
    assert (lda.chains_.entropies > 0.0).all()
    assert lda.chains_.draws == ((),)


# ------------------------------------------------------------------------------------- diagnostics


def poisson_chains(X, n_components, rng, max_iter=300):
    solver = Gibbs(average_from=max_iter // 2, n_chains=4, n_draws=max_iter // 3)
    return PoissonMixture(
        n_components, solver=solver, prior={"shape": 1.0, "rate": 0.05}, max_iter=max_iter,
        weight_concentration_prior=1.0, random_state=0,
    ).fit(X)  # fmt: skip


def test_chains_of_easy_data_agree(rng):
    rates = np.array([[2.0, 9.0, 2.0], [9.0, 2.0, 4.0]])
    X = rng.poisson(rates[rng.integers(2, size=200)])
    mixture = poisson_chains(X, 2, rng)
    assert mixture.chains_.r_hat < 1.02
    assert 100.0 < mixture.chains_.effective_sample_size < 2000.0
    assert_allclose(mixture.means_[mixture.means_[:, 0].argsort()], rates, rtol=0.1)


def test_intervals_of_draws_cover_the_truth(rng):
    rates = np.array([[2.0, 9.0, 2.0], [9.0, 2.0, 4.0]])
    X = rng.poisson(rates[rng.integers(2, size=400)])
    draws = [draw.parameters for part in poisson_chains(X, 2, rng).chains_.draws for draw in part]
    draws = np.array(draws)
    assert draws.shape == (400, 2, 3)
    order = draws.mean(axis=0)[:, 0].argsort()
    low, high = np.quantile(draws[:, order], [0.0005, 0.9995], axis=0)
    assert ((low < rates) & (rates < high)).all()
    # A posterior is as narrow as the rows of a component make it.
    assert_allclose(draws[:, order].std(axis=0), np.sqrt(rates / 200.0), rtol=0.25)


def test_chains_that_are_stuck_do_not_agree(rng):
    """Two components of three clusters: which two share one, a chain never changes."""
    rates = 5.0 + 15.0 * np.eye(3)
    X = rng.poisson(rates[np.repeat([0, 1, 2], [100, 70, 40])])
    assert poisson_chains(X, 2, rng, 60).chains_.r_hat > 1.1


def test_a_callback_ends_a_fit_with_its_record(rng):
    X = rng.poisson([[2.0], [20.0]] * 20)
    mixture = MultinomialMixture(
        2, solver=Gibbs(n_draws=4), prior={"concentration": 2.0}, max_iter=20,
        callbacks=[lambda step: step.n_rows >= 12 * len(X)],
    ).fit(X)  # fmt: skip
    assert mixture.chains_.scores.shape == (1, 12)
    assert len(mixture.chains_.draws[0]) == 1  # after sweep 11


def test_bits_have_a_flat_prior_where_only_weights_have_one(rng):
    X = rng.random((40, 6)) < 0.5
    mixture = BernoulliMixture(2, solver="gibbs", weight_concentration_prior=1.0, max_iter=3)
    assert np.isfinite(mixture.fit(X).score(X))
