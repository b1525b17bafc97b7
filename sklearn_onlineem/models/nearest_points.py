"""Points that are nearest to rows, among many, found by groups of points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sklearn_onlineem._typing import Floats, FloatsOrSparse, Integers

__all__ = ["NearestPoints", "largest"]

# With fewer points all are looked at; passes of k-means that find groups, and groups of each row.
_FEW_POINTS, _PASSES, _PROBES = 1 << 10, 4, 8
# Rows whose distances are kept at once, and most distances.
_CHUNK_ROWS, _CHUNK_VALUES = 1 << 15, 1 << 21


class NearestPoints(NamedTuple):
    """Points in groups by k-means, about as many groups as there are points in each.

    A row is compared with the points of a few groups, those with the nearest centres. So it takes
    time for the square root of the number of points, and may miss the nearest one.

    Parameters
    ----------
    points : ndarray of shape (n_points, d)
        Group by group.
    numbers : ndarray of intp of shape (n_points,)
        Their numbers before.
    centres : ndarray of shape (n_groups, d)
        Of the groups.
    ends : ndarray of intp of shape (n_groups,)
        Where each group ends.
    """

    points: Floats
    numbers: Integers
    centres: Floats
    ends: Integers

    @classmethod
    def of(cls, points: Floats) -> NearestPoints:
        """Return the groups of points (n_points, d), of which there is at least one."""
        n = len(points)
        n_groups = 1 if n <= _FEW_POINTS else math.isqrt(n)
        centres = points[np.linspace(0, n - 1, n_groups).astype(np.intp)]
        for _ in range(_PASSES):
            # Groups without points are no more.
            _, groups, sizes = np.unique(
                _scores(points, centres).argmax(axis=1), return_inverse=True, return_counts=True
            )
            one_of_each = sparse.csr_array((np.ones(n), groups, np.arange(n + 1)))
            centres = ((one_of_each.T @ points) / sizes[:, None]).astype(points.dtype)
        numbers = np.argsort(groups, kind="stable")
        return cls(points[numbers], numbers, centres, np.cumsum(sizes))

    def nearest(
        self, X: FloatsOrSparse, to: Callable[[FloatsOrSparse], FloatsOrSparse] | None = None
    ) -> Integers:
        """Return the number of a point that is near each row, mostly the nearest, (n_rows,).

        X may be CSR. `to` maps rows to the coordinates of the points; None: they are the same.
        """
        out = np.empty(X.shape[0], dtype=np.intp)
        n_values = max(len(self.ends), len(self.points) // len(self.ends))
        step = max(1, min(_CHUNK_ROWS, _CHUNK_VALUES // n_values))
        for start in range(0, len(out), step):
            rows = X[start : start + step]
            out[start : start + step] = self._nearest(rows if to is None else to(rows))
        return out

    def _nearest(self, X):
        n_probes = min(_PROBES, len(self.ends))
        probes = largest(_scores(X, self.centres), n_probes)
        rows, places = np.divmod(np.argsort(probes, axis=None, kind="stable"), n_probes)
        values, numbers = np.empty(probes.shape), np.empty(probes.shape, dtype=np.intp)
        last = np.cumsum(np.bincount(probes.ravel(), minlength=len(self.ends)))
        for g in np.flatnonzero(np.diff(last, prepend=0)):
            of_group = slice(last[g - 1] if g else 0, last[g])
            start, end = self.ends[g - 1] if g else 0, self.ends[g]
            scores = _scores(X[rows[of_group]], self.points[start:end])
            best, at = scores.argmax(axis=1), (rows[of_group], places[of_group])
            values[at] = scores[np.arange(len(best)), best]
            numbers[at] = self.numbers[start:end][best]
        return numbers[np.arange(len(numbers)), values.argmax(axis=1)]

    def neighbours(self, n: int) -> Integers:
        """Return numbers of n points near each point, the nearest first, (n_points, n).

        They are sought in the groups that are near its own.
        """
        out, sizes = np.empty((len(self.points), n), dtype=np.intp), np.diff(self.ends, prepend=0)
        # As many groups as have enough points in any case.
        n_probes = max(2 * _PROBES, 1 + int(np.searchsorted(np.sort(sizes).cumsum(), n)))
        near = largest(_scores(self.centres, self.centres), min(n_probes, len(sizes)))
        groups = np.split(np.arange(len(self.points)), self.ends[:-1])
        for g in range(len(sizes)):
            candidates = np.concatenate([groups[h] for h in near[g]])
            n_parts = -(-len(groups[g]) * len(candidates) // _CHUNK_VALUES)
            for part in np.array_split(groups[g], n_parts):
                best = largest(_scores(self.points[part], self.points[candidates]), n)
                out[self.numbers[part]] = self.numbers[candidates[best]]
        return out


def _scores(X, points):
    """Return numbers that fall as distances grow, of shape (n_rows, n_points)."""
    return X @ points.T - 0.5 * np.einsum("kd,kd->k", points, points)


def largest(values, n_largest):
    """Return where the largest values of each row are, the largest first."""
    if n_largest == 1:
        return values.argmax(axis=1)[:, None]
    found = np.argpartition(-values, n_largest - 1, axis=1)[:, :n_largest]
    order = np.argsort(-np.take_along_axis(values, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)
