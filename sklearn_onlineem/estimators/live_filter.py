"""Filtering one observation at a time, while it happens."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem.families import Rows
from sklearn_onlineem.models import Sequences

__all__ = ["StateFilter"]


class StateFilter:
    """The distribution of the hidden state of a running sequence, given all rows so far.

    Made by `live_filter` of a fitted hidden Markov model.

    Parameters
    ----------
    model : HiddenMarkovModel

    Attributes
    ----------
    probabilities : ndarray of shape (n_components,)
        P(h_t | v_1..t); None before the first row.
    n_steps : int
        Rows so far.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonHMM
    >>> X = np.repeat([[1], [9], [1], [9]], 50, axis=0)
    >>> live = PoissonHMM(2, random_state=0).fit(X).live_filter()
    >>> live.update([1]).argmax() != live.update([9]).argmax()
    np.True_
    """

    def __init__(self, model):
        self._model = model
        self.probabilities = None
        self.n_steps = 0

    def update(self, row):
        """Take the next row, and return the new distribution.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            NaN if nothing was observed.

        Returns
        -------
        probabilities : ndarray of shape (n_components,)

        Raises
        ------
        ValueError
            If the row has another shape than the model's, or is impossible.
        """
        X = np.array(row, dtype=np.float64).reshape(1, -1)
        data = Sequences(Rows(X), np.array([0, 1]), self.probabilities)
        probabilities = self._model.filtered(data)[0]
        if not probabilities.any():
            raise ValueError("The model cannot make this row after those before.")
        self.probabilities = probabilities
        self.n_steps += 1
        return probabilities
