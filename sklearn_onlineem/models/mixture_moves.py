"""Structural moves of a mixture: two components become one, and one becomes two."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice

import numpy as np
from scipy import sparse

from sklearn_onlineem._values import take

__all__ = [
    "along_first_axis",
    "check_moves",
    "has_labels",
    "merged_pair",
    "shares_of_halves",
    "structural_moves",
    "units_of",
    "weighted_posterior",
]

# Rows that say where a component is cut in two.
_SPLIT_ROWS = 10_000
# Steps of power iteration towards a first axis; no digits are asked for.
_AXIS_STEPS = 30


def structural_moves(model, data, n_merges, prior=None):
    """Return mixtures that are one move away, the most promising merges first, then all splits.

    A component that has become part of another has weight 0; a split needs such a place, and rows
    between which there are distances.

    Parameters
    ----------
    model : MixtureModel
    data : Rows
        Without labels, as these say which component is which.
    n_merges : int
        Most merges, those that lose the least.
    prior : MixtureStatistics, default=None
        That of the fit, which must leave components without weight as they are.

    Returns
    -------
    models : iterator of MixtureModel

    Raises
    ------
    ValueError
        If there are labels, or the prior gives weight to what has none.
    """
    if has_labels(data):
        raise ValueError("labels say which component is which, so that none can be merged or split")
    check_moves(prior)
    return _moves(model, data, n_merges)


def has_labels(data):
    """Return whether the component of any row is known."""
    return data.labels is not None and (data.labels >= 0).any()


def check_moves(prior):
    """Raise ValueError where the prior of a mixture gives weight to what has none."""
    if prior is not None and (prior.counts > 0.0).any():
        raise ValueError(
            "solver=SplitMerge() leaves components without weight, to which a"
            " weight_concentration_prior above 1 gives some. Take None, or at most 1."
        )


def _moves(model, data, n_merges):
    survivors, empty = np.flatnonzero(model.weights > 0), np.flatnonzero(model.weights == 0)
    costs = {pair: merged_pair(model, *pair)[1] for pair in combinations(survivors, 2)}
    for pair in islice(sorted(costs, key=costs.get), n_merges):
        yield merged_pair(model, *pair)[0]
    if len(empty) and not model.family.is_nominal:
        some = data[:: -(-len(data) // _SPLIT_ROWS)]
        shares = weighted_posterior(model, some)
        for k in survivors:
            yield _split(model, k, empty[0], some, shares.copy())


def merged_pair(model, i, j):
    """The mixture whose component i stands for j, too, and what that loses.

    It is the one of least divergence from the two, as in `combine_estimators`; the loss is
    w_i KL(i || both) + w_j KL(j || both), in nats per row.
    """
    family, parameters, weights = model.family, model.parameters, model.weights
    kept, moved = weights.copy(), np.zeros(len(weights))
    kept[j], moved[i] = 0.0, weights[j]
    order = np.arange(len(weights))
    order[i] = j
    twins = take(parameters, order)
    both = family.own_statistics(parameters, kept) + family.own_statistics(twins, moved)
    new = family.m_step(both, parameters)
    loss = weights[i] * family.kl_divergence(parameters, new)[i]
    loss += weights[j] * family.kl_divergence(twins, new)[i]
    return replace(model, weights=kept + moved, parameters=new), loss


def weighted_posterior(model, data):
    """Return responsibilities times weights of rows, float64 of shape (n_rows, K)."""
    shares = model.posterior(data).astype(np.float64)
    return shares if data.sample_weight is None else shares * data.sample_weight[:, None]


def _split(model, k, empty, data, shares):
    """The mixture in which a component has left the rows beyond its middle to an empty one.

    The cut is across the first axis of its rows, whatever the units of the features. `shares` are
    those of the components, which it changes.
    """
    beyond = along_first_axis(data.X, shares[:, k], units_of(model.family, data.X)) > 0.0
    shares[beyond, empty], shares[beyond, k] = shares[beyond, k], 0.0
    statistics = model.family.expected_statistics(data.X, np.ascontiguousarray(shares, data.dtype))
    parameters = model.family.m_step(statistics, model.parameters)
    weights = model.weights.copy()
    weights[[k, empty]] = weights[k] * shares_of_halves(shares[:, k].sum(), shares[:, empty].sum())
    return replace(model, weights=weights, parameters=parameters)


def shares_of_halves(kept, left):
    """Shares of the two; equal where there is too little to tell."""
    total = kept + left
    return np.array([kept, left]) / total if kept > 0.0 < left else np.array([0.5, 0.5])


def units_of(family, X):
    """Units of the features: their standard deviations, or that of counts, which is one."""
    if family.takes_sparse or sparse.issparse(X):
        return np.ones(X.shape[1])
    units = X.std(axis=0, dtype=np.float64)
    return np.where(units > 0.0, units, 1.0)


def along_first_axis(X, weight, units):
    """Coordinates of weighted rows on their first principal axis, about the mean."""
    weight = weight / weight.sum() if weight.sum() > 0.0 else np.full(len(weight), 1 / len(weight))
    mean = X.T @ weight
    axis = np.linspace(1.0, 2.0, X.shape[1]) / units
    for _ in range(_AXIS_STEPS):
        along = X @ axis - mean @ axis
        axis = (X.T @ (weight * along) - mean * (weight @ along)) / units
        axis /= (np.linalg.norm(axis) or 1.0) * units
    return X @ axis - mean @ axis
