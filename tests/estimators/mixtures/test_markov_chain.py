"""Mixtures of Markov chains: sequences against counts, and in use."""

import numpy as np
import pandas as pd
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import counts_of, sequence_clusters
from cases.states import state_of
from cases.streams import AT_ONCE
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

from sklearn_onlineem import MarkovChainMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import MarkovChain

N_SYMBOLS = 3


def mixture(n_components=2, **arguments):
    return MarkovChainMixture(n_components, **{"random_state": 0, "max_iter": 5, **arguments})


def walks(rng, n=40, n_symbols=N_SYMBOLS, shortest=1):
    """Sequences without structure, which have all symbols."""
    parts = [rng.integers(0, n_symbols, (rng.integers(shortest, 12), 1)) for _ in range(n)]
    parts[0] = np.arange(n_symbols)[:, None]
    return parts


def flat(sequences):
    return np.concatenate(sequences), [len(part) for part in sequences]


def log_joints(sequences, weights, startprob, transmat):
    """Step by step, an array of shape (n_sequences, n_components)."""
    out = np.tile(np.log(weights), (len(sequences), 1))
    for row, sequence in zip(out, sequences, strict=True):
        symbols = np.asarray(sequence)[:, 0].astype(int)
        row += np.log(startprob[:, symbols[0]])
        for i, j in zip(symbols[:-1], symbols[1:], strict=True):
            row += np.log(transmat[:, i, j])
    return out


def given_start(rng, n_components=2):
    weights = rng.dirichlet(np.full(n_components, 5.0))
    startprob = rng.dirichlet(np.ones(3), n_components)
    transmat = rng.dirichlet(np.ones(3), (n_components, 3))
    means = np.hstack([startprob, 4.0 * transmat.reshape(n_components, -1)])
    return {"weights_init": weights, "means_init": means}


@pytest.mark.parametrize("solver", ["batch", "online"])
def test_two_chains_are_recovered(solver, rng):
    """Chains with the same shares of symbols, which only their order tells apart."""
    stays, changes = [[0.8, 0.2], [0.3, 0.7]], [[0.3, 0.7], [0.8, 0.2]]
    transmat = np.array([stays, changes])
    means = np.hstack([np.full((2, 2), 0.5), transmat.reshape(2, -1)])
    y = (rng.random(3000) < 0.3).astype(int)
    lengths = rng.integers(20, 60, len(y))
    symbols, _ = MarkovChain().sample_sequences(means, y, rng, lengths)
    X = symbols[:, None]
    fitted = mixture(solver=solver, max_iter=50, init="random").fit(X, lengths=lengths)
    order = np.argsort(fitted.weights_)[::-1]
    assert_allclose(fitted.weights_[order], [0.7, 0.3], atol=0.03)
    assert_allclose(fitted.transmat_[order], transmat, atol=0.03)
    assert adjusted_rand_score(y, fitted.predict(X, lengths)) > 0.9


# ---------------------------------------------------------------------------------- forms of data


def gathered(X):
    """Rows of several sequences by turns, and which sequence each is of."""
    places = [(place, k) for k, part in enumerate(X) for place in range(len(part))]
    order = sorted(range(len(places)), key=lambda i: places[i])
    groups = np.repeat(np.arange(len(X)), [len(part) for part in X])
    return np.concatenate(X)[order], groups[order]


FORMS = {
    "list": lambda X: {"X": X},
    "one dimension": lambda X: {"X": [part[:, 0] for part in X]},
    "nested lists": lambda X: {"X": [part.tolist() for part in X]},
    "floats": lambda X: {"X": [part.astype(float) for part in X]},
    "data frames": lambda X: {"X": [pd.DataFrame(part, columns=["page"]) for part in X]},
    "lengths": lambda X: dict(zip(("X", "lengths"), flat(X), strict=True)),
    "lengths of lists": lambda X: {"X": flat(X)[0].tolist(), "lengths": flat(X)[1]},
    "groups": lambda X: dict(zip(("X", "groups"), gathered(X), strict=True)),
    "counts": lambda X: {"X": counts_of(X)},
    "CSR": lambda X: {"X": sparse.csr_array(counts_of(X))},
    "COO": lambda X: {"X": sparse.coo_matrix(counts_of(X))},
}
all_forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
INFERENCE = ["predict", "predict_proba", "transform", "score_samples", "score", "bic", "aic"]


@all_forms
def test_counts_are_as_the_sequences(form, rng):
    X, weight = walks(rng), rng.random(40)
    y = np.where(rng.random(40) < 0.3, rng.integers(0, 2, 40), -1)
    expected = mixture(semi_supervised=True).fit(X, y, weight).partial_fit(X[:9], y[:9])
    found = mixture(semi_supervised=True).fit(y=y, sample_weight=weight, **form(X))
    found.partial_fit(y=y[:9], **form(X[:9]))
    assert_close(found.model_, expected.model_, rtol=1e-9)
    assert found.n_features_in_ == 12
    for name in INFERENCE:
        assert_allclose(getattr(found, name)(**form(X)), getattr(expected, name)(X), rtol=1e-9)
    for name in ("fit_predict", "fit_transform"):
        values = getattr(mixture(), name)(**form(X))
        assert_allclose(values, getattr(mixture(), name)(X), rtol=1e-9, atol=1e-12)


def test_arrays_of_three_dimensions_are_lists(rng):
    X = rng.integers(0, 3, (20, 7, 1))
    assert_identical(state_of(mixture().fit(X)), state_of(mixture().fit([*X])))


def test_matrices_are_counts_of_transitions(rng):
    X = walks(rng)
    counts = counts_of(X)[:, 3:]
    expected = mixture().fit(counts)
    for matrices in (counts.reshape(-1, 3, 3), [*counts.reshape(-1, 3, 3)]):
        assert_identical(state_of(mixture().fit(matrices)), state_of(expected))
        assert_allclose(expected.score_samples(matrices), expected.score_samples(counts))
    assert expected.n_features_in_ == 9 and expected.means_.shape == (2, 9)


def test_where_starts_are_not_given_transitions_are_scored(rng):
    """Given the first symbol, also of sequences."""
    X = walks(rng)
    fitted = mixture().fit(counts_of(X)[:, 3:])
    flat_start = np.ones((2, 3))
    joints = log_joints(X, fitted.weights_, flat_start, fitted.transmat_)
    assert_allclose(fitted.score_samples(X), logsumexp(joints, axis=1), rtol=1e-10, atol=1e-12)
    visits = fitted.means_.reshape(2, 3, 3).sum(axis=2)
    assert_allclose(fitted.startprob_, visits / visits.sum(axis=1, keepdims=True))
    assert len(fitted.sample(5)[0]) == 5
    assert_allclose(fitted.partial_fit(X).score(X), fitted.score(counts_of(X)[:, 3:]))


def test_a_row_may_add_up_sequences_of_one_origin(rng):
    X = walks(rng)
    fitted = mixture().fit(X)
    both = counts_of(X[:1]) + counts_of(X[1:2])
    joints = log_joints(X[:2], np.ones(2), fitted.startprob_, fitted.transmat_).sum(axis=0)
    expected = logsumexp(joints + np.log(fitted.weights_))
    assert_allclose(fitted.score_samples(both), expected, rtol=1e-10)


# ---------------------------------------------------------------------------------------- symbols


def test_a_symbol_that_is_new_is_an_error_that_names_it(rng):
    X = walks(rng)
    fitted = mixture().fit(X)
    before = state_of(fitted)
    for method in (fitted.partial_fit, *(getattr(fitted, name) for name in INFERENCE)):
        with pytest.raises(ValueError, match=r"MarkovChainMixture: X has the symbol 3, .*0\.\.2"):
            method([*X, np.array([[0], [3]])])
    assert_identical(state_of(fitted), before)


def test_symbols_that_the_first_data_lack(rng):
    X = walks(rng)
    fitted = mixture(n_symbols=5, solver=AT_ONCE).partial_fit(X)
    assert fitted.transmat_.shape == (2, 5, 5)
    assert_allclose(fitted.transmat_[:, 3:], 0.2, rtol=1e-6)
    assert np.isfinite(fitted.score([[[4], [3]]]))
    assert fitted.partial_fit([[[4], [3], [4], [3]]]).transmat_[:, 4, 3].max() > 0.5
    with pytest.raises(ValueError, match=r"symbol 5, .*n_symbols=5"):
        mixture(n_symbols=5).fit([*X, [[5]]])
    with pytest.raises(ValueError, match="n_symbols"):
        fitted.set_params(n_symbols=6).partial_fit(X)


def test_an_alphabet_of_one_symbol(rng):
    X = [np.zeros((n, 1)) for n in (1, 2, 5)]
    fitted = mixture().fit(X)
    assert_allclose(fitted.transmat_, 1.0)
    assert_allclose(fitted.score_samples(X), 0.0, atol=1e-12)
    assert_array_equal(fitted.sample(3, lengths=4)[0], np.zeros((3, 4, 1)))


def test_sequences_of_one_symbol(rng):
    X = [[[0]], [[1]], [[1]], [[1]]]
    fitted = mixture(1, prior=None).fit(X)
    assert_allclose(fitted.startprob_, [[0.25, 0.75]])
    assert_allclose(fitted.transmat_, 0.5)  # never left
    assert_allclose(fitted.score_samples([[[0], [1]]]), np.log(0.25 * 0.5))


def test_rows_without_counts_say_nothing(rng):
    fitted = mixture().fit(walks(rng))
    assert_allclose(fitted.predict_proba(np.zeros((1, 12)))[0], fitted.weights_)
    assert_allclose(fitted.score(np.zeros((1, 12))), 0.0, atol=1e-12)


# --------------------------------------------------------------------------------- what is refused

COLUMN = np.zeros((6, 1))
REFUSED = {
    "an empty sequence": ({"X": [COLUMN, COLUMN[:0]]}, "Sequence 1 of X is empty"),
    "no sequences": ({"X": []}, "MarkovChainMixture"),
    "no groups": ({"X": [], "groups": ()}, "MarkovChainMixture"),
    "a column": ({"X": COLUMN}, r"lengths=\[len\(X\)\]"),
    "a column of lists": ({"X": COLUMN.tolist()}, r"lengths=\[len\(X\)\]"),
    "rows of several lengths": ({"X": [[0, 1, 2], [0, 1]]}, "rows of several lengths"),
    "odd columns": ({"X": np.zeros((6, 5))}, "5 columns|5 features"),
    "no square": ({"X": np.zeros((4, 3, 2))}, "square"),
    "negative counts": ({"X": -np.ones((4, 6))}, "Negative"),
    "lengths of a list": ({"X": [COLUMN], "lengths": [6]}, "require a 2-D X"),
    "a wrong sum": ({"X": COLUMN, "lengths": [2, 3]}, "add up to 5"),
    "a length of 0": ({"X": COLUMN, "lengths": [6, 0]}, "above 0"),
    "both": ({"X": COLUMN, "lengths": [6], "groups": np.zeros(6)}, "either lengths or groups"),
    "lengths of counts": ({"X": np.zeros((6, 6)), "lengths": [6]}, "one column"),
    "sparse sequences": ({"X": sparse.csr_array(COLUMN), "lengths": [6]}, "must be dense"),
    "labels of rows": ({"X": COLUMN, "lengths": [3, 3], "y": np.zeros(6, int)}, "2 rows"),
    "weights of rows": (
        {"X": COLUMN, "lengths": [3, 3], "sample_weight": [1, 1, 2, 2, 2, 2]},
        "sequence 0",
    ),  # fmt: skip
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_neither_sequences_nor_counts(arguments, message, rng):
    fitted = mixture(semi_supervised=True).fit(walks(rng, n_symbols=2))
    before = state_of(fitted)
    methods = [mixture(semi_supervised=True).fit]
    if not isinstance(arguments["X"], list) or arguments["X"]:  # or an empty batch
        methods.append(fitted.partial_fit)
    for method in methods:
        with pytest.raises((ValueError, TypeError), match=message) as info:
            method(**arguments)
        assert "MarkovChainMixture" in str(info.value)
    assert_identical(state_of(fitted), before)


# ----------------------------------------------------------------------------------------- in use


def test_rates_of_streams_fit_themselves_to_the_lengths(rng):
    """As many symbols as there are parameters determine the model; most columns are 0."""
    first = sequence_clusters(rng, np.zeros(50, dtype=int))
    n_parameters = 2 * (2 + 3 * 2)
    for X in (first, [part[:3] for part in first], [part[:1] for part in first]):
        model = mixture().fit([*X, np.arange(3)[:, None]]).model_
        mean = np.mean([len(part) for part in X])
        rows = Rows(counts_of(X))
        assert_allclose(model.observations_needed(rows), n_parameters / min(mean, 12))
        weighted = Rows(rows.X[:2], np.array([3.0, 1.0]))
        repeated = Rows(rows.X[[0, 0, 0, 1]])
        assert_allclose(*map(model.observations_needed, (weighted, repeated)))


def test_lengths_of_what_is_drawn(rng):
    X = [np.zeros((n, 1)) for n in (3, 5)]
    fitted = mixture(1).fit(X)
    assert [len(part) for part in fitted.sample(2)[0]] == [4, 4]
    assert [len(part) for part in fitted.sample(3, lengths=[2, 7, 1])[0]] == [2, 7, 1]
    for wrong in (0, [1, 2], 2.5, -1):
        with pytest.raises(ValueError, match="lengths of MarkovChainMixture"):
            fitted.sample(3, lengths=wrong)
    with pytest.raises(ValueError, match="lengths of MarkovChainMixture is too large"):
        fitted.sample(3, lengths=1 << 60)


def test_many_sequences_are_counted_at_once(rng):
    """Neither code nor memory grows by the sequences: some hundred thousand in a second or so."""
    symbols, lengths = rng.integers(0, 17, (600_000, 1)), np.full(200_000, 3)
    fitted = mixture(2, solver="online", max_iter=1, init="random").fit(symbols, lengths=lengths)
    assert fitted.n_samples_seen_ == 200_000
