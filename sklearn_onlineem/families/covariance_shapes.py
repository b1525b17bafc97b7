"""Shapes of covariance matrices: what noise a regression may have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._typing import Floats

__all__ = ["CovarianceShape", "DiagonalCovariance", "FullCovariance", "SphericalCovariance"]


class CovarianceShape(ABC):
    """Shape of the noise covariances of a family."""

    @abstractmethod
    def nearest(self, covariance: Floats) -> Floats:
        """Return the covariance of this shape that maximises the likelihood of the given one.

        Parameters
        ----------
        covariance : ndarray of shape (d, d)
            That of the rows, or of the residuals of a regression.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import SphericalCovariance
        >>> SphericalCovariance().nearest(np.array([[2.0, 1.0], [1.0, 4.0]]))
        array([[3., 0.],
               [0., 3.]])
        """

    @abstractmethod
    def n_parameters(self, n_features: int) -> int:
        """Return the number of free parameters.

        Parameters
        ----------
        n_features : int
            d.

        Examples
        --------
        >>> from sklearn_onlineem.families import DiagonalCovariance, FullCovariance
        >>> FullCovariance().n_parameters(3), DiagonalCovariance().n_parameters(3)
        (6, 3)
        """

    def degrees_of_mean(self, n_features: int) -> float:
        """Return by how many the degrees of a posterior's mean are below those of its mode.

        Variances have inverse gamma distributions; where they are one, it has seen all features.

        Parameters
        ----------
        n_features : int
            d.

        Examples
        --------
        >>> from sklearn_onlineem.families import DiagonalCovariance, FullCovariance
        >>> FullCovariance().degrees_of_mean(3), DiagonalCovariance().degrees_of_mean(3)
        (8.0, 4.0)
        """
        return 4.0 * self.n_parameters(n_features) / n_features


@dataclass(frozen=True)
class FullCovariance(CovarianceShape):
    """Any covariance."""

    def nearest(self, covariance: Floats) -> Floats:
        return 0.5 * (covariance + covariance.T)

    def n_parameters(self, n_features: int) -> int:
        return n_features * (n_features + 1) // 2

    def degrees_of_mean(self, n_features: int) -> float:
        # Of an inverse Wishart distribution.
        return 2.0 * (n_features + 1)


@dataclass(frozen=True)
class DiagonalCovariance(CovarianceShape):
    """Independent features."""

    def nearest(self, covariance: Floats) -> Floats:
        return np.diag(np.diag(covariance))

    def n_parameters(self, n_features: int) -> int:
        return n_features


@dataclass(frozen=True)
class SphericalCovariance(CovarianceShape):
    """Independent features of one variance."""

    def nearest(self, covariance: Floats) -> Floats:
        return np.eye(len(covariance)) * (np.trace(covariance) / max(1, len(covariance)))

    def n_parameters(self, n_features: int) -> int:
        return 1
