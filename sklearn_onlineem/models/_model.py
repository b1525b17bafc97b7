"""The contract of a model: four functions, from which the engine makes everything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Generic, Self, TypeVar

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import rel_entr

from sklearn_onlineem._typing import Floats
from sklearn_onlineem._values import average, differences, n_bytes, n_numbers
from sklearn_onlineem.data import Batch
from sklearn_onlineem.statistics import Statistics

__all__ = ["Model", "matching"]

# What it is fitted to, and its statistics.
Data = TypeVar("Data", bound=Batch)
Evidence = TypeVar("Evidence", bound=Statistics)


class Model(ABC, Generic[Data, Evidence]):
    """A model with hidden variables: a frozen value that holds its parameters.

    Statistics are averages per observation, jointly over hidden and visible variables. Two laws
    hold for each model and are tested over the list of all: ``m_step(own_statistics())`` is the
    identity, and the evidence of two batches adds up to that of both.

    Attributes
    ----------
    is_exact : bool
        Whether posteriors of hidden variables, and so likelihoods, have a closed form. If not,
        expectations are approximate, and a lower bound stands for the log-likelihood everywhere.
    draws : bool
        Whether the E-step needs random numbers even where it averages: it gets an `rng` then.
    is_conjugate : bool
        Whether statistics have a fixed size, so that running statistics can be the
        hyper-parameters of a posterior.
    has_components : bool
        Whether hidden variables are choices of one of `n_components`.
    """

    is_exact = True
    draws = False
    is_conjugate = True
    has_components = True

    @abstractmethod
    def e_step(self, data: Data, rng: np.random.Generator | None = None) -> tuple[Evidence, float]:
        """Return the expected statistics of the data, and their mean log-likelihood.

        Parameters
        ----------
        data : object
            Observations, in the form that this class of models takes.
        rng : numpy.random.Generator, default=None
            If given, hidden variables are sampled from their posterior instead of averaged over.

        Returns
        -------
        evidence : Statistics
            Weighted average per observation.
        log_likelihood : float
            Weighted mean per observation, in nats.
        """

    @abstractmethod
    def own_statistics(self, like: Data | Statistics | None = None) -> Evidence:
        """Return the expected statistics of the model itself.

        Parameters
        ----------
        like : object, default=None
            Data whose lengths the expectation is taken for, where the model has lengths.
        """

    @abstractmethod
    def m_step(self, statistics: Evidence) -> Self:
        """Return the model that maximises the statistics.

        Parameters
        ----------
        statistics : Statistics
            Evidence, or its sum with pseudo-statistics of a prior and own statistics of models.
        """

    @abstractmethod
    def log_likelihood(self, data: Data) -> Floats:
        """Return the log-likelihood of each observation, an ndarray of shape (n,), in nats.

        Parameters
        ----------
        data : Batch
            Observations, in the form that this class of models takes.
        """

    @abstractmethod
    def kl_divergence(self, other: Self, like: Data | Statistics | None = None) -> float:
        """Return KL(self || other) jointly over hidden and visible variables, in nats.

        Parameters
        ----------
        other : Model
            Of the same class, with as many components.
        like : object, default=None
            Data whose lengths the expectation is taken for, where the model has lengths.
        """

    @abstractmethod
    def sample(
        self, n: int, rng: np.random.Generator, like: Data | Statistics | None = None
    ) -> tuple[object, object]:
        """Draw n observations; return ``(visible, hidden)``.

        Where lengths are not modelled, they are drawn from those of `like`.

        Parameters
        ----------
        n : int
            How many observations.
        rng : numpy.random.Generator
            Where random numbers come from.
        like : object, default=None
            Data whose lengths are drawn from, where lengths are not modelled.
        """

    def pseudo_data(
        self, n: int, rng: np.random.Generator, like: Data | Statistics | None = None
    ) -> Data:
        """Draw n observations in the form that `e_step` takes.

        Parameters
        ----------
        n : int
            How many observations.
        rng : numpy.random.Generator
            Where random numbers come from.
        like : object, default=None
            As in `sample`.
        """
        return self.sample(n, rng, like)[0]

    @abstractmethod
    def observations_needed(self, data: Data) -> float:
        """Return how many observations determine the model, for rates that fit themselves to it.

        That is the number of parameters of the visible part, divided by the numbers that an
        observation such as those of `data` brings.

        Parameters
        ----------
        data : Batch
            Observations, in the form that this class of models takes.
        """

    def size_of(self, data: Data) -> float:
        """Return what a batch counts for in learning rates.

        The model's own statistics, and so its inertia, grow with it: by the rows where sequences
        are as long as they are, else by the observations.

        Parameters
        ----------
        data : Batch
            Observations, in the form that this class of models takes.
        """
        return data.total_weight

    @property
    def n_active(self) -> int | None:
        """Number of components that have any weight; None where none can lose it."""
        return None

    def expected_log_likelihood(self, statistics: Evidence) -> float:
        r"""Return the log-likelihood of complete data that have these statistics, in nats.

        It is the function that the M-step maximises, :math:`Q(\theta) = \langle s, \theta \rangle
        - A(\theta)` where the complete data are an exponential family, up to what does not depend
        on the parameters: only differences between models mean something. Of a model's own
        statistics, that to another model is the KL divergence.

        Parameters
        ----------
        statistics : Statistics
            Evidence, pseudo-statistics of a prior, or a sum of them.

        Returns
        -------
        log_likelihood : float

        Raises
        ------
        ValueError
            If the model does not say.
        """
        raise ValueError(
            f"{type(self).__name__} does not say what its M-step maximises: it has no"
            " expected_log_likelihood."
        )

    def n_parameters(self) -> int:
        """Return the number of free parameters."""
        return n_numbers(self)

    def effective_counts(self, statistics: Evidence) -> Floats | None:
        """Return what each component's statistics count for, (n_components,), or None.

        Parameters
        ----------
        statistics : Statistics
            Evidence, pseudo-statistics of a prior, or a sum of them.
        """
        return None

    def mean_form(self, prior: Evidence) -> Evidence:
        """Return pseudo-statistics that lead to the posterior's mean, instead of its mode.

        Parameters
        ----------
        prior : Statistics
            Pseudo-statistics of a conjugate prior.

        Raises
        ------
        ValueError
            If the prior has none.
        """
        raise ValueError(f"{type(self).__name__} has no posterior mean in closed form.")

    # ----------------------------------------------------------------------------------- merging

    def lengths(self, data: Data) -> Statistics | None:
        """Return what `own_statistics` asks of data as `like`, small and mergeable, or None.

        Parameters
        ----------
        data : Batch
            Observations, in the form that this class of models takes.
        """
        return None

    @staticmethod
    def averaged(models: Sequence[Model], shares: Sequence[float]) -> Model:
        """Return the model whose parameters, and floors, are the averages of those of models.

        Parameters
        ----------
        models : list of Model
            Without `differences`.
        shares : list of float
            Adding up to 1.

        References
        ----------
        Sanderson & Curtin, "gmm_diag and gmm_full: C++ classes for multi-threaded Gaussian mixture
        models and Expectation-Maximisation", JOSS 2017.
        """
        return average(models, shares)

    def differences(self, other: Self) -> Iterator[tuple[str, object, object]]:
        """Yield ``(name, own, the other's)`` of what keeps two models from being merged.

        Parameters
        ----------
        other : Model
            Of the same class, with as many components.
        """
        return differences(self, other)

    def aligned_to(self, reference: Self, like: Data | Statistics | None = None) -> Self:
        """Return the same distribution with hidden states numbered as in a reference.

        Parameters
        ----------
        reference : Model
            Of the same class, with as many components.
        like : object, default=None
            As in `own_statistics`.
        """
        raise ValueError(f"{type(self).__name__} has no states that can be matched.")

    def __getstate__(self):
        # What was computed from the fields, and kept, is computed again.
        if not is_dataclass(self):
            return vars(self)
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __sizeof__(self):
        # Schedulers place tasks by it.
        return n_bytes(self)


def matching(occupancy, reference_occupancy, divergences, *ends):
    r"""Number states as in a reference, by the least KL divergence to it.

    .. math:: \sum_j u_i \log(u_i / v_j) + u_i \mathrm{KL}_{ij}, \qquad i = i(j)

    Parameters
    ----------
    occupancy, reference_occupancy : ndarray of shape (n_states,)
        u and v, how often states emit.
    divergences : ndarray of shape (n_states, n_states)
        KL(own emission i || the reference's emission j).
    *ends : ndarray of bool of shape (n_states,)
        If given: of both models, states that must be matched with each other.

    Returns
    -------
    order : ndarray of shape (n_states,)
        The own state i that is the reference's state j, for each j.
    """
    cost = rel_entr(occupancy[:, None], reference_occupancy)
    cost += np.where(occupancy[:, None] > 0.0, occupancy[:, None] * divergences, 0.0)
    if ends:
        cost[ends[0][:, None] != ends[1]] = np.inf
    possible = np.isfinite(cost)
    # Dearer than all others together, and of their size, so that these keep their digits.
    forbidden = 2.0 * len(cost) * np.abs(cost[possible]).max(initial=1.0)
    return linear_sum_assignment(np.where(possible, cost, forbidden).T)[1]
