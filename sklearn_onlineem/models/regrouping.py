"""Split and merge steps that keep the number of components: two are merged, another one is split.

Each component is split by a few steps of EM on its own rows, and similar pairs are merged. The
triples that promise most are tried by EM of the three components and of those that overlap them
most, on their own rows. What a triple gains there, with all other components as they are, is a
lower bound of what it gains in the whole mixture. All of this is done on a sample of the rows.
"""

import math
from itertools import combinations

import numpy as np
from scipy import sparse

from sklearn_onlineem._errors import ours
from sklearn_onlineem._values import components, with_components
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families.capabilities import n_shared_parameters
from sklearn_onlineem.models._model import divergences
from sklearn_onlineem.models.split_merge import along_first_axis, units_of
from sklearn_onlineem.statistics import combine

# Least gain of a trial: in nats per row, and in nats for each parameter of a component.
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
# Components of a trial: the triple, and those that overlap it most.
_NEIGHBOURHOOD = 8
# Steps of EM for each cut of a component, for the better cut, and for components as they are.
_CUT_STEPS, _SPLIT_STEPS, _OLD_STEPS = 3, 4, 3
# Steps of EM for trials in each stage, and the share of the trials that are left after it.
_STAGES = ((4, 1 / 2), (4, 1 / 3), (12, 1 / 3))
# Last steps of EM, on all rows of the sample, which also shows the gain on rows not used before.
_LAST_STEPS = 3
# EM ends when a step gains less than so many nats per row of the sample.
_SETTLED = 1e-4
# Numbers in a block of log densities.
_BLOCK_VALUES = 1 << 18


def regrouped(model, data, rng, prior=()):
    """Return a mixture with as many components that should be likelier, or None.

    `prior` has terms of an M-step. All triples are taken that gain enough on some of the rows, and
    at all on all rows of the sample, if their trials have no component in common. That the
    likelihood of all data is higher has to be checked, some passes of EM later.
    """
    if model.n_components < 3:
        return None
    n_parameters = model.family.n_parameters(model.parameters)
    rows = _some(data, max(_ROWS, _ROWS_PER_PARAMETER * n_parameters), rng)
    if not rows.total_weight > 0.0:
        return None
    rows = model.without_gaps(rows, rng)
    whole = _Whole(model, rows, prior, data.total_weight)
    halves = [_halved(whole, k, rng) for k in range(model.n_components)]
    trials = _trials(whole, halves, *_merges(whole, rng), rng)
    n_trials = len(trials)
    for n_steps, share_left in _STAGES:
        for trial in trials:
            trial.advance(n_steps)
        trials = sorted(trials, key=lambda trial: -trial.gain)[: math.ceil(n_trials * share_left)]
    per_component = n_parameters / model.n_components
    least = max(_LEAST_GAIN, _LEAST_PER_PARAMETER * per_component / data.total_weight)
    trials = [trial for trial in trials if trial.gain > least]
    for trial in trials:
        trial.advance_on_all_rows(_LAST_STEPS)
    taken = set()
    for trial in sorted(trials, key=lambda trial: -trial.gain):
        if trial.gain > 0.0 and taken.isdisjoint(trial.local.index):
            taken.update(trial.local.index)
            model = trial.local.replaced(model, trial.part)
    return model if taken else None


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
        self.shares_parameters = n_shared_parameters(model.family, model.parameters) > 0
        needed = _VALUES_PER_PARAMETER * model.observations_needed(rows) / model.n_components
        self.least_share = needed / n_rows

    def rows_of(self, index, n_most=None, rng=None):
        """Return the rows of some components, by weighted responsibilities, and their share."""
        ends, shares = self.shares.indptr, self.shares
        parts = [slice(ends[k], ends[k + 1]) for k in index]
        share = np.bincount(
            np.concatenate([shares.indices[part] for part in parts]),
            np.concatenate([shares.data[part] for part in parts]),
            len(self.rows),
        )
        own = np.flatnonzero((share > _LEAST_SHARE) & (self.weight > 0.0))
        weight = share[own] * self.weight[own]
        if not len(own):
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
        self._rows, self._shares_parameters = rows, whole.shares_parameters
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
    if not whole.model.weights[k] > 0.0:
        return nothing
    rows, share = whole.rows_of([k], _SPLIT_ROWS, rng)
    if rows is None or len(rows) < 4:
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
    X, weight = rows.X, rows.sample_weight
    if family.is_nominal:
        X = family.sufficient_statistics(X)
    units = units_of(family, X)
    pair = X[rng.choice(len(weight), 2, p=weight / weight.sum())]
    pair = (pair.toarray() if sparse.issparse(pair) else pair).astype(np.float64)
    axis = (pair[0] - pair[1]) / units**2
    return along_first_axis(X, weight, units) > 0.0, X @ axis > pair.mean(axis=0) @ axis


def _merges(whole, rng):
    """Return similar pairs (n, 2), a component for each instead of both, and losses by row."""
    # The loss is the mean of (r_i + r_j) (log(w_i p_i + w_j p_j) - log((w_i + w_j) p_merged)).
    model, rows, n = whole.model, whole.rows, whole.model.n_components
    family, weights = model.family, model.weights
    pairs = np.array(list(combinations(range(n), 2)))
    pairs = pairs[weights[pairs].any(axis=1)]
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
    if whole.shares_parameters:
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
        n, (i, j, k) = len(local.index), np.searchsorted(local.index, triple)
        weights, parameters = local.part.weights.copy(), local.part.parameters
        weights[i] += weights[j]
        weights[[j, k]] = weights[k] * halves.weights
        parameters = with_components(parameters, [i], merged, n)
        parameters = with_components(parameters, [j, k], halves.parameters, n)
        self.part = type(local.part)(local.part.family, weights, parameters)

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
