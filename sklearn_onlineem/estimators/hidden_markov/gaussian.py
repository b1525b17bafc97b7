"""Gaussian hidden Markov models."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real

import numpy as np

from sklearn_onlineem._checks import (
    LARGEST_SQUARE,
    at_least,
    finite,
    finite_start,
    positive_semidefinite,
)
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.estimators._known import (
    Settable,
    gaussian_family,
    learnt_parts,
    masks_of_covariances,
    masks_of_means,
)
from sklearn_onlineem.estimators._start import PRIOR, LearntPrior
from sklearn_onlineem.estimators.hidden_markov._base import BaseHMM
from sklearn_onlineem.estimators.mixtures.gaussian import SHAPE, unit_gaussians
from sklearn_onlineem.estimators.parameters import NOT_NEGATIVE, RELATIVE, estimator, parameter
from sklearn_onlineem.families import Gaussian
from sklearn_onlineem.families.covariance_shapes import COVARIANCES


def _start_covars(hmm, name, values, model):
    """Return start values of covariances, which may have further axes of length 1."""
    shape = model.parameters.covariance[model.family.covariance.shown].shape
    values = np.asarray(values, dtype=np.float64)
    if [n for n in values.shape if n != 1] == [n for n in shape if n != 1]:
        values = values.reshape(shape)
    return finite_start(name, values, shape, LARGEST_SQUARE)


@estimator
class GaussianHMM(BaseHMM):
    """Hidden Markov model with Gaussian emissions: like hmmlearn's, with `partial_fit`.

    Rows and single values may be missing (NaN), and are marginalised.

    Parameters
    ----------
    covariance_type : {"diag", "full", "tied", "spherical"}, default="diag"
        Whether each state has variances of features or a matrix, all share one, or each has one
        variance.
    reg_covar : float or "relative", default="relative"
        What each M-step adds to the variances; "relative" is 1e-6 times the variance of each
        feature in the first data.
    params : str or dict, default="ste"
        Which of start (s), transitions (t), means (m) and covariances (c) are learnt; e is both of
        these. The rest stays as it starts, or as it was set. Or a dict of masks, True where an
        entry is learnt: "startprob", "transmat" and "emissions" as of all hidden Markov models,
        "means" and "covars" of shape (n_components,). With diagonal and spherical covariances
        "means" may be of shape (n_components, n_features); tied ones are learnt or not. Parts
        without a mask are learnt. See :ref:`known_models`.
    means_init : array-like of shape (n_components, n_features), default=None
        Means to start from.
    covars_init : array-like, default=None
        Covariances to start from: of shape (n_components, n_features) diagonal, (n_components,
        n_features, n_features) full, (n_features, n_features) tied or (n_components,) spherical.
    prior : dict, "auto", LearntPrior or None, default="auto"
        Hyper-parameters of the conjugate prior of means and covariances, as in `GaussianMixture`
        with the same `covariance_type`; or the result of `as_prior` of a fitted estimator. None:
        maximum likelihood, but for the parameters below. "auto": if none of these is set, and the
        first data have missing values, a penalty of full and tied covariances, see
        :ref:`few_values`; else as None.
    means_prior : array-like broadcasting to (n_components, n_features), default=0.0
        Mean of the normal prior of the means.
    means_weight : float, default=0.0
        Its precision, in pseudo-rows; 0: no prior.
    covars_prior : float or array-like of shape (n_features, n_features), default=None
        Scale of the prior of the covariances, added to the sums of squares; a number is added to
        the diagonal. None: no prior.
    covars_weight : float, default=1.0
        Its weight. As in hmmlearn, its excess over 1 (diagonal and spherical) or n_features (full
        and tied) is added to the numbers of rows that divide the sums.

    Attributes
    ----------
    means_ : ndarray of shape (n_components, n_features)
    covars_ : ndarray of shape (n_components, n_features, n_features)
        Covariance matrices, whatever `covariance_type` is, as in hmmlearn.

    See Also
    --------
    HMM : Formulas, and what the parameters mean.
    KalmanFilter : States that are vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianHMM
    >>> rng = np.random.default_rng(0)
    >>> hmm = GaussianHMM(2, random_state=0)
    >>> for _ in range(20):
    ...     sequence = rng.normal(np.repeat([[-5.0], [5.0]], 30, axis=0))
    ...     hmm = hmm.partial_fit([sequence])
    >>> np.sort(hmm.means_.ravel()).round()
    array([-5.,  5.])
    """

    covariance_type: str = parameter(default="diag", valid=SHAPE, structural=True)
    reg_covar: float | str = parameter(default="relative", valid=RELATIVE, structural=True)
    means_init: object = parameter(default=None, valid=[None, "array-like"])
    covars_init: object = parameter(default=None, valid=[None, "array-like"])
    means_prior: object = parameter(default=0.0, valid=[Real, "array-like"])
    means_weight: float = parameter(default=0.0, valid=[NOT_NEGATIVE])
    covars_prior: object = parameter(default=None, valid=[None, NOT_NEGATIVE, "array-like"])
    prior: Mapping[str, object] | LearntPrior | str | None = parameter(default="auto", valid=PRIOR)
    covars_weight: float = parameter(default=1.0, valid=[NOT_NEGATIVE])

    _takes = frozenset({"missing"})

    def _shape(self):
        return COVARIANCES[self.covariance_type]

    def _family(self):
        return gaussian_family(self, self._shape(), learnt_parts(self), "covars", "emissions")

    def _emission_prior(self, family, n_features):
        own = self._own_prior(family, (self.n_components,), n_features)
        return super()._emission_prior(family, n_features) if own is None else own

    def _own_prior(self, family, shape, n_features):
        """Return the prior of hmmlearn's parameters, of components of this shape, or None."""
        has_own = self.covars_prior is not None or self.means_weight or self.covars_weight > 1.0
        if not has_own or self._hyperparameters not in (None, "auto"):
            return None
        means = finite("means_prior", self.means_prior, (*shape, n_features))
        scatter = 0.0 if self.covars_prior is None else self.covars_prior
        # hmmlearn subtracts this from `covars_weight`.
        certain = 1.0 if self.covariance_type in ("diag", "spherical") else n_features
        return family.pseudo_moments(
            *means.reshape(-1, n_features).shape,
            mean=means.reshape(-1, n_features),
            mean_weight=at_least("means_weight", self.means_weight, 0.0),
            scatter=positive_semidefinite("covars_prior", scatter, n_features),
            degrees=max(0.0, finite("covars_weight", self.covars_weight) - certain),
        )

    def _parts(self, family=None):
        # Masks have the sizes of a model, which its parts may tell.
        return super()._parts(family or Gaussian(self._shape()))

    _standard = staticmethod(unit_gaussians)

    means_ = Settable[Floats](letters="me", masks=masks_of_means)

    covars_ = Settable[Floats](letters="ce", masks=masks_of_covariances, start=_start_covars)
