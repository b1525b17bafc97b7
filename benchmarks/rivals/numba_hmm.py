"""One EM pass of hidden Markov models: scaled recursions by numba, emissions by NumPy."""

import numpy as np
from numba import njit

from benchmarks.rivals import numpy_gaussian


def gaussian_pass(X, lengths, start, transmat, means, covariances, covariance_type):
    """Return a function that makes one E- and one M-step and returns the log-likelihood."""

    def run():
        log_b = numpy_gaussian.log_densities(means, covariances, covariance_type)(X)
        log_likelihood, posteriors = expectations(log_b, lengths, start, transmat)
        sums = numpy_gaussian.moments(X, posteriors, covariance_type)
        numpy_gaussian.maximised(*sums, covariance_type)
        return log_likelihood

    return run


def categorical_pass(X, lengths, start, transmat, probabilities):
    """Return a function that makes one E- and one M-step and returns the log-likelihood."""
    symbols, n_symbols = X[:, 0], probabilities.shape[1]

    def run():
        log_b = np.log(probabilities).T[symbols]
        log_likelihood, posteriors = expectations(log_b, lengths, start, transmat)
        counts = np.stack([np.bincount(symbols, share, n_symbols) for share in posteriors.T])
        counts / counts.sum(axis=1, keepdims=True)
        return log_likelihood

    return run


def expectations(log_b, lengths, start, transmat):
    """Return the log-likelihood and the posteriors of states; maximise the parameters of chains."""
    top = log_b.max(axis=1, keepdims=True)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    outer, first = np.zeros_like(transmat), np.zeros_like(start)
    log_likelihood, posteriors = recursions(
        np.exp(log_b - top), offsets, start, transmat, outer, first
    )
    transitions = outer * transmat
    transitions / transitions.sum(axis=1, keepdims=True), first / len(lengths)
    return log_likelihood + top.sum(), posteriors


@njit(fastmath=True)
def recursions(b, offsets, start, A, outer, first):
    total, alpha, scale, K = 0.0, np.empty_like(b), np.empty(len(b)), len(A)
    beta, step, posteriors = np.empty(K), np.empty(K), np.empty_like(b)
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        for t in range(begin, end):
            if t == begin:
                step[:] = start
            else:
                step[:] = 0.0
                for i in range(K):
                    for j in range(K):
                        step[j] += alpha[t - 1, i] * A[i, j]
            alpha[t] = step * b[t]
            scale[t] = alpha[t].sum()
            alpha[t] /= scale[t]
            total += np.log(scale[t])
        beta[:] = 1.0
        posteriors[end - 1] = alpha[end - 1]
        for t in range(end - 2, begin - 1, -1):
            step[:] = beta * b[t + 1] / scale[t + 1]
            for i in range(K):
                found = 0.0
                for j in range(K):
                    outer[i, j] += alpha[t, i] * step[j]
                    found += A[i, j] * step[j]
                beta[i] = found
            posteriors[t] = alpha[t] * beta
        first += posteriors[begin]
    return total, posteriors
