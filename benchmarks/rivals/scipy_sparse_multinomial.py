"""One pass of a mixture of multinomials by products of scipy.sparse matrices."""

import numpy as np
from scipy.special import logsumexp


def em_pass(X, weights, probabilities):
    """Return a function that makes one E- and one M-step and returns the mean log-likelihood.

    Without the multinomial coefficients, which do not depend on the parameters.
    """

    def run():
        log_joint = X @ np.log(probabilities).T
        log_joint += np.log(weights)
        log_likelihoods = logsumexp(log_joint, axis=1, keepdims=True)
        responsibilities = np.exp(log_joint - log_likelihoods)
        counts = X.T @ responsibilities
        counts / counts.sum(axis=0), responsibilities.mean(axis=0)
        return log_likelihoods.mean()

    return run
