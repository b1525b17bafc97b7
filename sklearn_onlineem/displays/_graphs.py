"""Where the states of a Markov chain are drawn in a graph, how large, and how arrows bend."""

from __future__ import annotations

import numpy as np

# Fewer states look best on a circle, whatever their transitions.
_MOST_ON_CIRCLE = 6
_LARGEST, _SMALLEST = 24.0, 5.0
_BEND = 0.2
# Where along an arrow its number stands: closer to where it comes from, as many may cross midway.
_PLACE = 0.4


def jumps(transmat):
    """Probabilities of where a chain goes when it leaves a state; 0 on the diagonal."""
    leaving = transmat.copy()
    np.fill_diagonal(leaving, 0.0)
    stays = np.minimum(transmat.diagonal(), 1.0)[:, None]
    return np.divide(leaving, 1.0 - stays, out=np.zeros_like(leaving), where=stays < 1.0)


def occupancies(transmat):
    """Shares of the time that a chain spends in its states, begun anew anywhere when it ends."""
    n_states = len(transmat)
    ends = np.maximum(1.0 - transmat.sum(axis=1, keepdims=True), 0.0)
    endless = transmat + ends / n_states
    equations = np.vstack([endless.T - np.eye(n_states), np.ones(n_states)])
    shares = np.linalg.lstsq(equations, np.eye(n_states + 1)[-1], rcond=None)[0]
    return np.maximum(shares, 0.0) / np.maximum(shares, 0.0).sum()


def radii(shares):
    """Radii in points of circles whose areas are shares, as far as the smallest can be seen."""
    # So many circles have to go into one picture.
    largest = _LARGEST * min(1.0, (5.0 / len(shares)) ** 0.5)
    return np.maximum(largest * np.sqrt(shares / shares.max()), _SMALLEST)


def layout(transmat):
    """Positions of states, an ndarray of shape (n_states, 2)."""
    if len(transmat) > _MOST_ON_CIRCLE:
        try:
            import networkx
        except ImportError:
            pass
        else:
            weights = jumps(transmat)
            graph = networkx.from_numpy_array(weights + weights.T)
            placed = networkx.spring_layout(graph, seed=0)
            return np.array([placed[i] for i in range(len(transmat))])
    return circle(len(transmat))


def circle(n_states):
    """Positions on a circle, clockwise from the top; two states lie side by side."""
    start = 0.5 * np.pi if n_states != 2 else np.pi
    angles = start - 2.0 * np.pi * np.arange(n_states) / n_states
    return np.column_stack([np.cos(angles), np.sin(angles)])


def arrow(ends, sizes, share, colour):
    """An arrow between two states, wider and darker the larger its share.

    Parameters
    ----------
    ends : pair of ndarray of shape (2,)
    sizes : pair of float
        Radii of the states in points.
    share : float
        Of the ways out of the first state.
    colour : object
    """
    from matplotlib.patches import FancyArrowPatch

    return FancyArrowPatch(
        *ends,
        connectionstyle=f"arc3,rad={_BEND}",
        arrowstyle="-|>",
        shrinkA=sizes[0] + 1.0,
        shrinkB=sizes[1] + 1.0,
        mutation_scale=7.0 + 7.0 * share,
        linewidth=0.5 + 2.5 * share,
        alpha=0.2 + 0.75 * share,
        color=colour,
        zorder=2,
    )


def number_place(ends):
    """Where the number of such an arrow stands, in the coordinates of its ends."""
    (x, y), (dx, dy) = np.add(*ends) / 2.0, np.subtract(ends[1], ends[0])
    control = np.array([x + _BEND * dy, y - _BEND * dx])
    t = _PLACE
    return (1.0 - t) ** 2 * ends[0] + 2.0 * t * (1.0 - t) * control + t**2 * ends[1]


def outward(where, sizes):
    """Offsets in points of texts beside circles, away from the middle, and their alignments."""
    away = where - where.mean(axis=0)
    lengths = np.linalg.norm(away, axis=1, keepdims=True)
    away = np.divide(away, lengths, out=np.tile([0.0, 1.0], (len(where), 1)), where=lengths > 1e-9)
    horizontal = np.select([away[:, 0] > 0.3, away[:, 0] < -0.3], ["left", "right"], "center")
    vertical = np.select([away[:, 1] > 0.6, away[:, 1] < -0.6], ["bottom", "top"], "center")
    offsets = away * (sizes[:, None] + 3.0)
    return [
        {"xytext": tuple(offset), "ha": ha, "va": va}
        for offset, ha, va in zip(offsets.tolist(), horizontal, vertical, strict=True)
    ]
