"""Split and merge steps of mixtures: proposed, learnt locally, and accepted by a criterion.

A component is split by a few steps of EM on its own rows, and similar pairs are merged. In fits,
those steps that promise most are tried by EM of their components and of those that overlap them
most, on their own rows. What a step gains there, with all other components as they are, is a lower
bound of what it gains in the whole mixture. In streams, an empty component takes one of the halves.
All of this is done on a sample of the rows, and others show the gain.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from sklearn_onlineem._python import ours
from sklearn_onlineem._values import components, take, with_components
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.models._model import divergences
from sklearn_onlineem.models.capabilities import SplitMergeStep
from sklearn_onlineem.statistics import combine

# Least gain of a trial that keeps the number of components: in nats per row, and in nats for each
# parameter of a component.
_LEAST_GAIN, _LEAST_PER_PARAMETER = 2e-3, 0.5
# Fewest values for each parameter of a component that a trial makes smaller: the likelihood of very
# few rows may be as high as a floor allows, and says nothing of others.
_VALUES_PER_PARAMETER = 4
# Rows of the sample: so many, or so many for each parameter of the mixture, if that is more. Most
# rows for the losses of merges, for the split of a component, and for a trial.
_ROWS, _ROWS_PER_PARAMETER = 4000, 3
_MERGE_ROWS, _SPLIT_ROWS, _TRIAL_ROWS = 1000, 500, 2000
# Rows with a smaller responsibility of some components are not theirs; smaller ones of a single
# component count as 0.
_LEAST_SHARE, _LEAST_KEPT = 1e-3, 1e-6
# Pairs for each component whose loss is computed; least number of trials, and trials for each
# component; most trials with the same split, or with the same pair.
_PAIRS, _TRIALS, _TRIALS_PER_COMPONENT, _MOST_ALIKE = 2, 10, 0.4, 3
# Components of a trial: its own, and those that overlap them most.
_NEIGHBOURHOOD = 8
# Steps of EM for each cut of a component, for the better cut, and for components as they are.
_CUT_STEPS, _SPLIT_STEPS, _OLD_STEPS = 3, 4, 3
# Steps of EM for what all components share, where two of them are anew.
_SHARING_STEPS = 3
# Steps of EM for trials in each stage, and the share of the trials that are left after it.
_STAGES = ((4, 1 / 2), (4, 1 / 3), (12, 1 / 3))
# Last steps of EM, on all rows of the sample, which also shows the gain on rows not used before.
_LAST_STEPS = 3
# EM ends when a step gains less than so many nats per row of the sample.
_SETTLED = 1e-4
# Numbers in a block of log densities.
_BLOCK_VALUES = 1 << 18
# Most features for which a first axis is that of a covariance; beyond, and for sparse rows, steps
# of power iteration are faster, and their precision is enough.
_MOST_FEATURES, _AXIS_STEPS = 64, 30


def has_labels(data):
    """Return whether the component of any row is known."""
    return data.labels is not None and (data.labels >= 0).any()


# ------------------------------------------------------------------------------------ steps of fits


def split_merge_steps(model, data, rng, prior=(), price=None, n_merges=0):
    """Yield mixtures after split and merge steps that should be better, see `SplitsAndMerges`."""
    if model.n_components < (3 if price is None else 2):
        return
    family, n = model.family, model.n_components
    n_parameters = family.n_parameters(model.parameters)
    rows = _some(data, max(_ROWS, _ROWS_PER_PARAMETER * n_parameters), rng)
    if not rows.total_weight > 0.0:
        return
    rows = model.without_gaps(rows, rng)
    whole = _Whole(model, rows, prior, data.total_weight)
    if price is None:
        halves = [_halved(whole, k, rng) for k in range(n)]
        yield from _after_triples(whole, _trials(whole, halves, *_merges(whole, rng), rng))
        return
    if model.n_active > 1:
        pairs, merged, losses = _merges(whole, rng, np.all)
        for merge in np.argsort(losses, kind="stable")[:n_merges]:
            one = components(merged, slice(merge, merge + 1), len(pairs))
            yield _stepped(model, *pairs[merge], None, one, None)
    empty = np.flatnonzero(model.weights == 0.0)
    if not len(empty):
        return
    least = price * ((n_parameters - whole.n_shared) / n + 1)
    halves = [(*_halved(whole, k, rng), k) for k in range(n)]
    for two, gain, k in sorted(halves, key=lambda one: -one[1]):
        if gain > least:
            yield _stepped(model, None, empty[0], k, None, two)


def _after_triples(whole, trials):
    """Yield the mixture after all steps of triples that gain enough on some rows, if there are any.

    They have to gain at all on all rows of the sample, too, and have no component in common.
    """
    model, n_trials = whole.model, len(trials)
    for n_steps, share_left in _STAGES:
        for trial in trials:
            trial.advance(n_steps)
        trials = sorted(trials, key=lambda trial: -trial.gain)[: math.ceil(n_trials * share_left)]
    per_component = model.family.n_parameters(model.parameters) / model.n_components
    least = max(_LEAST_GAIN, _LEAST_PER_PARAMETER * per_component / whole.n_rows)
    trials = [trial for trial in trials if trial.gain > least]
    for trial in trials:
        trial.advance_on_all_rows(_LAST_STEPS)
    taken = set()
    for trial in sorted(trials, key=lambda trial: -trial.gain):
        if trial.gain > 0.0 and taken.isdisjoint(trial.local.index):
            taken.update(trial.local.index)
            model = trial.local.replaced(model, trial.part)
    if taken:
        yield model


def _some(rows, n_most, rng):
    """Return at most `n_most` rows, drawn without replacement, in order."""
    if len(rows) <= n_most:
        return rows
    return rows[np.sort(rng.choice(len(rows), n_most, replace=False))]


class _Whole:
    """A mixture, a sample of rows, and their responsibilities, CSR (n_components, n_rows)."""

    def __init__(self, model, rows, prior, n_rows):
        self.model, self.rows, self.prior = model, rows, prior
        parts = []
        for start, posterior in model.posterior_blocks(rows, np.empty(len(rows))):
            number, k = np.nonzero(posterior > _LEAST_KEPT)
            parts.append((posterior[number, k].astype(np.float64), k, number + start))
        share, k, number = (np.concatenate(part) for part in zip(*parts, strict=True))
        shape = model.n_components, len(rows)
        self.shares = sparse.coo_array((share, (k, number)), shape).tocsr()
        weight = rows.sample_weight
        self.weight = np.ones(len(rows)) if weight is None else weight
        self.n_shared = model.family.n_shared_parameters(model.parameters)
        needed = _VALUES_PER_PARAMETER * model.observations_needed(rows) / model.n_components
        self.n_rows, self.least_share = n_rows, needed / n_rows

    def rows_of(self, index, n_most=None, rng=None, least=0.0):
        """Return rows of components, by weighted responsibilities, and their share; None if few."""
        ends, shares = self.shares.indptr, self.shares
        parts = [slice(ends[k], ends[k + 1]) for k in index]
        share = np.bincount(
            np.concatenate([shares.indices[part] for part in parts]),
            np.concatenate([shares.data[part] for part in parts]),
            len(self.rows),
        )
        own = np.flatnonzero((share > _LEAST_SHARE) & (self.weight > 0.0))
        weight = share[own] * self.weight[own]
        if not len(own) or self.weight[own].sum() < least:
            return None, 0.0
        rows = Rows.unchecked(self.rows.X[own], weight)
        share = weight.sum() / self.rows.total_weight
        return rows if n_most is None else _some(rows, n_most, rng), share


class _Local:
    """Some components of a mixture, learnt alone from their own rows.

    Values are log-likelihoods of these rows plus the logarithm of the prior, in nats per row.
    """

    def __init__(self, whole, index, rows, share):
        model, n = whole.model, whole.model.n_components
        self.index, self.share, self._n = index, share, n
        self._rows, self._shares_parameters = rows, whole.n_shared > 0
        weights = model.weights[index]
        self.part = type(model)(
            model.family, weights / weights.sum(), components(model.parameters, index, n)
        )
        self._prior = [
            (a / share, type(of_all)(of_all.counts[index], of_all.emissions.components(index, n)))
            for a, of_all in whole.prior
        ]

    def settled(self, part, n_steps):
        """Return components after at most `n_steps` steps of EM, and their value."""
        evidence, value = self._e_step(part)
        for _ in range(n_steps):
            new = self.m_step(part, evidence)
            evidence, new_value = self._e_step(new)
            gain = new_value - value
            if not gain > 0.0:
                break
            part, value = new, new_value
            if gain * self.share < _SETTLED:
                break
        return part, value

    def _e_step(self, part):
        evidence, value = part.e_step(self._rows)
        return evidence, value + sum(a * part.expected_log_likelihood(s) for a, s in self._prior)

    def m_step(self, part, evidence):
        """Return the M-step; parameters that are shared with other components stay."""
        new = part.m_step(combine([(1.0, evidence), *self._prior]))
        if not self._shares_parameters:
            return new
        parameters = part.family.with_shared(new.parameters, part.parameters)
        return type(part)(part.family, new.weights, parameters)

    def replaced(self, model, part):
        """Return the mixture in which these components are replaced."""
        weights = model.weights.copy()
        weights[self.index] = weights[self.index].sum() * part.weights
        parameters = with_components(model.parameters, self.index, part.parameters, self._n)
        return type(model)(model.family, weights, parameters)


def _halved(whole, k, rng):
    """Return a component as a mixture of two, and the gain in nats per row; None if it has none."""
    nothing = None, -np.inf
    rows, share = whole.rows_of([k], _SPLIT_ROWS, rng, least=4.0)
    if rows is None:
        return nothing
    try:
        one, two = (_Local(whole, index, rows, share) for index in ([k], [k, k]))
        before, after, best = one.settled(one.part, 1)[1], -np.inf, None
        for beyond in _cuts(whole.model.family, rows, rng):
            if beyond.any() and not beyond.all():
                cut = Rows.unchecked(rows.X, rows.sample_weight, beyond.astype(np.intc))
                halves = two.m_step(two.part, two.part.e_step(cut)[0])
                halves, value = two.settled(halves, _CUT_STEPS)
                if value > after:
                    best, after = halves, value
        if best is None:
            return nothing
        best, after = two.settled(best, _SPLIT_STEPS)
    except ours(ValueError):
        # Some rows determine no parameters.
        return nothing
    return best, share * (after - before)


def _cuts(family, rows, rng):
    """Return masks of rows beyond the middle of the first axis, and of two rows drawn at random."""
    X, shares = rows.X, rows.sample_weight / rows.sample_weight.sum()
    if family.is_nominal:
        X = family.sufficient_statistics(X)
    units = np.ones(X.shape[1])
    # The unit of counts is one.
    if not (family.takes_sparse or sparse.issparse(X)):
        units = np.sqrt(shares @ (X - shares @ X) ** 2)
        units = np.where(units > 0.0, units, 1.0)
    pair = X[rng.choice(len(shares), 2, p=shares)]
    pair = (pair.toarray() if sparse.issparse(pair) else pair).astype(np.float64)
    axis = (pair[0] - pair[1]) / units**2
    return along_first_axis(X, shares, units) > 0.0, X @ axis > pair.mean(axis=0) @ axis


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


def _merges(whole, rng, weighted=np.any):
    """Return similar pairs (n, 2), a component for each instead of both, and losses by row.

    Any of a pair, or all, must have weight.
    """
    # The loss is the mean of (r_i + r_j) (log(w_i p_i + w_j p_j) - log((w_i + w_j) p_merged)).
    model, rows, n = whole.model, whole.rows, whole.model.n_components
    family, weights = model.family, model.weights
    pairs = np.array(list(combinations(range(n), 2)))
    pairs = pairs[weighted(weights[pairs], axis=1)]
    i, j = pairs.T
    between = divergences(model, model)
    distance = weights[i] * weights[j] / (weights[i] + weights[j])
    distance *= np.minimum(between[i, j], between[j, i])
    pairs = pairs[np.argsort(distance, kind="stable")[: _PAIRS * n]]
    i, j = pairs.T
    total = weights[i] + weights[j]
    of_i, of_j = (components(model.parameters, index, n) for index in (i, j))
    both = family.own_statistics(of_i, weights[i] / total)
    merged = family.m_step(both + family.own_statistics(of_j, weights[j] / total), of_i)
    if whole.n_shared > 0:
        merged = family.with_shared(merged, of_i)
    some = np.arange(len(rows))
    if len(rows) > _MERGE_ROWS:
        some = np.sort(rng.choice(len(rows), _MERGE_ROWS, replace=False))
    rows, weight, losses = rows[some], whole.weight[some], np.empty(len(pairs))
    log_likelihood = np.empty(len(rows))
    posterior = model.posterior(rows, log_likelihood).T.astype(np.float64)
    for start in range(0, len(pairs), _BLOCK_VALUES // len(rows)):
        own = slice(start, start + _BLOCK_VALUES // len(rows))
        log_merged = family.log_density(components(merged, own, len(pairs)), rows.X)
        shares = posterior[i[own]] + posterior[j[own]]
        log_both = log_likelihood + np.log(np.maximum(shares, 1e-300))
        log_merged = log_merged.T.astype(np.float64) + np.log(total[own])[:, None]
        losses[own] = (shares * (log_both - log_merged)) @ weight
    return pairs, merged, losses / weight.sum() if weight.any() else losses


class _Trial:
    """A triple and its neighbours: two components are merged, and another one is split."""

    def __init__(self, whole, local, before, triple, merged, halves):
        self._whole, self.local, self._before, self.gain = whole, local, before, -np.inf
        self.part = _stepped(local.part, *np.searchsorted(local.index, triple), merged, halves)

    def advance(self, n_steps):
        """Take at most `n_steps` steps of EM."""
        try:
            self.part, value = self.local.settled(self.part, n_steps)
        except ours(ValueError):
            value = -np.inf
        local = self.local
        before, after = (local.share * part.weights for part in (local.part, self.part))
        is_small = (after < before) & (after < self._whole.least_share)
        gain = local.share * (value - self._before)
        self.gain = gain if gain < np.inf and not is_small.any() else -np.inf

    def advance_on_all_rows(self, n_steps):
        """Take steps of EM, and compute the gain, on all rows of the sample."""
        index = self.local.index
        self.local = _Local(self._whole, index, *self._whole.rows_of(index))
        self._before = self.local.settled(self.local.part, 0)[1]
        self.advance(n_steps)


def _stepped(model, i, j, k, merged, halves):
    """Return the mixture in which i is `merged` from i and j, and j and k are halves of k."""
    n, weights, parameters = model.n_components, model.weights.copy(), model.parameters
    if merged is not None:
        weights[i], weights[j] = weights[i] + weights[j], 0.0
        parameters = with_components(parameters, [i], merged, n)
    if halves is not None:
        weights[[j, k]] = (weights[j] + weights[k]) * halves.weights
        parameters = with_components(parameters, [j, k], halves.parameters, n)
    return type(model)(model.family, weights, parameters)


def _trials(whole, halves, pairs, merged, losses, rng):
    """Return trials of the triples with the largest gains of splits less losses of merges."""
    n = whole.model.n_components
    n_trials = max(_TRIALS, int(_TRIALS_PER_COMPONENT * n))
    gains = np.array([gain for _, gain in halves])
    splits = np.argsort(-gains, kind="stable")[: 2 * n_trials]
    merges = np.argsort(losses, kind="stable")[: 4 * n_trials]
    promise = gains[splits][:, None] - losses[merges]
    promise[(pairs[merges] == splits[:, None, None]).any(axis=2)] = -np.inf
    overlap = (whole.shares.multiply(whole.weight).tocsr() @ whole.shares.T).toarray()
    used_splits, used_merges, locals_, trials = np.zeros(n), np.zeros(len(pairs)), {}, []
    for place in np.argsort(-promise, axis=None, kind="stable"):
        row, column = np.unravel_index(place, promise.shape)
        if len(trials) == n_trials or not promise[row, column] > -np.inf:
            break
        k, merge = splits[row], merges[column]
        if used_splits[k] == _MOST_ALIKE or used_merges[merge] == _MOST_ALIKE:
            continue
        used_splits[k] += 1
        used_merges[merge] += 1
        triple = np.array([*pairs[merge], k])
        nearness = overlap[triple].sum(axis=0)
        nearness[triple] = np.inf
        index = np.sort(np.argsort(-nearness, kind="stable")[:_NEIGHBOURHOOD])
        key = tuple(index)
        if key not in locals_:
            local = _Local(whole, index, *whole.rows_of(index, _TRIAL_ROWS, rng))
            locals_[key] = local, local.settled(local.part, _OLD_STEPS)[1]
        one = components(merged, slice(merge, merge + 1), len(pairs))
        trials.append(_Trial(whole, *locals_[key], triple, one, halves[k][0]))
    return trials


# --------------------------------------------------------------------------------- steps of streams

# A component with less than this fraction of 1/K is nearly empty.
EMPTY_SHARE = 0.2
# Empty components of which the least needed one is taken, the lightest ones; components tried, the
# largest ones; most rows used.
_MOST_EMPTY, _MOST_TRIED, _MOST_ROWS = 8, 2, 500
# The judges must be this many times likelier under the new model. Under the old one that happens at
# most once in as many tries (Markov's inequality).
LOG_ODDS = math.log(1e6)
# A row loses at most so many nats without its component.
_MOST_LOST = 100.0


def emptied(weights):
    """Return which components have little weight, but some: an array of booleans."""
    alive = weights > 0.0
    n_alive = np.count_nonzero(alive)
    return alive & (weights < (EMPTY_SHARE / n_alive if n_alive > 1 else 0.0))


def learners_and_judges(data, n_most):
    """Return some observations to learn from and as many others, or None if there are too few."""
    every = 2 * -(-len(data) // n_most)
    both = [data[start::every] for start in (0, every // 2)]
    return both if all(len(some) and some.total_weight > 0.0 for some in both) else None


def gain_of(new, old, judges):
    """Return the gain of a new model in nats per observation, 0 unless it is far likelier."""
    gain = new.e_step(judges)[1] - old.e_step(judges)[1]
    return gain if gain * judges.total_weight > LOG_ODDS else 0.0


def reinitialised(model, data):
    """Return the step that reinitialises an empty component as half of another, or None."""
    family, weights, n = model.family, model.weights, model.n_components
    empty = np.flatnonzero(emptied(weights))
    if not len(empty) or family.is_nominal or len(data) < 4 or has_labels(data):
        return None
    if (parts := learners_and_judges(data, _MOST_ROWS)) is None:
        return None
    learners, judges = parts
    lightest = empty[np.argsort(weights[empty], kind="stable")[:_MOST_EMPTY]]
    losses = [_loss_without(model, k) for k in lightest]
    least = np.argmin(weights[lightest] * losses)
    target, without = int(lightest[least]), losses[least]
    # The same rows have the same draws.
    whole, rng = _Whole(model, learners, (), learners.total_weight), np.random.default_rng(0)
    shares = whole.shares @ whole.weight / learners.total_weight
    largest = [int(k) for k in np.argsort(-shares, kind="stable") if k != target][:_MOST_TRIED]
    tried = [(*_halved(whole, k, rng), k) for k in largest]
    halves, _, k = max(tried, key=lambda one: one[1])
    if halves is None:
        return None
    old, new = (
        _sharing(m, learners) for m in (model, _stepped(model, None, target, k, None, halves))
    )
    if not (gain := gain_of(new, old, judges)) > 0.0:
        return None
    # Component k stays as it is, and the other half is learnt from all of its rows.
    one = _Local(whole, [k], *whole.rows_of([k]))
    learnt = one.settled(one.part, 1)[0].parameters
    both, halved = [k, target], weights.copy()
    halved[both] = 0.5 * weights[both].sum()
    latest = type(model)(family, halved, with_components(model.parameters, [target], learnt, n))
    latest = _sharing(latest, learners)
    gain_of_one = gain_of(latest, old, judges)
    # The share of what the model remembers that is not among the latest rows. Much of it may be
    # needed again, and then the other half has to keep what it knows.
    absent = np.maximum(weights - shares, 0.0).sum()
    are_two = (gain - gain_of_one) * judges.total_weight > LOG_ODDS
    twins = take(latest.parameters, np.full(n, target))
    if are_two and absent < EMPTY_SHARE:
        # The latest rows are of two clusters. The halves are learnt from them alone, so the other
        # component must hardly remember other rows; the share of these is the least that makes it
        # as unlike the latest ones, if they are as unlike as the rows of another component.
        share = family.kl_divergence(model.parameters, twins)[k] / _MOST_LOST
        if share * weights[k] > EMPTY_SHARE / model.n_active:
            return None
        latest, gain_of_one, without = new, gain, min(without, _MOST_LOST)
    if absent - weights[target] > EMPTY_SHARE / model.n_active:
        # Then k, too, may remember other rows, which gain nothing. If it had the density of all its
        # rows, and a share a of them were like the latest ones, these would diverge from it by
        # log(1/a) at most.
        gain_of_one *= math.exp(-family.kl_divergence(twins, model.parameters)[k])
    # If the source has stayed, the rows of the empty one lose less than all others gain.
    if not gain_of_one * weights[k] > without * weights[target]:
        return None
    return SplitMergeStep(latest, target, k)


def _sharing(model, rows):
    """Return the mixture with what components share learnt from rows, such as one covariance."""
    if model.family.n_shared_parameters(model.parameters) == 0:
        return model
    n = model.n_components
    for _ in range(_SHARING_STEPS):
        learnt = model.m_step(model.e_step(rows)[0]).parameters
        parameters = with_components(learnt, list(range(n)), model.parameters, n)
        model = type(model)(model.family, model.weights, parameters)
    return model


def _loss_without(model, k):
    """Return what a row of component k loses without it, in nats."""
    twins = take(model.parameters, np.full(len(model.weights), k))
    losses = model.family.kl_divergence(twins, model.parameters)
    return losses[(model.weights > 0.0) & (np.arange(len(losses)) != k)].min()
