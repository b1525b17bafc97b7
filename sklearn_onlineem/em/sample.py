"""A bounded uniform sample of the observations of a stream."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch

# One of so many observations judges, and the others teach.
_JUDGES = 5
# Second part of the seed, so that the draws are not those of steps.
_STREAM = 1


class Sample(NamedTuple):
    """Uniform sample of all observations of a stream so far: a frozen value.

    Each observation has a uniform key, and those with the largest keys are kept, with their
    weights. How many come until the next one that is kept is drawn, so that others cost no draws.
    The sample does not depend on how the stream is cut into batches.

    Attributes
    ----------
    size : int
        Largest number of observations.
    seed : tuple of int
        Of the draws.
    kept : Batch or None
        The sample, in no order; None before the first observation.
    keys : ndarray of shape (n_kept,)
        Logarithms of the keys of those that are kept.
    ahead : int
        Observations until the next one that is kept, itself included, once there are `size`.
    n_draws : int
        Random numbers so far.
    n_rows : int
        Rows so far.
    next_trial : int
        Number of rows at which challengers are tried next.

    References
    ----------
    Efraimidis & Spirakis, "Weighted random sampling with a reservoir", Information Processing
    Letters 2006 (algorithm A-ExpJ, here of equal weights).

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
    ahead: int = 0
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
        n, n_before = len(data), len(self.keys)
        if n_before == self.size and n < self.ahead:
            return self._replace(ahead=self.ahead - n, n_rows=self.n_rows + data.n_rows)
        bits = np.random.PCG64((*self.seed, _STREAM))
        rng = np.random.Generator(bits.advance(self.n_draws))
        # The first ones are all kept.
        begin = min(n, self.size - n_before)
        keys = np.append(self.keys, np.log1p(-rng.random(begin)))
        ahead, n_draws = self.ahead, self.n_draws + begin
        # Numbers of observations, those of `data` after those before.
        places = np.arange(n_before + begin)
        if len(keys) == self.size:
            if begin:
                ahead, n_draws = _jump(keys, rng), n_draws + 1
            while ahead <= n - begin:
                begin += ahead
                slot = int(keys.argmin())
                # Above the smallest key.
                least = math.exp(keys[slot])
                keys[slot] = math.log(least + (1.0 - least) * (1.0 - rng.random()))
                places[slot] = n_before + begin - 1
                ahead, n_draws = _jump(keys, rng), n_draws + 2
            ahead -= n - begin
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


# Of a stream that goes on without one.
NO_SAMPLE = Sample(0, ())


def _jump(keys, rng):
    """Return how many observations come until the next one that is kept, itself included."""
    return max(1, math.ceil(math.log1p(-rng.random()) / keys.min()))
