"""One EM pass of a Kalman filter of complete rows by numba: covariances once for all sequences.

Covariances do not depend on the data. They are computed until they no longer change; then means of
each sequence follow by loops, and sums by products of NumPy.
"""

import numpy as np
from numba import njit

SETTLED = 1e-14


def one_pass(X, n_sequences, model):
    """Return a function that makes one E- and one M-step and returns the log-likelihood.

    Sequences have one length, and no offsets but that of the first state.
    """
    k, d = model.n_components, X.shape[1]
    T, A, C = len(X) // n_sequences, model.transitions.matrix, model.emissions.matrix
    x = np.ascontiguousarray(X.reshape(n_sequences, T, d).transpose(1, 0, 2)).reshape(-1, d)
    outer = x.T @ x

    def run():
        precision = np.linalg.inv(model.emissions.covariance)
        J = C.T @ precision @ C
        predicted, filtered, log_det = forward(
            A, J, model.transitions.covariance, model.initial.covariance, T
        )
        following = predicted[np.minimum(np.arange(len(predicted)) + 1, len(predicted) - 1)]
        gains = filtered @ A.T @ np.linalg.inv(following)
        first, total, lag = backward(following, filtered, gains, T)
        information = (x @ (precision @ C)).reshape(T, n_sequences, k)
        z, square = means(information, A, J, model.initial.offset, filtered, gains)
        # The M-step, from sums of products
        flat, ends = z.reshape(-1, k), z[-1].T @ z[-1] + n_sequences * filtered[-1]
        all_z = flat.T @ flat + n_sequences * total
        now = all_z - z[0].T @ z[0] - n_sequences * first
        moves = flat[n_sequences:].T @ flat[:-n_sequences] + n_sequences * lag
        matrix = np.linalg.solve(all_z - ends, moves.T).T
        (now - matrix @ moves.T) / (len(x) - n_sequences)
        emitted = x.T @ flat
        emission = np.linalg.solve(all_z, emitted.T).T
        (outer - emission @ emitted.T) / len(x)
        z[0].mean(axis=0), first + np.cov(z[0].T, bias=True)
        square += np.vdot(precision, outer)
        log_det = n_sequences * log_det - len(x) * np.linalg.slogdet(precision)[1]
        return -0.5 * (square + log_det + x.size * np.log(2.0 * np.pi))

    return run


@njit
def forward(A, J, Q, P, T):
    predicted, filtered = np.empty((T, *P.shape)), np.empty((T, *P.shape))
    log_det, n = 0.0, T
    for t in range(T):
        predicted[t] = P
        filtered[t] = np.linalg.inv(np.linalg.inv(P) + J)
        change = np.linalg.slogdet(P)[1] - np.linalg.slogdet(filtered[t])[1]
        log_det += change
        following = A @ filtered[t] @ A.T + Q
        if np.abs(following - P).max() <= SETTLED * np.abs(P).max():
            log_det, n = log_det + (T - 1 - t) * change, t + 1
            break
        P = following
    return predicted[:n], filtered[:n], log_det


@njit
def backward(following, filtered, gains, T):
    """The smoothed covariance of the first states, and sums of those of all and of neighbours."""
    last, t = len(filtered) - 1, T - 2
    V = filtered[last].copy()
    total, lag = V.copy(), np.zeros_like(V)
    while t >= 0:
        i, skipped = min(t, last), 0
        G = gains[i]
        lag += V @ G.T
        new = filtered[i] + G @ (V - following[i]) @ G.T
        if i == last and np.abs(new - V).max() <= SETTLED * np.abs(V).max():
            skipped = t - last
        total += (1 + skipped) * new
        lag += skipped * (new @ G.T)
        V, t = new, t - 1 - skipped
    return V, total, lag


@njit(fastmath=True)
def means(information, A, J, start, filtered, gains):
    """Smoothed means, and the part of the squares of innovations that depends on predictions."""
    T, n, k = information.shape
    z, square = np.empty((T, n, k)), 0.0
    m, u, shift = np.empty(k), np.empty(k), np.empty(k)
    for t in range(T):
        F = filtered[min(t, len(filtered) - 1)]
        for s in range(n):
            if t == 0:
                m[:] = start
            else:
                product(A, z[t - 1, s], m)
            product(J, m, u)
            for a in range(k):
                square += m[a] * (u[a] - 2.0 * information[t, s, a])
                u[a] = information[t, s, a] - u[a]
            product(F, u, shift)
            for a in range(k):
                z[t, s, a] = m[a] + shift[a]
                square -= u[a] * shift[a]
    for t in range(T - 2, -1, -1):
        G = gains[min(t, len(gains) - 1)]
        for s in range(n):
            product(A, z[t, s], m)
            for a in range(k):
                u[a] = z[t + 1, s, a] - m[a]
            product(G, u, shift)
            for a in range(k):
                z[t, s, a] += shift[a]
    return z, square


@njit(fastmath=True, inline="always")
def product(matrix, x, out):
    for a in range(len(out)):
        out[a] = 0.0
        for b in range(len(x)):
            out[a] += matrix[a, b] * x[b]
