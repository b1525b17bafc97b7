"""Components by single features: densities with a histogram, or probabilities with shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sklearn_onlineem.displays._drawing import (
    colors,
    foreground,
    label_axis,
    line_styles,
    opacities,
    without_frame,
)
from sklearn_onlineem.families import Categorical, CompoundDirichlet, Multinomial, Product
from sklearn_onlineem.families.capabilities import ColumnDistributions

# Values beyond these quantiles, of the mixture and of the rows, are not shown.
_TAIL = 0.002
_N_POINTS = 400


@dataclass(frozen=True)
class Marginal:
    """The distribution of one feature: densities of the components, and a histogram of rows.

    `densities`, of shape (n_points, K), are multiplied by the weights; of counts and codes they are
    probabilities. `categories` are the texts of nominal codes, between which there are no others.
    """

    name: str
    x: np.ndarray
    densities: np.ndarray
    heights: np.ndarray | None = None
    edges: np.ndarray | None = None
    is_discrete: bool = False
    categories: Sequence[str] | None = None

    def draw(self, ax, weights, line_kw):
        """Return the bars, the lines of the components, and that of the mixture."""
        from matplotlib.ticker import MaxNLocator

        bars = None
        if self.heights is not None:
            gap = 0.85 if self.is_discrete and np.diff(self.edges).max() == 1.0 else 1.0
            bars = _draw_bars(ax, self.edges[:-1], self.heights, np.diff(self.edges), gap)
        is_marked = self.is_discrete and len(self.x) <= 40
        look = ax, self.x, self.categories is not None
        lines = _draw_lines(*look, self.densities, weights, is_marked, line_kw)
        total = _draw_total(*look, self.densities.sum(axis=1))
        ax.set(xlabel=self.name, ylabel="probability" if self.is_discrete else "density")
        ax.set_ylim(0.0, 1.08 * self._top())
        ax.margins(x=0.02)
        if self.categories is not None:
            is_wide = len(self.x) * max(map(len, self.categories)) > 30
            label_axis(ax.xaxis, self.categories, rotation=90 if is_wide else 0)
        elif self.is_discrete:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        without_frame(ax)
        return bars, lines, total

    def _top(self):
        """Return the height of the picture; an unbounded density must not hide the rest."""
        total = self.densities.sum(axis=1)
        if self.is_discrete or not total.max() > 4.0 * np.quantile(total, 0.95):
            return max(total.max(), 0.0 if self.heights is None else self.heights.max())
        return np.quantile(total, 0.98) if self.heights is None else 1.15 * self.heights.max()


@dataclass(frozen=True)
class Profile:
    """Probabilities of features, (n_features, K), with their average and shares in rows."""

    names: list
    labels: tuple
    probabilities: np.ndarray
    average: np.ndarray
    shares: np.ndarray | None = None

    def draw(self, ax, weights, line_kw):
        x, bars = np.arange(len(self.names)), None
        if self.shares is not None:
            bars = _draw_bars(ax, x - 0.5, self.shares, 1.0, 0.85)
        lines = _draw_lines(ax, x, True, self.probabilities, weights, True, line_kw)
        total = _draw_total(ax, x, True, self.average)
        ax.set_ylim(bottom=0.0)
        ax.set(xlabel=self.labels[0], ylabel=self.labels[1])
        step = max(1, -(-len(x) // 30))
        is_wide = len(x) * max(map(len, self.names)) > 45
        ax.set_xticks(x[::step], self.names[::step], rotation=90 if is_wide else 0)
        without_frame(ax)
        return bars, lines, total


def _draw_bars(ax, left, heights, widths, share):
    offset = 0.5 * (1.0 - share) * widths
    style = {"align": "edge", "color": foreground(), "alpha": 0.22, "linewidth": 0.0}
    return ax.bar(left + offset, heights, share * widths, label="data", zorder=1, **style)


def _draw_lines(ax, x, is_nominal, values, weights, is_marked, line_kw):
    K, seen = values.shape[1], weights > 0.0
    is_short = np.count_nonzero(seen) <= 8
    # Many lines between codes are unreadable; dashes for each component are readable.
    dashed = is_nominal and not is_short
    looks = zip(colors(K), line_styles(K), opacities(weights), strict=True)
    lines, largest = [], int(weights.argmax())
    for k, (color, line_style, alpha) in enumerate(looks):
        # If there are many, the legend has one entry for all of them.
        if is_short:
            label = f"{k} ({weights[k]:.2g})" if seen[k] else f"_{k}"
        else:
            label = "components" if k == largest else f"_{k}"
        style = {
            "color": color,
            "linestyle": "none" if dashed else line_style,
            "alpha": alpha,
            "linewidth": 1.7 if is_short else 1.0,
            "marker": "_" if dashed else "o" if is_marked and is_short else "none",
            "markersize": 6.0 if dashed else 3.5,
            "label": label,
            "visible": bool(seen[k]),
            "zorder": 3,
        }
        lines += ax.plot(x, values[:, k], **{**style, **line_kw})
    return lines


def _draw_total(ax, x, is_nominal, values):
    """Draw the mixture beneath its components, so that both are visible if they are equal."""
    style = {"color": foreground(), "alpha": 0.45, "linewidth": 3.5, "solid_joinstyle": "round"}
    if is_nominal:
        style = {"color": foreground(), "linestyle": "none", "marker": "_", "markersize": 13.0}
        style["markeredgewidth"] = 2.0
    return ax.plot(x, values, label="mixture", zorder=2, **style)[0]


# ------------------------------------------------------------------------- densities of features


def marginal(model, column, j, name, categories=None):
    """Return the marginal of feature j; `column` are its values, `categories` texts of codes."""
    family, weights, heights, edges = model.family, model.weights, None, None
    if isinstance(family, Product):
        factors = zip(family.families, family.columns, model.parameters, strict=True)
        factor, columns, own = next(known for known in factors if j in known[1])
        of_group = replace(model, family=factor, parameters=own)
        return marginal(of_group, column, columns.index(j), name, categories)
    if isinstance(family, Categorical):
        probabilities = family.probabilities(model.parameters)[j]
        n = probabilities.shape[1]
        if column is not None:
            heights = np.bincount(column.astype(int), minlength=n) / len(column)
            edges = np.arange(n + 1) - 0.5
        densities = (weights[:, None] * probabilities).T
        return Marginal(name, np.arange(n), densities, heights, edges, True, categories)
    if not isinstance(family, ColumnDistributions):
        raise ValueError(f"{type(family).__name__} has no distributions of single features.")
    of_components = family.distribution(model.parameters, j)
    seen = weights > 0.0
    ends = []
    for tail in (_TAIL, 1.0 - _TAIL):
        quantiles = of_components.ppf(tail)[seen]
        grid = np.linspace(quantiles.min(), quantiles.max(), _N_POINTS)
        is_above = of_components.cdf(grid[:, None]) @ weights >= tail
        ends.append(grid[is_above.argmax()] if is_above.any() else grid[-1])
    if column is not None:
        found = np.quantile(column, [_TAIL, 1.0 - _TAIL])
        ends = [min(ends[0], found[0]), max(ends[1], found[1])]
    low, high = ends
    if hasattr(of_components, "pmf"):
        low, high = int(low), int(high)
        x = np.arange(low, high + 1)
        if column is not None:
            # Counts in a wider range are binned.
            width = -(-len(x) // 60)
            edges = np.arange(low, high + width + 1, width) - 0.5
            heights = np.histogram(column, edges)[0] / (len(column) * width)
        densities = weights * of_components.pmf(x[:, None])
        return Marginal(name, x, densities, heights, edges, is_discrete=True)
    if column is not None:
        inside = column[(column >= low) & (column <= high)]
        n_bins = int(np.clip(2.0 * len(inside) ** (1.0 / 3.0), 10, 60))
        counts, edges = np.histogram(inside, np.linspace(low, high, n_bins + 1))
        heights = counts / (len(column) * np.diff(edges))
    x = np.linspace(low, high, _N_POINTS)
    return Marginal(name, x, weights * of_components.pdf(x[:, None]), heights, edges)


# ----------------------------------------------------------------------- probabilities of features


def profile(model, X, chosen, names, xlabel):
    shares_counts = isinstance(model.family, Multinomial | CompoundDirichlet)
    means = model.family.means(model.parameters)
    average = model.weights @ means
    mean = np.nanmean if isinstance(X, np.ndarray) else type(X).mean
    mean_row = None if X is None else np.asarray(mean(X, axis=0), dtype=float).ravel()
    if shares_counts:
        means = means / means.sum(axis=1, keepdims=True)
        average = average / average.sum()
        mean_row = None if mean_row is None else mean_row / max(mean_row.sum(), 1e-300)
    shares = None if mean_row is None else mean_row[chosen]
    labels = xlabel, "share of counts" if shares_counts else "probability of 1"
    return Profile([names[j] for j in chosen], labels, means[:, chosen].T, average[chosen], shares)
