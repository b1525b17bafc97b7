"""A stream may be cut anywhere."""

from functools import partial

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.merged_cases import MERGED
from cases.states import state_of
from cases.streams import AT_ONCE

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    PoissonHMM,
    PoissonMixture,
    PrequentialSearch,
    StreamPipeline,
    combine_estimators,
)

N_ROWS, N_CUTTINGS = 1000, 6
CENTRES = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])


def states(rng, n, stay):
    out = [0]
    while len(out) < n:
        out.append(out[-1] if rng.random() < stay else rng.integers(3))
    return np.array(out)


def normal_rows(rng, n, stay):
    return rng.standard_normal((n, 2)) + CENTRES[states(rng, n, stay)]


def count_rows(rng, n, stay):
    return rng.poisson(1.0 + 4.0 * CENTRES[states(rng, n, stay)]).astype(float)


def turning_rows(rng, n):
    A = 0.95 * np.array([[np.cos(0.2), -np.sin(0.2)], [np.sin(0.2), np.cos(0.2)]])
    C, h, rows = rng.standard_normal((3, 2)), np.zeros(2), []
    for _ in range(n):
        h = A @ h + 0.5 * rng.standard_normal(2)
        rows.append(C @ h + 0.5 * rng.standard_normal(3))
    return np.array(rows)


# Crude starts that are given, so that a stream may begin with a single row.
CRUDE = np.array([[1.0, 1.0], [4.0, 1.0], [1.0, 4.0]])
CHAIN = {"startprob_init": [0.4, 0.3, 0.3], "transmat_init": np.full((3, 3), 1.0 / 3.0)}
SYSTEM = {
    "transition_matrices": 0.5 * np.eye(2),
    "transition_covariance": np.eye(2),
    "observation_matrices": [[1.0, 0.1], [0.1, 1.0], [0.5, -0.5]],
    "observation_covariance": 4.0 * np.eye(3),
    "observation_offsets": np.zeros(3),
    "initial_state_mean": np.zeros(2),
    "initial_state_covariance": np.eye(2),
}
PRECISIONS = np.full((3, 2), 1.0 / 9.0)
STREAMS = [
    (
        partial(GaussianHMM, 3),
        {**CHAIN, "means_init": CRUDE, "covars_init": np.full((3, 2), 9.0)},
        partial(normal_rows, stay=0.95),
    ),
    (
        partial(PoissonHMM, 3),
        {**CHAIN, "lambdas_init": 1.0 + 2.0 * CRUDE},
        partial(count_rows, stay=0.95),
    ),
    (partial(KalmanFilter, 2), SYSTEM, turning_rows),
    (
        partial(GaussianMixture, 3, covariance_type="diag"),
        {"weights_init": np.ones(3) / 3.0, "means_init": CRUDE, "precisions_init": PRECISIONS},
        partial(normal_rows, stay=0.0),
    ),
    (partial(PoissonMixture, 3), {"means_init": 1.0 + 2.0 * CRUDE}, partial(count_rows, stay=0.0)),
]
SEQUENCES = [make for make, _, _ in STREAMS[:3]]
all_streams = pytest.mark.parametrize(
    ("make", "given", "rows"), STREAMS, ids=[make.func.__name__ for make, _, _ in STREAMS]
)


def learnt(make, X, cuts):
    """An estimator that learnt the pieces of a stream; their ends are given."""
    estimator = make(random_state=0)
    goes_on = {"continues": True} if hasattr(estimator, "filter") else {}
    for begin, end in zip([0, *cuts[:-1]], cuts, strict=True):
        estimator.partial_fit(X[begin:end], **goes_on)
    return estimator


def per_row(estimator, X):
    """Mean log-likelihood of a row of the stream."""
    return estimator.score(X) / (len(X) if hasattr(estimator, "filter") else 1)


def cutting(seed, n):
    """Ends of pieces: a large one before small ones, single rows, or anything."""
    rng = np.random.default_rng(seed)
    if seed == 0:
        return np.arange(1, n + 1)
    if seed % 2:
        large = int(n * rng.uniform(0.2, 0.9))
        return np.append(np.arange(large, n, rng.integers(2, 20)), n)
    ends = n * rng.random(rng.integers(2, 60)) ** rng.uniform(0.3, 3.0)
    return np.unique([*ends.astype(int).clip(1), n])


@all_streams
def test_no_cutting_of_a_stream_spoils_its_start(make, given, rows):
    X = rows(np.random.default_rng(1), N_ROWS)
    even = per_row(learnt(make, X, np.arange(50, N_ROWS + 1, 50)), X)
    ends = [per_row(learnt(make, X, cutting(i, N_ROWS)), X) for i in range(N_CUTTINGS)]
    np.testing.assert_allclose(ends, even, atol=0.03)


@all_streams
def test_no_cutting_of_a_stream_spoils_the_model(make, given, rows):
    # A crude start is forgotten by a decay of rates below the default.
    X, make = rows(np.random.default_rng(1), N_ROWS), partial(make, beta=0.6, **given)
    start = per_row(make(eta0=1e-9, random_state=0).partial_fit(X[:2]), X)
    even = per_row(learnt(make, X, np.arange(50, N_ROWS + 1, 50)), X)
    ends = [per_row(learnt(make, X, cutting(i, N_ROWS)), X) for i in range(N_CUTTINGS)]
    assert min(ends) >= start
    assert abs(np.median(ends) - even) <= 0.1


@all_streams
@pytest.mark.parametrize("size", [1, 10])
def test_small_pieces_after_a_large_one_leave_a_good_model_good(make, given, rows, size):
    X = rows(np.random.default_rng(1), N_ROWS + 200)
    start = per_row(learnt(make, X, [N_ROWS]), X)
    end = per_row(learnt(make, X, [*range(N_ROWS, len(X), size), len(X)]), X)
    assert end >= start - 0.1


@pytest.mark.parametrize("make", SEQUENCES, ids=lambda x: x.func.__name__)
@pytest.mark.parametrize("arguments", [{}, {"eta0": 0.5}, {"schedule": "harmonic"}], ids=str)
def test_rates_depend_on_rows_and_not_on_how_many_sequences_they_are(make, arguments, rng):
    """A piece has the rate for its rows, whether it is one sequence or ten."""
    X = np.abs(rng.standard_normal((400, 2)).round(1))
    X = X.round() if make.func is PoissonHMM else X
    etas = []
    for n_sequences in (1, 10):
        estimator = make(random_state=0, solver=AT_ONCE, **arguments).partial_fit(X[:300])
        estimator.partial_fit(X[300:320].reshape(n_sequences, -1, 2))
        etas.append(estimator.history_[-1][0])
    assert etas[0] == pytest.approx(etas[1], rel=1e-12)
    assert etas[0] < 1.0


@pytest.mark.parametrize("make", SEQUENCES, ids=lambda x: x.func.__name__)
def test_sequences_of_one_length_have_the_rates_of_their_numbers(make, rng):
    """To the last bit: then an observation is a sequence."""
    X = rng.poisson(3.0, (40, 7, 2)).astype(float)
    estimator = make(random_state=0, solver=AT_ONCE, beta=0.6).partial_fit(X[:10])
    needed = estimator._fitted.state.constants.observations_needed
    for begin in (10, 20, 30):
        estimator.partial_fit(X[begin : begin + 10])
        assert estimator.history_[-1][0] == 10 / needed * (needed / (begin + 10)) ** 0.6


def test_a_prior_counts_by_rows(rng):
    """A strong prior does not take over because pieces are small."""
    X = normal_rows(rng, 1500, 0.95)
    prior = {"mean": np.full(2, 50.0), "mean_precision": 20.0}
    ends = [
        learnt(partial(GaussianHMM, 3, prior=prior), X, [1000, *range(1000 + size, 1501, size)])
        for size in (5, 100)
    ]
    found, expected = (np.sort(end.means_, axis=0) for end in ends)
    assert np.abs(found - expected).max() < 1.0


def test_merged_streams_count_the_rows_of_all(rng):
    X = normal_rows(rng, 1200, 0.95)
    start = learnt(partial(GaussianHMM, 3), X, [300])
    members = [learnt(partial(GaussianHMM, 3), X, ends) for ends in ([300, 600], [300, 310])]
    merged = combine_estimators([start, *members])
    states = [one._fitted.state for one in (merged, start, *members)]
    total, *seen = [state.counters.size * state.constants.size_unit for state in states]
    assert total == sum(seen) == 1210
    merged.partial_fit(X[600:610], continues=True)
    assert merged.history_[-1][0] < 0.5


def test_a_piece_of_nothing_but_gaps_is_time_that_passes(rng):
    for make, _, rows in (STREAMS[0], STREAMS[2]):
        X = rows(rng, 400)
        estimator = learnt(make, X, [400])
        assert estimator.n_rows_kept_ == 0
        before, filtered = estimator.model_, estimator._fitted.end
        estimator.partial_fit(np.full((50, X.shape[1]), np.nan), continues=True)
        assert before.kl_divergence(estimator.model_, like=estimator._fitted.state.lengths) < 1e-6
        assert not np.allclose(filtered[0], estimator._fitted.end[0])
        assert np.isfinite(per_row(estimator.partial_fit(X[:5], continues=True), X))


@pytest.mark.parametrize("case", MERGED, ids=repr)
def test_a_stream_is_learnt_as_by_hand(case, rng):
    X, _ = case.data(rng, 60)
    chunks = [X[begin : begin + 20] for begin in (0, 20, 40)]
    model, scores = case(), []
    for chunk in chunks:
        if model.__sklearn_is_fitted__():
            scores.append(model.score(chunk))
        model.partial_fit(chunk)
    stream = StreamPipeline([("model", case())]).fit_stream(iter(chunks))
    assert_identical(state_of(stream["model"]), state_of(model))
    np.testing.assert_allclose(stream.prequential_scores_, [np.nan, *scores], rtol=1e-12)
    np.testing.assert_allclose(stream.prequential_score_, np.mean(scores), rtol=1e-12)
    search = PrequentialSearch(case(), {"eta0": ["auto", 1e-3]}, n_jobs=2).fit_stream(chunks)
    assert_identical(state_of(search.estimators_[0]), state_of(model))
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"][0], np.mean(scores), rtol=1e-12
    )
