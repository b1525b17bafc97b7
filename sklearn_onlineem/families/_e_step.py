"""The E-step of a mixture by blocks of rows, and functions of probabilities that models share."""

from functools import partial

import numpy as np

from sklearn_onlineem._kernels._responsibilities import normalise
from sklearn_onlineem.data.rows import PLAIN, task
from sklearn_onlineem.statistics import combine

_BLOCK = 1024
NOTHING = np.empty(0)


def log_of(p):
    """Return log p, and -inf where p is 0."""
    with np.errstate(divide="ignore"):
        return np.log(p)


def drawn_from(cumulated, rng):
    """Draw a number for each row of cumulated weights, along the last axis."""
    points = rng.random((*cumulated.shape[:-1], 1)) * cumulated[..., -1:]
    return (cumulated <= points).sum(axis=-1).clip(max=cumulated.shape[-1] - 1)


def e_step_in_blocks(
    family, parameters, log_weights, rows, wanted=PLAIN, statistics_of=None, log_density=None,
    n_rows=_BLOCK,
):  # fmt: skip
    """Return the E-step of a mixture, with statistics from ``statistics_of(X, posterior)``.

    These and `log_density` are the family's, unless others are given; blocks have `n_rows` rows.
    """
    gaps = rows.has_gaps
    if log_density is None:
        log_density = family.marginal_log_density if gaps else family.log_density
    if statistics_of is None:
        of_family = family.marginal_statistics if gaps else family.posterior_statistics
        statistics_of = partial(of_family, parameters)
    terms, counts, log_likelihood = [], np.zeros(len(log_weights)), 0.0
    total_weight = rows.total_weight
    for start in range(0, len(rows), n_rows):
        index = slice(start, start + n_rows)
        block = rows[index]
        responsibilities = log_density(parameters, block.X, n_threads=rows.n_threads)
        responsibilities = responsibilities + log_weights
        log_likelihood += normalise(responsibilities, task(block, *wanted._of(index)))
        counts += responsibilities.sum(axis=0)
        statistics = statistics_of(block.X, responsibilities, n_threads=rows.n_threads)
        terms.append((1.0 / total_weight, statistics))
    return counts / total_weight, combine(terms), log_likelihood / total_weight


def log_density_of(family, parameters, rows):
    """Return log densities of `Rows`, of the observed values where some are missing."""
    if not rows.has_gaps:
        return family.log_density(parameters, rows.X, n_threads=rows.n_threads)
    out = None
    for numbers, part in rows.by_completeness():
        log_density = family.marginal_log_density if part.has_gaps else family.log_density
        found = log_density(parameters, part.X, n_threads=rows.n_threads)
        if out is None:
            out = np.empty((len(rows), found.shape[1]), dtype=rows.dtype)
        out[numbers] = found
    return out


def statistics_of(family, parameters, rows, posterior):
    """Return `posterior_statistics` of `Rows`; values may be missing."""
    if not rows.has_gaps:
        return family.posterior_statistics(parameters, rows.X, posterior, n_threads=rows.n_threads)
    terms = []
    for numbers, part in rows.by_completeness():
        statistics = family.marginal_statistics if part.has_gaps else family.posterior_statistics
        shares = np.ascontiguousarray(posterior[numbers])
        terms.append((1.0, statistics(parameters, part.X, shares, n_threads=rows.n_threads)))
    return combine(terms)
