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
        """Return the groups of points, an ndarray of shape (n_points, d).

        Parameters
        ----------
        points : ndarray of shape (n_points, d)
            At least one.
        """
        n = len(points)
        n_groups = 1 if n <= _FEW_POINTS else math.isqrt(n)
        centres = points[np.linspace(0, n - 1, n_groups).astype(np.intp)]
        for _ in range(_PASSES):
            groups = _scores(points, centres).argmax(axis=1)
            sizes = np.bincount(groups, minlength=n_groups)
            one_of_each = sparse.csr_array((np.ones(n), groups, np.arange(n + 1)), (n, n_groups))
            means = (one_of_each.T @ points) / np.maximum(sizes, 1)[:, None]
            centres = np.where(sizes[:, None] > 0, means, centres).astype(points.dtype)
        numbers = np.argsort(groups, kind="stable")
        return cls(points[numbers], numbers, centres, np.cumsum(sizes))

    def nearest(
        self,
        X: FloatsOrSparse,
        n_nearest: int = 1,
        to: Callable[[FloatsOrSparse], FloatsOrSparse] | None = None,
    ) -> Integers:
        """Return numbers of points near each row, the nearest first, (n_rows, n_nearest).

        Parameters
        ----------
        X : array of shape (n_rows, d)
            The rows; may be CSR.
        n_nearest : int, default=1
            At most as many as there are points.
        to : callable, default=None
            Map from rows to the coordinates of the points. None: they are the same.
        """
        out = np.empty((X.shape[0], n_nearest), dtype=np.intp)
        # As many groups as have enough points in any case.
        sizes = np.sort(np.diff(self.ends, prepend=0)).cumsum()
        n_probes = min(len(self.ends), max(_PROBES, 1 + int(np.searchsorted(sizes, n_nearest))))
        n_values = max(n_probes * n_nearest, len(self.ends), len(self.points) // len(self.ends))
        step = max(1, min(_CHUNK_ROWS, _CHUNK_VALUES // n_values))
        for start in range(0, len(out), step):
            chunk = slice(start, start + step)
            rows = X[chunk] if to is None else to(X[chunk])
            out[chunk] = self._nearest(rows, n_nearest, n_probes)
        return out

    def _nearest(self, X, n_nearest, n_probes):
        probes = largest(_scores(X, self.centres), n_probes)
        order, n_of_each = np.argsort(probes, axis=None, kind="stable"), np.bincount(probes.ravel())
        rows, places = np.divmod(order, n_probes)
        values = np.full((X.shape[0], n_probes, n_nearest), -np.inf, dtype=self.points.dtype)
        numbers = np.zeros(values.shape, dtype=np.intp)
        last = np.cumsum(n_of_each)
        for g in np.flatnonzero(n_of_each):
            of_group = slice(last[g] - n_of_each[g], last[g])
            start, end = self.ends[g - 1] if g else 0, self.ends[g]
            if start == end:
                continue
            scores = _scores(X[rows[of_group]], self.points[start:end])
            best = largest(scores, min(n_nearest, end - start))
            at = rows[of_group, None], places[of_group, None], np.arange(best.shape[1])
            values[at] = np.take_along_axis(scores, best, axis=1)
            numbers[at] = self.numbers[start:end][best]
        values, numbers = values.reshape(len(values), -1), numbers.reshape(len(values), -1)
        return np.take_along_axis(numbers, largest(values, n_nearest), axis=1)


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
