"""Parameters and statistics of Dirichlet distributions of the proportions in documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.statistics import Statistics


@dataclass(frozen=True)
class Dirichlets:
    """The parameters of K compound Dirichlet components.

    Parameters
    ----------
    alpha : ndarray of shape (K, n_features)
        Above 0. Its sum, which must be finite, is the precision: the smaller, the burstier.
    length : ndarray of shape (K,)
        Mean length of documents, in words. Densities do not depend on it.
    """

    alpha: Floats
    length: Floats

    def __post_init__(self):
        if not isinstance(self.alpha, np.ndarray) or self.alpha.ndim != 2:
            raise ValueError("alpha must be an array of shape (K, n_features).")
        if not self.alpha.min(initial=np.inf) > 0.0 or not self.alpha.sum() < np.inf:
            raise ValueError("alpha must be above 0, and have a finite sum.")

    @property
    def precision(self) -> Floats:
        """Sums of alpha, an ndarray of shape (K, 1)."""
        return self.alpha.sum(axis=1, keepdims=True)

    @property
    def extended(self) -> Floats:
        """Alpha, and its sum at the end, as kernels take them."""
        return np.concatenate([self.alpha, self.precision], axis=1)


@dataclass(frozen=True)
class ExpectedLogs(Statistics):
    r"""Sums of :math:`E[\log h \mid v, \alpha]`, one row per component.

    Parameters
    ----------
    weight : ndarray of shape (K,)
        Number of draws of h behind each total, with the prior's pseudo-documents.
    total : ndarray of shape (K, n_features)
        The sums, in nats.
    documents : ndarray of shape (K,)
        Weight of the documents alone.
    length : ndarray of shape (K,)
        Sums of document lengths.
    """

    weight: Floats
    total: Floats
    documents: Floats
    length: Floats
