"""Mixtures of matrices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.parameters import POSITIVE, estimator, parameter
from sklearn_onlineem.families import Wishart
from sklearn_onlineem.families.wishart import FixedDegreesWishart, wisharts


@estimator
class WishartMixture(BaseMixture):
    """Mixture of Wishart distributions: clusters of covariance matrices.

    Each row of the data is a symmetric positive-definite matrix, flattened.

    Parameters
    ----------
    degrees_of_freedom : float, default=None
        Degrees of freedom of all components. None: learnt, for each component.

    Attributes
    ----------
    degrees_of_freedom_ : ndarray of shape (n_components,)
        Degrees of freedom.
    scales_ : ndarray of shape (n_components, side, side)
        Scale matrices; degrees of freedom times scale is the mean.

    See Also
    --------
    GammaMixture : The same for positive numbers.
    GaussianMixture : Clusters of the rows that such matrices are covariances of.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import WishartMixture
    >>> rng = np.random.default_rng(0)
    >>> roots = rng.normal(size=(400, 2, 10)) * np.repeat([1.0, 5.0], 200)[:, None, None]
    >>> X = (roots @ roots.transpose(0, 2, 1)).reshape(400, 4)
    >>> mixture = WishartMixture(2, random_state=0).fit(X)
    >>> mixture.degrees_of_freedom_.round(-1)
    array([10., 10.])
    """

    degrees_of_freedom: float | None = parameter(
        default=None, valid=[None, POSITIVE], structural=True
    )

    def _family(self):
        if self.degrees_of_freedom is None:
            return Wishart()
        return FixedDegreesWishart(self.degrees_of_freedom)

    def _features_of(self, sizes, given):
        return sizes["s"] ** 2 if "s" in sizes else sizes.get("d")

    def _standard(self, family, n_components, n_features):
        side = max(1, math.isqrt(n_features))
        unit = np.tile(np.eye(side), (n_components, 1, 1))
        return wisharts(family, np.full(n_components, side + 1.0), unit)

    degrees_of_freedom_ = Settable[Floats](optional="degrees_of_freedom")

    means_ = replace(BaseMixture.means_, parts="scales")

    scales_ = Settable[Floats]()
