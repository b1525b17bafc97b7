"""Early stopping: a fit ends when data that were held out no longer gain."""

from __future__ import annotations

import math
from numbers import Integral

from sklearn_onlineem.diagnostics.streams import positive
from sklearn_onlineem.em.state import AnyStep
from sklearn_onlineem.estimators._base import OnlineEM

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Ends a fit when the score of held-out data no longer rises: a callback for any estimator.

    Of a stream it ends nothing; `scores` say how it goes. A fit with ``warm_start`` goes on with
    the scores of the last one.

    Parameters
    ----------
    X : object
        Held-out data, as `score` of the estimator takes them.
    patience : int, default=5
        Scores that may be no better than the best one before them; above 0. The fit ends with the
        next one.
    min_gain : float, default=0.0
        By how much a score must exceed the best one to be better, in nats per observation.
    every : int, default=1
        Updates from score to score. A pass has as many updates as there are mini-batches, or one
        of batch EM.
    **score_params : dict
        Further arguments of `score`, such as `lengths`.

    Attributes
    ----------
    scores : list of (int, float)
        Rows read, and the score of the held-out data, of the last fit.
    best_estimator : estimator or None
        A copy of the estimator with the best score.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    Five Gaussians learn forty rows by heart, which others do not gain by:

    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.diagnostics import EarlyStopping
    >>> X, held_out = np.random.default_rng(0).normal(size=(2, 40, 1))
    >>> stopping = EarlyStopping(held_out, patience=2)
    >>> mixture = GaussianMixture(5, solver="batch", tol=0.0, callbacks=[stopping], random_state=0)
    >>> mixture.fit(X).n_iter_ == len(stopping.scores) < mixture.max_iter
    True
    >>> best = stopping.best_estimator
    >>> best.score(held_out) == max(stopping.scores, key=lambda pair: pair[1])[1]
    True
    """

    scores: list[tuple[int, float]]
    best_estimator: OnlineEM | None

    def __init__(
        self,
        X: object,
        patience: int = 5,
        min_gain: float = 0.0,
        every: int = 1,
        **score_params: object,
    ):
        for name, value in (("patience", patience), ("every", every)):
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}.")
        self.X, self.patience, self.every = X, patience, every
        self.min_gain = positive("min_gain", min_gain, or_zero=True)
        self.score_params = score_params
        self._begin()

    def _begin(self):
        self.scores, self.best_estimator = [], None
        self._best, self._n_worse, self._n_updates, self._n_rows = -math.inf, 0, 0, 0

    def __call__(self, step: AnyStep, estimator: OnlineEM) -> bool:
        """Score the estimator, as callbacks do.

        Parameters
        ----------
        step : Step
        estimator : estimator
            As it is after the step.

        Returns
        -------
        is_over : bool
            Whether the fit is to end.
        """
        if step.n_rows <= self._n_rows:  # another fit, or another start
            self._begin()
        self._n_rows, self._n_updates = step.n_rows, self._n_updates + 1
        if self._n_updates % self.every:
            return False
        score = estimator.score(self.X, **self.score_params)
        self.scores.append((step.n_rows, score))
        if score > self._best + self.min_gain:
            self._best, self._n_worse, self.best_estimator = score, 0, estimator
        else:
            self._n_worse += 1
        return self._n_worse > self.patience
