"""Gaussian mixtures that learn from streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions

from sklearn_onlineem._checks import require
from sklearn_onlineem._typing import Floats, RowData
from sklearn_onlineem.estimators._known import (
    Settable,
    gaussian_family,
    learnt_parts,
    masks_of_covariances,
    masks_of_means,
)
from sklearn_onlineem.estimators.fitted import scorer_of
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.parameters import RELATIVE, estimator, parameter
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import converted, error_context
from sklearn_onlineem.families import Gaussian, Gaussians
from sklearn_onlineem.families.covariance_shapes import COVARIANCES
from sklearn_onlineem.models.mixtures.conditional import ConditionalMixture, conditional
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

# Of a fit, what scikit-learn has by the same name.
_SHARED = (
    "converged_", "n_iter_", "lower_bound_", "lower_bounds_", "n_features_in_", "feature_names_in_"
)  # fmt: skip


SHAPE = [StrOptions(set(COVARIANCES))]


def unit_gaussians(family, n_components, n_features):
    """Return Gaussians about 0 whose covariances have the family's shape."""
    unit = np.repeat(np.eye(n_features)[None], n_components, axis=0)
    return Gaussians(np.zeros(unit.shape[:2]), family.covariance.from_matrices(unit))


@estimator
class GaussianMixture(BaseMixture):
    r"""Gaussian mixture, learnt online or in batch: like scikit-learn's, with `partial_fit`.

    Each step minimises the EM bound of a batch plus 1/eta times the joint KL divergence to the old
    model, which for each component is

    .. math::
        \tilde m &= \frac{a m + \sum_n g_n x_n}{a + g}, \qquad
        a = w/\eta, \; g = \textstyle\sum_n g_n \\
        \tilde S &= \frac{a (S + (m - \tilde m)(m - \tilde m)')
        + \sum_n g_n (x_n - \tilde m)(x_n - \tilde m)'}{a + g}

    with responsibilities :math:`g_n` that add up to 1 over components and rows.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Whether each component has a matrix, all share one, or each has variances of features or one
        variance.
    reg_covar : float or "relative", default="relative"
        What each M-step adds to the variances. A number is added as in scikit-learn (whose default
        is 1e-6); "relative" is 1e-6 times the variance of each feature in the first data.
    precisions_init : array-like, default=None
        Precisions to start from, shaped like `precisions_`.
    init_params : str, default=None
        scikit-learn's name for `init`, the start, which it overrides.

    params : str or dict, default="wp"
        What is learnt: "w", the weights, "m", the means, and "c", the covariances; "p" is both of
        these. The rest stays as it starts, or as it was set. Or a dict of masks, True where an
        entry is learnt: "weights", "means", "covariances", and "parameters" of all of a component,
        of shape (n_components,). With diagonal and spherical covariances "means" may be of shape
        (n_components, n_features); tied ones are learnt or not. Parts without a mask are learnt.
        See :ref:`known_models`.

    Attributes
    ----------
    covariances_, precisions_, precisions_cholesky_ : ndarray
        Covariances, their inverses, and upper triangular factors P of these, P P' = precision. Of
        shape (n_components, n_features, n_features) full, (n_features, n_features) tied,
        (n_components, n_features) diagonal or (n_components,) spherical.

    See Also
    --------
    MixtureRegressor : Predicts targets by a mixture of features and targets.
    StudentTMixture : Components with heavy tails.
    GaussianHMM : Rows that follow each other in time.
    Mixture : Components of any family.

    References
    ----------
    .. [1] Cappe & Moulines, "On-line expectation-maximization algorithm for latent data models",
       JRSS-B 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> mixture = GaussianMixture(2, random_state=0)
    >>> for _ in range(50):
    ...     X = rng.normal(loc=rng.choice([-5.0, 5.0], size=(100, 1)))
    ...     mixture = mixture.partial_fit(X)
    >>> np.sort(mixture.means_.ravel()).round()
    array([-5.,  5.])
    """

    covariance_type: str = parameter(default="full", valid=SHAPE, structural=True)
    reg_covar: float | str = parameter(default="relative", valid=RELATIVE, structural=True)
    precisions_init: object = parameter(default=None, valid=[None, "array-like"])
    init_params: object = parameter(
        default=None,
        valid=[None, StrOptions({"kmeans", "k-means++", "random", "random_from_data"})],
    )

    def _family(self):
        shape, learnt = COVARIANCES[self.covariance_type], learnt_parts(self)
        return gaussian_family(self, shape, learnt, "covariances", "parameters")

    def _initialiser(self):
        start = super()._initialiser()
        return start if self.init_params is None else replace(start, init=self.init_params)

    # ----------------------------------------------------------------------------- fitted values

    def _parts(self, family=None):
        # Masks have the sizes of a model, which its parts may tell.
        return super()._parts(family or Gaussian(COVARIANCES[self.covariance_type]))

    _standard = staticmethod(unit_gaussians)

    means_ = replace(BaseMixture.means_, letters="mp", masks=masks_of_means)

    covariances_ = Settable[Floats](letters="cp", masks=masks_of_covariances)

    precisions_ = Settable[Floats]("covariances")

    precisions_cholesky_ = Settable[Floats]("covariances")

    # --------------------------------------------------------------------------------- inference

    def conditional(self, X: RowData, features: Sequence[int] | None = None) -> ConditionalMixture:
        """Return for each row the mixture of its missing values, given its observed ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows; NaN is missing. A row of nothing but NaN has the mixture itself.
        features : sequence of int, default=None
            The columns that the result has, each once. None: all, those that are observed with
            their values.

        Returns
        -------
        conditional : ConditionalMixture
            In float64: `weights` (n_samples, n_components), `means` (n_samples, n_components,
            n_features), `covariances`, and the methods `mean`, `covariance`, `sample`,
            `log_density`, `quantile` and `interval`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import GaussianMixture
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-3.0, 3.0, size=3000)
        >>> X = np.column_stack([x, np.abs(x) + 0.1 * rng.normal(size=3000)])
        >>> given = GaussianMixture(5, random_state=0).fit(X).conditional([[-2.0, np.nan]])
        >>> given.mean().round(1), np.round(given.interval(0.9), 1)[:, 0, 1]
        (array([[-2.,  2.]]), array([1.8, 2.2]))
        """
        seen = self._seen()
        with error_context(self):
            X, _ = converted(seen, X, False, ensure_all_finite="allow-nan")
            columns = range(X.shape[1]) if features is None else features
            columns = np.asarray(columns)
            is_valid = columns.ndim == 1 and np.issubdtype(columns.dtype, np.integer)
            is_valid &= len(np.intersect1d(columns, np.arange(X.shape[1]))) == columns.size
            what = f"different columns, 0 to {X.shape[1] - 1}"
            require(is_valid, "features", what, features)
            with single_threaded_blas(len(X)):
                return conditional(seen.model_, X, columns)

    def to_sklearn(self) -> BaseEstimator:
        """Return a fitted mixture of scikit-learn that predicts and scores the same.

        Components keep their numbers, which scikit-learn predicts also where they stand for labels.
        If one has no weight, scikit-learn warns in each prediction.

        Returns
        -------
        mixture : sklearn.mixture.GaussianMixture
            With the parameters in double precision. Its `fit` starts anew.

        Raises
        ------
        NotFittedError, ValueError
            If the estimator is not fitted, or scores by several models, as ``solver="adaptive"``
            does.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import GaussianMixture
        >>> X = np.array([[-5.0], [-4.0], [4.0], [5.0]])
        >>> mixture = GaussianMixture(2, random_state=0).fit(X).to_sklearn()
        >>> type(mixture).__module__, mixture.score_samples([[0.0], [4.5]]).round(1)
        ('sklearn.mixture._gaussian_mixture', array([-40.7,  -0.9]))
        """
        from sklearn import mixture  # which takes a while

        seen = self._seen()
        model = seen.model_
        if not isinstance(scorer_of(seen), MixtureModel):
            raise ValueError(f"{type(self).__name__}.to_sklearn: it scores by several models.")
        gaussians, shape = model.parameters, model.family.covariance
        kind = next(name for name, value in COVARIANCES.items() if value == shape)
        out = mixture.GaussianMixture(model.n_components, covariance_type=kind)
        out.weights_, out.means_ = model.weights.copy(), gaussians.mean.copy()
        out.covariances_ = gaussians.covariance[shape.shown].copy()
        out.precisions_ = gaussians.precision[shape.shown].copy()
        out.precisions_cholesky_ = gaussians.precision_factor[shape.shown].copy()
        for name in _SHARED:
            if hasattr(seen, name):
                setattr(out, name, getattr(seen, name))
        return out
