"""What all models of sequences share: their forms of input, seams, likelihoods and samples."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.data import Rows, Sequences
from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._sequences import sequence_form
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators._validation import naming, validated_sequences

__all__ = ["SequenceModel", "filled_rows"]


class SequenceModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnlineEM):
    """Base of hidden Markov models and Kalman filters; one observation is one sequence."""

    _validated_attributes = (*OnlineEM._validated_attributes, "_rows_per_sequence")
    # With metadata routing, Pipeline.score hands on sample_weight=None though nobody passed any,
    # and refuses final steps that have not heard of it.
    __metadata_request__score = {"sample_weight": None}

    @abstractmethod
    def _family(self):
        """Return the family of the emissions, not yet bound to data."""

    def _fitted_family(self):
        """Return the family of the fitted emissions."""
        return self.model_.family

    @abstractmethod
    def _filtered_end(self, last):
        """Return the filtered distribution of the last state of a sequence, or None.

        None is for what the model can't make, and another starts after it.
        """

    @abstractmethod
    def _n_parameters(self):
        """Return the number of free parameters of the fitted model."""

    def _check_goes_on(self):
        """Raise ValueError if the model's sequences end by themselves."""

    # ------------------------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, lengths=None, groups=None):
        """Fit the model to all sequences.

        Parameters
        ----------
        X : list of array-likes of shape (length, n_features), or array-like
            Sequences: a list, an array of shape (n_sequences, length, n_features), or rows of shape
            (n_rows, n_features), which are one sequence if nothing else is said. A row of NaN was
            not observed.
        y : array-like of shape (n_rows,) or list of those, default=None
            Hidden Markov models: known states for semi-supervised learning, integers
            0..n_components - 1, and -1 where unknown. Kalman filters ignore it.
        lengths : array-like of int of shape (n_sequences,), default=None
            With a 2-D X: lengths of the sequences, which follow each other.
        groups : array-like of shape (n_rows,), default=None
            With a 2-D X: the sequence of each row. Works with metadata routing.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the parameters or the data are invalid; the message names the estimator.
        """
        return self._fit(lambda reset: self._observe(X, y, lengths, groups, reset)[0])

    def partial_fit(self, X, y=None, *, lengths=None, groups=None, continues=False):
        """Update the model with a batch of sequences, or with a piece of one that goes on.

        Parameters
        ----------
        X, y, lengths, groups
            As in `fit`.
        continues : bool, default=False
            Whether the first sequence of X goes on where the last one of the previous call that
            had ``continues=True`` stopped. For one endless sequence, pass True with every piece,
            the first included. The state before a piece has the distribution that the model, as it
            was after the previous piece, filters from the past; the new piece smooths it, and the
            move across the seam counts as any other. What is approximate: posteriors of rows
            before the seam are not revised, nor is the filtered distribution when the model
            changes. Needs sequences that do not end by themselves (``termination="given_length"``).

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the batch is invalid; the estimator is left as it was.
        """
        learnt = []

        def observe(reset):
            if continues:
                self._check_goes_on()
            data, _ = self._observe(X, y, lengths, groups, reset)
            if continues and not reset:
                data = data.continued(self._state_before())
            learnt.append(data)
            return data

        with self._lock():
            self._partial_fit(observe)
            if continues:
                last = learnt[0][len(learnt[0]) - 1 :]
                self._seam = self.model_, self._filtered_end(last)
        return self

    def _state_before(self):
        """Distribution of the last state of the sequence that goes on, or None if none does.

        Any other update makes another model, and so does one that was interrupted.
        """
        model, filtered = self.__dict__.get("_seam", (None, None))
        return filtered if model is self.model_ else None

    def _data_of(self, X, reset, y=None):
        return self._observe(X, y, None, None, reset)[0]

    def _observe(self, X, y, lengths, groups, reset):
        """Convert and check data; return them, and the form in which the user gave them."""
        with naming(self):
            form = sequence_form(X, lengths, groups)
            family = self._family() if reset else self._fitted_family()
            data = validated_sequences(self, form, y, family, reset=reset)
        if reset:
            self._rows_per_sequence = len(data.X) / len(data)
        return data, form

    # ---------------------------------------------------------------------------------- inference

    def _infer(self, X, lengths, groups, method, *arguments):
        """What a method of the model returns for X, and the form in which the user gave X."""
        check_is_fitted(self)
        data, form = self._observe(X, None, lengths, groups, reset=False)
        with single_threaded_blas(len(data.X)):
            return getattr(self.model_, method)(data, *arguments), form

    def score_samples(self, X, *, lengths=None, groups=None):
        """Return the log-likelihood of each sequence.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_sequences,)
            In nats; -inf for a sequence that the model cannot make.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self._infer(X, lengths, groups, "log_likelihood")[0]

    def score(self, X, y=None, *, lengths=None, groups=None):
        """Return the mean log-likelihood of the sequences in nats; higher is better.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.
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
        return float(self.score_samples(X, lengths=lengths, groups=groups).mean())

    def fit_transform(self, X, y=None, *, lengths=None, groups=None):
        """Fit, and return what `transform` makes of X.

        Parameters
        ----------
        X, y, lengths, groups
            Sequences and known states, as in `fit`.

        Returns
        -------
        transformed : ndarray of shape (n_rows, n_features_out), or list
            What `transform` returns.

        Raises
        ------
        ValueError
            If the parameters or the data are invalid; the message names the estimator.
        """
        fitted = self.fit(X, y, lengths=lengths, groups=groups)
        return fitted.transform(X, lengths=lengths, groups=groups)

    def sample(self, n_samples=1, n_sequences=None):
        """Draw rows from the fitted model.

        Parameters
        ----------
        n_samples : int, default=1
            Rows of a sequence; where sequences end by themselves it is not used.
        n_sequences : int, default=None
            How many sequences to draw. None: one, as arrays instead of lists.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or list of such arrays
        states : ndarray, or list of ndarrays
            Of shape (n_samples,), or (n_samples, n_dim_state) for Kalman filters.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_samples` or `n_sequences` is below 1.
        """
        check_is_fitted(self)
        if n_samples < 1 or (n_sequences is not None and n_sequences < 1):
            name = type(self).__name__
            raise ValueError(f"n_samples and n_sequences of {name} must be at least 1.")
        like = Sequences(Rows(np.empty((n_samples, 0))), np.array([0, n_samples]))
        data, states = self.model_.sample(n_sequences or 1, self._generator(), like)
        X = self._exposed(data.X)
        if n_sequences is None:
            return X, states
        cuts = data.offsets[1:-1]
        return np.split(X, cuts), np.split(states, cuts)

    def bic(self, X, *, lengths=None, groups=None):
        r"""Return the Bayesian information criterion on X; lower is better.

        It is :math:`-2 \log L + p \log n`, of a model with p free parameters and n rows.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

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
        log_likelihoods, form = self._infer(X, lengths, groups, "log_likelihood")
        return -2.0 * log_likelihoods.sum() + self._n_parameters() * np.log(form.offsets[-1])

    def aic(self, X, *, lengths=None, groups=None):
        r"""Return the Akaike information criterion on X; lower is better.

        It is :math:`-2 \log L + 2 p`, of a model with p free parameters.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

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
        log_likelihoods, _ = self._infer(X, lengths, groups, "log_likelihood")
        return -2.0 * log_likelihoods.sum() + 2.0 * self._n_parameters()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def filled_rows(data):
    """Rows to start from: without those not observed, and with column means for other gaps."""
    rows = Rows(data.X, labels=data.rows.labels, n_threads=data.n_threads)
    if data.observed is None:
        return rows
    rows = rows[np.flatnonzero(data.observed)]
    gaps = np.isnan(rows.X)
    if not gaps.any():
        return rows
    if gaps.all(axis=0).any():
        raise ValueError(
            f"Feature {np.flatnonzero(gaps.all(axis=0))[0]} of X has no value in the data to start"
            " from."
        )
    means = np.nanmean(rows.X, axis=0, dtype=np.float64)
    return replace(rows, X=np.where(np.isnan(rows.X), means, rows.X).astype(rows.X.dtype))
