"""E-steps of mixtures with many components, of which each row has a few."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sklearn_onlineem._typing import FloatsOrSparse, Integers
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import Family
from sklearn_onlineem.families.capabilities import Means
from sklearn_onlineem.models._model import Model
from sklearn_onlineem.models.nearest_points import NearestPoints, largest
from sklearn_onlineem.statistics import Statistics, combine

__all__ = ["Neighbourhoods", "SparseEStep", "TruncatedEStep", "has_means"]

# Most responsibilities of a chunk of rows.
_CHUNK_VALUES = 1 << 21
# Rows by which a group judges components, and those whose own lists it looks at; random ones
# beside.
_JUDGES, _NEIGHBOURS, _RANDOM = 8, 12, 4
# Rows of a fit by which components are near each other, and those of them that determine the
# coordinates of means; how many times as many components with near means are compared.
_ROWS, _COORDINATE_ROWS, _WIDER = 1 << 12, 1 << 10, 3
# A search that gains less, in nats per row, is followed by twice as many passes without one.
_LEAST_GAIN, _MOST_PASSES = 1e-3, 16
# Sparse passes after one of all components, and those of them that see what that one has gained.
# Where candidates have a smaller share of the rows at first, many more passes would be needed.
_SPARSE_PASSES, _FRESH, _LEAST_SHARE = 16, 3, 0.98
# Rows of a group, and how many times as many candidates their home has.
_GROUP_ROWS, _OF_HOME = 16, 3


class TruncatedEStep:
    r"""E-steps of one mixture after another over the same rows, each with a few components.

    A row has a home, the component that is likeliest for it, and the candidates of its home, which
    are the components that matter for the rows there. Responsibilities of all others are 0, so

    .. math:: \sum_n \log \sum_{k \in C(\text{home}_n)} w_k \, p(x_n \mid \theta_k)

    bounds the log-likelihood from below. Homes and candidates change only in `renewed`, where that
    raises the bound, so it never falls in passes of EM. New candidates are sought among those of
    the nearest homes and a few random ones, and are judged by some rows of each home.

    Parameters
    ----------
    model : MixtureModel
        The first mixture, by which rows find their homes.
    data : Rows
        Without missing values and labels, else a ValueError.
    n_candidates : int
        Components of each row, at least 1.
    rng : numpy.random.Generator
        Draws the rows that judge, and random components.
    """

    def __init__(self, model, data, n_candidates, rng):
        if data.has_gaps or data.labels is not None:
            what = "missing values" if data.has_gaps else "known components"
            raise ValueError(f"a truncated E-step needs rows without {what}.")
        if not model.family.is_conjugate:
            raise ValueError(
                "a truncated E-step needs statistics of fixed size, which"
                f" {type(model.family).__name__} does not have."
            )
        self._rng, self._n_passes, self._next_search = rng, 0, 1
        self._data, self._pause, self._like = data, 1, model.own_statistics()
        self._weight = np.ones(len(data)) if data.sample_weight is None else data.sample_weight
        self._share, self._part = 1.0 / data.total_weight, None
        self._homes, self._lists = self._first(model, min(n_candidates, model.n_components))

    def e_step(self, model: Model) -> tuple[Statistics, float]:
        """Return the expected statistics and the bound, weighted averages per observation.

        Parameters
        ----------
        model : MixtureModel
            With as many components of the same family as the first one.
        """
        share, terms, bound = self._share, [], 0.0
        every = self._data, self._weight, self._homes, self._lists
        rows, weight, groups, lists = self._part or every
        for chosen, found in _in_groups(model, rows, groups, lists, True):
            (counts, emissions), log_likelihoods, _ = found
            bound += log_likelihoods @ weight[chosen]
            terms.append((share, replace(self._like, counts=counts, emissions=emissions)))
        return combine(terms), share * bound

    def renewed(self, model: Model, may_be_last: bool = False) -> bool:
        """Look for better candidates now and then; return whether there are new ones.

        That is done in any case after what may be the last pass, and they must then gain enough.
        """
        self._n_passes += 1
        is_due = may_be_last or self._n_passes == self._next_search
        if not is_due or self._lists.shape[1] == model.n_components:
            return False
        gain = self._search(model)
        self._pause = 1 if gain > _LEAST_GAIN else min(2 * self._pause, _MOST_PASSES)
        self._next_search = self._n_passes + self._pause
        return gain > (_LEAST_GAIN if may_be_last else 0.0)

    def _first(self, model, n_candidates):
        """Return homes of rows and candidates of homes, by the nearest means if there are any."""
        if has_means(model.family):
            some = self._rng.permutation(len(self._data))[:_ROWS]
            near = Neighbourhoods.of(model, n_candidates, self._data[some])
            return near.homes(model.family, self._data.X), near.lists
        homes = self._likeliest(model, self._data.X, 1)[:, 0]
        first = np.zeros(model.n_components, dtype=np.intp)
        first[homes] = np.arange(len(homes))
        return homes, _with_own(self._likeliest(model, self._data.X[first], n_candidates))

    def _likeliest(self, model, X, n_largest):
        """Return the components with the largest densities for each row, the largest first."""
        out = np.empty((X.shape[0], n_largest), dtype=np.intp)
        step = max(1, _CHUNK_VALUES // model.n_components)
        for start in range(0, len(out), step):
            rows = X[start : start + step]
            values = model.family.log_density(model.parameters, rows, self._data.n_threads)
            out[start : start + step] = largest(values + model.log_weights, n_largest)
        return out

    def _proposed(self, model):
        """Return new lists, the components with the largest shares of some rows first."""
        lists, (K, n_candidates) = self._lists, self._lists.shape
        near = lists[lists[:, :_NEIGHBOURS]].reshape(K, -1)
        random = self._rng.integers(K, size=(K, _RANDOM))
        known = _distinct(np.concatenate([lists, near, random], axis=1))
        order = self._rng.permutation(len(self._homes))
        order = order[np.argsort(self._homes[order], kind="stable")]
        homes = self._homes[order]
        judges = order[np.arange(len(order)) - np.searchsorted(homes, homes) < _JUDGES]
        scores = _shares(model, self._data[judges], self._homes[judges], known)
        # Shares may be 0: those before stay.
        scores[_are_in(known, lists)] += 1e-30
        scores[known < 0] = -1.0
        is_home = np.bincount(homes, minlength=K) > 0
        return np.where(is_home[:, None], _best(known, scores, n_candidates), lists)

    def _search(self, model):
        """Change homes and lists where that raises the bound; return by how much."""
        lists, n_candidates = self._lists, self._lists.shape[1]
        proposed = self._proposed(model)
        added = _distinct(np.where(_are_in(proposed, lists), -1, proposed))
        both = np.concatenate([lists, added], axis=1)
        is_new = _are_in(both, proposed)
        data, homes = self._data, self._homes
        gains, bounds = np.zeros(len(lists)), np.empty((2, len(homes)))
        likeliest = np.empty_like(homes)
        for chosen, (_, log_likelihoods, shares) in _in_groups(model, data, homes, both):
            own, least = homes[chosen], np.finfo(shares.dtype).tiny
            likeliest[chosen] = both[own, shares.argmax(axis=1)]
            before = np.maximum(shares[:, :n_candidates].sum(axis=1), least)
            after = np.maximum((shares * is_new[own]).sum(axis=1), least)
            bounds[:, chosen] = log_likelihoods + np.log([before, after])
            difference = (bounds[1, chosen] - bounds[0, chosen]) * self._weight[chosen]
            gains += np.bincount(own, difference, len(lists))
        is_better = gains > 0.0
        self._lists = np.where(is_better[:, None], proposed, lists)
        bounds = np.where(is_better[homes], bounds[1], bounds[0])
        gain = gains[is_better].sum()
        moving = np.flatnonzero(likeliest != homes)
        rows, new = data[moving], likeliest[moving]
        for places, (_, log_likelihoods, _) in _in_groups(model, rows, new, self._lists):
            chosen = moving[places]
            difference = log_likelihoods - bounds[chosen]
            moves = difference > 0.0
            homes[chosen[moves]] = likeliest[chosen[moves]]
            gain += difference[moves] @ self._weight[chosen[moves]]
        return gain * self._share


class SparseEStep(TruncatedEStep):
    r"""E-steps in which a row shares among a few components what these had in a pass over all.

    The candidates of a row are those of its home that matter for a few rows like it. What others
    had, a share :math:`q_n` of the row, stays with them until the next pass over all components:

    .. math::
        \sum_n (1 - q_n) \log \sum_{k \in C(\text{home}_n)} w_k \, p(x_n \mid \theta_k)
        + \sum_n \sum_{k \notin C} r_{nk} \log \bigl(w_k \, p(x_n \mid \theta_k)\bigr)
        + \text{constant}

    bounds the log-likelihood from below. At the model of the last pass over all components both are
    equal, and so are their gradients: where all passes have settled, so has batch EM. Statistics
    of the others are one more term of the M-step.

    References
    ----------
    Neal & Hinton, "A view of the EM algorithm that justifies incremental, sparse, and other
    variants", 1998, section 5.
    """

    def __init__(self, model, data, n_candidates, rng):
        super().__init__(model, data, _OF_HOME * n_candidates, rng)
        self._n_candidates, self._others = min(n_candidates, self._lists.shape[1]), None
        self._renew(model)
        if self._part[1].sum() * self._share < _LEAST_SHARE:
            raise ValueError("components overlap too much for passes over a few of them.")

    def e_step(self, model: Model) -> tuple[Statistics, float]:
        near, bound = super().e_step(model)
        if self._others is None:
            every, log_likelihood = self._of_all
            self._others = every.merge(1.0, near, -1.0)
            self._constant = log_likelihood - bound - model.expected_log_likelihood(self._others)
        bound += model.expected_log_likelihood(self._others) + self._constant
        return near + self._others, bound

    def renewed(self, model: Model, may_be_last: bool = False) -> bool:
        """Take a pass over all components now and then; return whether there was one.

        One is due after what may be the last pass, unless the latest passes have seen what the one
        before has gained.
        """
        self._n_passes += 1
        if self._n_passes <= _FRESH if may_be_last else self._n_passes < _SPARSE_PASSES:
            return False
        self._search(model)
        self._renew(model)
        return True

    def _renew(self, model):
        data, log_likelihoods, parts, n_groups = self._data, np.empty(len(self._data)), [], 0
        self._of_all = model.e_step(data, log_likelihoods=log_likelihoods)
        for chosen, (_, found, shares) in _in_groups(model, data, self._homes, self._lists):
            # Rows with the same likeliest components are neighbours.
            order = np.lexsort((*largest(shares, 2).T[::-1], self._homes[chosen]))
            shares, chosen = shares[order], chosen[order]
            homes = self._homes[chosen]
            is_first = (np.arange(len(homes)) - np.searchsorted(homes, homes)) % _GROUP_ROWS == 0
            starts, own = np.flatnonzero(is_first), is_first.cumsum() - 1
            best = largest(np.add.reduceat(shares, starts, axis=0), self._n_candidates)
            among = np.take_along_axis(shares, best[own], axis=1).sum(axis=1)
            # Rows without weight have no likelihood.
            among = np.fmin(among * np.exp(found[order] - log_likelihoods[chosen]), 1.0)
            lists = np.take_along_axis(self._lists[homes[starts]], best, axis=1)
            parts.append((chosen, self._weight[chosen] * among, own + n_groups, lists))
            n_groups += len(starts)
        chosen, weight, groups, lists = map(np.concatenate, zip(*parts, strict=True))
        rows = Rows.unchecked(data.X[chosen], weight, None, data.n_threads)
        self._part, self._others, self._n_passes = (rows, weight, groups, lists), None, 0


class Neighbourhoods(NamedTuple):
    """Components near each component of a mixture, and near rows.

    Of several times as many with the nearest means, those with the largest responsibilities.

    Parameters
    ----------
    near : NearestPoints
        Of the means.
    rows : array of shape (n, n_features)
        They determine the coordinates in which means are near.
    lists : ndarray of intp of shape (n_components, n_candidates)
        The components near each component, itself first.
    share : float, default=1.0
        In a stream, the share of the mixture's statistics that is as old as these.
    """

    near: NearestPoints
    rows: FloatsOrSparse
    lists: Integers
    share: float = 1.0

    @classmethod
    def of(cls, model: Model, n_candidates: int, data: Rows) -> Neighbourhoods:
        """Return those of a mixture whose family `has_means`, by a sample of rows.

        More candidates than there are components are all of these.
        """
        rows, K = data.X[:_COORDINATE_ROWS], model.n_components
        to = model.family.start_coordinates(rows)[0]
        means = to(model.family.means(model.parameters).astype(rows.dtype))
        near = NearestPoints.of(means)
        lists = _with_own(near.neighbours(min(_WIDER * n_candidates, K)))
        shares = _shares(model, data, near.nearest(data.X, to), lists)
        return cls(near, rows, _best(lists, shares, n_candidates))

    def homes(self, family: Family, X: FloatsOrSparse) -> Integers:
        """Return the component near each row of X, of a mixture of this family, (n_rows,)."""
        return self.near.nearest(X, family.start_coordinates(self.rows)[0])


def has_means(family: Family) -> bool:
    """Return whether components of a family have means that can be near rows."""
    return isinstance(family, Means) and not family.has_symbols


def _in_groups(model, data, homes, lists, wants_statistics=False):
    """Yield numbers of some rows, and the family's `in_groups` of these, by their homes."""
    order = np.argsort(homes, kind="stable")
    ends = np.bincount(homes, minlength=len(lists)).cumsum()
    # Chunks end where a home does.
    limits = np.arange(1, 1 + len(homes) * lists.shape[1] // _CHUNK_VALUES)
    limits = np.searchsorted(ends * lists.shape[1], limits * _CHUNK_VALUES)
    first, start, log_weights = 0, 0, model.log_weights
    for last in np.unique([*limits, len(lists)]):
        end = ends[last - 1] if last else 0
        if end > start:
            chosen = order[start:end]
            own = lists[first:last].astype(np.intc, order="C")
            groups = data[chosen], (ends[first:last] - start).astype(np.intc), own
            found = model.family.in_groups(model.parameters, log_weights, *groups, wants_statistics)
            yield chosen, found
        first, start = last, end


def _shares(model, data, homes, lists):
    """Return the sums of the responsibilities of listed components over the rows of each home."""
    sums = np.zeros(lists.shape)
    for chosen, (_, _, shares) in _in_groups(model, data, homes, lists):
        own = homes[chosen]
        starts = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
        sums[own[starts]] = np.add.reduceat(shares, starts, axis=0)
    return sums


def _best(lists, scores, n):
    """Return the n components of each list (K, C) with the largest scores, its own one first."""
    scores[lists == np.arange(len(lists))[:, None]] = np.inf
    best = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(lists, best, axis=1)


def _with_own(lists):
    """Return lists (K, C) of which each has the component that it belongs to."""
    own = np.arange(len(lists))
    is_lacking = (lists != own[:, None]).all(axis=1)
    lists[is_lacking, -1] = own[is_lacking]
    return lists


def _distinct(lists):
    """Return lists (n, C) in order, each component once; -1 fills them up."""
    lists = np.sort(lists, axis=1)
    lists[:, 1:][lists[:, 1:] == lists[:, :-1]] = -1
    lists = -np.sort(-lists, axis=1)
    return lists[:, : (lists >= 0).sum(axis=1).max()]


def _are_in(lists, others):
    """Return whether the components of each list are in the other one, of shape (n, C)."""
    out = np.zeros(lists.shape, dtype=bool)
    for other in others.T:
        out |= lists == other[:, None]
    return out & (lists >= 0)
