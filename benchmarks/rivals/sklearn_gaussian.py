"""One pass of scikit-learn's GaussianMixture."""

import numpy as np
from sklearn.mixture import GaussianMixture


def em_pass(X, weights, means, covariances, covariance_type):
    """Return a function that makes one E- and one M-step and returns the mean log-likelihood."""
    mixture = GaussianMixture(len(weights), covariance_type=covariance_type)
    if covariance_type == "spherical":
        covariances = covariances[:, 0]
    factors = np.empty_like(covariances)
    if covariance_type == "full":
        for covariance, factor in zip(covariances, factors, strict=True):
            factor[:] = np.linalg.inv(np.linalg.cholesky(covariance)).T
    else:
        factors[:] = 1.0 / np.sqrt(covariances)
    parameters = [array.astype(X.dtype) for array in (weights, means, covariances, factors)]

    def run():
        mixture._set_parameters(parameters)
        log_likelihood, log_responsibilities = mixture._e_step(X)
        mixture._m_step(X, log_responsibilities)
        return log_likelihood

    return run
