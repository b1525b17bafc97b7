"""The contract of a chain of draws of all hidden variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from sklearn_onlineem._typing import Floats

__all__ = ["Chain"]

# The model that is drawn.
Kind = TypeVar("Kind")


class Chain(ABC, Generic[Kind]):
    """Hidden variables of all data, which each sweep draws anew; it changes in place.

    Attributes
    ----------
    has_draws : bool
        Whether it can be aligned to a model, and parameters drawn by it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models import MixtureModel, MixtureStatistics
    >>> model = MixtureModel(Poisson(), np.array([0.5, 0.5]), np.array([[1.0], [9.0]]))
    >>> data = Rows(np.array([[0.0], [2.0], [9.0], [13.0]]))
    >>> rates = Poisson().prior_statistics(2, n_features=1, shape=1.0, rate=0.1)
    >>> prior, rng = MixtureStatistics(np.zeros(2), rates), np.random.default_rng(0)
    >>> chain = model.chain(data, prior, rng)
    >>> _ = chain.sweep(rng)
    >>> chain.average_in()
    >>> chain.shares(), chain.model().n_components
    (array([0.5, 0.5]), 2)
    """

    has_draws = False

    @abstractmethod
    def sweep(self, rng: np.random.Generator) -> float:
        """Draw all hidden variables; return a mean log-likelihood per observation, in nats.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where random numbers come from.
        """

    @abstractmethod
    def average_in(self) -> None:
        """Let what was drawn last be part of an average over sweeps."""

    @abstractmethod
    def model(self) -> Kind:
        """Return the model of what was drawn last, or of the average if there is one."""

    @abstractmethod
    def shares(self) -> Floats:
        """Return the shares of the components as they were drawn last, adding up to 1."""
