"""Maximum likelihood of a compound Dirichlet by scipy's L-BFGS, with the analytic gradient."""

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import gammaln, psi


def maximise(X):
    """Return alpha, over log alpha from alpha = 1; only non-zero counts are looked at."""
    X = sparse.csr_array(X)
    lengths = X.sum(axis=1)
    n_documents, n_words = X.shape

    def objective(log_alpha):
        alpha = np.exp(log_alpha)
        total, own = alpha.sum(), alpha[X.indices]
        value = n_documents * gammaln(total) - gammaln(total + lengths).sum()
        value += (gammaln(own + X.data) - gammaln(own)).sum()
        shared = n_documents * psi(total) - psi(total + lengths).sum()
        excess = np.bincount(X.indices, psi(own + X.data) - psi(own), minlength=n_words)
        return -value / n_documents, -(shared + excess) * alpha / n_documents

    options = {"maxiter": 10_000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(objective, np.zeros(n_words), jac=True, method="L-BFGS-B", options=options)
    return np.exp(found.x)
