"""Split and merge steps of mixtures, in batches and in streams."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations, islice

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from sklearn_onlineem._kernels._responsibilities import normalise
from sklearn_onlineem._values import components, take, with_components
from sklearn_onlineem.families._e_step import NOTHING, per_row
from sklearn_onlineem.families.capabilities import n_shared_parameters
from sklearn_onlineem.models.capabilities import SplitMergeStep
from sklearn_onlineem.statistics import combine

# Most rows used to cut a component in two.
_SPLIT_ROWS = 10_000
# Most features for which a first axis is that of a covariance; beyond, and for sparse rows, steps
# of power iteration are faster, and their precision is enough.
_MOST_FEATURES, _AXIS_STEPS = 64, 30


def split_merge_steps(model, data, n_merges, prior=None):
    """Return an iterator of mixtures: with the cheapest merges first, then all splits."""
    # A merged component has weight 0; a split needs such an empty component, and rows with
    # distances between them.
    check_split_merge(prior, data)
    return _candidates(model, data, n_merges)


def has_labels(data):
    """Return whether the component of any row is known."""
    return data.labels is not None and (data.labels >= 0).any()


def check_split_merge(prior, data=None, fixed=False):
    """Raise ValueError if data or a prior determine the number of components, or which is which."""
    if data is not None and has_labels(data):
        raise ValueError(
            "labels must be None: components with labelled rows cannot be merged or split."
        )
    if prior is None:
        return
    if not fixed and (prior.counts > 0.0).any():
        raise ValueError(
            "solver=SplitMerge() leaves components without weight, to which a"
            " weight_concentration_prior above 1 gives some. Take None, or at most 1."
        )
    if fixed and (prior.counts < 0.0).any():
        raise ValueError(
            "solver=SplitMerge(n_components='fixed') keeps components, of which a"
            " weight_concentration_prior below 1 removes some. Take None, or at least 1."
        )


def _candidates(model, data, n_merges):
    active, empty = np.flatnonzero(model.weights > 0), np.flatnonzero(model.weights == 0)
    costs = {pair: merged_pair(model, *pair)[1] for pair in combinations(active, 2)}
    for pair in islice(sorted(costs, key=costs.get), n_merges):
        yield merged_pair(model, *pair)[0]
    if len(empty) and not model.family.is_nominal:
        some = data[:: -(-len(data) // _SPLIT_ROWS)]
        shares = weighted_posterior(model, some)
        for k in active:
            yield _split(model, k, empty[0], some, shares.copy())


def merged_pair(model, i, j):
    """Return the mixture of least divergence with component j merged into i, and the loss."""
    # The loss is w_i KL(i || both) + w_j KL(j || both), in nats per row.
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
    return _weighted(model.posterior(data), data)


def _weighted(posterior, data):
    shares = posterior.astype(np.float64)
    return shares if data.sample_weight is None else shares * data.sample_weight[:, None]


def _split(model, k, empty, data, shares):
    """Return the mixture in which component k leaves half of its rows to an empty one."""
    # The cut is across the first principal axis of its rows, in the units of the features. `shares`
    # of the components change in place.
    beyond = along_first_axis(data.X, shares[:, k], units_of(model.family, data.X)) > 0.0
    shares[beyond, empty], shares[beyond, k] = shares[beyond, k], 0.0
    statistics = model.family.expected_statistics(data.X, np.ascontiguousarray(shares, data.dtype))
    parameters = model.family.m_step(statistics, model.parameters)
    weights = model.weights.copy()
    weights[[k, empty]] = weights[k] * shares_of_halves(shares[:, k].sum(), shares[:, empty].sum())
    return replace(model, weights=weights, parameters=parameters)


def shares_of_halves(kept, left):
    """Return the shares of two halves; equal if there is too little evidence."""
    total = kept + left
    return np.array([kept, left]) / total if kept > 0.0 < left else np.array([0.5, 0.5])


def units_of(family, X):
    """Return units of the features: their standard deviations, or that of counts, which is one."""
    if family.takes_sparse or sparse.issparse(X):
        return np.ones(X.shape[1])
    units = X.std(axis=0, dtype=np.float64)
    return np.where(units > 0.0, units, 1.0)


def along_first_axis(X, weight, units):
    """Return coordinates of weighted rows on their first principal axis, about the mean."""
    weight = weight / weight.sum() if weight.sum() > 0.0 else np.full(len(weight), 1 / len(weight))
    mean = X.T @ weight
    if not sparse.issparse(X) and X.shape[1] <= _MOST_FEATURES:
        scaled, d = (X - mean) / units, X.shape[1]
        # The last eigenvector alone, in a fifth of the time that all take.
        squares = scaled.T @ (scaled * weight[:, None])
        axis = lapack.dsyevr(squares, range="I", il=d, iu=d)[1][:, 0]
        # Its sign, which says which half is which, is no matter of the build of LAPACK.
        return scaled @ (axis * np.copysign(1.0, axis[np.abs(axis).argmax()]))
    axis = np.linspace(1.0, 2.0, X.shape[1]) / units
    for _ in range(_AXIS_STEPS):
        along = X @ axis - mean @ axis
        axis = (X.T @ (weight * along) - mean * (weight @ along)) / units
        axis /= (np.linalg.norm(axis) or 1.0) * units
    return X @ axis - mean @ axis


# A component with less than this fraction of 1/K is nearly empty.
EMPTY_SHARE = 0.2
# Empty components of which the least needed one is taken, the lightest ones.
_MOST_EMPTY = 8
# Rows used; components tried, the largest ones; passes of EM for halves, and their tolerance in
# nats per row.
_MOST_ROWS, _MOST_TRIED, _SETTLING_PASSES, _SETTLED = 500, 2, 20, 1e-3
# The other rows of the batch must be this many times likelier under the new model. Under the old
# one that happens at most once in as many tries (Markov's inequality).
LOG_ODDS = math.log(1e6)
# What a row loses without its component, at most, in nats.
_MOST_LOST = 100.0


def emptied(weights):
    """Return which components have little weight, but some: an array of booleans."""
    alive = weights > 0.0
    n_alive = np.count_nonzero(alive)
    return alive & (weights < (EMPTY_SHARE / n_alive if n_alive > 1 else 0.0))


def reinitialised(model, data):
    """Return the step that reinitialises an empty component as half of another, or None."""
    weights, empty = model.weights, np.flatnonzero(emptied(model.weights))
    if not len(empty) or (halves := _halves_of(model.family, data)) is None:
        return None
    lightest = empty[np.argsort(weights[empty], kind="stable")[:_MOST_EMPTY]]
    losses = [_loss_without(model, k) for k in lightest]
    least = np.argmin(weights[lightest] * losses)
    target, without = int(lightest[least]), losses[least]
    halving, gain = _likelier_halving(model, target, *halves)
    if halving is None:
        return None
    k, (known, unknown) = halving.k, halves
    posterior = weighted_posterior(model, known)
    halved = weights.copy()
    halved[[k, target]] = 0.5 * (weights[k] + weights[target])
    own = posterior[:, [k]]
    latest = _relearnt(model, halved, [target], known, own, halved[target] / own.sum())
    new, gain_of_one = latest, _gain(model.e_step(unknown)[1], latest, unknown)
    # The share of what the model remembers that is not among the latest rows. Much of it may be
    # needed again, and then the other half has to keep what it knows.
    absent = np.maximum(weights - posterior.sum(axis=0) / posterior.sum(), 0.0).sum()
    are_two = (gain - gain_of_one) * unknown.total_weight > LOG_ODDS
    twins = take(latest.parameters, np.full(len(weights), target))
    if are_two and absent < EMPTY_SHARE:
        # The latest rows are of two clusters. The halves are learnt from them alone, so the other
        # component must hardly remember other rows; the share of these is the least that makes it
        # as unlike the latest ones, if they are as unlike as the rows of another component.
        share = model.family.kl_divergence(model.parameters, twins)[k] / _MOST_LOST
        if share * weights[k] > EMPTY_SHARE / model.n_active:
            return None
        new, gain_of_one, without = halving.model, gain, min(without, _MOST_LOST)
    if absent - weights[target] > EMPTY_SHARE / model.n_active:
        # Then k, too, may remember other rows, which gain nothing. If it had the density of all its
        # rows, and a share a of them were like the latest ones, these would diverge from it by
        # log(1/a) at most.
        gain_of_one *= math.exp(-model.family.kl_divergence(twins, model.parameters)[k])
    # If the source has stayed, the rows of the empty one lose less than all others gain.
    if not gain_of_one * weights[k] > without * weights[target]:
        return None
    return SplitMergeStep(new, target, int(k))


def _loss_without(model, k):
    """Return what a row of component k loses without it, in nats."""
    twins = take(model.parameters, np.full(len(model.weights), k))
    losses = model.family.kl_divergence(twins, model.parameters)
    return losses[(model.weights > 0.0) & (np.arange(len(losses)) != k)].min()


def _relearnt(model, weights, which, data, shares, row_weight):
    """Return the mixture with these weights, and some components learnt from shares of rows."""
    family, kept = model.family, weights.copy()
    responsibilities = np.zeros((len(data), len(weights)), data.dtype)
    kept[which], responsibilities[:, which] = 0.0, shares
    evidence = family.expected_statistics(data.X, responsibilities)
    others = family.own_statistics(model.parameters, kept)
    parameters = family.m_step(combine([(1.0, others), (row_weight, evidence)]), model.parameters)
    return replace(model, weights=weights, parameters=parameters)


def _halves_of(family, data):
    """Return some rows from which components are learnt and as many others, or None."""
    # The others must be a million times likelier with what was learnt.
    if family.is_nominal or len(data) < 4 or has_labels(data):
        return None
    every = 2 * -(-len(data) // _MOST_ROWS)
    known, unknown = (data[start::every] for start in (0, every // 2))
    return (known, unknown) if known.total_weight > 0.0 < unknown.total_weight else None


def _likelier_halving(model, target, known, unknown):
    """Return the settled split of a component into the target that is likelier, and its gain.

    The gain is in nats per row. If there is no such split, return None and 0.
    """
    log_likelihoods = np.empty(len(known))
    posterior = model.posterior(known, log_likelihoods)
    shares, units = _weighted(posterior, known), units_of(model.family, known.X)
    cuts = [
        (k, shares[:, k, None] * np.column_stack([~beyond, beyond]))
        for k in _heaviest(shares, target)
        for beyond in _cuts(known.X, shares[:, k], units)
    ]
    if not cuts:
        return None, 0.0
    if n_shared_parameters(model.family, model.parameters) > 0:
        trials = [_Halving(model, k, target, known).refitted(halves) for k, halves in cuts]
        halving = max(trials, key=_Halving.log_likelihood)
    else:
        halving = _likeliest(model, target, known, posterior, log_likelihoods, cuts)
    # Hardly ever are halves far likelier for the other rows once they are settled, if they are not
    # likelier before.
    before = model.e_step(unknown)[1]
    if not halving.model.e_step(unknown)[1] > before:
        return None, 0.0
    halving = halving.settled()
    gain = _gain(before, halving.model, unknown)
    return (halving, gain) if gain > 0.0 else (None, 0.0)


def _likeliest(model, target, data, posterior, log_likelihoods, cuts):
    """Return the `_Halving` that fits best, of cuts (k, shares of the halves), all learnt at once.

    The other components do not change, so that their share of the density is known.
    """
    family, n = model.family, len(model.weights)
    halves = np.concatenate([halves for _, halves in cuts], axis=1)
    evidence = family.expected_statistics(data.X, np.ascontiguousarray(halves, data.dtype))
    index = np.array([component for k, _ in cuts for component in (k, target)])
    learnt = family.m_step(
        evidence.scale(1.0 / data.total_weight), components(model.parameters, index, n)
    )
    log_density, counts = family.log_density(learnt, data.X), halves.sum(axis=0)
    log_joint, best = np.empty((len(data), 3)), None
    for number, (k, _) in enumerate(cuts):
        pair, others = slice(2 * number, 2 * number + 2), np.ones(n)
        others[[k, target]] = 0.0
        shares = (model.weights[k] + model.weights[target]) * shares_of_halves(*counts[pair])
        with np.errstate(divide="ignore"):
            log_joint[:, 0] = np.log(posterior @ others) + log_likelihoods
            log_joint[:, 1:] = log_density[:, pair] + np.log(shares)
        value = normalise(log_joint, *per_row(data), NOTHING, NOTHING)
        if best is None or value > best[0]:
            best = value, k, pair, shares
    _, k, pair, shares = best
    weights, both = model.weights.copy(), [k, target]
    weights[both] = shares
    own = components(learnt, pair, len(index))
    parameters = with_components(model.parameters, both, own, n)
    new = replace(model, weights=weights, parameters=parameters)
    return _Halving(new, k, target, data)


def _heaviest(shares, target):
    """Return the components that have most of the rows, without the target."""
    totals = shares.sum(axis=0)
    heaviest = [k for k in np.argsort(-totals, kind="stable") if k != target and totals[k] > 0.0]
    return heaviest[:_MOST_TRIED]


def _gain(before, new, unknown):
    """Return the gain of a new model in nats per row, 0 unless it is far likelier."""
    gain = new.e_step(unknown)[1] - before
    return gain if gain * unknown.total_weight > LOG_ODDS else 0.0


def _cuts(X, weight, units):
    """Return masks of rows beyond the middle of the first axis, and of the flattest feature."""
    # Clusters in one component are apart on the first axis if its features are correlated; else one
    # feature has two modes, and so a low kurtosis.
    yield along_first_axis(X, weight, units) > 0.0
    if not sparse.issparse(X):
        weight = weight / weight.sum()
        centred = X - weight @ X
        greatest = np.abs(centred).max(axis=0)
        squares = (centred / np.where(greatest > 0.0, greatest, 1.0)) ** 2
        variances, fourth = weight @ squares, weight @ (squares * squares)
        kurtosis = np.divide(
            fourth, variances**2, out=np.full(len(fourth), np.inf), where=variances > 0.0
        )
        yield centred[:, np.argmin(kurtosis)] > 0.0


@dataclass(frozen=True)
class _Halving:
    """A mixture in which component k leaves rows to a target; the others do not change."""

    model: object
    k: int
    target: int
    data: object

    def refitted(self, shares):
        """Return the same, both components refitted to the rows by shares of these, (n, 2)."""
        both, weights = [self.k, self.target], self.model.weights.copy()
        weights[both] = weights[both].sum() * shares_of_halves(*shares.sum(axis=0))
        row_weight = 1.0 / self.data.total_weight
        new = _relearnt(self.model, weights, both, self.data, shares, row_weight)
        return replace(self, model=new)

    def log_likelihood(self):
        return self.model.e_step(self.data)[1]

    def settled(self):
        """Return the same after passes of EM for the two."""
        halving, log_likelihood = self, self.log_likelihood()
        for _ in range(_SETTLING_PASSES):
            shares, before = weighted_posterior(halving.model, self.data), log_likelihood
            halving = halving.refitted(shares[:, [self.k, self.target]])
            log_likelihood = halving.log_likelihood()
            if not log_likelihood - before > _SETTLED:
                break
        return halving
