"""Updates, and fits and what follows from them in one call: done as a whole, or not at all."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from itertools import islice
from weakref import WeakValueDictionary

from sklearn.base import TransformerMixin

from sklearn_onlineem._typing import FloatsOrList

__all__ = ["FitTransformMixin", "as_it_was", "new_lock"]

# Estimators that have a lock, by id: those of users need not be hashable.
_LOCKED = WeakValueDictionary()


def new_lock(estimator):
    """The lock that an estimator holds while it learns; forked processes do not inherit it."""
    _LOCKED[id(estimator)] = estimator
    return estimator.__dict__.setdefault("_mutex", threading.RLock())


def _forget_other_threads():
    """Undo what threads were doing that a forked process does not have, and drop their locks."""
    for estimator in [*_LOCKED.values()]:
        mutex = estimator.__dict__.get("_mutex")
        if mutex is None or mutex._is_owned():
            continue
        undo = estimator.__dict__.get("_undo")
        if undo is not None:
            undo()
        for name in estimator._transient:
            estimator.__dict__.pop(name, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def as_it_was(estimator):
    """Context that leaves an estimator as it was before, where it ends with an exception.

    There is one update of a stream in it at most, or a fit. It gives a function that undoes it.
    """
    before = vars(estimator).copy()
    undo_update = _undoing(getattr(estimator, "_training", None))

    def undo():
        # One assignment: others may read it.
        estimator.__dict__ = before
        undo_update()

    try:
        yield undo
    except Exception:
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
