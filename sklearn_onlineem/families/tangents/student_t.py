"""Directions of Student's t components, about rows and their hidden precisions as complete data."""

import numpy as np
from scipy.special import polygamma, psi

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.families import Gaussians
from sklearn_onlineem.families.tangents.base import Tangents
from sklearn_onlineem.families.tangents.gaussian import gaussian_tangents

# Relative distance.
_AT_BOUND = 1e-6


class StudentTTangents(Tangents):
    r"""Tangents of Gaussians given the precisions u, and of half the degrees of freedom, b.

    .. math:: s_b = (\log b - \psi(b)) - (u - \log u - 1), \quad
        \operatorname{Var} s_b = \psi'(b) - 1 / b

    It is uncorrelated with the scores of means and scale matrices. Precisions are hidden: there are
    no features of rows, only expectations.
    """

    has_features = False

    def __init__(self, family, parameters):
        super().__init__(family, parameters)
        self._gaussian = gaussian_tangents(family._gaussian, parameters.gaussians)
        self._n_degrees = int(family.learns_degrees)

    @property
    def n_own(self):
        return self._gaussian.n_own + self._n_degrees

    @property
    def parts(self):
        d, n = self._gaussian.d, self._gaussian.n_own
        parts = {"means": slice(0, d), "scales": slice(d, n)}
        return parts | ({"degrees of freedom": slice(n, n + 1)} if self._n_degrees else {})

    @property
    def shared(self):
        d, n = self._gaussian.d, self._gaussian.n_own
        scales_are_shared = self.family.covariance.is_shared
        degrees_are_shared = self.family.degrees_of_freedom == "shared"
        return slice(d if scales_are_shared else n, self.n_own if degrees_are_shared else n)

    @cached_property
    def _halves(self):
        """Half the degrees of freedom, and the root of the variance of their score, (K, 1)."""
        n = len(self.parameters.gaussians.mean)
        b = 0.5 * np.broadcast_to(self.parameters.degrees_of_freedom, n)[:, None]
        return b, np.sqrt(polygamma(1, b) - 1.0 / b)

    def _with_degrees(self, of_gaussians, of_degrees):
        return np.column_stack([of_gaussians, of_degrees]) if self._n_degrees else of_gaussians

    @property
    def is_free(self):
        least, most = self._inner_range
        degrees, free = 2.0 * self._halves[0], self._gaussian.is_free
        covariance = self.parameters.gaussians.covariance
        exceeds = self._bounded(covariance, 1.0 + _AT_BOUND) == covariance
        if exceeds.ndim == 3:
            exceeds = exceeds.all(axis=(1, 2))[:, None]
        free[:, self._gaussian.d :] &= exceeds
        return self._with_degrees(free, (least <= degrees) & (degrees <= most))

    def _bounded(self, covariance, factor=1.0):
        """Return the nearest covariances that are at least the floor, times a factor."""
        d, shape = self._gaussian.d, self.family.covariance
        shares = np.full(len(covariance), covariance.shape[1] / d)
        return shape._at_least(covariance, shares, factor * self.family._least_variances(d))

    @property
    def _inner_range(self):
        """Degrees of freedom that are not at a bound of their range."""
        least, most = self.family.range_of_degrees
        return least * (1.0 + _AT_BOUND), most * (1.0 - _AT_BOUND)

    def effective_counts(self, statistics):
        counts = self._gaussian.effective_counts(statistics.moments)
        return self._with_degrees(counts, statistics.precisions.weight)

    def score(self, statistics):
        (b, root), (counts, totals) = self._halves, vars(statistics.precisions).values()
        of_degrees = counts[:, None] * (np.log(b) - psi(b)) - totals
        return self._with_degrees(self._gaussian.score(statistics.moments), of_degrees / root)

    def unsolved(self, statistics):
        score = self.score(statistics)
        score[:, : self._gaussian.n_own] = 0.0
        return score

    def is_proper(self, prior):
        return self._gaussian.is_proper(prior.moments)

    def floor_penalty(self, statistics):
        return self._gaussian.floor_penalty(statistics.moments)

    def natural(self, v):
        return v

    whitened = natural

    def _relative(self, v):
        """Return the relative changes of the degrees of freedom along v, (K, n_degrees)."""
        b, root = self._halves
        return v[:, self._gaussian.n_own :] / (root * b)

    def size(self, v):
        relative = np.abs(self._relative(v)).max(initial=0.0)
        return max(self._gaussian.size(v[:, : self._gaussian.n_own]), relative)

    def moved(self, v):
        degrees = self.parameters.degrees_of_freedom
        if self._n_degrees:
            moved = degrees * np.exp(self._relative(v)[: len(degrees), 0])
            # Those at a bound are fixed, so none move there.
            degrees = np.where(moved == degrees, degrees, np.clip(moved, *self._inner_range))
        gaussians = self._gaussian.moved(v[:, : self._gaussian.n_own])
        gaussians = Gaussians(gaussians.mean, self._bounded(gaussians.covariance))
        return type(self.parameters)(gaussians, degrees)
