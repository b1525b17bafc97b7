"""Chains of the components of all rows."""

from dataclasses import replace

import numpy as np
import pytest
from cases.collapsed_cases import GIBBS, collapsed_sweep, one_hot
from cases.comparing import assert_close, assert_identical
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._values import take
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.models.fixed import Fixed
from sklearn_onlineem.models.mixtures.mixture import MixtureChain, MixtureStatistics
from sklearn_onlineem.statistics import combine

by_mixture = pytest.mark.parametrize("case", GIBBS, ids=repr)


def problem(case, rng, n=60, n_components=3):
    """A model after a pass of EM, rows, and the prior."""
    X, _ = case.data(rng, n)
    mixture = case(n_components).set_params(solver="batch", max_iter=1, tol=0.0).fit(X)
    return mixture.model_, Rows(X), mixture._prior(mixture.model_, X.shape[1])


def statistics_of(model, X, labels):
    shares = one_hot(labels, model.n_components)
    return MixtureStatistics(shares.sum(axis=0), model.family.expected_statistics(X, shares))


@by_mixture
def test_components_begin_with_the_posterior_of_the_model(case, rng):
    model, rows, prior = problem(case, rng)
    posterior, n_chains = model.posterior(rows), 400
    drawn = [MixtureChain(model, rows, prior, rng).labels for _ in range(n_chains)]
    shares = np.mean([one_hot(labels, 3) for labels in drawn], axis=0)
    error = np.sqrt(posterior * (1.0 - posterior) / n_chains)
    assert (np.abs(shares - posterior) <= 5.0 * error + 1e-9).all()


@by_mixture
def test_averages_are_of_statistics(case, rng):
    model, rows, prior = problem(case, rng)
    chain, terms = MixtureChain(model, rows, prior, rng), []
    for _ in range(4):
        chain.sweep(rng)
        chain.align_to(chain.model())  # so that numbers stay
        chain.average_in()
        terms.append((0.25, statistics_of(model, rows.X, chain.labels)))
    assert_close(chain.model(), model.m_step(combine([(1.0, prior), *terms])), rtol=1e-9)


@by_mixture
@pytest.mark.parametrize("fixed", [None, Fixed(weights=np.ones(3, bool))], ids=["all", "w"])
def test_averages_do_not_depend_on_how_components_are_numbered(case, fixed, rng):
    """Chains that go on alike from components with other numbers have one average.

    So it is where weights are fixed to the same value.
    """
    model, rows, prior = problem(case, rng)
    if fixed is not None:
        model = replace(model, weights=np.full(3, 1.0 / 3.0), fixed=fixed)
    order = np.array([2, 0, 1])
    renumbered = replace(
        model, weights=model.weights[order], parameters=take(model.parameters, order)
    )
    chains = [MixtureChain(one, rows, prior, np.random.default_rng(2))
              for one in (model, renumbered)]  # fmt: skip
    chains[1]._labels = np.argsort(order).astype(np.intc)[chains[0]._labels]
    for chain in chains:
        chain.align_to(chains[0].model())
    for chain in chains:
        chain.average_in()
    assert_close(chains[1].model(), chains[0].model(), rtol=1e-9)
    assert_close(MixtureChain.pooled(chains), chains[0].model(), rtol=1e-9)


@by_mixture
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_sweep_is_that_of_the_family_and_known_components_stay_and_count(case, share, rng):
    model, rows, prior = problem(case, rng)
    labels = np.where(rng.random(len(rows)) < share, rng.integers(0, 3, len(rows)), -1)
    known, hidden = labels >= 0, np.flatnonzero(labels < 0)
    rows = Rows(rows.X, labels=labels.astype(np.intc))
    counted = prior
    if share:
        counted = prior + statistics_of(model, rows.X[known], labels[known])
    for dispersed in (False, True):
        chain = MixtureChain(model, rows, prior, rng, dispersed)
        for _ in range(3):
            own = chain.labels[hidden]
            score = chain.sweep(np.random.default_rng(3))
            assert_array_equal(chain.labels[known], labels[known])
        assert_allclose(chain.shares(), np.bincount(chain.labels, minlength=3) / len(rows))
        if share < 1.0:
            expected = collapsed_sweep(
                model.family, counted.emissions, rows.X[hidden], own, counted.counts + 1.0,
                np.random.default_rng(3).random(len(hidden)),
            )  # fmt: skip
            assert_array_equal(chain.labels[hidden], own)
            assert_allclose(score, expected, rtol=1e-12)
        assert np.isfinite(score)
        total = combine([(1.0, prior), (1.0, statistics_of(model, rows.X, chain.labels))])
        assert_close(chain.model(), model.m_step(total), rtol=1e-10)


@by_mixture
def test_draws_have_the_mean_of_the_posterior(case, rng):
    model, rows, prior = problem(case, rng)
    chain = MixtureChain(model, rows, prior, rng)
    chain.align_to(chain.model())
    draws = [chain.draw(rng) for _ in range(300)]
    weights = np.array([draw.weights for draw in draws])
    counts = np.bincount(chain.labels, minlength=3) + prior.counts + 1.0
    error = weights.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(weights.mean(axis=0) - counts / counts.sum()) < 5.0 * error).all()
    assert_allclose(weights.sum(axis=1), 1.0)
    assert_allclose(chain.draw(np.random.default_rng(0)).log_likelihood(rows),
                    chain.draw(np.random.default_rng(0)).log_likelihood(rows))  # fmt: skip


@by_mixture
def test_dispersed_chains_begin_elsewhere(case, rng):
    model, rows, prior = problem(case, rng)
    first, dispersed, again = (
        MixtureChain(model, rows, prior, np.random.default_rng(1), away).labels
        for away in (False, True, True)
    )
    assert (first != dispersed).any()
    assert_array_equal(dispersed, again)
    one_row = rows[:1]
    assert MixtureChain(model, one_row, prior, rng, True).labels.shape == (1,)


@by_mixture
def test_sparse_and_blocked_rows_have_the_same_chain(case, rng, monkeypatch):
    model, rows, prior = problem(case, rng)
    chains = [MixtureChain(model, rows, prior, np.random.default_rng(1))]
    monkeypatch.setattr("sklearn_onlineem.models.mixtures.mixture._BLOCK_VALUES", 20)
    chains.append(MixtureChain(model, rows, prior, np.random.default_rng(1)))
    for chain in chains:
        chain.sweep(np.random.default_rng(2))
    assert_identical(chains[1].labels, chains[0].labels)
    assert_close(chains[1].model(), chains[0].model(), rtol=1e-12)


def test_rows_that_no_component_explains_begin_anywhere(rng, monkeypatch):
    model, rows, prior = problem(GIBBS[0], rng)
    nowhere = np.full((len(rows), model.n_components), -np.inf)
    monkeypatch.setattr(type(model), "log_joint", lambda model, block: nowhere[: len(block)])
    assert set(MixtureChain(model, rows, prior, rng).labels) == {0, 1, 2}
