"""Kalman filters with inputs: by the joint Gaussian, least squares and peers; streams, refusals."""

from functools import partial

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.inputs import WEIGHTS, controlled
from cases.joint_gaussian import assert_inference, given_rows, joint
from cases.kalman_filters import D, K, draw_system, with_gaps
from numpy.testing import assert_allclose

from sklearn_onlineem import KalmanFilter

M = 2


def draw(rng):
    """A system with inputs, by the names of its arrays."""
    weights = dict(zip(WEIGHTS, (rng.normal(size=(K, M)), rng.normal(size=(D, M))), strict=True))
    return {**draw_system(rng), **weights}


# ------------------------------------------------------------------------------- by definition


def with_offsets(system, inputs):
    """The system that has what inputs add as offsets that vary."""
    B, W = (system[name] for name in WEIGHTS)
    offsets = {
        "transition_offsets": system["transition_offsets"] + inputs @ B.T,
        "observation_offsets": system["observation_offsets"] + inputs @ W.T,
    }
    return {name: value for name, value in {**system, **offsets}.items() if name not in WEIGHTS}


def test_inference_is_that_of_the_joint_gaussian(rng):
    system, n, ahead = draw(rng), 6, 3
    kalman = KalmanFilter.from_parameters(**system)
    X, u = with_gaps(rng, rng.normal(size=(n, D))), rng.normal(size=(n + ahead, M))
    model, given = kalman.model_, {"inputs": u[:n]}
    data = kalman._input().read(X, **given)
    mean, S, _ = joint(with_offsets(system, u[:n]), n)
    assert_inference(model, data, partial(given_rows, mean, S, X))
    assert kalman.score(X, **given) == model.log_likelihood(data)[0]
    assert_identical(kalman.smooth(X, lags=True, **given), model.smoothed(data))
    assert_identical(kalman.transform(X, **given), model.smoothed(data)[0])
    assert_identical(kalman.impute(X, **given), model.imputed(data))
    assert_identical(kalman.filter(X, **given), model.filtered(data))
    assert_identical(kalman.predict(X, return_cov=True, **given), model.predicted(data))
    rows, spread = kalman.forecast(X, ahead, return_cov=True, **given, future_inputs=u[n:])
    mean, S, _ = joint(with_offsets(system, u), n + ahead)
    _, mean, S = given_rows(mean, S, np.vstack([X, np.full((ahead, D), np.nan)]), n)
    assert_allclose(rows.ravel(), mean[-ahead * D :], atol=1e-9)
    blocks = S[-ahead * D :, -ahead * D :].reshape(ahead, D, ahead, D)
    assert_allclose(spread, np.einsum("sdse->sde", blocks), atol=1e-9)


def test_a_constant_input_is_an_offset(rng):
    system = draw_system(rng)
    X = [with_gaps(rng, rng.normal(size=(n, D))) for n in (20, 9, 31)]
    ones = [np.ones(len(part)) for part in X]
    arguments = {"solver": "batch", "max_iter": 5, "tol": 0.0, "reg_covar": 0.0}
    plain = KalmanFilter(**system, em_vars="all", **arguments).fit(X)
    offsets = {name: system.pop(name) for name in ("transition_offsets", "observation_offsets")}
    weights = {name: b[:, None] for name, b in zip(WEIGHTS, offsets.values(), strict=True)}
    learnt = [*system, *WEIGHTS]
    kalman = KalmanFilter(**system, **weights, em_vars=learnt, **arguments).fit(X, inputs=ones)
    assert kalman.score(X, inputs=ones) == pytest.approx(plain.score(X), abs=1e-9)
    for name in system:
        assert_allclose(getattr(kalman, f"{name}_"), getattr(plain, f"{name}_"), atol=1e-8)
    for name, offset in zip(WEIGHTS, offsets, strict=True):
        assert_allclose(getattr(kalman, f"{name}_")[:, 0], getattr(plain, f"{offset}_"), atol=1e-8)


# ------------------------------------------------------------------------------------ all around


def test_weights_are_given_learnt_or_partly_known(rng):
    X, u = controlled(rng, 300)
    known = {"transition_input_weights": [[2.0]], "observation_input_weights": [[1.0], [0.5]]}
    none, mask = dict.fromkeys(WEIGHTS, False), {WEIGHTS[1]: np.array([[True], [False]])}
    for arguments, given in [
        ({"params": none}, {name: 0.0 for name in WEIGHTS}),
        ({"params": none, **known}, known),
        ({"params": {WEIGHTS[0]: False}, **known}, {WEIGHTS[0]: [[2.0]]}),
    ]:
        kalman = KalmanFilter(1, max_iter=2, random_state=0, **arguments).fit(X, inputs=u)
        kalman.partial_fit(X, inputs=u)
        for name in WEIGHTS:
            is_given = (getattr(kalman, f"{name}_") == given.get(name, np.nan)).all()
            assert is_given == (name in given)
    kalman = KalmanFilter(1, params=mask, max_iter=2, random_state=0, **known)
    kalman.fit(X, inputs=u)
    assert kalman.observation_input_weights_[1] == 0.5 != kalman.observation_input_weights_[0]
    # All is known, so that nothing has to be fitted.
    system = {**draw(rng), "em_vars": []}
    X, u = rng.normal(size=(5, D)), rng.normal(size=(5, M))
    expected = KalmanFilter.from_parameters(**system).score(X, inputs=u)
    assert KalmanFilter(**system).score(X, inputs=u) == expected
    kalman = KalmanFilter.from_parameters(**system)
    kalman.observation_input_weights_ = np.zeros((D, M))
    assert kalman.score(X, inputs=u) != expected
    plain = KalmanFilter(K, max_iter=1).fit(X)
    with pytest.raises(ValueError, match="KalmanFilter: transition_input_weights_ requires inputs"):
        plain.transition_input_weights_ = np.ones((K, M))
    with pytest.raises(AttributeError, match="transition_input_weights_ requires inputs"):
        plain.transition_input_weights_  # noqa: B018


def test_live_filters_begin_before_the_first_row(rng):
    X, u = controlled(rng, 100)
    kalman = KalmanFilter(1, random_state=0).fit(X, inputs=u)
    fresh = kalman.live_filter().forecast(1, inputs=u[:1])
    assert_allclose(fresh, kalman.predict(X[:1], inputs=u[:1]), rtol=1e-9)
    with pytest.raises(ValueError, match=r"KalmanFilter: filter_update takes no inputs"):
        kalman.filter_update(observation=[1.0, 1.0])
