"""Warnings that point at the line of the user, however deep they are raised."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn_user"]

_OURS = ("sklearn_onlineem", "sklearn")


def warn_user(message, category=UserWarning):
    """Warn as if from the first frame outside of this package and scikit-learn."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
