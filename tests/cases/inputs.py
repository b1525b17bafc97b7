"""Estimators with one known input, data in which they find its effect, and inputs they refuse."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from sklearn_onlineem import KalmanFilter, RegressionHMM
from sklearn_onlineem.structure import Inputs, Level, Season, Trend

NAMED = pd.DataFrame({"price": np.ones(20)})
# Beside 20 rows.
WRONG = {
    "as many rows": {"inputs": np.ones(19)},
    "one input more": {"inputs": np.ones((20, 2))},
    "none": {},
    "NaN": {"inputs": np.full(20, np.nan)},
    "infinite": {"inputs": np.full(20, np.inf)},
    "too large": {"inputs": np.full(20, 1e200)},
    "texts": {"inputs": ["a"] * 20},
    "dates": {"inputs": np.full(20, "2026-01-01", "M8[D]")},
    "another cut": {"inputs": [np.ones(10), np.ones(10)]},
    "lengths": {"inputs": np.ones(20), "lengths": [10, 9]},
    "other names": {"inputs": NAMED.rename(columns={"price": "load"})},
    "complex": {"inputs": np.ones(20) * 1j},
}
WEIGHTS = ("transition_input_weights", "observation_input_weights")


def switching(rng, n=600):
    """A row that follows its input with two slopes in turn, and the row before it."""
    inputs, states = rng.normal(size=n), np.arange(n) // 60 % 2
    X = np.zeros((n, 1))
    for t in range(n):
        X[t] = 0.5 * X[t - 1] + (2.0 - 4.0 * states[t]) * inputs[t] + 1.0 + 0.3 * rng.normal()
    return X, inputs, states


def assert_switching(hmm):
    order = np.argsort(hmm.coef_[:, 0, 1])
    assert_allclose(hmm.coef_[order, 0], [[0.5, -2.0], [0.5, 2.0]], atol=0.15)
    assert_allclose(hmm.intercept_.ravel(), 1.0, atol=0.15)
    assert_allclose(hmm.covariances_.ravel(), 0.09, rtol=0.4)


def controlled(rng, n):
    """Rows of a state that inputs move, and which they show besides; inputs are far from 0."""
    inputs = 3.0 + rng.normal(size=(n, 1))
    state, X = 0.0, np.empty((n, 2))
    for t in range(n):
        X[t] = [state + inputs[t, 0], -0.5 * state] + 0.3 * rng.normal(size=2)
        state = 0.8 * state + 2.0 * inputs[t, 0] + 0.3 * rng.normal()
    return X, inputs


def walking(rng, n=300):
    """A row that follows its input, beside a level that walks."""
    inputs = rng.normal(size=n)
    X = 0.1 * rng.normal(size=n).cumsum() - 3.0 * inputs + 0.3 * rng.normal(size=n)
    return X[:, None], inputs


def effects(kalman, n=4):
    """What an input adds to its own row, and to the rows after it, in any coordinates of states."""
    A, C = kalman.transition_matrices_, kalman.observation_matrices_
    B, D = kalman.transition_input_weights_, kalman.observation_input_weights_
    return np.hstack([D, *(C @ np.linalg.matrix_power(A, j) @ B for j in range(n))])


def assert_controlled(kalman, **tolerances):
    known = [[1.0, 2.0, 1.6, 1.28, 1.024], [0.0, -1.0, -0.8, -0.64, -0.512]]
    assert_allclose(effects(kalman), known, **{"atol": 0.15, **tolerances})


class Learner(NamedTuple):
    """An estimator, data for it, what it should find, and names of what it learns and says."""

    make: Callable
    data: Callable
    assert_found: Callable
    effects: Callable
    states: str
    # Of the state of live filters, and how near states of a stream are to those of its end.
    now: str
    atol: float
    # Settings among which a search finds the first, a poor one, and starts from known states.
    grid: dict
    poor: dict
    start: Callable


LEARNERS = [
    Learner(
        partial(RegressionHMM, 2, lags=1, random_state=0), lambda rng, n=600: switching(rng, n)[:2],
        assert_switching, lambda hmm: hmm.coef_, "predict_proba", "probabilities", 1e-6,
        {"n_components": [2, 1], "lags": [1, 0]}, {"n_components": 1},
        lambda states: {"init": np.eye(2)[states]},
    ),
    Learner(
        partial(KalmanFilter, 1, random_state=0),
        lambda rng, n=240: (lambda X, u: (X, u[:, 0]))(*controlled(rng, n)),
        assert_controlled, effects, "transform", "mean", 1e-2,
        {"params": [None, dict.fromkeys(WEIGHTS, False)]},
        {"params": dict.fromkeys(WEIGHTS, False)}, lambda states: {},
    ),
    Learner(
        partial(KalmanFilter, structure=Level() + Inputs(), random_state=0), walking,
        lambda kalman: assert_allclose(effects(kalman, 0), -3.0, atol=0.15),
        partial(effects, n=0), "transform", "mean", 1e-2,
        {"structure": [Level() + Inputs(), Trend() + Season(7) + Inputs()]},
        {"structure": Level(fixed=True) + Inputs()}, lambda states: {},
    ),
]  # fmt: skip
all_learners = pytest.mark.parametrize("learner", LEARNERS, ids=["hmm", "kalman", "structure"])
