"""What a fitted hidden Markov model says of itself and of sequences."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators.live_filter import StateFilter
from sklearn_onlineem.models import EndState, GivenLength

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

        Only with ``termination="end_state"``.
        """
        model = self.model_
        if not isinstance(model.termination, EndState):
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
        if not isinstance(model.termination, GivenLength):
            raise ValueError(f"{type(self).__name__}: an absorbed chain has no stationary state.")
        n_states = model.n_components
        equations = np.vstack([model.transmat.T - np.eye(n_states), np.ones(n_states)])
        solution = np.linalg.lstsq(equations, np.eye(n_states + 1)[-1], rcond=None)[0]
        return np.maximum(solution, 0.0) / np.maximum(solution, 0.0).sum()

    @property
    def _n_features_out(self):
        return self.n_components

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

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        posterior, form = self._infer(X, lengths, groups, "posterior")
        return form.restored(posterior)

    def transform(self, X, *, lengths=None, groups=None):
        """Return the posterior probabilities of the states, as `predict_proba` does.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

        Returns
        -------
        posterior : ndarray of shape (n_rows, n_components), or list
            A list of arrays, one for each sequence, if X has one entry for each. Rows add up to 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self.predict_proba(X, lengths=lengths, groups=groups)

    def filter(self, X, *, lengths=None, groups=None):
        """Return the probabilities of the states given the rows so far, P(h_t | v_1..t).

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

        Returns
        -------
        filtered : ndarray of shape (n_rows, n_components), or list
            A list of arrays, one for each sequence, if X has one entry for each. Rows add up to 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        filtered, form = self._infer(X, lengths, groups, "filtered")
        return form.restored(filtered)

    def live_filter(self):
        """Return a filter that takes one row at a time.

        Returns
        -------
        live_filter : StateFilter
            Of the model as it is now; later updates do not change it.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
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

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self._decoded(X, lengths, groups, self.algorithm)[1]

    def fit_predict(self, X, y=None, *, lengths=None, groups=None):
        """Fit, and return the states of X, as `predict` does.

        Parameters
        ----------
        X, y, lengths, groups
            Sequences and known states, as in `fit`.

        Returns
        -------
        states : ndarray of int of shape (n_rows,), or list
            A list of arrays, one for each sequence, if X has one entry for each.

        Raises
        ------
        ValueError
            If the parameters or the data are invalid; the message names the estimator.
        """
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
            "viterbi": joint log-probability of data and paths in nats, summed over sequences.
            "map": the sum over rows of the probabilities of their states, as in hmmlearn.
        states : ndarray of int of shape (n_rows,), or list

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid, or `algorithm` is unknown; the message names the estimator.
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

    def _n_parameters(self):
        return self.model_.n_parameters()
