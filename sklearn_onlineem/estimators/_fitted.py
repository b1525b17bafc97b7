"""What a fit leaves behind, and the attributes by which users read it."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from numbers import Integral
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from sklearn.base import TransformerMixin

from sklearn_onlineem._typing import FloatsOrList
from sklearn_onlineem.em.solvers import Chains
from sklearn_onlineem.em.state import History, State

__all__ = ["FitTransformMixin", "Fitted", "FittedAttribute", "fitted_property", "rollback"]


class Fitted(NamedTuple):
    """What learning leaves behind: a frozen value, replaced by one assignment.

    So readers find it whole, and what fails leaves an estimator as it was.

    Attributes
    ----------
    state : State
        From which a stream goes on.
    history : History
        The latest updates.
    attributes : dict
        What validation found in the first data: their width and names, say. It never changes.
    structure : tuple
        Values of the parameters that shape the model.
    lower_bounds : tuple of float
        Mean log-likelihood of each pass of the last fit.
    n_iter : int
        Passes of the last fit.
    converged : bool
        Whether it ended by its rule.
    chains : Chains or None
        Record of its Markov chains, if it ran any.
    end : object
        Distribution of the state in which a sequence that goes on has ended, or None.
    """

    state: State
    history: History
    attributes: dict
    structure: tuple
    lower_bounds: tuple = ()
    n_iter: int = 0
    converged: bool = False
    chains: Chains | None = None
    end: object = None

    def after(self, state: State, history: History, end: object) -> Fitted:
        """Return what is fitted after one more update of a stream, with what it changes."""
        return Fitted(state, history, *self[2:-1], end)

    def check(self) -> None:
        """Raise ValueError if it is not of the types that it must be of."""
        for name, kind in _TYPES.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} of what was learnt is {getattr(self, name)!r:.60}.")
        self.state.check()


_TYPES = {
    "state": State,
    "history": History,
    "attributes": dict,
    "structure": tuple,
    "lower_bounds": tuple,
    "n_iter": Integral,
    "converged": bool | np.bool,
    "chains": Chains | None,
}


@contextmanager
def rollback(estimator):
    """Context that leaves an estimator as it was before, where it ends with an exception."""
    before = vars(estimator).copy()
    try:
        yield
    except Exception:
        # One assignment: others may read it.
        estimator.__dict__ = before
        raise


Value = TypeVar("Value")


class FittedAttribute(Generic[Value]):
    """One of the attributes that validation found.

    An instance may have a value of its own: that is how scikit-learn's validation writes it to the
    blank estimator that first data are checked with.
    """

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, instance: object, owner: type) -> Value:
        if instance is None:
            return self
        attributes = instance._fitted_at_once.attributes
        if self._name not in attributes:
            raise AttributeError(f"{owner.__name__} found no {self._name} in its first data.")
        return attributes[self._name]


# Type checkers know properties, and no functions that make some.
if TYPE_CHECKING:
    from builtins import property as fitted_property
else:

    def fitted_property(function):
        """A property of what was learnt, all of which it reads at once."""

        @wraps(function)
        def value(self):
            return function(self._seen())

        return property(value)


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
        with rollback(self):
            return self.fit(X, y, **fit_params).transform(X)
