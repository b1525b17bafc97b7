"""Directions of Gaussians: means in units of the covariance, and covariances likewise.

With x = m + R y, where covariances are R R', a direction moves means by R u and covariances by
R V R'; rows score u'y + (y'Vy - tr V) / 2. Coordinates of V are its entries, the diagonal ones
divided by sqrt(2), so that scores have variance 1.
"""

import numpy as np

from sklearn_onlineem._python import cached_property
from sklearn_onlineem.families._family import Family
from sklearn_onlineem.families.covariance_shapes import NEGLIGIBLE, Gaussians
from sklearn_onlineem.families.tangents import (
    Tangents,
    symmetric,
    symmetric_exponential,
    upper_entries,
    upper_triangle,
)


class _GaussianTangents(Tangents):
    """Tangents of Gaussians of any covariances."""

    @cached_property
    def d(self):
        return self.parameters.mean.shape[1]

    @cached_property
    def n_own(self):
        return self.d + self.family.covariance.n_parameters(self.d)

    @property
    def parts(self):
        return {"means": slice(0, self.d), "covariances": slice(self.d, None)}

    @property
    def shared(self):
        return slice(self.d, None) if self.family.covariance.is_shared else slice(0, 0)

    @property
    def is_free(self):
        family, free = self.family, np.ones((len(self.parameters.mean), self.n_own), dtype=bool)
        free[:, : self.d], free[:, self.d :] = family.learns_means, family.learns_covariances
        return free

    def effective_counts(self, statistics):
        counts = np.empty((len(statistics.weight), self.n_own))
        counts[:, : self.d] = statistics.weight[:, None]
        counts[:, self.d :] = self._of_each(statistics, statistics.degrees)[:, None]
        return counts

    def _of_each(self, statistics, values):
        """Return values of covariances, or of a common one as shares of the components."""
        if not self.family.covariance.is_shared:
            return values
        share = statistics.weight / statistics.weight.sum()
        return share.reshape(-1, *(1,) * (values.ndim - 1)) * values

    def score(self, statistics):
        weight, first = statistics.weight[:, None], statistics.mean - self.parameters.mean
        first = np.where(weight > NEGLIGIBLE, weight * first, 0.0)
        return self._whitened(statistics, first)

    def moved(self, v):
        mean, covariance = self._moved(v)
        if self.family.limits is None:
            return Gaussians(mean, covariance)
        # Means and variances that no value determines might go to infinity.
        (low, high), before = self.family.limits, self.parameters.mean
        reach, most = high - low, _variances(self.parameters.covariance)
        most = np.maximum(most, reach**2 if most.shape[1] == self.d else (reach**2).max())
        least, largest = np.minimum(low - reach, before), np.maximum(high + reach, before)
        if ((variances := _variances(covariance)) > most).any():
            root = np.sqrt(np.minimum(1.0, most / variances))
            covariance = covariance * (root[:, :, None] if covariance.ndim == 3 else root)
            covariance *= root[:, None, :] if covariance.ndim == 3 else root
        return Gaussians(np.minimum(np.maximum(mean, least), largest), covariance)

    def is_proper(self, prior):
        return bool((prior.weight >= 0.0).all() and np.all(prior.degrees >= 0.0))

    def floor_penalty(self, statistics):
        degrees = self._of_each(statistics, statistics.degrees)[:, None]
        squares = degrees * _variances(self.parameters.precision)
        return -0.5 * float((squares * self.family._added(self.d)).sum())


def _variances(covariances):
    return covariances.diagonal(axis1=1, axis2=2) if covariances.ndim == 3 else covariances


class MatrixTangents(_GaussianTangents):
    """Tangents of Gaussians with full and tied covariances."""

    @property
    def is_free(self):
        free = super().is_free
        if self.family.limits is not None:
            # Rows without a value tell nothing of correlations with a column that has only one.
            varies, (i, j) = np.less(*self.family.limits), upper_triangle(self.d)[0]
            free[:, self.d :] &= (varies[i] & varies[j]) | (i == j)
        return free

    @cached_property
    def _root(self):
        return self.parameters.covariance @ self.parameters.precision_factor

    def _whitened(self, statistics, first):
        """Return the scores, from sums of rows about the present means."""
        scatter = self._of_each(statistics, statistics.scatter)
        deviation = statistics.mean - self.parameters.mean
        # The M-step adds the floor to the mean of the squares.
        unfloored = self.parameters.covariance - np.diag(self.family._added(self.d))
        expected = self._of_each(statistics, statistics.degrees)[:, None, None] * unfloored
        second = scatter + first[:, :, None] * deviation[:, None, :] - expected
        P = self.parameters.precision_factor
        T, u = P.mT @ second @ P, (P.mT @ first[:, :, None])[:, :, 0]
        return np.concatenate([u, upper_entries(T)], axis=1)

    def _moved(self, v):
        n = len(self.parameters.covariance)
        means = self.parameters.mean + (self._root @ v[:, : self.d, None])[:, :, 0]
        roots = self._root[:n] @ symmetric_exponential(0.5 * symmetric(v[:n, self.d :], self.d))
        return means, roots @ roots.mT


class AxisTangents(_GaussianTangents):
    """Tangents of Gaussians with diagonal and spherical covariances."""

    def _whitened(self, statistics, first):
        parameters, deviation = self.parameters, statistics.mean - self.parameters.mean
        degrees = self._of_each(statistics, statistics.degrees)[:, None]
        floor, n_sharing = self.family._added(self.d), self.d // parameters.covariance.shape[1]
        floor = floor.mean() if n_sharing > 1 else floor
        expected = n_sharing * degrees * (parameters.covariance - floor)
        second = self.family.covariance._summed(first * deviation)
        second = statistics.scatter + second - expected
        spread = 0.5 * np.sqrt(2.0 / n_sharing) * parameters.precision * second
        return np.concatenate([parameters.precision_factor * first, spread], axis=1)

    def _moved(self, v):
        # V along a coordinate has this unit, where features share a variance.
        parameters = self.parameters
        unit = np.sqrt(2.0 / (self.d // parameters.covariance.shape[1]))
        means = parameters.mean + v[:, : self.d] / parameters.precision_factor
        return means, parameters.covariance * np.exp(unit * v[:, self.d :])


def gaussian_tangents(family: Family, parameters: Gaussians) -> Tangents:
    """Return the directions of Gaussians with this type of covariance.

    Parameters
    ----------
    family, parameters : Gaussian, Gaussians
        The family, and its parameters.
    """
    kind = MatrixTangents if parameters.covariance.ndim == 3 else AxisTangents
    return kind(family, parameters)
