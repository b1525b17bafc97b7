"""E-steps of mixtures with many components, of which each row has a few."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sklearn_onlineem._typing import FloatsOrSparse, Integers
from sklearn_onlineem.families import Family
from sklearn_onlineem.families.capabilities import Means
from sklearn_onlineem.models._model import Model
from sklearn_onlineem.models.nearest_points import NearestPoints, largest
from sklearn_onlineem.statistics import Statistics, combine

__all__ = ["Neighbourhoods", "TruncatedEStep", "has_means"]

# Most responsibilities of a chunk of rows.
_CHUNK_VALUES = 1 << 21
# Rows by which a group judges components, and those whose own lists it looks at; random ones
# beside.
_JUDGES, _NEIGHBOURS, _RANDOM = 8, 12, 4
# Rows that determine the coordinates in which means are near.
_COORDINATE_ROWS = 1 << 12
# A search that gains less, in nats per row, is followed by twice as many passes without one.
_LEAST_GAIN, _MOST_PASSES = 1e-3, 16


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
        self._weight = np.ones(len(data)) if data.sample_weight is None else data.sample_weight
        self._data, self._pause, self._like = data, 1, model.own_statistics()
        self._homes, self._lists = self._first(model, min(n_candidates, model.n_components))

    def e_step(self, model: Model) -> tuple[Statistics, float]:
        """Return the expected statistics and the bound, weighted averages per observation.

        Parameters
        ----------
        model : MixtureModel
            With as many components of the same family as the first one.
        """
        share, terms, bound = 1.0 / self._data.total_weight, [], 0.0
        numbers = np.arange(len(self._data))
        for chosen, _, found in self._in_groups(model, numbers, self._homes, self._lists, True):
            (counts, emissions), log_likelihoods, _ = found
            bound += log_likelihoods @ self._weight[chosen]
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

    def _in_groups(self, model, numbers, homes, lists, wants_statistics=False):
        """Yield numbers of rows, their homes, and the family's `in_groups` of these.

        `homes` are those of the numbers, and `lists` those of all homes.
        """
        order = np.argsort(homes, kind="stable")
        n_of_each = np.bincount(homes, minlength=len(lists))
        ends = n_of_each.cumsum()
        # Chunks end where a home does.
        limits = np.arange(1, 1 + len(homes) * lists.shape[1] // _CHUNK_VALUES)
        limits = np.searchsorted(ends * lists.shape[1], limits * _CHUNK_VALUES)
        first, log_weights = 0, model.log_weights
        for last in np.unique([*limits, len(lists)]):
            start = ends[first - 1] if first else 0
            end = ends[last - 1] if last else 0
            if end > start:
                chosen = numbers[order[start:end]]
                rows = self._data[chosen]
                found = model.family.in_groups(
                    model.parameters, log_weights, rows, (ends[first:last] - start).astype(np.intc),
                    np.ascontiguousarray(lists[first:last], dtype=np.intc), wants_statistics,
                )  # fmt: skip
                yield chosen, homes[order[start:end]], found
            first = last

    def _first(self, model, n_candidates):
        """Return homes of rows and candidates of homes, by the nearest means if there are any."""
        if has_means(model.family):
            some = self._rng.permutation(len(self._data))[:_COORDINATE_ROWS]
            near = Neighbourhoods.of(model, n_candidates, self._data[some].X)
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

    def _judges(self, homes):
        """Return numbers of a few random rows of each home, by homes."""
        order = self._rng.permutation(len(homes))
        order = order[np.argsort(homes[order], kind="stable")]
        n_of_each = np.bincount(homes)
        ranks = np.arange(len(order)) - np.repeat(n_of_each.cumsum() - n_of_each, n_of_each)
        return order[ranks < _JUDGES]

    def _proposed(self, model):
        """Return new lists, the components with the largest shares of some rows first."""
        lists, (K, n_candidates) = self._lists, self._lists.shape
        near = lists[lists[:, :_NEIGHBOURS]].reshape(K, -1)
        random = self._rng.integers(K, size=(K, _RANDOM))
        known = _distinct(np.concatenate([lists, near, random], axis=1))
        scores, judges = np.zeros(known.shape), self._judges(self._homes)
        for _, homes, (_, _, shares) in self._in_groups(model, judges, self._homes[judges], known):
            starts = np.flatnonzero(np.append(True, homes[1:] != homes[:-1]))
            scores[homes[starts]] = np.add.reduceat(shares, starts, axis=0)
        # Shares may be 0: those before stay.
        scores[_are_in(known, lists)] += 1e-30
        scores[known < 0] = -1.0
        scores[known == np.arange(K)[:, None]] = np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n_candidates]
        proposed = np.take_along_axis(known, best, axis=1)
        is_empty = np.bincount(self._homes, minlength=K) == 0
        return np.where(is_empty[:, None], lists, proposed)

    def _search(self, model):
        """Change homes and lists where that raises the bound; return by how much."""
        lists, n_candidates = self._lists, self._lists.shape[1]
        proposed = self._proposed(model)
        added = _distinct(np.where(_are_in(proposed, lists), -1, proposed))
        both = np.concatenate([lists, added], axis=1)
        is_new = _are_in(both, proposed)
        gains, bounds = np.zeros(len(lists)), np.empty((2, len(self._homes)))
        likeliest = np.empty_like(self._homes)
        numbers = np.arange(len(self._homes))
        for chosen, homes, found in self._in_groups(model, numbers, self._homes, both):
            _, log_likelihoods, shares = found
            likeliest[chosen] = both[homes, shares.argmax(axis=1)]
            least = np.finfo(shares.dtype).tiny
            before = np.maximum(shares[:, :n_candidates].sum(axis=1), least)
            after = np.maximum((shares * is_new[homes]).sum(axis=1), least)
            bounds[:, chosen] = log_likelihoods + np.log([before, after])
            difference = (bounds[1, chosen] - bounds[0, chosen]) * self._weight[chosen]
            gains += np.bincount(homes, difference, len(lists))
        is_better = gains > 0.0
        self._lists = np.where(is_better[:, None], proposed, lists)
        bounds = np.where(is_better[self._homes], bounds[1], bounds[0])
        gain = gains[is_better].sum()
        moving = np.flatnonzero(likeliest != self._homes)
        for chosen, homes, found in self._in_groups(model, moving, likeliest[moving], self._lists):
            difference = found[1] - bounds[chosen]
            moves = difference > 0.0
            self._homes[chosen[moves]] = homes[moves]
            gain += difference[moves] @ self._weight[chosen[moves]]
        return gain / self._data.total_weight


class Neighbourhoods(NamedTuple):
    """Components near each component of a mixture, and near rows, by the distances of means.

    Parameters
    ----------
    near : NearestPoints
        Of the means.
    rows : array of shape (n, n_features)
        They determine the coordinates in which means are near.
    lists : ndarray of intp of shape (n_components, n_candidates)
        The components near each component, itself among them.
    share : float, default=1.0
        In a stream, the share of the mixture's statistics that is as old as these.
    """

    near: NearestPoints
    rows: FloatsOrSparse
    lists: Integers
    share: float = 1.0

    @classmethod
    def of(cls, model: Model, n_candidates: int, rows: FloatsOrSparse) -> Neighbourhoods:
        """Return those of a mixture whose family `has_means`, in the coordinates of a sample.

        More candidates than there are components are all of these.
        """
        to = model.family.start_coordinates(rows)[0]
        means = to(model.family.means(model.parameters).astype(rows.dtype))
        near = NearestPoints.of(means)
        lists = near.neighbours(min(n_candidates, model.n_components))
        return cls(near, rows, _with_own(lists))

    def homes(self, family: Family, X: FloatsOrSparse) -> Integers:
        """Return the component near each row of X, of a mixture of this family, (n_rows,)."""
        return self.near.nearest(X, family.start_coordinates(self.rows)[0])


def has_means(family: Family) -> bool:
    """Return whether components of a family have means that can be near rows."""
    return isinstance(family, Means) and not family.has_symbols


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
