"""Filters through pykalman's parameters, that tests of the estimator have in common."""

import numpy as np

from sklearn_onlineem import KalmanFilter

K, D = 2, 3


def draw_system(rng):
    """A system by pykalman's names."""
    turn = np.linalg.qr(rng.standard_normal((K, K)))[0]
    root = rng.standard_normal((D, D))
    return {
        "transition_matrices": 0.9 * turn,
        "observation_matrices": rng.standard_normal((D, K)),
        "transition_covariance": np.array([[0.3, 0.1], [0.1, 0.2]]),
        "observation_covariance": 0.3 * np.eye(D) + 0.1 * root @ root.T,
        "transition_offsets": rng.standard_normal(K),
        "observation_offsets": rng.standard_normal(D),
        "initial_state_mean": rng.standard_normal(K),
        "initial_state_covariance": np.array([[1.0, 0.3], [0.3, 0.5]]),
    }


def known(system, **arguments):
    """A filter whose arrays are given, after a fit that learns nothing."""
    kalman = KalmanFilter(**system, em_vars=[], random_state=0, **arguments)
    return kalman.fit(np.zeros((2, D)))


def drawn(system, n_rows=30, n_sequences=None):
    return known(system).sample(n_rows, n_sequences=n_sequences)[0]


def with_gaps(rng, X, share=0.3):
    X = X.copy()
    X[rng.random(X.shape) < share] = np.nan
    X[5] = np.nan
    return X
