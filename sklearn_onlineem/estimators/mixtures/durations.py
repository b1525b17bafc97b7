"""Mixtures of positive numbers: waiting times, amounts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.parameters import POSITIVE, estimator, parameter
from sklearn_onlineem.estimators.progress import warn_user
from sklearn_onlineem.families import Exponential, Gamma
from sklearn_onlineem.families.gamma import FixedShapeGamma


@estimator
class ExponentialMixture(BaseMixture):
    """Mixture of products of exponential distributions, learnt online or in batch.

    Attributes
    ----------
    rates_ : ndarray of shape (n_components, n_features)
        Inverse means.

    See Also
    --------
    GammaMixture : The same with shapes that are learnt.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import ExponentialMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.exponential(1, (500, 2)), rng.exponential(50, (500, 2))])
    >>> mixture = ExponentialMixture(2, random_state=0).fit(X)
    >>> np.sort(mixture.means_[:, 0]).round()
    array([ 1., 51.])
    """

    _takes = frozenset({"positive"})

    def _family(self):
        return Exponential()

    rates_ = Settable[Floats]("means")


@estimator
class GammaMixture(BaseMixture):
    """Mixture of products of gamma distributions, their shapes learnt or given.

    Parameters
    ----------
    shape : float, default=None
        Shape of all variables. None: learnt, for each component and feature.
    zero_value : float or None, default=1e-6
        Value that replaces exact zeros, at which gamma densities are 0 or infinite, with a warning.
        None: zeros are an error.

    Attributes
    ----------
    shapes_, rates_ : ndarray of shape (n_components, n_features)
        Shapes and rates of the components.

    See Also
    --------
    ExponentialMixture : Gammas of shape 1.
    WishartMixture : The same for positive definite matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GammaMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.gamma(5, 1, (2000, 1)), rng.gamma(50, 1, (2000, 1))])
    >>> mixture = GammaMixture(2, random_state=0).fit(X)
    >>> np.sort(mixture.means_.ravel()).round()
    array([ 5., 50.])
    """

    shape: float | None = parameter(default=None, valid=[None, POSITIVE], structural=True)
    zero_value: float | None = parameter(default=1e-6, valid=[None, POSITIVE])

    _takes = frozenset({"positive"})

    def _family(self):
        return Gamma() if self.shape is None else FixedShapeGamma(self.shape)

    def _prepared(self, X):
        zeros = X == 0
        if self.zero_value is None or not zeros.any():
            return X
        warn_user(f"{type(self).__name__}: {zeros.sum()} zeros were replaced by {self.zero_value}.")
        return np.where(zeros, X.dtype.type(self.zero_value), X)

    def _standard(self, family, n_components, n_features):
        means = np.ones((n_components, n_features))
        if not isinstance(family, Gamma):
            return means
        # The family of shape 1 and rate 1.
        return family.from_natural(np.concatenate([0.0 * means, -means], axis=1))

    shapes_ = Settable[Floats](optional="shape")

    means_ = replace(BaseMixture.means_, parts="rates")

    rates_ = Settable[Floats]()
