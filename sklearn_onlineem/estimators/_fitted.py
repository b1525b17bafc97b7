"""What a fit leaves behind: how users read it, and how it is saved and checked on loading."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from functools import cache, wraps
from numbers import Integral
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.exceptions import InconsistentVersionWarning

from sklearn_onlineem._typing import FloatsOrList
from sklearn_onlineem._values import checksum
from sklearn_onlineem._version import __version__
from sklearn_onlineem.em.solvers import Chains
from sklearn_onlineem.em.state import History, State

__all__ = [
    "CALLBACKS",
    "FitTransformMixin",
    "Fitted",
    "FittedAttribute",
    "PersistentState",
    "fitted_property",
    "rollback",
]

# Where scikit-learn keeps what `set_callbacks` was given; it was not learnt.
CALLBACKS = "_skl_callbacks"
_VERSION, _CHECKSUM = "_sklearn_onlineem_version", "_checksum"


class PersistentState:
    """Mixin of estimators: their states say of what version they are, and add up to a checksum.

    It finds accidents, not attacks: who can write a pickle can make it execute code.
    """

    # Names of attributes that serve this process only.
    _transient = ()

    def _kept(self):
        """Return what is kept, parameters and what was learnt, as it is now."""
        state = vars(self).copy()
        for name in self._transient:
            state.pop(name, None)
        return state

    def _check_learnt(self, state):
        """Raise ValueError if what was learnt is not of the types that it must be of."""

    def __getstate__(self):
        state = self._kept()
        return {**state, _VERSION: __version__, _CHECKSUM: _checksum_of(type(self), state)}

    def __setstate__(self, state):
        # One assignment: an estimator that is given a state that is corrupt stays as it was.
        self.__dict__ = self._checked(state)

    def _checked(self, state):
        name = type(self).__name__
        if not isinstance(state, dict):
            raise ValueError(f"{name}: its state must be a dict, got {type(state).__name__}.")
        state = dict(state)
        version, found = state.pop(_VERSION, None), state.pop(_CHECKSUM, None)
        for transient in self._transient:
            state.pop(transient, None)
        if version is None:
            raise ValueError(f"{name}: its state does not say by which version it was saved.")
        if version != __version__:
            _warn_of_version(name, version)
            state = {**_defaults(type(self)), **state}
        elif found != _checksum_of(type(self), state):
            raise ValueError(
                f"{name}: its state is not the one that was saved: part of it is missing, or was"
                " changed. Save it anew, and load it by the way that it was saved by."
            )
        missing = sorted(set(_names(type(self))) - set(state))
        if missing:
            raise ValueError(f"{name}: its state lacks {', '.join(missing)}.")
        self._check_learnt(state)
        return state


def _warn_of_version(name, version):
    warnings.warn(
        InconsistentVersionWarning(
            estimator_name=name,
            current_sklearn_version=f"sklearn_onlineem {__version__}",
            original_sklearn_version=f"sklearn_onlineem {version}",
        ),
        stacklevel=4,
    )


def _checksum_of(kind, state):
    """A checksum of names of parameters, and of all that was learnt."""
    names = _names(kind)
    learnt = {name: value for name, value in state.items() if name not in {*names, CALLBACKS}}
    return checksum((sorted(names & state.keys()), sorted(learnt.items())))


@cache
def _names(kind):
    return frozenset(kind._get_param_names())


@cache
def _defaults(kind):
    """Values of parameters that an earlier version did not have."""
    return getattr(kind, "_defaults", {})


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
