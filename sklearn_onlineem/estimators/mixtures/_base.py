"""Base of the mixtures; the estimators add established names."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import ClassifierTags
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.estimators._base import fitted_property
from sklearn_onlineem.estimators._clusters import STARTS
from sklearn_onlineem.estimators._parameters import estimator, parameter
from sklearn_onlineem.estimators._priors import prior_statistics
from sklearn_onlineem.estimators._rows import RowEstimator
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators.mixtures._initialiser import MixtureInitialiser
from sklearn_onlineem.models import MixtureStatistics

__all__ = ["BaseMixture"]


@estimator
class BaseMixture(ClassNamePrefixFeaturesOutMixin, RowEstimator):
    """Base of the mixture estimators: they say which family, and name its parameters.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    n_init : int, default=1
        Number of starts of `fit`; the best result is kept.
    init : str or array-like, default="k-means"
        Start: "k-means", "k-means++", "random" (responsibilities), "random_from_data" (rows as
        centres), centres of shape (n_components, n_features), or responsibilities of shape
        (n_samples, n_components).
    weights_init : array-like of shape (n_components,), default=None
        Weights to start from.
    means_init : array-like of shape (n_components, n_features), default=None
        Means to start from.
    weight_concentration_prior : float, default=None
        Concentration of a symmetric Dirichlet prior on the weights. None: no prior.
    prior : dict, default=None
        Hyper-parameters of the family's conjugate prior, the arguments of its `prior_statistics`.
        None: maximum likelihood.
    semi_supervised : bool, default=False
        Whether the `y` of `fit` and `partial_fit` holds known components. If not it is ignored, so
        that pipelines and searches may pass what they have.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Shares of the components.
    means_ : ndarray of shape (n_components, n_features)
        Means of the components.
    """

    n_components: int = parameter(
        default=1,
        valid=[Interval(Integral, 1, None, closed="left")],
        structural=True,
        kw_only=False,
    )
    n_init: int = parameter(default=1, valid=[Interval(Integral, 1, None, closed="left")])
    init: object = parameter(default="k-means", valid=[StrOptions(set(STARTS)), "array-like"])
    weights_init: object = parameter(default=None, valid=[None, "array-like"])
    means_init: object = parameter(default=None, valid=[None, "array-like"])
    weight_concentration_prior: float | None = parameter(
        default=None, valid=[None, Interval(Real, 0, None, closed="neither")]
    )
    prior: dict | None = parameter(default=None, valid=[None, dict])
    semi_supervised: bool = parameter(default=False, valid=["boolean"])

    def _initialiser(self):
        return MixtureInitialiser(
            self._family(), self.n_components, self.init, self.weights_init, self.means_init
        )

    def _prior(self, model, n_features):
        family, parameters = model.family, model.parameters
        concentration, emissions = self.weight_concentration_prior, None
        if self.prior is not None:
            emissions = prior_statistics(
                family, self.prior, self.n_components, n_features=n_features
            )
        if emissions is None and concentration is None:
            return None
        if emissions is None:
            emissions = family.own_statistics(parameters, np.zeros(self.n_components))
        excess = 0.0 if concentration is None else concentration - 1.0
        return MixtureStatistics(np.full(self.n_components, excess), emissions)

    @property
    def _pseudo_count(self):
        concentration = self.weight_concentration_prior
        return None if concentration is None else self.n_components * concentration

    @fitted_property
    def weights_(self):
        """Mixture weights, an ndarray of shape (n_components,)."""
        return self._exposed(self.model_.weights)

    @fitted_property
    def means_(self):
        """Means of the components, an ndarray of shape (n_components, n_features)."""
        model = self.model_
        return self._exposed(model.family.means(model.parameters))

    @property
    def _n_features_out(self):
        return self.model_.n_components

    def predict_proba(self, X):
        """Return the responsibility of each component for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_components)
            Rows add up to 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self._infer(X, "posterior")

    def predict(self, X):
        """Return the most probable component of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        components : ndarray of int of shape (n_samples,)

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self.predict_proba(X).argmax(axis=1)

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, and return the most probable component of each row of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of int of shape (n_samples,), default=None
            Ignored, or known components, as in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        components : ndarray of int of shape (n_samples,)

        Raises
        ------
        ValueError
            If the parameters or the data are invalid; the message names the estimator.
        """
        return self.fit(X, y, sample_weight).predict(X)

    def transform(self, X):
        """Return the responsibilities, as `predict_proba` does.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_components)
            Rows add up to 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self.predict_proba(X)

    def sample(self, n_samples=1):
        """Draw rows from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
            The component of each row.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_samples` is below 1.
        """
        seen = self._seen()
        seen._check_n_samples(n_samples)
        with single_threaded_blas(n_samples):
            X, y = seen.model_.sample(n_samples, self._generator())
        return seen._exposed(X), y

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.n_components > 1:
            # With labels it is a classifier of as many classes as it has components.
            tags.classifier_tags = ClassifierTags(multi_class=self.n_components > 2)
        return tags
