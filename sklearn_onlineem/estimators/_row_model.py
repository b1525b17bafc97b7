"""Estimators whose samples are rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np
from sklearn.base import TransformerMixin, _fit_context
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._priors import prior_statistics
from sklearn_onlineem.estimators._starts import start_model, wide_pseudo_rows
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators._validation import raise_named, validated_rows
from sklearn_onlineem.models import MixtureModel, MixtureStatistics

__all__ = ["RowModel"]


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
        return ["means_init"] if self._family().determined_by_means else []

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
        if self.means_init is None or not family.determined_by_means:
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

    def _check_n_samples(self, n_samples):
        check_is_fitted(self)
        if n_samples < 1:
            name = type(self).__name__
            raise ValueError(f"n_samples of {name} must be at least 1, got {n_samples}.")

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
