"""The smoother of statsmodels' state space models, without an M-step; values may be missing."""

import numpy as np
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother


def one_pass(X, n_sequences, model):
    """Return a function that smooths a single sequence and returns its log-likelihood."""
    if n_sequences != 1:
        raise ValueError("statsmodels takes one sequence.")
    k = model.n_components
    smoother = KalmanSmoother(k_endog=X.shape[1], k_states=k)
    smoother.bind(np.asfortranarray(X.T))
    smoother["design"] = model.emissions.matrix
    smoother["obs_intercept"] = model.emissions.offset[:, None]
    smoother["obs_cov"] = model.emissions.covariance
    smoother["transition"] = model.transitions.matrix
    smoother["state_intercept"] = model.transitions.offset[:, None]
    smoother["selection"] = np.eye(k)
    smoother["state_cov"] = model.transitions.covariance
    smoother.initialize_known(model.initial.offset, model.initial.covariance)

    def run():
        return float(smoother.smooth().llf_obs.sum())

    return run
