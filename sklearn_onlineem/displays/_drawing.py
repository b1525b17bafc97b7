"""Colours, line styles, ticks and hatches."""

from itertools import cycle, islice

import numpy as np

_DASHES = ["-", "--", "-.", ":", (0, (7, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1))]
# Ticks for which there is room at 640 pixels.
_MOST_TICKS = 13


def colors(n):
    """Return `n` colours of the style's cycle, or of its colour map if there are too few."""
    import matplotlib

    cycled = matplotlib.rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])
    if n <= len(cycled):
        return [matplotlib.colors.to_hex(color) for color in cycled[:n]]
    of_map = matplotlib.colormaps[matplotlib.rcParams["image.cmap"]]
    # The lightest part of a colour map is not visible on paper.
    return [matplotlib.colors.to_hex(color) for color in of_map(np.linspace(0.0, 0.88, n))]


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


def foreground():
    import matplotlib

    return matplotlib.rcParams["text.color"]


def line_styles(n):
    return list(islice(cycle(_DASHES), n))


def opacities(weights):
    """Return opacities that grow with weights, from 0.25 for 0 to 1 for the largest."""
    weights = np.asarray(weights, dtype=float)
    return 0.25 + 0.75 * weights / weights.max()


def without_frame(ax, *sides):
    """Hide sides of the frame, by default top and right."""
    ax.spines[list(sides or ("top", "right"))].set_visible(False)


def some_of(n, most=_MOST_TICKS):
    """Return indices below n in even steps of 1, 2, 5, 10, ..., at most `most`."""
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if (n - 1) // step + 1 <= most)
    return np.arange(0, n, step)


def label_axis(axis, names, most=_MOST_TICKS):
    """Label 0, 1, ... of an axis by names, at most `most` of them."""
    shown = some_of(len(names), most)
    axis.set_ticks(shown, labels=[names[i] for i in shown])


def runs(values):
    """Return the first index, length and value of each run of equal values."""
    values = np.asarray(values)
    firsts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]][: len(values)])
    return firsts, np.diff(np.r_[firsts, len(values)]), values[firsts]


def shade_gaps(ax, is_gap, **options):
    """Hatch the rows that were not observed; return the hatches, None if there are none."""
    firsts, lengths, values = runs(is_gap)
    spans = [(f - 0.5, n) for f, n, v in zip(firsts, lengths, values, strict=True) if v]
    if not spans:
        return None
    look = {"facecolor": "none", "edgecolor": foreground(), "alpha": 0.25}
    look |= {"linewidth": 0.0, "hatch": "////", "label": "not observed", "zorder": 0.5}
    return ax.broken_barh(spans, (0, 1), transform=ax.get_xaxis_transform(), **(look | options))
