"""Where hidden Markov models start from."""

import numpy as np
import pytest

from sklearn_onlineem import GMMHMM, HMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM
from sklearn_onlineem.families import MixtureOf, Poisson

PROBABILITIES = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
CHAIN = {"startprob_init": [0.3, 0.7], "transmat_init": [[0.9, 0.1], [0.4, 0.6]]}
SYMBOLS = np.array([[0.0], [1.0], [2.0], [2.0], [0.0]])
COUNTS = np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 4.0], [1.0, 1.0, 1.0]])
MEANS, VARIANCES = np.array([[-1.0], [2.0]]), np.array([[1.0], [0.5]])

GIVEN = [
    (CategoricalHMM, {"emissionprob_init": PROBABILITIES}, SYMBOLS),
    (MultinomialHMM, {"emissionprob_init": PROBABILITIES}, COUNTS),
    (PoissonHMM, {"lambdas_init": 9.0 * PROBABILITIES}, COUNTS),
    (GaussianHMM, {"means_init": MEANS, "covars_init": VARIANCES}, SYMBOLS),
]


@pytest.mark.parametrize("hmm, emissions, X", GIVEN, ids=[hmm.__name__ for hmm, *_ in GIVEN])
def test_a_stream_begins_at_the_given_start(hmm, emissions, X):
    slow = hmm(2, eta0=1e-9, **CHAIN, **emissions).partial_fit(X)
    for name, value in {**CHAIN, **emissions}.items():
        fitted = getattr(slow, name.replace("_init", "_"))
        if name == "covars_init":
            fitted = np.einsum("kii->ki", fitted)
        np.testing.assert_allclose(fitted, value, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    "hmm, X",
    [(CategoricalHMM, SYMBOLS), (MultinomialHMM, COUNTS)],
    ids=["CategoricalHMM", "MultinomialHMM"],
)
def test_given_probabilities_are_relative(hmm, X):
    fits = [
        hmm(2, emissionprob_init=scale * PROBABILITIES, **CHAIN).partial_fit(X)
        for scale in (1.0, 7.0)
    ]
    np.testing.assert_allclose(fits[0].emissionprob_, fits[1].emissionprob_, rtol=1e-12)


@pytest.mark.parametrize("hmm", [CategoricalHMM(2), HMM(2, family="categorical")], ids=repr)
def test_states_may_share_symbols_that_clusters_of_codes_keep_apart(hmm):
    """Three symbols, the middle one common in both states: only the moves tell them apart."""
    rng = np.random.default_rng(0)
    probabilities = np.array([[0.45, 0.5, 0.05], [0.05, 0.5, 0.45]])
    states = np.repeat([0, 1] * 20, 50)
    X = (probabilities[states].cumsum(axis=1) < rng.random((len(states), 1))).sum(axis=1)[:, None]
    hmm.set_params(random_state=0, tol=1e-4).fit(X)
    emissions = hmm.model_.parameters
    np.testing.assert_allclose(emissions[emissions[:, 0].argsort()[::-1]], probabilities, atol=0.06)


@pytest.mark.parametrize("n_columns", [1, 2])
def test_first_data_may_lack_symbols_that_the_given_start_has(n_columns):
    given = np.tile([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], n_columns)
    first = np.zeros((6, n_columns), dtype=int)
    hmm = CategoricalHMM(2, emissionprob_init=given).partial_fit(first)
    assert hmm.emissionprob_.shape == given.shape
    hmm.partial_fit(np.full((4, n_columns), 2))
    with pytest.raises(ValueError, match="0..2"):
        hmm.partial_fit(first + 3)


def test_further_starts_find_what_clusters_of_rows_do_not():
    """Great inventions of each year from 1860 to 1959: ten starts of clusters reach -206.18."""
    years = (
        "5302032361212133352440237c3a9237723362435224042523"
        "36583660522263442247533022213422111214432141110020"
    )
    X = np.array([[int(digit, 16)] for digit in years])
    hmm = PoissonHMM(2, n_init=10, random_state=0).fit(X)
    assert abs(hmm.score(X) + 206.05) < 0.02


@pytest.mark.parametrize(
    "hmm",
    [
        GMMHMM(2, n_mix=2),
        GMMHMM(2, n_mix=2, covariance_type="full"),
        HMM(2, family=MixtureOf(Poisson())),
    ],
    ids=repr,
)
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_places_of_a_state_need_not_be_neighbours(hmm, unit, rng):
    """States are told by what follows what: places of one state lie around those of the other."""
    states = np.repeat(np.arange(6) % 2, 60)
    places = np.array([[4.0, 60.0], [15.0, 35.0]])[states, rng.integers(0, 2, len(states))]
    X = rng.poisson(places)[:, None] * (unit if isinstance(hmm, GMMHMM) else 1.0)
    found = hmm.set_params(random_state=0).fit(X).predict(X)
    assert max(np.mean(found == states), np.mean(found != states)) > 0.98


REGIMES = np.random.default_rng(7).normal(size=(400, 2)) + np.repeat(
    np.random.default_rng(8).normal(scale=2.0, size=(8, 2)), 50, axis=0
)
PLACES = {
    "two states": {"n_components": 2},
    "a chain": {"transmat_init": np.full((4, 4), 0.25)},
    "centres": {"init": REGIMES[:4]},
    "labels": {"semi_supervised": True, "y": np.repeat([0, 1, 2, 3, -1, -1, -1, -1], 50)},
    "a chosen rate": {"eta0": 0.5, "max_iter": 5},
    "a number of passes": {"tol": 0.0, "max_iter": 25},
    "more parameters than values": {"X": REGIMES[:20]},
}


def regimes(n_components=4, X=REGIMES, y=None, **parameters):
    return GaussianHMM(n_components, **{"random_state": 0} | parameters).fit(X, y)


def test_the_likeliest_of_three_starts_goes_on():
    likelihoods = {}
    for n_init in ("auto", 1):
        hmms = [regimes(n_init=n_init, random_state=seed) for seed in range(8)]
        likelihoods[n_init] = np.array([hmm.score(REGIMES) for hmm in hmms])
    gains = likelihoods["auto"] - likelihoods[1]
    assert gains.max() > 10.0 and gains.min() > -1.0, gains


@pytest.mark.parametrize("case", PLACES)
def test_one_start_is_enough_where_states_have_places(case):
    found, alone = (regimes(**PLACES[case], n_init=n_init) for n_init in ("auto", 1))
    np.testing.assert_array_equal(found.means_, alone.means_)
    np.testing.assert_array_equal(found.transmat_, alone.transmat_)
