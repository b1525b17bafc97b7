"""Detection of anomalies: in rows and in sequences, in data at hand and in streams."""

import pickle

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.states import state_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import AnomalyDetector, GaussianHMM, GaussianMixture, KalmanFilter
from sklearn_onlineem.estimators.anomaly import Scores
from sklearn_onlineem.persistence import load, save

ROW_BY_ROW = [GaussianHMM(2, random_state=0), KalmanFilter(2, max_iter=20, random_state=0)]
of_sequences = pytest.mark.parametrize("estimator", ROW_BY_ROW, ids=["hmm", "kalman"])


def mixture(**parameters):
    return GaussianMixture(2, random_state=0, **parameters)


def rows(n=1000, seed=0):
    """Two clusters, and an outlier in each hundred rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(rng.choice([-5.0, 5.0], size=(n, 1)), size=(n, 2))
    X[50::100] = rng.uniform(20.0, 30.0, size=(n // 100, 2))
    return X


def test_the_offset_of_a_fit_is_a_quantile_of_its_scores():
    X = rows()
    for contamination in (0.01, 0.1, 0.5):
        detector = AnomalyDetector(mixture(), contamination=contamination).fit(X)
        scores = mixture().fit(X).score_samples(X)
        assert_array_equal(detector.score_samples(X), scores)
        assert detector.offset_ == pytest.approx(np.quantile(scores, contamination), rel=1e-14)
        assert np.count_nonzero(detector.predict(X) == -1) == 1000 * contamination
        assert_array_equal(detector.decision_function(X), scores - detector.offset_)
    found = AnomalyDetector(mixture()).fit_predict(X)
    assert_array_equal(np.flatnonzero(found == -1), np.arange(50, 1000, 100))


def test_rows_of_a_stream_are_scored_before_they_are_learnt():
    X, learner, scores = rows(3000), mixture(), []
    detector = AnomalyDetector(mixture(), contamination=0.02)
    for i in range(0, 3000, 40):
        batch = X[i : i + 40]
        if i:
            scores.extend(learner.score_samples(batch))
        learner.partial_fit(batch)
        if not i:
            scores.extend(learner.score_samples(batch))
        assert detector.partial_fit(batch) is detector
        n_settled = min(1000, max(50, int(np.ceil(0.75 * len(scores)))))
        assert detector.offset_ == pytest.approx(np.quantile(scores[-n_settled:], 0.02), rel=1e-12)
    assert_identical(state_of(detector.estimator_), state_of(learner))
    detector.set_params(contamination=0.001).partial_fit(X)
    assert len(detector._scores.latest) == len(X) + 1000
    n_kept = len(detector.set_params(contamination=5e-324).partial_fit(X)._scores.latest)
    assert n_kept == 2 * len(X) + 1000


@pytest.mark.parametrize("deviation", [0.05, 1.0, 20.0])
def test_spikes_after_a_first_batch_are_found_whether_it_was_typical_or_not(deviation):
    X = np.random.default_rng(0).normal(size=(1008, 1))
    X[:24] *= deviation
    X[[300, 500, 700, 900]] = 9.0
    detector, found = AnomalyDetector(mixture()).partial_fit(X[:24]), []
    for batch in np.split(X[24:], 41):
        found.extend(detector.predict(batch) == -1)
        detector.partial_fit(batch)
    assert np.take(found, np.array([300, 500, 700, 900]) - 24).all()
    # There should be so many: 1 % and the spikes.
    assert np.count_nonzero(found[200:]) <= 4 + 14


def test_a_stream_has_as_many_anomalies_as_it_should():
    rng, n_anomalies = np.random.default_rng(0), 0
    detector = AnomalyDetector(mixture(), contamination=0.05)
    for number in range(200):
        # The scale of scores changes for good in the middle.
        scale = 1.0 if number < 100 else 30.0
        batch = scale * rng.standard_t(5, size=(50, 2))
        if number:
            n_anomalies += np.count_nonzero(detector.predict(batch) == -1)
        detector.partial_fit(batch)
    assert 0.04 * 9950 < n_anomalies < 0.07 * 9950


KNOWN = [
    GaussianMixture(
        2,
        params="",
        weights_init=[0.4, 0.6],
        means_init=[[-5.0, -5.0], [5.0, 5.0]],
        precisions_init=[np.eye(2)] * 2,
    ),
    GaussianHMM(2, params="", init=[[-5.0, -5.0], [5.0, 5.0]]),
    KalmanFilter(2, em_vars=[], transition_covariance=np.eye(2)),
]


def streamed(detector, X, weight=None):
    for i in range(0, len(X), 100):
        part = slice(i, i + 100)
        detector.partial_fit(X[part], **({} if weight is None else {"sample_weight": weight[part]}))
    return detector


@pytest.mark.parametrize("share", [0.01, 0.1, np.float32(0.03), 0.5])
@pytest.mark.parametrize("learn", [AnomalyDetector.fit, streamed], ids=["fit", "stream"])
def test_another_contamination_is_that_of_a_new_fit(learn, share, tmp_path):
    for X in rows(150), rows(2500):
        expected = learn(AnomalyDetector(mixture(), contamination=share), X)
        changed = learn(AnomalyDetector(mixture(), contamination=0.02), X)
        save(changed, tmp_path / "saved.npz")
        loaded = load(tmp_path / "saved.npz"), pickle.loads(pickle.dumps(changed))
        assert {one.offset_ for one in loaded} == {changed.offset_}
        for detector in changed, *loaded:
            detector.set_params(contamination=share)
            assert detector.offset_ == expected.offset_
            assert_array_equal(detector.decision_function(X), expected.decision_function(X))
            for wrong in (0.0, 0.7, "auto", None, np.array([0.1])):
                detector.set_params(contamination=wrong)
                with pytest.raises(ValueError, match="'contamination' parameter of AnomalyDet"):
                    detector.predict(X)
            detector.set_params(contamination=share).partial_fit(X[:40])
        expected.partial_fit(X[:40])
        for detector in changed, *loaded:
            assert detector.offset_ == expected.offset_
            assert_identical(detector._scores, expected._scores)


def test_a_smaller_contamination_counts_all_scores_that_are_kept():
    X = rows(2500)
    detector = streamed(AnomalyDetector(mixture()), X)
    kept = detector._scores.latest
    assert len(kept) == 1000
    detector.set_params(contamination=0.001)
    assert detector.offset_ == pytest.approx(np.quantile(kept, 0.001), rel=1e-14)
    assert detector.partial_fit(X)._scores.latest.shape == (3500,)


@pytest.mark.parametrize(
    ("estimator", "per_sequence"),
    [(one, False) for one in KNOWN] + [(one, True) for one in KNOWN[1:]],
    ids=["mixture", "rows-hmm", "rows-kalman", "hmm", "kalman"],
)
def test_in_the_offset_a_weight_repeats_a_row_or_a_sequence(estimator, per_sequence):
    X, weight = rows(600), np.random.default_rng(0).integers(0, 5, size=600)
    X[7] = 1e3
    weight[[3, 7]] = 2, 0
    if not isinstance(estimator, GaussianMixture):
        X[20] = np.nan
        # Repeated rows of a longer sequence come in another order, which windows cut elsewhere.
        X = np.split(X, 200 if per_sequence else 600)
        weight = weight[: len(X)]
    repeated = [X[i] for i in np.repeat(np.arange(len(X)), weight)]
    for share in (0.01, 0.1, 0.5):
        known = AnomalyDetector(estimator, contamination=share, per_sequence=per_sequence)
        expected = clone(known).fit(repeated)
        found = clone(known).fit(X, sample_weight=weight)
        assert found.offset_ == pytest.approx(expected.offset_, rel=1e-12)
        stream, of_repeated, n_past = clone(known), clone(known), 0
        for i in range(0, len(X), 40):
            part = slice(i, i + 40)
            stream.partial_fit(X[part], sample_weight=weight[part])
            of_repeated.partial_fit(repeated[n_past : n_past + weight[part].sum()])
            n_past += weight[part].sum()
            assert stream.offset_ == pytest.approx(of_repeated.offset_, rel=1e-12)
        assert stream._scores.n_scored == of_repeated._scores.n_scored
        # Rows without weights have weight 1.
        for detector in stream, of_repeated, found, expected:
            detector.partial_fit(X[:40])
        assert stream.offset_ == pytest.approx(of_repeated.offset_, rel=1e-12)
        assert found.offset_ == pytest.approx(expected.offset_, rel=1e-12)


def test_weights_of_rows_are_those_of_their_sequences():
    X, detector = rows(300), AnomalyDetector(KNOWN[1])
    weight, groups = np.array([3.0, 0.0, 1.0]), np.arange(300) % 3
    expected = clone(detector).fit([X[i::3] for i in range(3)], sample_weight=weight)
    found = clone(detector).fit(X, groups=groups, sample_weight=weight[groups])
    assert found.offset_ == pytest.approx(expected.offset_, rel=1e-12)
    assert {*found._scores.weights} == {1.0, 3.0}


def test_small_weights_count_as_multiples_of_the_largest():
    X, detector = rows(2000), AnomalyDetector(KNOWN[0])
    expected = clone(detector).fit(X)
    found = clone(detector).fit(X, sample_weight=np.full(2000, 1 / 2000))
    assert found.offset_ == pytest.approx(expected.offset_, rel=1e-12)
    scores = Scores(np.arange(200_000.0), np.full(200_000, 1e-9), 2e-4).cut(1000)
    assert_array_equal(scores.latest, np.arange(100_000.0, 200_000.0))


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_quantiles_and_windows_of_weights_are_those_of_repeated_scores(n, rng):
    for share in (1e-9, 0.01, 0.1, 1 / 3, 0.5):
        latest, weights = rng.normal(size=n).round(1), rng.integers(1, 5, size=n)
        scores = Scores(latest, weights.astype(float), None)
        repeated = Scores(np.repeat(latest, weights), None, None)
        assert scores.quantile(share) == repeated.quantile(share)
        expected = np.quantile(repeated.latest, share)
        assert scores.quantile(share) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        for most in (1, 2, 5, 30):
            cut = scores.cut(most)
            found = np.repeat(cut.latest, cut.weights.astype(int))
            assert_array_equal(found, repeated.cut(most).latest)


@of_sequences
def test_whole_sequences_are_anomalies_by_the_mean_score_of_their_rows(estimator):
    X = rows(1200)
    X[[3, 4, 40]], X[280:300], X[600:620] = np.nan, np.nan, 20.0
    sequences, lengths = np.split(X, 60), [20] * 60
    detector = AnomalyDetector(estimator, contamination=0.05, per_sequence=True).fit(sequences)
    learner, expected = clone(estimator).fit(sequences), np.full(60, np.nan)
    for i, part in enumerate(sequences):
        is_known = ~np.isnan(part).all(axis=1)
        if is_known.any():
            expected[i] = learner.score_rows(part)[is_known].mean()
    assert_array_equal(np.flatnonzero(np.isnan(expected)), [14])
    assert_allclose(detector.score_samples(sequences), expected, rtol=1e-9)
    known = expected[~np.isnan(expected)]
    assert detector.offset_ == pytest.approx(np.quantile(known, 0.05), rel=1e-9)
    found = detector.predict(sequences)
    assert_array_equal(found == -1, expected < detector.offset_)
    assert found.shape == (60,)
    assert found[14] == 1 and np.count_nonzero(found == -1) == 3
    assert_array_equal(detector.predict(X, lengths=lengths), found)
    assert_array_equal(clone(detector).fit_predict(X, lengths=lengths), found)
    turned = np.arange(1200).reshape(60, 20).T.ravel()
    assert_allclose(
        detector.decision_function(X[turned], groups=turned // 20),
        expected - detector.offset_,
        rtol=1e-9,
    )
    stream = clone(detector).partial_fit(X[:400], lengths=lengths[:20])
    scores = stream.score_samples(sequences[20:])
    first = stream._scores.latest
    stream.partial_fit(sequences[20:])
    assert_array_equal(stream._scores.latest, np.append(first, scores))


@of_sequences
def test_rows_of_sequences_are_scored_given_those_before(estimator):
    X = rows()
    detector = AnomalyDetector(estimator).fit(X)
    learner = clone(estimator).fit(X)
    scores = learner.score_rows(X)
    assert_array_equal(detector.score_samples(X), scores)
    assert scores.sum() == pytest.approx(learner.score(X), rel=1e-9)
    assert detector.offset_ == pytest.approx(np.quantile(scores, 0.01), rel=1e-14)
    parts = detector.predict([X[:30], X[30:100]])
    assert [part.shape for part in parts] == [(30,), (70,)]
    assert_array_equal(np.concatenate(parts), detector.predict(X[:100], lengths=[30, 70]))
    # A sequence may be scattered over the rows.
    groups = np.arange(100) % 2
    decisions = detector.decision_function(X[:100], groups=groups)
    apart = detector.decision_function([X[:100:2], X[1:100:2]])
    assert_array_equal(decisions[::2], apart[0])
    assert_array_equal(decisions[1::2], apart[1])


@pytest.mark.parametrize("estimator", KNOWN[1:], ids=["hmm", "kalman"])
def test_pieces_that_continue_are_one_sequence(estimator):
    """Of a model that does not change."""
    X = rows()
    first, others = X[:100], np.split(X[100:], 9)
    whole = clone(estimator).partial_fit(first).score_rows(X)
    detector = AnomalyDetector(estimator).partial_fit(first, continues=True)
    scores = [detector.score_samples(first)]
    for piece in others:
        scores.append(detector.score_samples(piece, continues=True))
        assert_array_equal(
            detector.predict(piece, continues=True) == -1, scores[-1] < detector.offset_
        )
        detector.partial_fit(piece, continues=True)
    assert_allclose(np.concatenate(scores), whole, rtol=1e-8)
    assert detector.offset_ == pytest.approx(np.quantile(whole[250:], 0.01), rel=1e-8)


@of_sequences
def test_rows_of_which_nothing_was_observed_are_no_anomalies(estimator):
    X = 1e-3 * rows()  # so that densities are above 1
    complete, missing = AnomalyDetector(estimator).fit(X), np.array([3, 60, 61])
    X[missing], X[70, 1] = np.nan, np.nan
    detector = AnomalyDetector(estimator).fit(X)
    assert complete.offset_ > -np.inf
    scores = detector.score_samples(X)
    assert_array_equal(np.flatnonzero(np.isnan(scores)), missing)
    assert_array_equal(detector.predict(X)[missing], 1)
    known = scores[~np.isnan(scores)]
    assert detector.offset_ == pytest.approx(np.quantile(known, 0.01), rel=1e-14)
    detector.partial_fit([X[:90], X[90:]])
    assert np.isfinite(detector.offset_)


def test_impossible_rows_are_anomalies():
    X = rows()
    detector = AnomalyDetector(KernelDensity(kernel="tophat")).fit(X)
    assert_array_equal(detector.decision_function([[500.0, 0.0]]), -np.inf)
    assert_array_equal(detector.predict([[500.0, 0.0], [5.0, 5.0]]), [-1, 1])


def test_it_works_with_what_scikit_learn_has():
    X = rows()
    is_inlier = np.where(np.arange(len(X)) % 100 == 50, -1, 1)
    grid = {"estimator__eta0": [0.1, 1.0]}
    searched = GridSearchCV(AnomalyDetector(mixture()), grid, cv=2, scoring="roc_auc")
    assert searched.fit(X, is_inlier).best_score_ == 1.0
    scaled = AnomalyDetector(make_pipeline(StandardScaler(), mixture()))
    assert_array_equal(scaled.fit_predict(X), is_inlier)
    assert_array_equal(AnomalyDetector(KernelDensity()).fit_predict(X), is_inlier)
    assert not hasattr(AnomalyDetector(KernelDensity()), "partial_fit")
