"""Components by single features: densities with a histogram, or probabilities with shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
# Inches for a letter of a name, and for a name across.
_LETTER, _LINE = 0.11, 0.16


@dataclass(frozen=True)
class Marginal:
    """Components by the values of one feature, or by several features side by side.

    `components`, of shape (n_points, K), and `mixture` are densities, or probabilities if `x` are
    integers. `heights` of bars between `edges` show the data. `names` are those of the points, if
    there is nothing between them.
    """

    labels: tuple[str, str]
    x: np.ndarray
    components: np.ndarray
    mixture: np.ndarray
    edges: np.ndarray
    heights: np.ndarray | None = None
    names: Sequence[str] | None = None

    def draw(self, ax, weights, line_kw):
        """Return the bars, the lines of the components, and that of the mixture."""
        from matplotlib.ticker import MaxNLocator

        is_discrete, bars = np.issubdtype(self.x.dtype, np.integer), None
        if self.heights is not None:
            widths, middles = np.diff(self.edges), self.edges[:-1] + 0.5 * np.diff(self.edges)
            share = 0.85 if is_discrete and widths[0] == 1.0 else 1.0
            style = {"color": foreground(), "alpha": 0.22, "linewidth": 0.0, "zorder": 1}
            bars = ax.bar(middles, self.heights, share * widths, label="data", **style)
        lines = self._draw_components(ax, weights, line_kw)
        # Beneath its components, so that both are visible if they are equal.
        look = {"alpha": 0.45, "linewidth": 3.5, "solid_joinstyle": "round"}
        if self.names is not None:
            look = {"linestyle": "none", "marker": "_", "markersize": 13.0, "markeredgewidth": 2.0}
        look |= {"color": foreground(), "label": "mixture", "zorder": 2}
        (total,) = ax.plot(self.x, self.mixture, **look)
        ax.set(xlabel=self.labels[0], ylabel=self.labels[1], ylim=(0.0, 1.08 * self._top()))
        ax.margins(x=0.02)
        if self.names is not None:
            width = ax.get_window_extent().width / ax.figure.dpi
            is_wide = _LETTER * len(self.x) * max(map(len, self.names)) > width
            most = max(width // _LINE, 1)
            label_axis(ax.xaxis, self.names, most, rotation=90 if is_wide else 0)
        elif is_discrete:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        without_frame(ax)
        return bars, lines, total

    def _draw_components(self, ax, weights, line_kw):
        seen, largest, K = weights > 0.0, int(weights.argmax()), len(weights)
        is_short, is_nominal = np.count_nonzero(seen) <= 8, self.names is not None
        is_few = is_nominal or (np.issubdtype(self.x.dtype, np.integer) and len(self.x) <= 40)
        style = {"linewidth": 1.0, "zorder": 3}
        if is_short:
            style |= {"linewidth": 1.7, "marker": "o" if is_few else "none", "markersize": 3.5}
        elif is_nominal:
            # Many lines between codes are unreadable; dashes for each component are readable.
            style |= {"linestyle": "none", "marker": "_", "markersize": 6.0}
        lines, looks = [], zip(colors(K), line_styles(K), opacities(weights), strict=True)
        for k, (color, line_style, alpha) in enumerate(looks):
            # If there are many, the legend has one entry for all of them.
            label = f"{k} ({weights[k]:.2g})" if is_short else "components"
            is_named = seen[k] if is_short else k == largest
            own = {"color": color, "linestyle": line_style, "alpha": alpha}
            own |= {"label": label if is_named else f"_{k}", "visible": bool(seen[k])}
            lines += ax.plot(self.x, self.components[:, k], **{**own, **style, **line_kw})
        return lines

    def _top(self):
        """Return the height of the picture; an unbounded density must not hide the rest."""
        known = [self.mixture, self.components, *([] if self.heights is None else [self.heights])]
        is_bounded = self.mixture.max() <= 4.0 * np.quantile(self.mixture, 0.95)
        if is_bounded or np.issubdtype(self.x.dtype, np.integer):
            return max(values.max() for values in known)
        return np.quantile(self.mixture, 0.98) if self.heights is None else 1.15 * known[-1].max()


def marginal(model, column, j, name, categories=None):
    """Return the marginal of feature j; `column` are its values, `categories` texts of codes."""
    family, parameters, weights = model.family, model.parameters, model.weights
    if isinstance(family, Product):
        factors = zip(family.families, parameters, family.columns, strict=True)
        family, parameters, columns = next(factor for factor in factors if j in factor[-1])
        j = columns.index(j)
    ylabel = "probability"
    if isinstance(family, Categorical):
        values = family.probabilities(parameters)[j].T
        x, edges = np.arange(len(values)), np.arange(len(values) + 1) - 0.5
    elif isinstance(family, ColumnDistributions):
        of_components = family.distribution(parameters, j)
        low, high = _ends(of_components, weights, column)
        if hasattr(of_components, "pmf"):
            low, high = int(low), int(high)
            # Counts in a wider range are binned.
            x, width = np.arange(low, high + 1), -(-(high + 1 - low) // 60)
            edges = np.arange(low, high + width + 1, width) - 0.5
            values = of_components.pmf(x[:, None])
        else:
            n_inside = 0 if column is None else np.sum((column >= low) & (column <= high))
            n_bins = int(np.clip(2.0 * n_inside ** (1.0 / 3.0), 10, 60))
            x, edges = np.linspace(low, high, _N_POINTS), np.linspace(low, high, n_bins + 1)
            values, ylabel = of_components.pdf(x[:, None]), "density"
    else:
        raise ValueError(f"{type(family).__name__} has no distributions of single features.")
    heights = None
    if column is not None:
        heights = np.histogram(column, edges)[0] / (len(column) * np.diff(edges))
    parts = weights * values
    labels = name, ylabel
    return Marginal(labels, x, parts, parts.sum(axis=1), edges, heights, categories)


def _ends(of_components, weights, column):
    """Return the ends of the values to show: all but the tails of the mixture and of the data."""
    ends, tails = [], [_TAIL, 1.0 - _TAIL]
    for tail in tails:
        quantiles = of_components.ppf(tail)[weights > 0.0]
        grid = np.linspace(quantiles.min(), quantiles.max(), _N_POINTS)
        is_above = of_components.cdf(grid[:, None]) @ weights >= tail
        ends.append(grid[is_above.argmax()] if is_above.any() else grid[-1])
    if column is None:
        return ends
    found = np.quantile(column, tails)
    return min(ends[0], found[0]), max(ends[1], found[1])


def profile(model, X, chosen, names, xlabel):
    """Return the probabilities of several features side by side, and their shares in rows."""
    shares_counts = isinstance(model.family, Multinomial | CompoundDirichlet)
    means = model.family.means(model.parameters)
    average = model.weights @ means
    shares = None
    if X is not None:
        known = np.ma.masked_invalid(X) if isinstance(X, np.ndarray) else X
        shares = np.asarray(np.ma.filled(known.mean(axis=0), 0.0), dtype=float).ravel()
    if shares_counts:
        means, average = means / means.sum(axis=1, keepdims=True), average / average.sum()
        shares = None if shares is None else shares / max(shares.sum(), 1e-300)
    labels = xlabel, "share of counts" if shares_counts else "probability of 1"
    x, edges = np.arange(len(chosen)), np.arange(len(chosen) + 1) - 0.5
    shown = means[:, chosen].T, average[chosen], edges, None if shares is None else shares[chosen]
    return Marginal(labels, x, *shown, [names[j] for j in chosen])
