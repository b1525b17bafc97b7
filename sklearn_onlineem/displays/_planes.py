"""Components in the plane of two features, or of the two directions that separate them best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from sklearn_onlineem.displays._drawing import (
    Diamonds,
    Ellipses,
    colors,
    foreground,
    opacities,
    without_frame,
)

_OUTER_WIDTH, _INNER_WIDTH = 0.9, 0.7


@dataclass(frozen=True)
class Projection:
    """Projection of rows to a plane, (x - origin) V, with V of shape (d, 2)."""

    names: tuple
    directions: np.ndarray
    origin: np.ndarray

    def points(self, X):
        """Return rows in the plane, an ndarray of shape (n_rows, 2)."""
        return (X - self.origin) @ self.directions

    def covariances(self, covariances, n_components):
        """Return V' S V of covariances in any of the four shapes, (K, 2, 2)."""
        V = self.directions
        if covariances.ndim == 2:
            variances = np.broadcast_to(covariances, (n_components, len(V)))
            return np.einsum("di,kd,dj->kij", V, variances, V)
        return np.broadcast_to(V.T @ covariances @ V, (n_components, 2, 2))


@dataclass(frozen=True)
class Plane:
    """Regions of components in a plane, and points with their most probable components."""

    names: tuple
    regions: Ellipses | Diamonds
    points: np.ndarray | None = None
    components: np.ndarray | None = None

    def draw(self, ax, weights, masses, scatter_kw, line_kw):
        """Return the points, the patches (K, n_masses), and the numbers of the components."""
        of_components = colors(len(weights))
        scatter = self.draw_points(ax, of_components, scatter_kw)
        patches = self.draw_regions(ax, weights, masses, of_components, line_kw)
        labels = self.draw_centres(ax, weights)
        self.frame(ax)
        return scatter, patches, labels

    def frame(self, ax):
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.margins(0.03)
        ax.autoscale_view()
        without_frame(ax)

    def draw_points(self, ax, of_components, scatter_kw):
        if self.points is None:
            return None
        size = float(np.clip(4000.0 / max(1, len(self.points)), 3.0, 16.0))
        style = {"s": size, "alpha": 0.6, "linewidths": 0.0, "zorder": 1}
        if not {"c", "color"} & set(scatter_kw):
            style["c"] = [of_components[k] for k in self.components]
        return ax.scatter(*self.points.T, **{**style, **scatter_kw})

    def draw_regions(self, ax, weights, masses, of_components, line_kw):
        """Draw the regions, inner ones darker; those of weight 0 are invisible."""
        patches = np.empty((len(weights), len(masses)), dtype=object)
        alphas = opacities(weights)
        inner = _depths(masses)
        for k, j in np.ndindex(patches.shape):
            style = {
                "edgecolor": (of_components[k], alphas[k]),
                "facecolor": (of_components[k], 0.22 * alphas[k]),
                "linewidth": _OUTER_WIDTH + _INNER_WIDTH * inner[j],
                "zorder": 2.0 + 0.1 * inner[j],
                "visible": bool(weights[k] > 0.0),
            }
            patches[k, j] = ax.add_patch(self.regions.patch(k, masses[j], **{**style, **line_kw}))
        return patches

    def draw_centres(self, ax, weights):
        """Number the components at their centres; mark them only, if they are many."""
        from matplotlib.patheffects import withStroke

        seen = np.flatnonzero(weights)
        if len(seen) > 30:
            centres = self.regions.centres[seen]
            ax.scatter(*centres.T, s=14, marker="+", c=foreground(), linewidths=0.8, zorder=4)
            return []
        size = "medium" if len(seen) <= 12 else "small"
        style = {"ha": "center", "va": "center", "weight": "bold", "size": size, "zorder": 4}
        # A halo makes the numbers readable everywhere.
        style["path_effects"] = [withStroke(linewidth=2.5, foreground=ax.get_facecolor())]
        centres = self.regions.centres
        return [ax.text(*centres[k], str(k), clip_on=True, **style) for k in seen]


def mass_handles(masses):
    from matplotlib.lines import Line2D

    widths = _OUTER_WIDTH + _INNER_WIDTH * _depths(masses)
    return [
        Line2D([], [], color=foreground(), linewidth=width, label=f"{100 * mass:.4g} % of mass")
        for mass, width in zip(masses, widths, strict=True)
    ]


def _depths(masses):
    """Return how many of the regions contain each region."""
    masses = np.asarray(masses)
    return (masses[:, None] < masses).sum(axis=1)


# -------------------------------------------------------------------------------- the directions


def discriminant_directions(weights, means, covariances):
    """Return the two directions along which components differ most, of shape (d, 2).

    They maximise :math:`v' B v / v' W v`, with B the covariance of the means and W the mean
    covariance, and are scaled to :math:`v' W v = 1`. If means span fewer directions, those of
    largest W follow, of standardised features.
    """
    deviations = means - weights @ means
    if covariances.ndim == 2:
        within = np.diag(np.broadcast_to(weights @ covariances, means.shape[1:]))
    elif len(covariances) == 1:
        within = covariances[0]
    else:
        within = np.einsum("k,kij->ij", weights, covariances)
    between = (weights * deviations.T) @ deviations
    units = np.sqrt(np.diag(within) + np.diag(between))
    within, between = (matrix / np.outer(units, units) for matrix in (within, between))
    ratios, found = linalg.eigh(between, within)
    # A smaller share of the means in the variance along a direction is rounding.
    n_found = min(2, int(np.count_nonzero(ratios > 1e-9)))
    directions = found[:, ::-1][:, :n_found]
    if n_found < 2:
        rest = _widest(within, directions)[:, : 2 - n_found]
        directions = np.hstack([directions, rest])
    directions = directions / units[:, None]
    # Signs of eigenvectors are arbitrary: the largest coefficient is made positive.
    largest = np.abs(directions * units[:, None]).argmax(axis=0)
    return directions * np.sign(directions[largest, [0, 1]])


def _widest(within, directions):
    """Return principal directions of W, uncorrelated with those given, scaled to v' W v = 1."""
    basis = linalg.null_space(directions.T @ within) if directions.size else np.eye(len(within))
    variances, found = np.linalg.eigh(basis.T @ within @ basis)
    widest = basis @ found[:, ::-1]
    return widest / np.sqrt(np.einsum("ij,ik,kj->j", widest, within, widest))
