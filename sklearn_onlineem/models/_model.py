"""The contract of a model: four functions, from which the engine makes everything else."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["Model"]


class Model(ABC):
    """A model with hidden variables: a frozen value that holds its parameters.

    Statistics are averages per observation, jointly over hidden and visible variables. Two laws
    hold for each model and are tested over the list of all: ``m_step(own_statistics())`` is the
    identity, and the evidence of two batches adds up to that of both.
    """

    @abstractmethod
    def e_step(self, data, rng=None):
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
    def own_statistics(self, like=None):
        """Return the expected statistics of the model itself.

        Parameters
        ----------
        like : object, default=None
            Data whose lengths the expectation is taken for, where the model has lengths.
        """

    @abstractmethod
    def m_step(self, statistics):
        """Return the model that maximises the statistics."""

    @abstractmethod
    def log_likelihood(self, data):
        """Return the log-likelihood of each observation, an ndarray of shape (n,), in nats."""

    @abstractmethod
    def kl_divergence(self, other, like=None):
        """Return KL(self || other) jointly over hidden and visible variables, in nats."""

    @abstractmethod
    def sample(self, n, rng):
        """Draw n observations; return ``(visible, hidden)``."""

    def pseudo_data(self, n, rng, like):
        """Draw n observations in the form that `e_step` takes, with lengths drawn from `like`."""
        return self.sample(n, rng, like=like)[0]
