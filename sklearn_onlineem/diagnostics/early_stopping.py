"""Early stopping by a held-out score."""

from __future__ import annotations

import math

from sklearn_onlineem._checks import check_count
from sklearn_onlineem.diagnostics.drift import positive
from sklearn_onlineem.em.state import AnyStep
from sklearn_onlineem.estimators.base import OnlineEM


class EarlyStopping:
    """Ends a fit when the score of held-out data no longer rises: a callback for any estimator.

    A stream does not end; `scores` show its progress. A fit with ``warm_start`` continues the
    scores of the last one.

    Parameters
    ----------
    X : object
        Held-out data, as `score` of the estimator takes them.
    patience : int, default=5
        Successive scores that may be no better than the best; above 0. The next one ends the fit.
    min_gain : float, default=0.0
        Least increase of the best score that counts, in nats per observation.
    every : int, default=1
        Updates between scores. A pass has one update for each mini-batch, or one of batch EM.
    **score_params : dict
        Further arguments of `score`, such as `lengths`.

    Attributes
    ----------
    scores : list of (int, float)
        Rows read, and the score of the held-out data, of the last start that was followed.
    best_estimator : estimator or None
        A copy of the estimator with the best score.

    Examples
    --------
    Five Gaussians overfit forty rows:

    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.diagnostics import EarlyStopping
    >>> X, held_out = np.random.default_rng(0).normal(size=(2, 40, 1))
    >>> stopping = EarlyStopping(held_out, patience=2)
    >>> mixture = GaussianMixture(5, solver="batch", tol=0.0, callbacks=[stopping], random_state=0)
    >>> mixture.fit(X).n_iter_ == len(stopping.scores) < 1000
    True
    >>> stopping.best_estimator.score(held_out) == max(score for _, score in stopping.scores)
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
        check_count("patience", patience)
        check_count("every", every)
        self.X, self.patience, self.every = X, patience, every
        self.min_gain = positive("min_gain", min_gain, or_zero=True)
        self.score_params = score_params
        self._begin()

    def _begin(self):
        self.scores, self.best_estimator = [], None
        self._best, self._n_worse, self._n_updates, self._n_rows = -math.inf, 0, 0, 0
        self._first_bounds = []

    def __call__(self, step: AnyStep, estimator: OnlineEM) -> bool:
        """Score the estimator after a step, as callbacks do; return whether to end the fit."""
        before, bounds = self._first_bounds, estimator.lower_bounds_[:1]
        # Another fit, another start, or one from before that goes on.
        if step.n_rows <= self._n_rows or (before and bounds and before != bounds):
            self._begin()
        self._first_bounds = bounds
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
