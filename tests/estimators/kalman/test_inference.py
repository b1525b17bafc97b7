"""What Kalman filters infer: moments by the definition, and the forms in which they come."""

import itertools

import numpy as np
import pytest
from cases.kalman_filters import D, K, drawn, known, with_gaps
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.models.linear_dynamical import FIELDS
from sklearn_onlineem.models.regression import Regression


def joint_of_rows(system, n_rows):
    """Mean and covariance of all rows of a sequence, by the definition."""
    A, C = system["transition_matrices"], system["observation_matrices"]
    mean, spread = system["initial_state_mean"], system["initial_state_covariance"]
    means, spreads = [mean], [spread]
    for _ in range(n_rows - 1):
        means.append(A @ means[-1] + system["transition_offsets"])
        spreads.append(A @ spreads[-1] @ A.T + system["transition_covariance"])
    blocks = np.zeros((n_rows, n_rows, D, D))
    for s, t in itertools.product(range(n_rows), repeat=2):
        if s <= t:
            power = np.linalg.matrix_power(A, t - s)
            blocks[t, s] = C @ power @ spreads[s] @ C.T
            blocks[t, s] += (s == t) * system["observation_covariance"]
            blocks[s, t] = blocks[t, s].T
    mean = np.concatenate([C @ m + system["observation_offsets"] for m in means])
    return mean, blocks.transpose(0, 2, 1, 3).reshape(n_rows * D, n_rows * D)


def test_forecasts_are_those_of_the_joint_gaussian(system):
    X, (mean, covariance) = drawn(system, 5), joint_of_rows(system, 8)
    n = X.size
    weights = np.linalg.solve(covariance[:n, :n], covariance[:n, n:]).T
    means, covariances = known(system).forecast(X, 3, return_cov=True)
    assert_allclose(means.ravel(), mean[n:] + weights @ (X.ravel() - mean[:n]), atol=1e-9)
    rest = covariance[n:, n:] - weights @ covariance[:n, n:]
    for t in range(3):
        block = slice(t * D, (t + 1) * D)
        assert_allclose(covariances[t], rest[block, block], atol=1e-9)


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


def test_predictions_are_forecasts_of_the_next_row(system):
    X, kalman = drawn(system, 9), known(system)
    for t in (1, 4, 8):
        assert_allclose(kalman.predict(X)[t], kalman.forecast(X[:t])[0], atol=1e-10)
    assert_allclose(
        kalman.predict(X)[0],
        system["observation_matrices"] @ system["initial_state_mean"]
        + system["observation_offsets"],
        atol=1e-10,
    )


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


def test_samples_have_the_moments_of_the_model(system):
    X = np.array(known(system).sample(3, n_sequences=4000)[0]).reshape(4000, -1)
    mean, covariance = joint_of_rows(system, 3)
    error = (X.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / 4000)
    assert np.abs(error).max() < 4.5
    assert_allclose(np.cov(X.T), covariance, atol=0.3)


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
