"""Gaussians whose parameters are integrated out: posteriors, predictive densities, draws.

The M-step turns statistics of conjugate priors into the *mode*. The normal-inverse-Wishart or
normal-inverse-gamma distribution with this mode is derived here and nowhere else.
"""

from __future__ import annotations

import math

import numpy as np

from sklearn_onlineem.families._collapsed import log_rising
from sklearn_onlineem.statistics import Moments


def posterior(family, statistics):
    """Return the conjugate distribution with the M-step's mode; ValueError if it is improper."""
    # It is normal-inverse-Wishart, or normal-inverse-gamma along the axes, as `Moments`. Weights
    # are k (K,), in rows: m ~ N(mean, S / k); inf for known means. Degrees (K,) are those of
    # Student's t distribution of a new row: nu - d + 1, and 2 a of an inverse gamma distribution;
    # inf for known covariances. Scatters are Psi, shaped like covariances, or 2 b of an inverse
    # gamma distribution; or known covariances.
    #
    # Let D be the degrees that the scatter of a mode is divided by. For a normal-inverse-Wishart
    # distribution it is nu + d + 2: its density has |S|^(-(nu + d + 1)/2) for S, and |S|^(-1/2) for
    # the mean. For K means that share S it is nu + d + 1 + K. A normal-inverse-gamma distribution
    # has 2 a = D - 3 for each axis, and 2 a = d D - d - 2 for all of them. Known means leave their
    # |S|^(-1/2) in D, which is one degree more. A prior without means (k = 0) has none of these in
    # D, but its first row brings one: the same holds for the posterior.
    mean, scatter, shape = statistics.mean, statistics.scatter, family.covariance
    learns_means, learns_covariances = family._learnt(len(mean))
    weight, n_integrated = statistics.weight, learns_means.astype(float)
    if not learns_means.all():
        mean = np.where(learns_means[:, None], mean, _known(family).mean)
        statistics = family._about_means(statistics, mean)
        weight, scatter = np.where(learns_means, weight, np.inf), statistics.scatter
    degrees = shape._student_degrees(
        statistics, n_integrated.sum() if shape.is_shared else n_integrated
    )
    if not learns_covariances.all():
        degrees = np.where(learns_covariances, degrees, np.inf)
        among = learns_covariances.reshape(-1, *(1,) * (scatter.ndim - 1))
        scatter = np.where(among, scatter, _known(family).covariance)
    settings, least = shape.prior_settings, shape._least_scatter(scatter)
    for values, name, what in [
        (weight, settings[0], "means have no weight"),
        (degrees, settings[1], "covariances have too few degrees"),
        (least, settings[2], "scatters are not positive definite"),
    ]:
        if not np.all(values > 0.0):
            raise ValueError(f"The prior is improper: {what}. Set {name} to a larger value.")
    every = np.broadcast_to(degrees, weight.shape)
    arrays = (weight, every, mean, scatter)
    return Moments(*map(np.ascontiguousarray, arrays))


def _known(family):
    if family.known is None:
        raise ValueError(
            f"{type(family).__name__} does not learn all of its parameters: the posterior needs"
            " the others, see `with_fixed`."
        )
    return family.known


def student_log_density(posterior, squares, log_det, n_blocks):
    """Return the log density of Student's t distribution, (n_rows, K), from squared distances."""
    # These are by the inverse scatters, (n_rows, n_blocks) for each component: blocks of features
    # have their own degrees. `log_det` (K,) is of d x d scatters.
    d = posterior.mean.shape[1]
    is_known, p = np.isinf(posterior.degrees), d // n_blocks
    half = 0.5 * np.where(is_known, 1.0, posterior.degrees)
    shrink = 1.0 / (1.0 + 1.0 / posterior.weight)
    constant = 0.5 * (d * np.log(shrink) - log_det)
    of_student = n_blocks * log_rising(half, 0.5 * p) - 0.5 * d * math.log(math.pi)
    constant += np.where(is_known, -0.5 * d * math.log(2.0 * math.pi), of_student)
    columns = [
        -0.5 * (s * q).sum(axis=1) if known else -(h + 0.5 * p) * np.log1p(s * q).sum(axis=1)
        for known, h, s, q in zip(is_known, half, shrink, squares, strict=True)
    ]
    return np.stack(columns, axis=1) + constant


def inverse_wishart(degrees, scatter, rng):
    """Draw matrices S, shaped like `scatter`, whose inverses are Wishart matrices."""
    # S = B B', B = C inv(A)', where scatter = C C' and A is the triangle of a Wishart matrix.
    # E S = scatter / (degrees - d - 1).
    triangles = wishart_triangles(degrees, scatter.shape[1], rng)
    root = np.linalg.solve(triangles, np.linalg.cholesky(scatter).mT)
    return root.mT @ root


def wishart_triangles(degrees, d, rng):
    """Draw lower triangular roots of Wishart matrices of unit scale: Bartlett's decomposition."""
    triangles, i = np.tril(rng.standard_normal((len(degrees), d, d)), -1), np.arange(d)
    triangles[:, i, i] = np.sqrt(rng.chisquare(degrees[:, None] - i))
    return triangles
