"""Structural moves of a mixture in a stream: by what one batch says."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy import sparse

from sklearn_onlineem.models.capabilities import Move
from sklearn_onlineem.models.mixture_moves import (
    along_first_axis,
    has_labels,
    merged_pair,
    shares_of_halves,
    units_of,
    weighted_posterior,
)
from sklearn_onlineem.statistics import combine

__all__ = ["restructured", "revived"]

# A component with less than that of its share, 1/K, has starved.
_STARVING_SHARE = 0.2
# Rows that are looked at; components whose halves are tried, those that have most rows; passes
# that settle the halves, and nats per row below which they have settled.
_MOST_ROWS, _MOST_TRIED, _SETTLING_PASSES, _SETTLED = 500, 2, 20, 1e-3
# Rows of a component in a batch that tell what is lost without it.
_TELLING = 2.0
# The old model is given up where other rows of the batch are so many times likelier without it. If
# it were true that would happen once in as many tries (Markov's inequality).
_LOG_ODDS = math.log(1e6)


def revived(model, data):
    """Return the move by which the most starved component comes back as half of another, or None.

    The halves are learnt from every other row, and the others have to be a million times likelier
    with them than with the model as it is.

    Parameters
    ----------
    model : MixtureModel
    data : Rows

    Returns
    -------
    move : Move or None
        None where no component has starved, or the rows do not ask for it, or labels say which
        component is which.
    """
    alive = np.flatnonzero(model.weights > 0.0)
    starved = alive[np.argmin(model.weights[alive])]
    if model.weights[starved] >= _STARVING_SHARE / len(alive) or len(alive) < 2:
        return None
    halving = _likelier_halving(model, starved, data)
    return None if halving is None else Move(halving.model, int(starved), int(halving.k))


def restructured(model, data, n_remembered, n_merges):
    """Return the move of a stream whose number of components is not known, or None.

    Pairs are merged where what it loses, in all rows that the model stands for, is less than half
    the logarithm of their number for each parameter less; where none is, a component without weight
    becomes half of another. Neither makes Schwarz's criterion of the batch fall.

    Parameters
    ----------
    model : MixtureModel
    data : Rows
    n_remembered : float
    n_merges : int
        Most pairs that are looked at, those nearest to each other.

    Returns
    -------
    move : Move or None
        None where the rows ask for none, or labels say which component is which.
    """
    if has_labels(data):
        return None
    n, own = data.total_weight, model.n_parameters() + 1
    price = 0.5 * (own - model.family.n_shared_parameters(model.parameters)) / model.n_survivors
    counts = weighted_posterior(model, data).sum(axis=0)
    merged, log_likelihood = model, model.e_step(data)[1]
    for pair in _nearest_pairs(model, n_merges):
        if merged.weights[pair].all():
            trial, most = merged_pair(merged, *pair)
            after = trial.e_step(data)[1]
            loss = log_likelihood - after
            # Few rows of a component say little of what is lost without it.
            loss_of_all = loss if (counts[pair] > _TELLING).all() else max(loss, most)
            if loss_of_all * n_remembered < price * math.log(n_remembered):
                merged, log_likelihood = trial, after
    if merged is not model:
        return Move(merged, -1, -1)
    empty = np.flatnonzero(model.weights == 0.0)
    if not len(empty):
        return revived(model, data)
    halving = _likelier_halving(model, empty[0], data)
    if halving is None:
        return None
    gain = halving.model.e_step(data)[1] - log_likelihood
    if not gain * n > price * math.log(n):
        return None
    return Move(halving.model, -1, int(halving.k))


def _nearest_pairs(model, n_pairs):
    """Pairs of components, those first whose merging loses least if they hardly differ."""
    weights, alive = model.weights, np.flatnonzero(model.weights > 0.0)
    divergences = model.family.divergences(model.parameters, model.parameters, len(weights))
    pairs = list(combinations(alive, 2))
    i, j = np.array(pairs, dtype=int).reshape(-1, 2).T
    losses = weights[i] * weights[j] / (weights[i] + weights[j])
    losses *= np.minimum(divergences[i, j], divergences[j, i])
    return [list(pairs[n]) for n in np.argsort(losses, kind="stable")[:n_pairs]]


def _likelier_halving(model, target, data):
    """The settled halving by which half of a component becomes the target's, or None.

    Half of the rows know it, and the others are a million times likelier by it.
    """
    if model.family.is_nominal or len(data) < 4 or has_labels(data):
        return None
    every = 2 * -(-len(data) // _MOST_ROWS)
    known, unknown = (data[start::every] for start in (0, every // 2))
    if not known.total_weight > 0.0 < unknown.total_weight:
        return None
    shares = weighted_posterior(model, known)
    totals = shares.sum(axis=0)
    heaviest = [k for k in np.argsort(-totals, kind="stable") if k != target and totals[k] > 0.0]
    trials = [
        _Halving(model, k, target, known).refitted(shares[:, k] * ~beyond, shares[:, k] * beyond)
        for k in heaviest[:_MOST_TRIED]
        for beyond in _cuts(model.family, known.X, shares[:, k])
    ]
    if not trials:
        return None
    best = max(trials, key=_Halving.log_likelihood).settled()
    gain = best.model.e_step(unknown)[1] - model.e_step(unknown)[1]
    return best if gain * unknown.total_weight > _LOG_ODDS else None


def _cuts(family, X, weight):
    """Which rows lie beyond the middle: across the first axis, and across the flattest feature.

    Clusters of one component are apart on the first axis if their features go together, and else
    one of the features has two modes, and so a low kurtosis.
    """
    yield along_first_axis(X, weight, units_of(family, X)) > 0.0
    if not sparse.issparse(X):
        weight = weight / weight.sum()
        centred = X - weight @ X
        greatest = np.abs(centred).max(axis=0)
        scaled = centred / np.where(greatest > 0.0, greatest, 1.0)
        variances, fourth = weight @ scaled**2, weight @ scaled**4
        kurtosis = np.divide(
            fourth, variances**2, out=np.full(len(fourth), np.inf), where=variances > 0.0
        )
        yield centred[:, np.argmin(kurtosis)] > 0.0


@dataclass(frozen=True)
class _Halving:
    """A mixture of which component k leaves rows to a target; the others stay as they are."""

    model: object
    k: int
    target: int
    data: object

    def refitted(self, *shares):
        """The same where the two are what the rows make of them, by their weighted shares."""
        model, both = self.model, [self.k, self.target]
        family, rest, weights = model.family, model.weights.copy(), model.weights.copy()
        rest[both] = 0.0
        weights[both] = weights[both].sum() * shares_of_halves(*(share.sum() for share in shares))
        responsibilities = np.zeros((len(self.data), len(weights)), self.data.dtype)
        responsibilities[:, self.k], responsibilities[:, self.target] = shares
        evidence = family.expected_statistics(self.data.X, responsibilities)
        others = family.own_statistics(model.parameters, rest)
        statistics = combine([(1.0, others), (1.0 / self.data.total_weight, evidence)])
        parameters = family.m_step(statistics, model.parameters)
        return replace(self, model=replace(model, weights=weights, parameters=parameters))

    def log_likelihood(self):
        return self.model.e_step(self.data)[1]

    def settled(self):
        """The same after passes of EM for the two."""
        halving, log_likelihood = self, self.log_likelihood()
        for _ in range(_SETTLING_PASSES):
            shares, before = weighted_posterior(halving.model, self.data), log_likelihood
            halving = halving.refitted(shares[:, self.k], shares[:, self.target])
            log_likelihood = halving.log_likelihood()
            if not log_likelihood - before > _SETTLED:
                break
        return halving
