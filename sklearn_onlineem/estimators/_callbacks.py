"""Functions of users that are called after each update, with the estimator if they ask for it."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

__all__ = ["checked_callbacks"]

# A signature takes as long to read as some updates do.
_ASKING = WeakKeyDictionary()
_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def checked_callbacks(callbacks, estimator, attributes):
    """Return callbacks as `Progress` calls them; their list may have grown since the last time.

    Parameters
    ----------
    callbacks : list of callables or None
        Each takes a step, or a step and an estimator.
    estimator : OnlineEM
        Which learns.
    attributes : dict or None
        What validation found in the data, if these are its first.

    Raises
    ------
    ValueError
        If they are anything else.
    """
    if callbacks is None:
        return ()
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise ValueError(
            f"callbacks must be a list of functions of a step, or None; got {callbacks!r}."
        )
    return tuple(partial(_call, callback, estimator, attributes) for callback in callbacks)


def _call(callback, estimator, attributes, progress):
    """Call a callback; one that asks for the estimator gets a copy, as of the update."""
    step = progress.state.step
    if _asks_for_estimator(callback):
        return callback(step, estimator._as_of(progress, attributes))
    return callback(step)


def _asks_for_estimator(callback):
    """Whether a function needs two arguments; a second one that has a default is its own."""
    try:
        return _ASKING[callback]
    except (KeyError, TypeError):  # new, or nothing that can be a key
        asks = _n_needed(callback) == 2
    with suppress(TypeError):
        _ASKING[callback] = asks
    return asks


def _n_needed(callback):
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):  # built in
        return 1
    return sum(p.kind in _POSITIONAL and p.default is p.empty for p in parameters)
