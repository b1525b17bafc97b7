r"""Directions of Wishart distributions: scales in units of themselves, and degrees of freedom.

With :math:`S = L L'` and :math:`Y = L^{-1} X L'^{-1}`, of mean :math:`n I`, a direction scores
:math:`\operatorname{tr}(V Y) / \sqrt{2 n}` less its mean, of variance :math:`|V|^2`; coordinates
are those of V in an orthonormal basis of symmetric matrices. Where the degrees of freedom n are
learnt, a first coordinate scores :math:`(\log |X| - \operatorname{tr} Y / n) / c` less its mean,
which is what log |X| has besides: :math:`c^2 = \sum_i \psi'(\tfrac{n - i}2) - 2 d / n`, i < d.
"""

import numpy as np
from scipy.special import polygamma

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.families.tangents.base import (
    Tangents,
    symmetric_exponential,
    symmetric_units,
)


class FixedDegreesWishartTangents(Tangents):
    """Directions of the scales of Wishart distributions."""

    parts = {"scales": slice(None)}

    @property
    def n_own(self):
        return len(self._units)

    @cached_property
    def _degrees_and_scales(self):
        return self.family.degrees_and_scales(self.parameters)

    @property
    def _degrees(self):
        return self._degrees_and_scales[0]

    @property
    def _scales(self):
        return self._degrees_and_scales[1]

    @cached_property
    def _root(self):
        return np.linalg.cholesky(self._scales)

    @cached_property
    def _inverse_root(self):
        return np.linalg.inv(self._root)

    @cached_property
    def _units(self):
        return symmetric_units(self._scales.shape[1])

    @property
    def _deviation(self):
        """Standard deviations of tr V Y along a coordinate."""
        return np.sqrt(2.0 * self._degrees)[:, None]

    def _relative(self, v):
        """Return moves V of natural parameters in units of the inverse scales, (K, d, d)."""
        return np.tensordot(v / self._deviation, self._units, axes=1)

    def _of_rows(self, V):
        """Return natural parameters of moves V, flattened."""
        return (self._inverse_root.mT @ V @ self._inverse_root).reshape(len(V), -1)

    def _standardised(self, raw):
        """Return sums of Y, from sums of flattened X."""
        X = raw.reshape(len(raw), *self._scales.shape[1:])
        return self._inverse_root @ X @ self._inverse_root.mT

    def natural(self, v):
        return self._of_rows(self._relative(v))

    def _moved_scales(self, V):
        """Return scales moved along V, positive definite for any of them."""
        root = self._root @ symmetric_exponential(V)
        return root @ root.mT

    def moved(self, v):
        scales = self._moved_scales(self._relative(v))
        return (self._degrees[:, None, None] * scales).reshape(len(v), -1)

    def whitened(self, raw):
        Y = self._standardised(raw)
        return np.einsum("kij,pij->kp", Y, self._units) / self._deviation

    def size(self, v):
        return max(np.abs(v).max(), 2.0 * np.abs(self._relative(v)).max())


class WishartTangents(FixedDegreesWishartTangents):
    """Directions of the degrees of freedom and scales of Wishart distributions."""

    parts = {"degrees of freedom": slice(0, 1), "scales": slice(1, None)}
    unsolved = Tangents._unsolved_by_roots

    @property
    def n_own(self):
        return 1 + super().n_own

    @cached_property
    def _own_deviation(self):
        """Standard deviation of log |X| given the trace of Y."""
        d, degrees = self._scales.shape[1], self._degrees
        halves = 0.5 * (degrees[:, None] - np.arange(d))
        return np.sqrt(polygamma(1, halves).sum(axis=1) - 2.0 * d / degrees)

    def _moves(self, v):
        """Return moves of n / 2, and V."""
        halves = v[:, 0] / self._own_deviation
        shared = (halves / self._degrees)[:, None, None] * np.eye(self._scales.shape[1])
        return halves, self._relative(v[:, 1:]) - shared

    def natural(self, v):
        halves, V = self._moves(v)
        return np.column_stack([halves, self._of_rows(V)])

    def moved(self, v):
        halves, V = self._moves(v)
        # Above d - 1 for any v.
        least = self._scales.shape[1] - 1.0
        excess = self._degrees - least
        degrees = least + excess * np.exp(2.0 * halves / excess)
        precisions = np.linalg.inv(self._moved_scales(V)).reshape(len(v), -1)
        return self.family.from_natural(np.column_stack([0.5 * degrees, -0.5 * precisions]))

    def whitened(self, raw):
        trace = np.trace(self._standardised(raw[:, 1:]), axis1=1, axis2=2)
        own = (raw[:, 0] - trace / self._degrees) / self._own_deviation
        return np.column_stack([own, super().whitened(raw[:, 1:])])

    def size(self, v):
        halves, V = self._moves(v)
        return max(
            np.abs(v).max(), 2.0 * np.abs(V).max(), np.abs(2.0 * halves / self._degrees).max()
        )
