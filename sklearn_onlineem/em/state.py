"""All that the next update of a training needs."""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from sklearn_onlineem.data import Batch, LengthDistribution
from sklearn_onlineem.em.carried import Carried
from sklearn_onlineem.em.steps import AnyStep
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.row_by_row import SmoothedStatistics
from sklearn_onlineem.statistics import Statistics, pooled

__all__ = ["Average", "State", "check_types", "step_rng"]


class Average(NamedTuple):
    """Mean of the statistics of iterates (Polyak-Ruppert).

    Attributes
    ----------
    n : int
        Iterates so far.
    statistics : Statistics
    """

    n: int
    statistics: Statistics

    def with_one_more(self, statistics):
        return Average(self.n + 1, pooled([(self.n, self.statistics), (1, statistics)]))


class State(NamedTuple):
    """State of a training: all that the next update needs.

    It is replaced by one assignment, so that an interruption finds it whole.

    Attributes
    ----------
    model : Model
        The model as it is now.
    n_steps : int
        Updates so far.
    n_seen : float
        Observations so far, by their weights.
    step : Step, StructuralStep, CarriedStep or None
        The last update.
    lengths : LengthDistribution or None
        Of the data seen, where the model asks for it; each pass counts.
    merged : Statistics or None
        Those of the models that this one was merged from: all that it stands for.
    seed : tuple of int
        With `n_steps` it makes the generator of the next update, so that a stream that is
        pickled, or an update that fails, continues with the same draws.
    average : Average or None
        Of the iterates, where a solver asks for it.
    size_seen : float
        Size of the data so far, as learning rates count it: see `Training.size_of`.
    n_rows : int
        Rows read so far; each pass counts.
    carried : Carried, SmoothedStatistics or None
        The statistics of all observations, where the last step carried them along.

    Examples
    --------
    A model that has seen 300 rows, and what is left of them where the last 100 count:

    >>> import numpy as np
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.em import State
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> state = State(model, n_steps=3, n_seen=300.0, size_seen=300.0, n_rows=300, seed=(7,))
    >>> state.check()
    >>> state.restarted(100).size_seen, state.lengths_with(Rows(np.array([[4.0]]))) is None
    (100.0, True)
    >>> bool(state.rng().random() == np.random.default_rng((7, 3)).random())
    True
    """

    model: Model
    n_steps: int = 0
    n_seen: float = 0.0
    step: AnyStep | None = None
    lengths: LengthDistribution | None = None
    merged: Statistics | None = None
    seed: tuple[int, ...] = ()
    average: Average | None = None
    size_seen: float = 0.0
    n_rows: int = 0
    carried: Carried | SmoothedStatistics | None = None

    @property
    def own_statistics(self) -> Statistics:
        """Statistics with which the model enters a merge."""
        return self.model.own_statistics(self.lengths) if self.merged is None else self.merged

    def rng(self) -> np.random.Generator:
        """Return the generator of the next update."""
        return step_rng(self.seed, self.n_steps)

    def restarted(self, n_rows: int) -> State:
        """Return a state of which the last `n_rows` rows count only, as after a `Restart`.

        Parameters
        ----------
        n_rows : int
            From 0 up.

        Returns
        -------
        state : State
        """
        kept = min(1.0, n_rows / self.n_rows) if self.n_rows else 1.0
        carried = None if self.carried is None else self.carried.keeping(kept)
        return self._replace(size_seen=kept * self.size_seen, carried=carried)

    def check(self) -> None:
        """Raise ValueError if it is not of the types that it must be of."""
        check_types(self, _STATE_TYPES)

    def lengths_with(self, data: Batch) -> LengthDistribution | None:
        """Return the distribution of lengths once data have been seen, too.

        Parameters
        ----------
        data : Batch
            That follow what the state has seen.

        Returns
        -------
        lengths : LengthDistribution or None
            None where the model does not ask for it.
        """
        lengths = self.model.lengths(data)
        if lengths is None or self.lengths is None:
            return lengths
        return pooled([(self.n_seen, self.lengths), (data.total_weight, lengths)])


def step_rng(seed, n_steps):
    """Return the generator of the update that follows so many others of a training."""
    return np.random.default_rng((*seed, n_steps))


# What a saved state of another version is checked for: its checksum may be of another layout.
_STATE_TYPES = {
    "model": Model,
    "n_steps": Integral,
    "n_seen": Real,
    "step": AnyStep | None,
    "lengths": LengthDistribution | None,
    "merged": Statistics | None,
    "seed": tuple,
    "average": Average | None,
    "size_seen": Real,
    "n_rows": Integral,
    "carried": Carried | SmoothedStatistics | None,
}


def check_types(record, types):
    """Raise ValueError if attributes are not of the types that a dictionary names."""
    for name, kind in types.items():
        if not isinstance(getattr(record, name), kind):
            raise ValueError(f"{name} of its training is {getattr(record, name)!r:.60}.")
