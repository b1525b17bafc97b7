"""Directions of compound Dirichlet parameters, about Dirichlet proportions as complete data."""

import numpy as np
from scipy.special import polygamma, psi

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.families.tangents.base import Attribute, Tangents


class CompoundDirichletTangents(Tangents):
    r"""Tangents of alpha, by the symmetric root of the information of proportions.

    .. math:: \operatorname{diag}(\psi'(\alpha)) - \psi'(\alpha_0) 1 1'
        = D^{1/2} (I - c u u') D^{1/2} = L L', \quad L = D^{1/2} (I - \gamma u u')

    Proportions are hidden: there are no features of rows, only their expectations.
    """

    has_features = False
    parts = {"alpha": slice(None)}

    unsolved = Tangents.score

    @cached_property
    def mean(self):
        return psi(self.parameters.alpha) - psi(self.parameters.precision)

    @property
    def is_free(self):
        alpha = self.parameters.alpha
        return alpha > 2.0 * self.family.min_alpha

    @cached_property
    def _root(self):
        """Return D^1/2, u, and the d of (I - gamma u u')^-1 = I + d u u'."""
        root = np.sqrt(polygamma(1, self.parameters.alpha))
        u = 1.0 / root
        square = (u**2).sum(axis=1, keepdims=True)
        left = np.sqrt(1.0 - polygamma(1, self.parameters.precision) * square)
        return root, u, (1.0 - left) / (left * square)

    def natural(self, v):
        root, u, d = self._root
        return (v + d * u * (u * v).sum(axis=1, keepdims=True)) / root

    def whitened(self, raw):
        root, u, d = self._root
        raw = raw / root
        return raw + d * u * (u * raw).sum(axis=1, keepdims=True)

    def size(self, v):
        return np.maximum(np.abs(v), np.abs(self.natural(v)) / self.parameters.alpha).max()

    def moved(self, v):
        alpha = self.parameters.alpha * np.exp(self.natural(v) / self.parameters.alpha)
        return self.family.dirichlets(alpha, self.parameters.length)

    def attributes(self):
        return {"alpha_": Attribute(self.parameters.alpha, "positive")}

    def derivatives(self, v):
        return {"alpha_": self.natural(v)}
