"""Hidden Markov models whose states emit mixtures."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_onlineem import GMMHMM, HMM, CategoricalHMM, combine_estimators
from sklearn_onlineem.families import Exponential, Gaussian, Gaussians, MixtureOf, Poisson
from sklearn_onlineem.families.mixture_emissions import Submixtures

STATES = np.repeat(np.arange(6) % 2, 60)


@pytest.fixture
def X(rng):
    places = np.array([[-4.0, 4.0], [0.0, 0.0]])[STATES, rng.integers(0, 2, len(STATES))]
    return rng.normal(places[:, None], 0.5)


def test_places_in_another_order_are_the_same_model(X):
    hmm = GMMHMM(2, n_mix=2, random_state=0).fit(X)
    order = ([[1], [0]], [[1, 0], [0, 1]])
    shown = {name: getattr(hmm, name)[order] for name in ("weights_", "means_", "covars_")}
    other = copy.deepcopy(hmm)
    other.startprob_, other.transmat_ = hmm.startprob_[::-1], hmm.transmat_[::-1, ::-1]
    for name, value in shown.items():
        setattr(other, name, value)
    merged = combine_estimators([hmm, other], weights=[1.0, 1.0])
    for name in ("startprob_", "transmat_", *shown):
        assert_allclose(getattr(merged, name), getattr(hmm, name), rtol=1e-9, err_msg=name)


def test_priors_of_weights_draw_them(X):
    plain, drawn = (
        GMMHMM(2, n_mix=2, weights_prior=prior, random_state=0).fit(X)
        for prior in (None, [[1.0, 1e4]])
    )
    assert plain.weights_[:, 1].min() < 0.7 < 0.9 < drawn.weights_[:, 1].min()
    same = GMMHMM(2, n_mix=2, prior={"weight_concentration": [[1.0, 1e4]]}, random_state=0).fit(X)
    assert same.weights_[:, 1].min() > 0.9


def test_means_that_are_set_move_all_places(rng):
    family = MixtureOf(Exponential(), 2)
    start = Submixtures(np.full((2, 2), 0.5), np.array([[1.0], [9.0], [2.0], [4.0]]))
    moved = family.with_means(start, np.array([[6.0], [0.5]]))
    assert_allclose(family.means(moved), [[6.0], [0.5]])
    # Two of the second component would be below 0.
    assert_allclose(moved.inner, [[2.0], [10.0], [0.5], [0.5]])


def test_states_of_any_family_may_be_mixtures_in_forecasts_and_displays(rng):
    counts = rng.poisson(np.where(rng.random(360) < 0.5, 3.0, 40.0) * (1 + STATES))[:, None]
    hmm = HMM(2, family=MixtureOf(Poisson(), 2), random_state=0).fit(counts)
    mean, (low, high) = hmm.forecast(counts, 3, quantiles=[0.05, 0.95])
    assert ((low < mean) & (mean < high)).all()
    p = hmm.filter(counts)[-1] @ hmm.transmat_
    model = hmm.model_
    flat = (p[:, None] * model.parameters.weights).ravel()
    assert_allclose(mean[0], flat @ model.parameters.inner, rtol=1e-9)


def test_shared_parts_that_are_far_apart_are_symbols(rng):
    """Their weights are the symbols' probabilities of a categorical model, in each pass of EM."""
    states = np.repeat(rng.integers(0, 2, 60), 10)
    shares = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    symbols = np.array([rng.choice(3, p=shares[state]) for state in states])
    X = 1000.0 * symbols[:, None] + rng.normal(size=(600, 1))
    means = np.array([[X[symbols == j].mean()] for j in range(3)])
    weights, slow = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]), [[0.8, 0.2], [0.3, 0.7]]
    family = MixtureOf(Gaussian(), 3, tied=True)
    parts = Submixtures(weights, Gaussians(np.tile(means, (2, 1)), np.ones((6, 1, 1))))
    passes = {"solver": "batch", "tol": 0.0, "max_iter": 5}
    chain = {"startprob": [0.5, 0.5], "transmat": slow, "warm_start": True}
    hmm = HMM.from_parameters(family=family, parameters=parts, **chain, **passes).fit(X)
    like = CategoricalHMM.from_parameters(emissionprob=weights, **chain, **passes)
    like.fit(symbols[:, None])
    assert_allclose(hmm.parameters_.weights, like.emissionprob_, rtol=1e-9)
    assert_allclose(hmm.transmat_, like.transmat_, rtol=1e-9)
    assert_allclose(hmm.parameters_.inner.mean, np.tile(means, (2, 1)), rtol=1e-12)
    assert hmm.model_.n_parameters() == 1 + 2 + 2 * 2 + 2 * 3
    other = Submixtures(weights, Gaussians(np.arange(6.0)[:, None], np.ones((6, 1, 1))))
    with pytest.raises(ValueError, match="parameters_.*must repeat the parts that all"):
        hmm.parameters_ = other
