"""One online pass beside batch EM from the same start: what the papers' experiments compare."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Run:
    """Training losses of an online pass and of batch EM from the same start.

    Parameters
    ----------
    evaluated : sequence of int
        Numbers of sequences after which the loss was taken.
    path : ndarray
        After 0 sequences, and after those of `evaluated`.
    batch : ndarray
        After 0, 1, ... iterations; ten at least.
    extreme : float
        The worst of what might go wrong during the pass.
    """

    evaluated: tuple
    path: np.ndarray
    batch: np.ndarray
    extreme: float

    @property
    def is_finite(self):
        return bool(np.isfinite(self.path).all()) and math.isfinite(self.extreme)

    @property
    def first(self):
        """Sequences until the loss is below that of one batch iteration; infinity if never."""
        below = np.flatnonzero(self.path[1:] < self.batch[1])
        return self.evaluated[below[0]] if len(below) else math.inf

    @property
    def gap(self):
        return (self.path[-1] - self.batch[10]) / (self.batch[0] - self.batch[10])

    @property
    def its(self):
        """Batch iterations that it takes to beat the pass; infinity if all of them do not."""
        better = np.flatnonzero(self.batch < self.path[-1])
        return better[0] if len(better) else math.inf


def first_cell(rounds):
    """Cell of a table: when the pass crosses one batch iteration, over seeds."""
    crossings = [r.first for r in rounds]
    n_crossed = sum(map(math.isfinite, crossings))
    if 2 * n_crossed <= len(rounds):
        return f"in {n_crossed}/{len(rounds)} only"
    # Values that occurred, as one cannot interpolate to an infinity.
    low, middle, high = np.quantile(crossings, (0.25, 0.5, 0.75), method="inverted_cdf")
    return f"{middle:.0f} [{low:.0f}, {high:.0f}; {max(crossings):.0f}]"


def loss_cell(rounds):
    """Cell of a table: median losses of the pass, of one and of ten batch iterations."""
    final, one, ten = np.median([(r.path[-1], r.batch[1], r.batch[10]) for r in rounds], axis=0)
    return f"{final:.2f} ({one:.2f}, {ten:.2f})"


def draw_paths(ax, runs_by_rate, rates):
    """Median paths of each rate, and levels of batch EM; returns the levels."""
    for i, eta0 in enumerate(rates):
        rounds = runs_by_rate.get(eta0, [])
        if rounds:
            median = np.median([r.path[1:] for r in rounds], axis=0)
            ax.plot(rounds[0].evaluated, median, f"C{i}", label=f"online, $\\eta_0 = {eta0:g}$")
    levels = np.median([r.batch for rounds in runs_by_rate.values() for r in rounds], axis=0)
    for n, style in ((1, "--"), (10, ":")):
        name = f"batch EM, {n} it."
        ax.axhline(levels[n], color="black", linestyle=style, linewidth=1, label=name)
    # Halfway to the start; too large a rate goes far beyond before it comes back.
    bottom, top = min(min(line.get_ydata()) for line in ax.lines), (levels[0] + levels[1]) / 2.0
    ax.set_ylim(bottom - 0.05 * (top - bottom), top)
