"""Detection of anomalies: in rows and in sequences, in data at hand and in streams."""

import numpy as np
import pandas as pd
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
    assert len(detector._quantiles.latest) == len(X) + 1000
    detector.set_params(contamination=5e-324).partial_fit(X)
    assert detector._quantiles.window == 100_000


@pytest.mark.parametrize("deviation", [0.05, 1.0])
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


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianHMM(2, params="", init=[[-5.0, -5.0], [5.0, 5.0]]),
        KalmanFilter(2, em_vars=[], transition_covariance=np.eye(2)),
    ],
    ids=["hmm", "kalman"],
)
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


def test_no_rows_change_nothing():
    X = rows()
    detector = AnomalyDetector(mixture()).partial_fit(X)
    before = detector.offset_
    assert detector.partial_fit(X[:0]).offset_ == before
    assert detector.estimator_.n_samples_seen_ == len(X)


def test_what_fails_changes_nothing():
    X = rows()
    detector = AnomalyDetector(mixture()).partial_fit(X)
    before = vars(detector).copy(), detector.estimator_.n_steps_
    of_stream, infinite = detector.partial_fit, np.full((3, 2), np.inf)
    for method, wrong in (of_stream, X[:, :1]), (of_stream, infinite), (detector.fit, infinite):
        with pytest.raises(ValueError, match="GaussianMixture"):
            method(wrong)
    assert vars(detector) == before[0]
    assert detector.estimator_.n_steps_ == before[1]


def test_it_works_with_what_scikit_learn_has():
    X = rows()
    is_inlier = np.where(np.arange(len(X)) % 100 == 50, -1, 1)
    searched = GridSearchCV(AnomalyDetector(mixture()), {"estimator__eta0": [0.1, 1.0]}, cv=2)
    assert searched.fit(X).best_estimator_.predict([[25.0, 25.0]]) == -1
    by_labels = clone(searched).set_params(scoring="roc_auc").fit(X, is_inlier)
    assert by_labels.best_score_ == 1.0
    pipeline = make_pipeline(StandardScaler(), AnomalyDetector(mixture())).fit(X)
    assert_array_equal(pipeline.predict(X), is_inlier)
    assert_array_equal(
        AnomalyDetector(make_pipeline(StandardScaler(), mixture())).fit_predict(X), is_inlier
    )
    assert_array_equal(AnomalyDetector(KernelDensity()).fit_predict(X), is_inlier)
    assert not hasattr(AnomalyDetector(KernelDensity()), "partial_fit")
    table = pd.DataFrame(X, columns=["height", "width"])
    named = AnomalyDetector(mixture()).partial_fit(table)
    assert_array_equal(named.feature_names_in_, ["height", "width"])
    assert named.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names"):
        named.predict(table[["width", "height"]])
    assert "GaussianMixture" in named._repr_html_()
    assert clone(named).get_params()["estimator__n_components"] == 2
