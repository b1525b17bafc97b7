"""A bounded uniform sample of the observations of a stream."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch

__all__ = ["Sample"]

# One of so many observations judges, and the others teach.
_JUDGES = 5
# Second part of the seed, so that the draws are not those of steps.
_STREAM = 1


class Sample(NamedTuple):
    """Uniform sample of all observations of a stream so far, by their weights: a frozen value.

    Each observation has the key ``log(u) / weight``, for a uniform variable u, and those with the
    largest keys are kept. How many come until the next one that is kept is drawn, so that others
    cost no draws. It does not depend on how the stream is cut into batches.

    Attributes
    ----------
    size : int
        Largest number of observations.
    seed : tuple of int
        Of the draws.
    kept : Batch or None
        The sample, in no order; None before the first observation.
    keys : ndarray of shape (n_kept,)
        Of the observations that are kept.
    ahead : float
        Weight of the observations until the next one that is kept, once there are `size`.
    n_draws : int
        Random numbers so far.
    n_rows : int
        Rows so far.
    next_trial : int
        Number of rows at which challengers are tried next.

    References
    ----------
    Efraimidis & Spirakis, "Weighted random sampling with a reservoir", Information Processing
    Letters 2006 (algorithm A-ExpJ).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.em.sample import Sample
    >>> X = np.arange(10_000.0)[:, None]
    >>> sample = Sample(1000, (0,)).after(Rows(X[:5000])).after(Rows(X[5000:]))
    >>> len(sample.kept), 4500 < sample.kept.X.mean() < 5500
    (1000, np.True_)
    """

    size: int
    seed: tuple[int, ...]
    kept: Batch | None = None
    keys: Floats = np.empty(0)
    ahead: float = 0.0
    n_draws: int = 0
    n_rows: int = 0
    next_trial: int = 0

    def after(self, data: Batch) -> Self:
        """Return the sample after more observations.

        Parameters
        ----------
        data : Batch
            Of the class of those before.
        """
        n, weights = len(data), getattr(data, "sample_weight", None)
        if len(self.keys) == self.size and weights is None and n < self.ahead:
            return self._replace(ahead=self.ahead - n, n_rows=self.n_rows + data.n_rows)
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        bits = np.random.PCG64((*self.seed, _STREAM))
        rng = np.random.Generator(bits.advance(self.n_draws))
        # The first ones are all kept.
        first = np.flatnonzero(weights > 0.0)[: self.size - len(self.keys)]
        keys = np.append(self.keys, np.log1p(-rng.random(len(first))) / weights[first])
        ahead, n_draws = self.ahead, self.n_draws + len(first)
        # Numbers of observations, those of `data` after those before.
        places = np.append(np.arange(len(self.keys)), len(self.keys) + first)
        begin = 0 if len(first) == 0 else int(first[-1]) + 1
        if len(keys) == self.size:
            if len(first):
                ahead, n_draws = _jump(keys, rng), n_draws + 1
            totals = np.append(0.0, weights.cumsum())
            while True:
                chosen = int(np.searchsorted(totals, totals[begin] + ahead, side="left")) - 1
                if chosen >= n:
                    ahead -= totals[-1] - totals[begin]
                    break
                slot, weight = int(keys.argmin()), weights[chosen]
                # A uniform variable above the one of the smallest key.
                least = math.exp(keys[slot] * weight)
                keys[slot] = math.log(least + (1.0 - least) * (1.0 - rng.random())) / weight
                places[slot], begin = len(self.keys) + chosen, chosen + 1
                ahead, n_draws = _jump(keys, rng), n_draws + 2
        kept = data if self.kept is None else self.kept.concatenate([self.kept, data])
        # Of a batch they may be views, which users may overwrite.
        n_rows = self.n_rows + data.n_rows
        return self._replace(
            kept=kept[places], keys=keys, ahead=ahead, n_draws=n_draws, n_rows=n_rows
        )

    @property
    def is_judge(self) -> NDArray[np.bool]:
        """Which of the observations that are kept judge."""
        order = np.random.default_rng((*self.seed, _STREAM + 1)).permutation(self.size)
        return (order < self.size // _JUDGES)[: len(self.keys)]


def _jump(keys, rng):
    """Return the weight of the observations until the next one that is kept, itself included."""
    return max(math.log1p(-rng.random()) / keys.min(), np.nextafter(0.0, 1.0))
