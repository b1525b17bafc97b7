"""State of a fitted estimator: how users read it, and how it is saved, loaded and checked."""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager
from functools import cache, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, get_type_hints

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.exceptions import InconsistentVersionWarning

from sklearn_onlineem._typing import FloatsOrList
from sklearn_onlineem._values import Identified, aligned, checksum, frozen
from sklearn_onlineem._version import __version__
from sklearn_onlineem.em.solvers import Chains
from sklearn_onlineem.em.state import History, State

# Where scikit-learn keeps the callbacks of `set_callbacks`, which are not fitted state.
CALLBACKS = "_skl_callbacks"
_VERSION, _CHECKSUM = "_sklearn_onlineem_version", "_checksum"
_ITEMS = "_items"
# Rows of data that are saved.
_N_ROWS = "n_rows_kept"


class PersistentState(Identified):
    """Mixin of estimators whose pickled state has a version and a checksum.

    The checksum finds accidents, not attacks: whoever can write a pickle can make it execute code.
    """

    def _n_rows_saved(self):
        """Return how many rows of data the state has, for whoever passes it on."""
        return 0

    def _check_learnt(self, state):
        """Raise ValueError if the fitted state has wrong types."""

    def __getstate__(self):
        state = {name: x for name, x in vars(self).items() if name not in self._transient}
        state = _of_keys(_listed, state)
        if n_rows := self._n_rows_saved():
            state[_N_ROWS] = n_rows
        return {**state, _VERSION: __version__, _CHECKSUM: _checksum_of(type(self), state)}

    def __setstate__(self, state):
        name = type(self).__name__
        if not isinstance(state, dict):
            raise ValueError(f"{name}: its state must be a dict, got {type(state).__name__}.")
        state = dict(state)
        version, found = state.pop(_VERSION, None), state.pop(_CHECKSUM, None)
        for transient in self._transient:
            state.pop(transient, None)
        if version is None:
            raise ValueError(f"{name}: its state lacks the version that saved it.")
        if version != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=name,
                    current_sklearn_version=f"sklearn_onlineem {__version__}",
                    original_sklearn_version=f"sklearn_onlineem {version}",
                ),
                stacklevel=2,
            )
            state = {**getattr(self, "_defaults", {}), **state}
        elif found != _checksum_of(type(self), state):
            raise ValueError(
                f"{name}: its state differs from the saved one: part of it is missing or changed."
                " Save it again, and load it with the tool that saved it."
            )
        missing = sorted(set(_names(type(self))) - set(state))
        if missing:
            raise ValueError(f"{name}: its state lacks {', '.join(missing)}.")
        self._check_learnt(state)
        state.pop(_N_ROWS, None)
        # One assignment: a corrupt state leaves the estimator unchanged.
        self.__dict__ = _of_keys(_unlisted, aligned(state))


def _of_keys(function, state):
    """Return a state with a function of parameters, and of those of the model."""
    state = {name: x if name == "_fitted" else function(x) for name, x in state.items()}
    fitted = state.get("_fitted")
    if isinstance(fitted, Fitted):
        state["_fitted"] = fitted._replace(structure=tuple(map(function, fitted.structure)))
    return state


def _listed(value):
    """Return the items of a dict with other keys than strings and numbers, which skops refuses."""
    if not isinstance(value, dict) or all(isinstance(key, str | Integral) for key in value):
        return value
    return {_ITEMS: [*value.items()]}


def _unlisted(value):
    return dict(value[_ITEMS]) if isinstance(value, dict) and [*value] == [_ITEMS] else value


def _checksum_of(kind, state):
    """Return a checksum of the names of parameters, and of all fitted state."""
    names = _names(kind)
    learnt = {name: value for name, value in state.items() if name not in {*names, CALLBACKS}}
    return checksum((sorted(names & state.keys()), sorted(learnt.items())))


@cache
def _names(kind):
    return frozenset(kind._get_param_names())


# What may have come from NumPy.
_LOOSE = {int: Integral, bool: bool | np.bool, float: Real}


class Fitted(NamedTuple):
    """Fitted state, a frozen value: replaced in one assignment, so that readers see it whole."""

    state: State
    history: History
    # Those that validation found in the first data; they never change.
    attributes: dict
    # Values of the structural parameters.
    structure: tuple
    lower_bounds: tuple = ()
    n_iter: int = 0
    converged: bool = False
    chains: Chains | None = None
    # Distribution of the state at the end of a sequence that continues.
    end: object = None
    distance: float = math.inf

    def check(self) -> None:
        for name, kind in get_type_hints(Fitted).items():
            if not isinstance(getattr(self, name), _LOOSE.get(kind, kind)):
                raise ValueError(f"{name} of the fitted state is {getattr(self, name)!r:.60}.")
        self.state.check()


@contextmanager
def rollback(estimator):
    """Return a context that restores an estimator if an exception leaves it."""
    before = vars(estimator).copy()
    try:
        yield
    except Exception:
        # One assignment, as other threads may read it.
        estimator.__dict__ = before
        raise


Value = TypeVar("Value")


class FittedAttribute(Generic[Value]):
    """Descriptor of an attribute that validation found in the first data.

    An instance may hold a value: scikit-learn's validation writes it to the blank estimator that
    checks first data.
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
            raise AttributeError(f"{owner.__name__} has no {self._name}: its first data had none.")
        value = attributes[self._name]
        return frozen(value) if isinstance(value, np.ndarray) else value


# Type checkers know `property`, but not functions that return properties.
if TYPE_CHECKING:
    from builtins import property as fitted_property
else:

    def fitted_property(function):
        """Return a property that reads one consistent fitted state; its arrays are read-only."""

        @wraps(function)
        def value(self):
            return frozen(function(self._seen()))

        return property(value)


class FitTransformMixin(TransformerMixin):
    """Mixin of transformers: `fit_transform` is rolled back if `transform` fails."""

    def fit_transform(self, X: object, y: object = None, **fit_params: object) -> FloatsOrList:
        """Fit, and return the result of `transform` for X.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.

        Returns
        -------
        transformed : ndarray, or list

        Raises
        ------
        ValueError
            If the parameters or the data are invalid. The estimator is left unchanged.
        """
        with rollback(self):
            return self.fit(X, y, **fit_params).transform(X)
