"""One EM pass of a mixture of multinomials by a loop over the non-zeros of CSR rows (numba)."""

import numpy as np
from numba import njit


def em_pass(X, weights, probabilities):
    """Return a function that makes one E- and one M-step and returns the mean log-likelihood.

    Without the multinomial coefficients, which do not depend on the parameters.
    """

    def run():
        log_p = np.ascontiguousarray(np.log(probabilities).T)
        counts, shares = np.zeros_like(log_p), np.zeros_like(weights)
        parts = X.data, X.indices, X.indptr
        log_likelihood = add_rows(*parts, np.log(weights), log_p, counts, shares)
        counts / counts.sum(axis=0), shares / X.shape[0]
        return log_likelihood / X.shape[0]

    return run


@njit(fastmath=True)
def add_rows(data, indices, indptr, log_weights, log_p, counts, shares):
    total, joint = 0.0, np.empty_like(log_weights)
    for i in range(len(indptr) - 1):
        joint[:] = log_weights
        for e in range(indptr[i], indptr[i + 1]):
            x, row = data[e], log_p[indices[e]]
            for k in range(len(joint)):
                joint[k] += x * row[k]
        top = joint.max()
        joint[:] = np.exp(joint - top)
        norm = joint.sum()
        total += top + np.log(norm)
        joint /= norm
        shares += joint
        for e in range(indptr[i], indptr[i + 1]):
            x, row = data[e], counts[indices[e]]
            for k in range(len(joint)):
                row[k] += x * joint[k]
    return total
