"""Colours, ticks, runs and checks for displays of states and sequences."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._errors import ours
from sklearn_onlineem.displays._drawing import foreground

# Ticks for which there is room at 640 pixels.
_MOST_TICKS = 13


def colour_map(cmap=None):
    """Return a colour map, by default that of the style."""
    import matplotlib as mpl

    return mpl.colormaps[mpl.rcParams["image.cmap"] if cmap is None else cmap]


def state_colours(n_states, cmap=None):
    """Return colours of states from dark to light, which differ in greyscale, too."""
    # The ends of a map are too close to black and white for texts on them.
    return colour_map(cmap)(np.linspace(0.12, 0.92, n_states))


def ink_on(colours):
    """Return black or white for each colour, whichever is easier to read on it."""
    linear = np.asarray(colours)[..., :3] ** 2.2
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    # At this luminance the contrasts with black and white are equal (WCAG 2).
    return np.where(luminance > 0.179, "black", "white")


def runs(values):
    """Return the first index, length and value of each run of equal values."""
    values = np.asarray(values)
    firsts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]][: len(values)])
    return firsts, np.diff(np.r_[firsts, len(values)]), values[firsts]


def some_of(n, most=_MOST_TICKS):
    """Return indices below n in even steps of 1, 2, 5, 10, ..., at most `most`."""
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if (n - 1) // step + 1 <= most)
    return np.arange(0, n, step)


def label_axis(axis, names, most=_MOST_TICKS):
    """Label 0, 1, ... of an axis by names, at most `most` of them."""
    shown = some_of(len(names), most)
    axis.set_ticks(shown, labels=[names[i] for i in shown])


def names_of(names, n, what):
    names = range(n) if names is None else list(names)
    if len(names) != n:
        raise ValueError(f"names must name all {n} {what}, got {len(names)}.")
    return [str(name) for name in names]


def check_suits(estimator, display, methods, because):
    """Raise TypeError if a class lacks attributes that a display needs, NotFittedError if unfitted.

    `because` says in the message what the display needs.
    """
    if isinstance(estimator, type) or not all(hasattr(type(estimator), m) for m in methods):
        name = getattr(estimator, "__name__", type(estimator).__name__)
        raise TypeError(f"{display.__name__} can't show {name}: {because}")
    check_is_fitted(estimator)


def one_sequence(X, display):
    """Return the rows of one sequence as floats, NaN for missing values, and column names."""
    columns = getattr(X, "columns", None)
    names = None if columns is None else [str(name) for name in columns]
    try:
        rows = X.to_numpy() if columns is not None else np.ma.asarray(X)
        rows = np.ma.filled(np.ma.asarray(rows).astype(float), np.nan)
    except ours(TypeError, ValueError) as error:
        raise ValueError(
            f"X of {display.__name__} must be one sequence of numbers, of shape (n_rows,"
            " n_features), not a list of sequences."
        ) from error
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not rows.size:
        raise ValueError(
            f"X of {display.__name__} must be one sequence, of shape (n_rows, n_features), got"
            f" {rows.shape}."
        )
    return rows, names


def index_of(feature, names):
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, Integral) and 0 <= feature < len(names):
        return int(feature)
    raise ValueError(f"there is no feature {feature!r}; there are {len(names)}: {names!r:.80}.")


def shade_gaps(ax, is_gap, **options):
    """Hatch the rows that were not observed; return the hatches, None if there are none."""
    firsts, lengths, values = runs(is_gap)
    spans = [(f - 0.5, n) for f, n, v in zip(firsts, lengths, values, strict=True) if v]
    if not spans:
        return None
    look = {"facecolor": "none", "edgecolor": foreground(), "alpha": 0.25}
    look |= {"linewidth": 0.0, "hatch": "////", "label": "not observed", "zorder": 0.5}
    return ax.broken_barh(spans, (0, 1), transform=ax.get_xaxis_transform(), **(look | options))
