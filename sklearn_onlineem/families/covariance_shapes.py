"""Shapes of covariance matrices: what noise a regression may have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

__all__ = ["CovarianceShape", "DiagonalCovariance", "FullCovariance", "SphericalCovariance"]


class CovarianceShape(ABC):
    """Shape of the noise covariances of a family."""

    @abstractmethod
    def nearest(self, covariance):
        """Return the covariance of this shape that maximises the likelihood of the given one."""

    @abstractmethod
    def n_parameters(self, n_features):
        """Return the number of free parameters."""


@dataclass(frozen=True)
class FullCovariance(CovarianceShape):
    """Any covariance."""

    def nearest(self, covariance):
        return 0.5 * (covariance + covariance.T)

    def n_parameters(self, n_features):
        return n_features * (n_features + 1) // 2


@dataclass(frozen=True)
class DiagonalCovariance(CovarianceShape):
    """Independent features."""

    def nearest(self, covariance):
        return np.diag(np.diag(covariance))

    def n_parameters(self, n_features):
        return n_features


@dataclass(frozen=True)
class SphericalCovariance(CovarianceShape):
    """Independent features of one variance."""

    def nearest(self, covariance):
        return np.eye(len(covariance)) * (np.trace(covariance) / max(1, len(covariance)))

    def n_parameters(self, n_features):
        return 1
