"""Random data, and matrices."""

import numpy as np

SIDE = 2  # of Wishart matrices


def positive_definite(rng, n, side):
    roots = rng.standard_normal((n, side, side + 2))
    return roots @ roots.transpose(0, 2, 1) / (side + 2) + 0.2 * np.eye(side)


def normal_rows(rng, n, d):
    return 2.0 * rng.standard_normal((n, d))


def count_rows(rng, n, d):
    return rng.poisson(rng.gamma(2.0, 2.0, (n, 1)), (n, d)).astype(float)


def document_rows(rng, n, d):
    """Counts whose totals differ widely, some of them 0."""
    return rng.multinomial(rng.integers(0, 30, n), rng.dirichlet(np.ones(d))).astype(float)


def bit_rows(rng, n, d):
    return rng.integers(0, 2, (n, d)).astype(float)


def code_rows(rng, n, d):
    return rng.integers(0, 3, (n, d)).astype(float)


def positive_rows(rng, n, d):
    return rng.gamma(2.0, 1.5, (n, d))


def matrix_rows(rng, n, d):
    """Matrices as large as those of models, so that no component is without any."""
    return 5.0 * positive_definite(rng, n, d).reshape(n, d * d)


def chain_rows(rng, n, d):
    """First symbols and transitions of sequences of d symbols, some of which have but one."""
    X = np.zeros((n, d + 1, d))
    for counts, length in zip(X, rng.integers(1, 30, n), strict=True):
        symbols = rng.integers(0, d, length)
        counts[0, symbols[0]] = 1.0
        np.add.at(counts[1:], (symbols[:-1], symbols[1:]), 1.0)
    return X.reshape(n, -1)
