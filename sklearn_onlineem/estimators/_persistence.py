"""States of estimators, as pickles and skops keep them: checked before they are taken."""

from __future__ import annotations

import warnings
from functools import cache

from sklearn.exceptions import InconsistentVersionWarning

from sklearn_onlineem._values import checksum
from sklearn_onlineem._version import __version__

__all__ = ["CALLBACKS", "PersistentState"]

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
