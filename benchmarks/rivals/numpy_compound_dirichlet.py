"""Maximum likelihood of a compound Dirichlet by Newton's method on histograms of counts."""

import numpy as np
from scipy import sparse


def maximise(X):
    """Return alpha, from alpha = 1; that of words that never come is almost 0.

    Of each word it only matters in how many documents it comes more than j times, for each j:
    log-gamma functions become sums of logarithms (Minka, "Estimating a Dirichlet distribution").
    """
    X = sparse.csr_array(X)
    size = int(X.data.max()) + 1
    histogram = np.bincount(X.indices * size + X.data.astype(np.intp), minlength=size * X.shape[1])
    above = more_than(histogram.reshape(-1, size))
    everywhere, seen = np.full(len(above), 1e-100), above[:, 0] > 0
    above = above[seen]
    above_all = more_than(np.bincount(X.sum(axis=1).astype(np.intp))[None])
    j, all_j = np.arange(size - 1), np.arange(above_all.shape[1])

    def value(alpha):
        own = (above * np.log(alpha[:, None] + j)).sum()
        return own - (above_all * np.log(alpha.sum() + all_j)).sum()

    alpha = np.ones(len(above))
    best = value(alpha)
    while True:
        share, total = above / (alpha[:, None] + j), above_all / (alpha.sum() + all_j)
        curvature = -(share / (alpha[:, None] + j)).sum(axis=1)
        gradient = share.sum(axis=1) - total.sum()
        # The Hessian is a diagonal and a constant, whose inverse is known; far from the maximum it
        # may have a positive direction, and the diagonal does.
        constant = (total / (alpha.sum() + all_j)).sum()
        slack = 1.0 + constant * (1.0 / curvature).sum()
        shift = constant * (gradient / curvature).sum() / slack if slack > 0.0 else 0.0
        step = (gradient - shift) / curvature
        gain = -gradient @ step
        if not gain > 1e-9:
            everywhere[seen] = alpha
            return everywhere
        length = min(1.0, 0.9 / max((step / alpha).max(), 1e-9))
        while length > 1e-9 and value(alpha - length * step) < best:
            length /= 2.0
        alpha = alpha - length * step
        best = value(alpha)


def more_than(histogram):
    """How many are above j = 0, 1, ..., by how many are j."""
    return histogram[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
