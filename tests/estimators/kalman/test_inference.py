"""What Kalman filters infer: moments by the definition, and the forms in which they come."""

import numpy as np
import pytest
from cases.kalman_filters import D, K, drawn, known, with_gaps
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.models.kalman.linear_dynamical import FIELDS
from sklearn_onlineem.models.kalman.regression import Regression


@pytest.mark.parametrize("radius", [0.0, 0.9, 1.0, 1.1])
def test_forecasts_of_many_steps_are_those_of_one_after_another(radius, system, monkeypatch):
    """Also where powers of the transitions overflow, but no state moves."""
    system = {**system, "transition_matrices": radius / 0.9 * system["transition_matrices"]}
    if radius > 1.0:
        system |= dict.fromkeys(("transition_offsets", "initial_state_mean"), np.zeros(K))
        certain = "transition_covariance", "initial_state_covariance"
        system |= dict.fromkeys(certain, np.zeros((K, K)))
    X, n_steps, calls = [np.zeros((4, D)), np.ones((1, D))], 9001, []
    kalman = known(system)
    model, states = kalman.model_, kalman.filter(X)
    mean, covariance = (np.stack([sequence[-1] for sequence in part]) for part in states)
    expected = []
    for _ in range(n_steps):
        mean, covariance = model.transitions.predicted(mean, covariance)
        expected.append(model.emissions.predicted(mean, covariance))
    predicted = Regression.predicted
    monkeypatch.setattr(
        Regression, "predicted", lambda *moments: calls.append(1) or predicted(*moments)
    )
    found = kalman.forecast(X, n_steps, return_cov=True)
    for ours, theirs in zip(found, zip(*expected, strict=True), strict=True):
        assert_allclose(ours, np.stack(theirs, axis=1), rtol=1e-9, atol=1e-9)
    assert len(calls) < 200 or radius > 1.0


def test_what_comes_out_has_the_form_that_went_in(system):
    kalman, X = known(system), drawn(system, 4, 3)
    rows, groups = np.concatenate(X), np.repeat([5, 1, 3], 4)
    for method in ("filter", "smooth"):
        listed, flat = getattr(kalman, method)(X), getattr(kalman, method)(rows, lengths=[4, 4, 4])
        for parts, whole in zip(listed, flat, strict=True):
            assert_array_equal(np.concatenate(parts), whole)
    assert kalman.forecast(X, 2).shape == (3, 2, D)
    assert kalman.forecast(rows, 2, groups=groups).shape == (3, 2, D)
    assert kalman.forecast(rows, 2).shape == (2, D)
    assert [len(part) for part in kalman.score_rows(X)] == [4, 4, 4]
    assert_allclose([part.sum() for part in kalman.score_rows(X)], kalman.score_samples(X))
    assert [part.shape for part in kalman.smooth(X, lags=True)[2]] == [(4, K, K)] * 3
    assert kalman.get_feature_names_out().tolist() == ["kalmanfilter0", "kalmanfilter1"]
    assert_allclose(
        kalman.fit_transform(rows, lengths=[4, 4, 4]), np.concatenate(kalman.transform(X))
    )


def test_a_live_filter_is_filter_row_by_row(system, rng):
    X, kalman = with_gaps(rng, drawn(system)), known(system)
    live, moments = kalman.live_filter(), (None, None)
    means, covariances = kalman.filter(X)
    for t, row in enumerate(X):
        moments = kalman.filter_update(*moments, row)
        found = live.update(row)
        for mean, covariance in (moments, found):
            assert_allclose(mean, means[t], atol=1e-10)
            assert_allclose(covariance, covariances[t], atol=1e-10)
    assert live.n_steps == len(X)
    for wrong in ([np.inf] * D, [0.0]):
        with pytest.raises(ValueError):
            live.update(wrong)
    with pytest.raises(ValueError, match="KalmanFilter.*both"):
        kalman.filter_update(moments[0])
    with pytest.raises(NotFittedError):
        KalmanFilter().live_filter()


def test_float32_is_preserved(system):
    X = [part.astype(np.float32) for part in drawn(system, 20, 10)]
    kalman = KalmanFilter(K, random_state=0).fit(X)
    outputs = [
        kalman.transform(X)[0],
        kalman.predict(X)[0],
        kalman.impute(X)[0],
        kalman.sample()[0],
    ]
    outputs += [getattr(kalman, f"{name}_") for name in FIELDS]
    assert {output.dtype for output in outputs} == {np.dtype(np.float32)}
    assert kalman.model_.transitions.matrix.dtype == np.float64
    double = KalmanFilter(K, random_state=0).fit([part.astype(float) for part in X])
    assert_allclose(kalman.score(X), double.score(X), rtol=1e-5)
