"""The start of a stream: made from all of its first rows, however they are cut."""

import math
import pickle

import numpy as np
import pytest
from cases.capabilities import cases_where
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.row_regressions import RegressionOfRows
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from scipy import sparse
from sklearn.utils import get_tags

from sklearn_onlineem import (
    BernoulliMixture,
    CategoricalHMM,
    CompoundDirichletMixture,
    ExponentialMixture,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LaplaceMixture,
    LatentDirichletAllocation,
    MultinomialMixture,
    PoissonHMM,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem.em import Online, Restart


def clusters(rng, n_rows=600):
    return rng.normal(size=(n_rows, 2)) + rng.choice([-5.0, 0.0, 5.0], size=(n_rows, 1))


def counts(rng, n_rows=600):
    topics = rng.dirichlet(np.full(6, 0.5), 3)
    return rng.multinomial(40, topics[rng.integers(3, size=n_rows)]).astype(float)


def symbols(rng, n_rows=600):
    return rng.integers(4, size=(n_rows, 1)) * (np.arange(n_rows) // 50 % 2)[:, None]


ROWS = {
    "full": (GaussianMixture(3), clusters),
    "tied": (GaussianMixture(3, covariance_type="tied"), clusters),
    "diagonal": (GaussianMixture(3, covariance_type="diag"), clusters),
    "Laplace": (LaplaceMixture(3), clusters),
    "Poisson": (PoissonMixture(3), counts),
    "multinomial": (MultinomialMixture(3), counts),
    "CSR": (MultinomialMixture(3), lambda rng: sparse.csr_array(counts(rng))),
    "Bernoulli": (BernoulliMixture(3), lambda rng: (counts(rng) > 5.0).astype(float)),
    "exponential": (ExponentialMixture(3), lambda rng: counts(rng) + 0.5),
    "compound Dirichlet": (CompoundDirichletMixture(2), counts),
    "regressions": (RegressionOfRows(2), clusters),
    "topics": (LatentDirichletAllocation(3), counts),
}
SEQUENCES = {
    "Gaussian HMM": (GaussianHMM(3), clusters),
    "categorical HMM": (CategoricalHMM(2, n_features=4), symbols),
    "Poisson HMM": (PoissonHMM(3), counts),
    "Kalman filter": (KalmanFilter(2), clusters),
}
CASES = ROWS | SEQUENCES


def made(case, rng):
    estimator, draw = CASES[case]
    return estimator.__class__(**estimator.get_params()).set_params(random_state=0), draw(rng)


def streamed(estimator, X, cuts, **where):
    for begin, end in zip([0, *cuts], [*cuts, X.shape[0]], strict=True):
        estimator.partial_fit(X[begin:end], **where)
    return estimator


@pytest.mark.parametrize("case", ROWS)
def test_how_first_rows_are_cut_does_not_change_the_start(case, rng):
    estimator, X = made(case, rng)
    n = math.ceil(100 * estimator.partial_fit(X[:1])._fitted.state.carry["first_rows"].size)
    assert 200 <= n <= 400
    starts = [
        streamed(made(case, rng)[0], X[:n], cuts)
        for cuts in ([], [n - 1], [1, 2, 7, 60, 150], [*range(1, 150)], [*range(40, n, 40)])
    ]
    for start in starts[1:]:
        assert_identical(start.model_, starts[0].model_)
        assert start.n_rows_kept_ == 0 and start.n_samples_seen_ == n
    if estimator.model_.draws:
        return  # Which draws a later step has depends on the steps before.
    # An online step learns the rest of the last batch.
    later = starts[0].partial_fit(X[n:])
    for cuts in ([], [60, 100]):
        assert_identical(streamed(made(case, rng)[0], X, cuts).model_, later.model_)


@pytest.mark.parametrize("case", CASES)
def test_a_stream_of_single_rows_has_answers_from_the_first_on(case, rng):
    estimator, X = made(case, rng)
    for i in range(8):
        estimator.partial_fit(X[i : i + 1])
        assert np.isfinite(estimator.score(X[i : i + 1]))
        assert estimator.n_samples_seen_ == estimator.n_rows_kept_ == i + 1


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cut", [30, 170, 500])
def test_a_saved_start_goes_on_bit_for_bit(case, cut, rng):
    estimator, X = made(case, rng)
    cuts = [30, 110, 170, 500]
    other = streamed(made(case, rng)[0], X[:cut], [c for c in cuts if c < cut])
    other = pickle.loads(pickle.dumps(other))
    rest = [c - cut for c in cuts if c > cut]
    assert_identical(streamed(other, X[cut:], rest).model_, streamed(estimator, X, cuts).model_)


@pytest.mark.parametrize("case", CASES)
def test_an_empty_batch_changes_nothing(case, rng):
    estimator, X = made(case, rng)
    estimator.partial_fit(X[:0])
    assert not hasattr(estimator, "model_")
    estimator.partial_fit(X[:50])
    before = estimator._fitted
    assert estimator.partial_fit(X[:0]) is estimator and estimator._fitted is before
    with pytest.raises(ValueError, match="features"):
        estimator.partial_fit(X[:0, :1] if X.shape[1] > 1 else np.empty((0, 2)))


@pytest.mark.parametrize("case", CASES)
def test_rows_are_kept_until_the_start_is_final_and_no_longer(case, rng):
    estimator, X = made(case, rng)
    estimator.partial_fit(X[:60])
    assert estimator.n_rows_kept_ == 60
    first = X[:60].copy()
    values = X.data[: X.indptr[60]] if sparse.issparse(X) else X[:60]
    values[:] = 0  # Users may overwrite their batch.
    kept = estimator._fitted.state.carry["first_rows"].followed_by().X
    np.testing.assert_array_equal(
        *(a.toarray() if sparse.issparse(a) else a for a in (kept, first))
    )
    merged = combine_estimators([estimator, estimator])
    assert merged.n_rows_kept_ == 0
    estimator.partial_fit(first).partial_fit(X[60:])
    assert estimator.n_rows_kept_ == 0
    size = len(pickle.dumps(estimator))
    for _ in range(20):
        estimator.partial_fit(X[60:])
    assert len(pickle.dumps(estimator)) < size + 20 * 1000


@pytest.mark.parametrize("case", CASES)
def test_without_rows_that_are_kept_the_first_batch_makes_the_start(case, rng):
    estimator, X = made(case, rng)
    estimator.set_params(solver=Online(start_rows=0)).partial_fit(X[:60])
    assert estimator.n_rows_kept_ == 0
    assert estimator.partial_fit(X[60:120]).history_[-1].eta < np.inf


@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_kept_are_dropped_when_asked(case, rng):
    """With a start from all of them, as if they had come in one batch."""
    estimator, X = made(case, rng)
    at_once = made(case, rng)[0].set_params(solver=Online(start_rows=0))
    estimator.partial_fit(X[:60]).set_params(solver=Online(start_rows=0)).partial_fit(X[60:90])
    assert estimator.n_rows_kept_ == 0
    if case in ROWS:
        assert_identical(estimator.model_, at_once.partial_fit(X[:90]).model_)
    assert estimator.partial_fit(X[90:120]).history_[-1].eta < np.inf


def has_gaps_in_columns(case):
    # Structures need more of a column than one value.
    is_one = case.make is CategoricalHMM
    return get_tags(case()).input_tags.allow_nan and not (case.is_diffuse or is_one)


@cases_where(has_gaps_in_columns, [*ESTIMATORS, *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS])
def test_a_start_needs_values_of_each_column(case, rng):
    """As many rows as otherwise, from the first one on after which no column is empty."""
    is_rows = case in ESTIMATORS
    (X, _), (new, _) = (case.data(rng, n) for n in ((2000, 500) if is_rows else (120, 60)))
    lacks, late = ([np.array(x, dtype=float) for x in ([X] if is_rows else X)] for _ in range(2))
    for rows, others in zip(lacks, late[: (len(late) + 1) // 2], strict=False):
        rows[:, 1] = others[: len(others) // 2 if is_rows else None, 1] = np.nan
    for call in (case().fit, case().partial_fit):
        with pytest.raises(ValueError, match="Feature 1 of X has no value to start from"):
            call(lacks[0] if is_rows else lacks[: len(lacks) // 2])
    whole = case().partial_fit(X).score(new)
    found = case().partial_fit(late[0] if is_rows else late).score(new)
    assert found > whole - 0.02 * abs(whole)


@pytest.mark.parametrize("learner", [GaussianMixture, GaussianHMM])
def test_a_start_anew_waits_for_values_of_each_column(learner, rng):
    restarts = iter([False, Restart(0)])
    stream = learner(2, random_state=0, callbacks=[lambda _: next(restarts, False)])
    stream.partial_fit(clusters(rng, 40)).partial_fit(clusters(rng, 40))
    for lacks in (True, True, False):
        X = 100.0 + clusters(rng, 50)
        stream.partial_fit(np.where([False, lacks], np.nan, X))
    assert stream.n_rows_kept_ == 150
    assert 95.0 < stream.sample(500)[0].mean() < 105.0


def test_a_far_row_with_the_only_value_of_a_column_is_learnt(rng):
    X = clusters(rng, 200)
    X[:, 1] = np.nan
    X[7] = 1e6, 3.0
    assert GaussianMixture(random_state=0).partial_fit(X).means_[0, 1] == pytest.approx(3.0)


def test_pieces_of_a_sequence_start_as_the_whole_does(rng):
    X = clusters(rng)
    for estimator in (GaussianHMM(3, random_state=0), KalmanFilter(2, random_state=0)):
        piecewise = streamed(estimator, X[:250], [30, 100, 200], continues=True)
        whole = estimator.__class__(**estimator.get_params()).partial_fit(X[:250])
        assert piecewise.n_samples_seen_ == 4 and piecewise.n_rows_kept_ == 250
        pieces, alone = (
            one._fitted.state.carry["first_rows"].followed_by() for one in (piecewise, whole)
        )
        assert_identical(pieces.X, alone.X)
        assert len(pieces) == len(alone) == 1


def test_rows_in_their_order_end_near_batch_em(rng):
    """Three clusters one after the other, of which the first batch has seen one."""
    X = clusters(rng, 3000)
    X = X[np.argsort(X.sum(axis=1))]
    batch = GaussianMixture(3, random_state=0).fit(X).score(X)
    shuffled = rng.permutation(X)
    stream = streamed(GaussianMixture(3, random_state=0), shuffled, range(50, 3000, 50))
    assert stream.score(X) > batch - 0.02
