"""What a fitted hidden Markov model says of itself and of sequences."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators.live_filter import StateFilter
from sklearn_onlineem.families import Rows
from sklearn_onlineem.models import Finite, Sequences, SilentEnd

__all__ = ["ChainInference"]


class ChainInference:
    """Fitted values, and the methods that take sequences and change nothing."""

    @property
    def startprob_(self):
        """Probabilities of the first state, an ndarray of shape (n_components,)."""
        return self._exposed(self.model_.start)

    @property
    def transmat_(self):
        """Probabilities of moves, an ndarray of shape (n_components, n_components)."""
        return self._exposed(self.model_.transmat[:, : self.n_components])

    @property
    def endprob_(self):
        """Probabilities of a silent end after each state, of shape (n_components,).

        Only with ``horizon="absorbing"`` and no `absorbing_states`.
        """
        model = self.model_
        if not isinstance(model.horizon, SilentEnd):
            raise AttributeError("endprob_ is a value of models with silent ends only.")
        return self._exposed(model.transmat[:, -1])

    def get_stationary_distribution(self):
        """Return the distribution that the transitions keep, an ndarray of shape (n_components,).

        Raises
        ------
        ValueError
            If sequences end by themselves, so that there is none.
        """
        model = self.model_
        if not isinstance(model.horizon, Finite):
            raise ValueError(f"{type(self).__name__}: an absorbed chain has no stationary state.")
        n_states = model.n_components
        equations = np.vstack([model.transmat.T - np.eye(n_states), np.ones(n_states)])
        solution = np.linalg.lstsq(equations, np.eye(n_states + 1)[-1], rcond=None)[0]
        return np.maximum(solution, 0.0) / np.maximum(solution, 0.0).sum()

    @property
    def _n_features_out(self):
        return self.n_components

    # ---------------------------------------------------------------------------------- inference

    def _infer(self, X, lengths, groups, method):
        check_is_fitted(self)
        data, form = self._observe(X, None, lengths, groups, reset=False)
        with single_threaded_blas(len(data.X)):
            return getattr(self.model_, method)(data), form

    def score_samples(self, X, *, lengths=None, groups=None):
        """Return the log-likelihood of each sequence.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_sequences,)
            In nats; -inf for a sequence that the model cannot make.
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
        """
        return float(self.score_samples(X, lengths=lengths, groups=groups).mean())

    def predict_proba(self, X, *, lengths=None, groups=None):
        """Return the posterior probabilities of the states, given whole sequences.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

        Returns
        -------
        posterior : ndarray of shape (n_rows, n_components), or list
            A list of arrays, one for each sequence, if X has one entry for each.
        """
        posterior, form = self._infer(X, lengths, groups, "posterior")
        return form.restored(posterior)

    def transform(self, X, *, lengths=None, groups=None):
        """Return the posterior probabilities of the states, as `predict_proba` does."""
        return self.predict_proba(X, lengths=lengths, groups=groups)

    def filter(self, X, *, lengths=None, groups=None):
        """Return the probabilities of the states given the rows so far, P(h_t | v_1..t).

        Parameters and returned values are those of `predict_proba`.
        """
        filtered, form = self._infer(X, lengths, groups, "filtered")
        return form.restored(filtered)

    def live_filter(self):
        """Return a filter that takes one row at a time.

        Returns
        -------
        live_filter : StateFilter
            Of the model as it is now; later updates do not change it.
        """
        check_is_fitted(self)
        return StateFilter(self.model_)

    def predict(self, X, *, lengths=None, groups=None):
        """Return states: the most probable path, or with ``algorithm="map"`` one row at a time.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

        Returns
        -------
        states : ndarray of int of shape (n_rows,), or list
            A list of arrays, one for each sequence, if X has one entry for each.
        """
        return self._decoded(X, lengths, groups, self.algorithm)[1]

    def fit_predict(self, X, y=None, *, lengths=None, groups=None):
        """Fit, and return the states of X."""
        fitted = self.fit(X, y, lengths=lengths, groups=groups)
        return fitted.predict(X, lengths=lengths, groups=groups)

    def decode(self, X, *, lengths=None, groups=None, algorithm=None):
        """Return states and how probable they are.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.
        algorithm : {"viterbi", "map"}, default=None
            "viterbi": the most probable path of each sequence; "map": the most probable state of
            each row. None: the estimator's.

        Returns
        -------
        log_probability : float
            "viterbi": joint log-probability of data and paths, summed over sequences. "map": the
            sum over rows of the probabilities of their states, as in hmmlearn.
        states : ndarray of int of shape (n_rows,), or list
        """
        return self._decoded(X, lengths, groups, algorithm or self.algorithm)

    def _decoded(self, X, lengths, groups, algorithm):
        if algorithm == "map":
            posterior, form = self._infer(X, lengths, groups, "posterior")
            return float(posterior.max(axis=1).sum()), form.restored(posterior.argmax(axis=1))
        if algorithm != "viterbi":
            raise ValueError(
                f"algorithm of {type(self).__name__} must be 'viterbi' or 'map', got {algorithm!r}."
            )
        (states, log_probabilities), form = self._infer(X, lengths, groups, "decoded")
        return float(log_probabilities.sum()), form.restored(states)

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
        states : ndarray of shape (n_samples,), or list of such arrays
        """
        check_is_fitted(self)
        if n_samples < 1 or (n_sequences is not None and n_sequences < 1):
            raise ValueError("n_samples and n_sequences must be at least 1.")
        like = Sequences(Rows(np.empty((n_samples, 0))), np.array([0, n_samples]))
        data, states = self.model_.sample(n_sequences or 1, self._generator(), like)
        X = self._exposed(data.X)
        if n_sequences is None:
            return X, states
        cuts = data.offsets[1:-1]
        return np.split(X, cuts), np.split(states, cuts)

    def _n_parameters(self):
        model = self.model_
        free = np.count_nonzero(model.start) - 1
        free += np.count_nonzero(model.transmat) - model.n_components
        return free + model.family.n_parameters(model.parameters)

    def bic(self, X, *, lengths=None, groups=None):
        """Return the Bayesian information criterion on X; lower is better."""
        log_likelihoods, form = self._infer(X, lengths, groups, "log_likelihood")
        return -2.0 * log_likelihoods.sum() + self._n_parameters() * np.log(form.offsets[-1])

    def aic(self, X, *, lengths=None, groups=None):
        """Return the Akaike information criterion on X; lower is better."""
        log_likelihoods, _ = self._infer(X, lengths, groups, "log_likelihood")
        return -2.0 * log_likelihoods.sum() + 2.0 * self._n_parameters()
