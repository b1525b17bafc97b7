"""The smoother of simdkalman, which takes many sequences of one length at once, in NumPy."""

import numpy as np
import simdkalman


def one_pass(X, n_sequences, model):
    """Return a function that smooths sequences of one length and returns their log-likelihood.

    It has no offsets, and neither has the model; its log-likelihood leaves out a constant.
    """
    rows = X.reshape(n_sequences, -1, X.shape[1])
    smoother = simdkalman.KalmanFilter(
        model.transitions.matrix,
        model.transitions.covariance,
        model.emissions.matrix,
        model.emissions.covariance,
    )
    assert not np.any(model.transitions.offset) and not np.any(model.emissions.offset)
    constant = 0.5 * np.log(2.0 * np.pi) * np.count_nonzero(~np.isnan(X))
    start = {
        "initial_value": model.initial.offset,
        "initial_covariance": model.initial.covariance,
    }

    def run():
        found = smoother.compute(rows, 0, observations=False, log_likelihood=True, **start)
        return found.log_likelihood.sum() - constant

    return run
