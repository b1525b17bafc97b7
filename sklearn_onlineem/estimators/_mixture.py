"""What all mixtures share; the estimators add their names for things."""

from __future__ import annotations

from numbers import Real

from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import ClassifierTags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._row_model import RowModel
from sklearn_onlineem.estimators._starts import STARTS
from sklearn_onlineem.estimators._threads import single_threaded_blas

__all__ = ["BaseMixture"]


class BaseMixture(ClassNamePrefixFeaturesOutMixin, RowModel):
    """Base of the mixture estimators: they say which family, and name its parameters."""

    _parameter_constraints: dict = {
        **OnlineEM._parameter_constraints,
        "init": [StrOptions(set(STARTS)), "array-like"],
        "weights_init": [None, "array-like"],
        "means_init": [None, "array-like"],
        "weight_concentration_prior": [None, Interval(Real, 0, None, closed="neither")],
        "prior": [None, dict],
    }

    def __init__(
        self,
        n_components=1,
        *,
        solver="online",
        eta0="auto",
        beta=0.6,
        schedule="power",
        batch_size=1000,
        online_passes=1,
        max_iter=100,
        tol=1e-3,
        stopping="likelihood",
        n_init=1,
        init="k-means",
        weights_init=None,
        means_init=None,
        weight_concentration_prior=None,
        prior=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        verbose_interval=10,
        callbacks=None,
    ):
        self.n_components = n_components
        self.solver = solver
        self.eta0 = eta0
        self.beta = beta
        self.schedule = schedule
        self.batch_size = batch_size
        self.online_passes = online_passes
        self.max_iter = max_iter
        self.tol = tol
        self.stopping = stopping
        self.n_init = n_init
        self.init = init
        self.weights_init = weights_init
        self.means_init = means_init
        self.weight_concentration_prior = weight_concentration_prior
        self.prior = prior
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.callbacks = callbacks

    @property
    def weights_(self):
        """Mixture weights, an ndarray of shape (n_components,)."""
        return self._exposed(self.model_.weights)

    @property
    def means_(self):
        """Means of the components, an ndarray of shape (n_components, n_features)."""
        model = self.model_
        return self._exposed(model.family.means(model.parameters))

    @property
    def _n_features_out(self):
        return self.n_components

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
        check_is_fitted(self)
        data = self._observe(X, None, None, reset=False)
        with single_threaded_blas(len(data)):
            return self.model_.posterior(data)

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
        y : array-like of shape (n_samples,), default=None
            Known components, as in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None

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
        self._check_n_samples(n_samples)
        X, y = self.model_.sample(n_samples, self._generator())
        return self._exposed(X), y

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.n_components > 1:
            # Labels make it a classifier of as many classes as it has components.
            tags.classifier_tags = ClassifierTags(multi_class=self.n_components > 2)
        return tags
