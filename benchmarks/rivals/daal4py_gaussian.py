"""One pass of oneDAL's EM for Gaussian mixtures (`daal4py`, of scikit-learn-intelex)."""

import daal4py


def em_pass(X, weights, means, covariances, covariance_type, n_threads):
    """Return a function that makes one E- and one M-step and returns the mean log-likelihood."""
    daal4py.daalinit(n_threads)
    storage = {"full": "full", "diag": "diagonal"}[covariance_type]
    algorithm = daal4py.em_gmm(
        len(weights), maxIterations=1, accuracyThreshold=0.0, covarianceStorage=storage
    )
    covariances = [covariance.reshape(-1, X.shape[1]) for covariance in covariances]

    def run():
        result = algorithm.compute(X, weights[None], means, covariances)
        return result.goalFunction.item() / len(X)

    return run
