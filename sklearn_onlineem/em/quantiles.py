"""Running quantiles of a stream of numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._typing import Floats


class RunningQuantiles(NamedTuple):
    """Exact quantiles of the latest numbers of a stream: a frozen value.

    They do not depend on how the stream is cut into batches.

    Attributes
    ----------
    latest : ndarray of shape (n_values,)
        The latest numbers, oldest first.
    window : int
        How many are kept at most.

    Examples
    --------
    >>> from sklearn_onlineem.em.quantiles import RunningQuantiles
    >>> running = RunningQuantiles(window=5).after([9.0, 1.0]).after([2.0, 3.0, 4.0, 5.0])
    >>> running.latest
    array([1., 2., 3., 4., 5.])
    >>> running.quantile(0.5), running.quantile(0.9)
    (3.0, 4.6)
    """

    latest: Floats = np.empty(0)
    window: int = 1000

    def after(self, values: ArrayLike) -> RunningQuantiles:
        """Return the quantiles after more numbers.

        Parameters
        ----------
        values : array-like of shape (n_values,)
            Oldest first; infinite ones may be among them, NaN not.
        """
        latest = np.concatenate([self.latest, values])[-self.window :]
        return RunningQuantiles(latest, self.window)

    def quantile(self, q: float) -> float:
        """Return a quantile, interpolated linearly as by `numpy.quantile`; NaN without numbers.

        Parameters
        ----------
        q : float
            From 0 to 1.
        """
        n_values = len(self.latest)
        if not n_values:
            return math.nan
        position = q * (n_values - 1)
        below, above = math.floor(position), math.ceil(position)
        # Several times as fast as `np.partition` with two numbers.
        ordered = np.sort(self.latest)
        low, high, share = float(ordered[below]), float(ordered[above]), position - below
        # Infinite or equal ones have nothing between them.
        return low if low == high else (1.0 - share) * low + share * high
