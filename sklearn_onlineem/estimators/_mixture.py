"""What all mixtures share; the estimators add their names for things."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import ClassifierTags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._priors import prior_statistics
from sklearn_onlineem.estimators._starts import STARTS, start_model, wide_pseudo_rows
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators._validation import raise_named, validated_rows
from sklearn_onlineem.models import MixtureModel, MixtureStatistics

__all__ = ["BaseMixture", "RowModel"]


class RowModel(TransformerMixin, OnlineEM):
    """Base of the estimators whose samples are rows: they say which family."""

    _sparse_ok = False

    @abstractmethod
    def _family(self):
        """Return the family of the components, not yet bound to data."""

    def _prepared(self, X):
        """Return the data as the family takes them."""
        return X

    @property
    def _init(self):
        """Where EM starts."""
        return self.init

    # ------------------------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to all of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Known components for semi-supervised learning: integers 0..n_components - 1, and -1
            where unknown.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; a weight of 2 stands for two equal rows.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the parameters or the data are invalid; the message names the estimator.
        """
        return self._fit(lambda reset: self._observe(X, y, sample_weight, reset))

    def partial_fit(self, X, y=None, sample_weight=None):
        """Update the model with one batch of a stream.

        The first batch also provides what the start needs: unless initial parameters are given,
        it must have at least `n_components` rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A batch of any size from one row up.
        y : array-like of shape (n_samples,), default=None
            Known components, as in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the batch is invalid; the estimator is left as it was.
        """
        return self._partial_fit(lambda reset: self._observe(X, y, sample_weight, reset))

    def _data_of(self, X, reset, y=None, sample_weight=None):
        return self._observe(X, y, sample_weight, reset)

    def _observe(self, X, y, sample_weight, reset):
        """Convert and check data; the estimator's parameters are valid when this is called."""
        try:
            rows = validated_rows(self, X, y, sample_weight, reset=reset)
            X = self._prepared(rows.X)
            if X is not rows.X:
                rows = replace(rows, X=X)
            family = self._family() if reset else self._training.progress.model.family
            family.check(rows.X)
        except (TypeError, ValueError) as error:
            raise_named(error, self)
        return rows

    def _start(self, data, random_state, prior=None):
        given = self._given_start(data)
        if given is not None:
            return given
        self._check_rows_to_start(data)
        family = self._family().bind(data.X, data.sample_weight)
        init = self._init if isinstance(self._init, str) else self._checked_init(data)
        pseudo_rows = None if prior is None else prior.emissions
        model = start_model(init, family, data, self.n_components, random_state, pseudo_rows)
        return self._with_given(model)

    def _start_prior(self, data):
        self._check_rows_to_start(data)
        family = self._family().bind(data.X, data.sample_weight)
        emissions = wide_pseudo_rows(family, data, self.n_components)
        return MixtureStatistics(np.zeros(self.n_components), emissions)

    def _check_rows_to_start(self, data):
        if len(data) < self.n_components:
            names = ", ".join(self._start_parameters())
            instead = f", or all of the initial parameters: {names}" if names else ""
            raise ValueError(
                f"{type(self).__name__} needs at least n_components={self.n_components} rows to"
                f" start from, got n_samples={len(data)}. Pass a larger (first) batch{instead}."
            )

    def _start_parameters(self):
        """Names of the parameters that together make data unnecessary for a start, if any do."""
        return ["means_init"] if self._family().means_suffice else []

    def _checked_init(self, data):
        init = np.asarray(self.init, dtype=np.float64)
        if init.shape == (len(data), self.n_components):
            return self._checked_shares("init", init, init.shape)
        return self._checked_start("init", init, (self.n_components, self.n_features_in_))

    def _with_given(self, model):
        """Replace what the user gave start values for."""
        weights, parameters = model.weights, model.parameters
        if self.weights_init is not None:
            weights = self._checked_shares("weights_init", self.weights_init, (self.n_components,))
            weights = weights / weights.sum()
        if self.means_init is not None:
            means = self._checked_means(model.family)
            parameters = model.family.with_means(parameters, means)
        return MixtureModel(model.family, weights, parameters)

    def _checked_means(self, family):
        shape = (self.n_components, self.n_features_in_)
        means = self._checked_start("means_init", self.means_init, shape)
        try:
            family.check_means(means)
        except ValueError as error:
            raise ValueError(f"means_init of {type(self).__name__}: {error}") from error
        return means

    def _given_start(self, data):
        family = self._family()
        if self.means_init is None or not family.means_suffice:
            return None
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        family = family.bind(data.X, data.sample_weight)
        return self._with_given(MixtureModel(family, uniform, None))

    def _prior(self, model):
        family, parameters = model.family, model.parameters
        concentration = self.weight_concentration_prior
        if self.prior is not None:
            emissions = prior_statistics(
                self, family, self.prior, self.n_components, n_features=self.n_features_in_
            )
        else:
            emissions = None
        if emissions is None and concentration is None:
            return None
        if emissions is None:
            emissions = family.own_statistics(parameters, np.zeros(self.n_components))
        excess = 0.0 if concentration is None else concentration - 1.0
        return MixtureStatistics(np.full(self.n_components, excess), emissions)

    def _pseudo_count(self, training):
        if self.weight_concentration_prior is None:
            return super()._pseudo_count(training)
        return self.n_components * self.weight_concentration_prior

    def _rows_needed(self, model):
        return max(1, model.family.n_parameters(model.parameters)) / self.n_features_in_

    def _checked_shares(self, name, values, shape):
        """Convert start values that are shares: not negative, and not all 0 in a row."""
        values = self._checked_start(name, values, shape)
        if values.min() < 0 or not values.sum(axis=-1).all():
            raise ValueError(f"{name} of {type(self).__name__} must not be negative, nor all 0.")
        return values

    # -------------------------------------------------------------------------------- inference

    def score_samples(self, X):
        """Return the log-likelihood of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_likelihoods : ndarray of shape (n_samples,)
            In nats.

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
            return self.model_.log_likelihood(data)

    def score(self, X, y=None):
        """Return the mean log-likelihood of the samples in nats; higher is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : object
            Ignored.

        Returns
        -------
        log_likelihood : float

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return float(self.score_samples(X).mean())

    def _n_parameters(self):
        model = self.model_
        return model.family.n_parameters(model.parameters) + model.n_components - 1

    def bic(self, X):
        r"""Return the Bayesian information criterion on X; lower is better.

        It is :math:`-2 \log L + p \log n`, of a model with p free parameters and n rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        bic : float
            With log-likelihoods in nats.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        return -2.0 * self.score(X) * n_samples + self._n_parameters() * np.log(n_samples)

    def aic(self, X):
        r"""Return the Akaike information criterion on X; lower is better.

        It is :math:`-2 \log L + 2 p`, of a model with p free parameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        aic : float
            With log-likelihoods in nats.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        return -2.0 * self.score(X) * n_samples + 2.0 * self._n_parameters()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse_ok
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


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
        check_is_fitted(self)
        if n_samples < 1:
            name = type(self).__name__
            raise ValueError(f"n_samples of {name} must be at least 1, got {n_samples}.")
        X, y = self.model_.sample(n_samples, self._generator())
        return self._exposed(X), y

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if self.n_components > 1:
            # Labels make it a classifier of as many classes as it has components.
            tags.classifier_tags = ClassifierTags(multi_class=self.n_components > 2)
        return tags
