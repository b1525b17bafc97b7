"""Inputs of estimators within detectors, searches, streams and shards."""

import numpy as np
import pytest
from cases.comparing import assert_close
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import make_scorer
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import (
    AnomalyDetector,
    GaussianHMM,
    KalmanFilter,
    PerSequence,
    PrequentialSearch,
    RegressionHMM,
    StreamPipeline,
)
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Online
from sklearn_onlineem.estimators.base import set_start

with_inputs = pytest.mark.parametrize(
    "estimator",
    [RegressionHMM(2, lags=2, random_state=0), KalmanFilter(1, random_state=0)],
    ids=["hmm", "kalman"],
)


@pytest.fixture
def series(rng):
    """Sequences of ten rows that follow their input."""
    inputs = rng.normal(size=200)
    X = (2.0 * inputs + rng.normal(size=200))[:, None]
    return np.split(X, 20), np.split(inputs, 20)


def chunks_of(X, inputs):
    return [(X[i : i + 5], None, None, inputs[i : i + 5]) for i in range(0, 20, 5)]


# -------------------------------------------------------------------------------------- detectors


@with_inputs
def test_detectors_score_rows_given_inputs(estimator, series):
    X, inputs = series
    X[3][4] = np.nan
    lags = getattr(estimator, "lags", 0)
    detector = AnomalyDetector(estimator).fit(X, inputs=inputs)
    learner = clone(estimator).fit(X, inputs=inputs)
    expected = learner.score_rows(X, inputs=inputs)
    # Rows of which a lag is missing are not observed, too.
    for i, part in enumerate(expected):
        part[:lags] = np.nan
        if i == 3:
            part[4 : 5 + lags] = np.nan
    scores = detector.score_samples(X, inputs=inputs)
    assert_array_equal(np.concatenate(scores), np.concatenate(expected))
    known = np.concatenate(expected)
    known = known[~np.isnan(known)]
    assert detector.offset_ == pytest.approx(np.quantile(known, 0.01), rel=1e-12)
    labels = np.concatenate(detector.predict(X, inputs=inputs))
    assert_array_equal(labels == -1, np.concatenate(scores) < detector.offset_)
    rows, known, lengths = np.concatenate(X), np.concatenate(inputs), [10] * 20
    flat = {"inputs": known, "lengths": lengths}
    assert_array_equal(detector.decision_function(rows, **flat) < 0.0, labels == -1)
    assert_array_equal(clone(detector).fit_predict(rows, **flat), labels)
    assert detector.score(rows, **flat) == learner.score(X, inputs=inputs)


@with_inputs
def test_streams_of_detectors_go_on(estimator, series):
    X, inputs = series
    detector = AnomalyDetector(estimator)
    for part, known in zip(X, inputs, strict=True):
        if hasattr(detector, "estimator_"):
            given = {"inputs": known, "continues": True}
            expected = detector.estimator_.score_rows(part, **given)
            assert_array_equal(detector.score_samples(part, **given), expected)
        detector.partial_fit(part, inputs=known, continues=True)
    n_scored = 200 - getattr(estimator, "lags", 0)
    assert detector._scores.n_scored == n_scored


@with_inputs
def test_wrong_inputs_are_refused_and_the_detector_is_left(estimator, series):
    X, inputs = series
    detector, name = AnomalyDetector(estimator).fit(X, inputs=inputs), type(estimator).__name__
    before = detector.__dict__.copy()
    for wrong in (inputs[1:], None, [*inputs[1:], inputs[0][:4]]):
        for method in (detector.fit, detector.partial_fit, detector.predict, detector.score):
            if method != detector.fit or wrong is not None:
                with pytest.raises(ValueError, match=f"^{name}: .*inputs"):
                    method(X, inputs=wrong)
    assert detector.__dict__ == before
    with pytest.raises(TypeError, match=r"GaussianHMM.fit\(\) got .* 'inputs'"):
        AnomalyDetector(GaussianHMM()).fit(X, inputs=inputs)


# ---------------------------------------------------------------------------- searches, pipelines


@with_inputs
def test_searches_score_and_learn_given_inputs(estimator, series):
    X, inputs = series
    estimator = clone(estimator).set_params(solver=Online(stages=()))
    grid = {"eta0": [0.1, 0.3]}
    search = PrequentialSearch(estimator, grid, batch_size=5).fit(X, inputs=inputs)
    for number, setting in enumerate(search.cv_results_["params"]):
        alone, scores = clone(estimator).set_params(**setting), []
        for part, _, _, known in chunks_of(X, inputs):
            if scores or hasattr(alone, "model_"):
                scores.append(alone.score_samples(part, inputs=known).mean())
            alone.partial_fit(part, inputs=known)
        means = search.cv_results_["mean_test_score"]
        assert means[number] == pytest.approx(np.mean(scores), rel=1e-12)
        assert_close(search.estimators_[number].model_, alone.model_, rtol=0.0, atol=0.0)
    streamed = PrequentialSearch(estimator, grid).fit_stream(chunks_of(X, inputs))
    by_score = clone(search).set_params(scoring=lambda one, X, y, inputs: 0.5)
    assert by_score.fit(X, inputs=inputs).best_score_ == 0.5
    piped = StreamPipeline([("none", "passthrough"), ("last", estimator)])
    searched = PrequentialSearch(piped, {f"last__{key}": x for key, x in grid.items()})
    for same in (streamed, searched.fit_stream(chunks_of(X, inputs))):
        assert_allclose(same.cv_results_["mean_test_score"], means, rtol=1e-12)
    scaled = StreamPipeline([("scale", PerSequence(StandardScaler())), ("last", estimator)])
    scaled.fit_stream(chunks_of(X, inputs))
    assert scaled.prequential_score_ > means[0]  # Units are larger.


@with_inputs
def test_searches_route_inputs(estimator, series):
    X, inputs = series
    plain = PrequentialSearch(estimator, {"tol": [1e-3]}).fit(X, inputs=inputs)
    with config_context(enable_metadata_routing=True):
        search = PrequentialSearch(clone(estimator), {"tol": [1e-3]})
        with pytest.raises(UnsetMetadataPassedError, match="inputs"):
            search.fit(X, inputs=inputs)
        search.estimator.set_partial_fit_request(inputs=True)
        search.fit(X, inputs=inputs)
    assert_close(search.best_estimator_.model_, plain.best_estimator_.model_, rtol=0.0, atol=0.0)


@with_inputs
def test_searches_refuse_wrong_inputs(estimator, series):
    X, inputs = series
    estimator = clone(estimator).set_params(solver=Online(stages=()))
    search = PrequentialSearch(estimator, {"tol": [1e-3]}, batch_size=5).fit(X, inputs=inputs)
    before, name = search.estimators_, type(estimator).__name__
    with pytest.raises(ValueError, match="PrequentialSearch: X has 20 entries, and inputs 19"):
        search.fit(X, inputs=inputs[1:])
    for wrong in ([*inputs[1:], inputs[0][:4]], [part * np.nan for part in inputs]):
        with pytest.raises(ValueError, match=f"^{name}: .*inputs"):
            search.fit(X, inputs=wrong)
    with pytest.raises(ValueError, match=f"^{name}: inputs must be passed"):
        search.partial_fit(X)
    assert search.estimators_ is before
    by_distance = make_scorer(lambda y, found: 0.0)
    search = PrequentialSearch(estimator, {"tol": [1e-3]}, scoring=by_distance, batch_size=5)
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        search.fit(X, X, inputs=inputs)


# ----------------------------------------------------------------------------------------- shards


@with_inputs
def test_shards_with_inputs_are_learnt_as_one(estimator, series):
    X, inputs = series
    estimator = clone(estimator).set_params(max_iter=4, tol=0.0, solver="batch")
    held_out = X[:10], inputs[:10]
    learner = DistributedEM(estimator, n_shards=5).fit(X, inputs=inputs, validation=held_out)
    local = set_start(clone(estimator), X[:4], inputs=inputs[:4])
    local.set_params(warm_start=True).fit(X, inputs=inputs)
    assert_close(learner.estimator_.model_, local.model_, rtol=1e-7, atol=1e-8)
    assert learner.score(X, inputs=inputs) == learner.estimator_.score(X, inputs=inputs)
    expected = learner.score(X[:10], inputs=inputs[:10])
    assert learner.history_[-1].validation == pytest.approx(expected)
    found = clone(learner).fit_transform(X, inputs=inputs)
    assert_array_equal(np.concatenate(found), np.concatenate(learner.transform(X, inputs=inputs)))
    for mode in ("synchronous", "asynchronous"):
        online = DistributedEM(estimator, n_shards=3, mode=mode, n_passes=3)
        best = local.score(X, inputs=inputs)
        assert online.fit(X, inputs=inputs).score(X, inputs=inputs) > best - 2.0


@with_inputs
def test_shards_refuse_wrong_inputs(estimator, series):
    X, inputs = series
    learner, name = DistributedEM(estimator, n_shards=5), type(estimator).__name__
    for wrong, words in (
        (inputs[1:], "DistributedEM: X has 20 entries, and inputs 19"),
        ([*inputs[1:], inputs[0][:4]], f"DistributedEM: shard 4: {name}: sequence 3 of inputs"),
        ([*inputs[1:], inputs[0] * np.nan], f"DistributedEM: shard 4: {name}: inputs have NaN"),
        (np.concatenate(inputs), "DistributedEM: X has 20 entries, and inputs 200"),
    ):
        with pytest.raises(ValueError, match=words):
            learner.fit(X, inputs=wrong)
    with pytest.raises(ValueError, match=r"validation must be a tuple \(X, inputs\)"):
        learner.fit(X, inputs=inputs, validation=X)
    with pytest.raises(TypeError, match="DistributedEM: GaussianHMM takes no inputs"):
        DistributedEM(GaussianHMM()).fit(X, inputs=inputs)
