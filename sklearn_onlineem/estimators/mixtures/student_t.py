"""Mixtures of real numbers with heavy tails."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.mixtures._base import BaseMixture
from sklearn_onlineem.estimators.mixtures.gaussian import SHAPE, unit_gaussians
from sklearn_onlineem.estimators.parameters import RELATIVE, estimator, parameter
from sklearn_onlineem.families import StudentT
from sklearn_onlineem.families.covariance_shapes import COVARIANCES
from sklearn_onlineem.families.student_t import StudentTs


@estimator
class StudentTMixture(BaseMixture):
    r"""Mixture of multivariate Student's t distributions: Gaussians with heavy tails.

    .. math:: p(x) = \sum_k w_k \frac{\Gamma((\nu_k + d) / 2)}{\Gamma(\nu_k / 2) \,
        |\nu_k \pi S_k|^{1/2}}
        \left(1 + (x - m_k)' S_k^{-1} (x - m_k) / \nu_k\right)^{-(\nu_k + d) / 2}

    Rows far from a component have little weight in its next mean and scale matrix. With many
    degrees of freedom :math:`\nu_k`, components are near Gaussian. What few ones are worth on real
    data is in the guide, :ref:`heavy_tails`.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        Shape of the scale matrices S, as in `GaussianMixture`.
    degrees_of_freedom : {"each", "shared"} or float, default="each"
        Whether each component learns its own, all learn one, or all have this one, from 1 to 1000.
    reg_covar : float or "relative", default="relative"
        Least variance along each feature, of S. "relative" is 1e-6 times the variance of each
        feature in the first data, without its outliers if that is less.
    prior : dict, "auto", LearntPrior or None, default="auto"
        Hyper-parameters of the prior of means and scale matrices, as in `GaussianMixture` with the
        same `covariance_type`; or the result of `as_prior` of a fitted estimator. Degrees of
        freedom have no prior. None: maximum likelihood. "auto": the same, but for a penalty of full
        and tied matrices if the first data have missing values, see :ref:`few_values`.

    Attributes
    ----------
    means_ : ndarray of shape (n_components, n_features)
        Centres of the components, which are their means if degrees of freedom are above 1.
    scales_ : ndarray
        Scale matrices S, the ``shape`` of ``scipy.stats.multivariate_t``: of shape (n_components,
        n_features, n_features) full, (n_features, n_features) tied, (n_components, n_features)
        diagonal or (n_components,) spherical. Covariances are :math:`\nu / (\nu - 2)` times these
        if :math:`\nu > 2`, and do not exist otherwise.
    degrees_of_freedom_ : ndarray of shape (n_components,)
        Degrees of freedom.

    See Also
    --------
    GaussianMixture : For rows without heavy tails.
    families.StudentT : Formulas.
    LaplaceMixture : Heavy tails along each feature, without correlations.

    References
    ----------
    .. [1] Peel & McLachlan, "Robust mixture modelling using the t distribution", Statistics and
       Computing 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import StudentTMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-20.0, 20.0], size=(2000, 1)) + rng.standard_t(2.0, size=(2000, 1))
    >>> mixture = StudentTMixture(2, random_state=0).fit(X)
    >>> np.sort(mixture.means_.ravel()).round(), mixture.degrees_of_freedom_.round()
    (array([-20.,  20.]), array([2., 2.]))
    """

    covariance_type: str = parameter(default="full", valid=SHAPE, structural=True)
    degrees_of_freedom: float | str = parameter(
        default="each",
        valid=[StrOptions({"each", "shared"}), Interval(Real, 1, 1000, closed="both")],
        structural=True,
    )
    reg_covar: float | str = parameter(default="relative", valid=RELATIVE, structural=True)

    def _family(self):
        reg_covar = None if self.reg_covar == "relative" else self.reg_covar
        return StudentT(COVARIANCES[self.covariance_type], self.degrees_of_freedom, reg_covar)

    def _standard(self, family, n_components, n_features):
        n_degrees = n_components if self.degrees_of_freedom == "each" else 1
        degrees = 10.0 if family.learns_degrees else float(family.degrees_of_freedom)
        gaussians = unit_gaussians(family, n_components, n_features)
        return StudentTs(gaussians, np.full(n_degrees, degrees))

    scales_ = Settable[Floats]()

    degrees_of_freedom_ = Settable[Floats](
        optional=lambda self: isinstance(self.degrees_of_freedom, Real)
    )
