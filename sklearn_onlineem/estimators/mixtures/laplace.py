"""Mixtures of real numbers around medians."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.parameters import estimator
from sklearn_onlineem.families import Laplace
from sklearn_onlineem.families.laplace import Laplaces


@estimator
class LaplaceMixture(BaseMixture):
    r"""Mixture of products of Laplace distributions: medians for means, and long tails.

    .. math:: p(x) = \sum_k w_k \prod_j \frac{1}{2 b_{kj}} e^{-|x_j - m_{kj}| / b_{kj}}

    Features of a component are independent: on most data, densities are far below those of mixtures
    with covariances, `GaussianMixture` and `StudentTMixture`; see :ref:`heavy_tails`. Laplace
    distributions are no exponential family: statistics list rows, so that a pass of batch EM takes
    memory for a copy of the data and their responsibilities. Each step is exact nevertheless.

    Parameters
    ----------
    prior : dict, "auto", LearntPrior or None, default="auto"
        Hyper-parameters of the conjugate prior: ``pseudo_count``, ``location`` and ``scale``; or
        the result of `as_prior` of a fitted estimator. "auto" and None are maximum likelihood.

    Attributes
    ----------
    locations_ : ndarray of shape (n_components, n_features)
        Medians of the components, which are their means, too.
    scales_ : ndarray of shape (n_components, n_features)
        Mean distances from the medians.

    See Also
    --------
    families.Laplace : Formulas, and a floor of the scales other than 1e-3 times the data's.
    StudentTMixture : Heavy tails with covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import LaplaceMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(rng.choice([-10.0, 10.0], size=(1000, 1)), 2.0)
    >>> X[:5] = 1e4  # outliers
    >>> mixture = LaplaceMixture(2, random_state=0, init=[[-1.0], [1.0]]).fit(X)
    >>> np.sort(mixture.locations_.ravel()).round()
    array([-10.,  10.])
    """

    def _family(self):
        return Laplace()

    def _standard(self, family, n_components, n_features):
        return Laplaces(*np.full((2, n_components, n_features), 1.0))

    locations_ = Settable[Floats]("means")

    scales_ = Settable[Floats]()
