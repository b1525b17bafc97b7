"""Fits and what follows from them in one call: done as a whole, or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice

from sklearn.base import TransformerMixin

from sklearn_onlineem._typing import FloatsOrList

__all__ = ["FitTransformMixin", "as_it_was"]


@contextmanager
def as_it_was(estimator):
    """Context that leaves an estimator as it was before, where it ends with an exception.

    There is one update of a stream in it at most, or a fit.
    """
    before = vars(estimator).copy()
    undo = _undoing(getattr(estimator, "_training", None))
    try:
        yield
    except Exception:
        # One assignment: others may read it.
        estimator.__dict__ = before
        undo()
        raise


def _undoing(training):
    """Return a function that undoes an update; what a full history has lost comes back, too."""
    if training is None:
        return lambda: None
    mark, past, oldest = training.mark(), training.past, [*islice(training.past, 1)]
    n_past = len(past)

    def undo():
        training.back_to(mark)
        if len(past) < n_past:
            past.extendleft(oldest)

    return undo


class FitTransformMixin(TransformerMixin):
    """Mixin of transformers, whose `fit_transform` learns nothing where `transform` fails."""

    def fit_transform(self, X: object, y: object = None, **fit_params: object) -> FloatsOrList:
        """Fit, and return what `transform` makes of X.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.

        Returns
        -------
        transformed : ndarray, or what else `transform` returns

        Raises
        ------
        ValueError
            If the parameters or the data are invalid. The estimator stays as it was.

        Examples
        --------
        >>> from sklearn_onlineem import PoissonMixture
        >>> mixture = PoissonMixture(2, means_init=[[1.0], [20.0]])
        >>> mixture.fit_transform([[1], [2], [20], [22]]).round(2)
        array([[1., 0.],
               [1., 0.],
               [0., 1.],
               [0., 1.]])
        """
        with as_it_was(self):
            return self.fit(X, y, **fit_params).transform(X)
