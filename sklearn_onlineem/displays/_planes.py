"""Components in the plane of two features, or of the two directions that separate them best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg, stats

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.displays._drawing import foreground, opacities, without_frame
from sklearn_onlineem.families import Gaussian, Laplace, StudentT

_OUTER_WIDTH, _INNER_WIDTH = 0.9, 0.7


@dataclass(frozen=True)
class Projection:
    """Projection of rows to a plane, (x - origin) V, with V of shape (d, 2)."""

    names: tuple
    directions: np.ndarray
    origin: np.ndarray

    def points(self, X):
        """Return rows in the plane, an ndarray of shape (n_rows, 2)."""
        # Missing values of features that the plane does not show hide no row.
        shown = np.where(self.directions.any(axis=1), X, 0.0)
        return (shown - self.origin) @ self.directions

    def covariances(self, covariances, n_components):
        """Return V' S V of covariances in any of the four shapes, (K, 2, 2)."""
        V = self.directions
        if covariances.ndim == 2:
            variances = np.broadcast_to(covariances, (n_components, len(V)))
            return np.einsum("di,kd,dj->kij", V, variances, V)
        return np.broadcast_to(V.T @ covariances @ V, (n_components, 2, 2))


@dataclass(frozen=True)
class Plane:
    """Components in a plane, and points with their most probable ones.

    `outline(k, mass, **style)` is the patch of the region of component k of this probability.
    """

    names: tuple
    centres: np.ndarray
    outline: Callable
    points: np.ndarray | None = None
    components: np.ndarray | None = None

    def draw(self, ax, weights, masses, of_components, scatter_kw, line_kw):
        """Return the points, the patches (K, n_masses), and the numbers of the components."""
        scatter = None
        if self.points is not None:
            size = float(np.clip(4000.0 / max(1, len(self.points)), 3.0, 16.0))
            style = {"s": size, "alpha": 0.6, "linewidths": 0.0, "zorder": 1}
            if not {"c", "color"} & set(scatter_kw):
                style["c"] = [of_components[k] for k in self.components]
            scatter = ax.scatter(*self.points.T, **{**style, **scatter_kw})
        patches = self.draw_regions(ax, weights, masses, of_components, line_kw)
        labels = self._draw_centres(ax, weights)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.margins(0.03)
        ax.autoscale_view()
        without_frame(ax)
        return scatter, patches, labels

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
            patches[k, j] = ax.add_patch(self.outline(k, masses[j], **{**style, **line_kw}))
        return patches

    def _draw_centres(self, ax, weights):
        """Number the components at their centres; mark them only, if they are many."""
        from matplotlib.patheffects import withStroke

        seen = np.flatnonzero(weights)
        if len(seen) > 30:
            ax.scatter(
                *self.centres[seen].T, s=14, marker="+", c=foreground(), linewidths=0.8, zorder=4
            )
            return []
        size = "medium" if len(seen) <= 12 else "small"
        style = {"ha": "center", "va": "center", "weight": "bold", "size": size, "zorder": 4}
        # A halo makes the numbers readable everywhere.
        style["path_effects"] = [withStroke(linewidth=2.5, foreground=ax.get_facecolor())]
        return [ax.text(*self.centres[k], str(k), clip_on=True, **style) for k in seen]


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


# ------------------------------------------------------------------------------ planes of a model


def projection_of(model, names, chosen=None):
    """Return the plane of two features, in which a mixture is drawn.

    None: discriminant directions about the mean of the mixture; or two features, if regions are
    known only along features.
    """
    if chosen is None and len(names) == 2:
        chosen = [0, 1]
    elif chosen is None and isinstance(model.family, Laplace):
        location, scale = model.parameters
        deviations = location - model.weights @ location
        chosen = telling((model.weights @ deviations**2) / (model.weights @ scale**2), 2)
    if chosen is not None:
        axes = tuple(names[j] for j in chosen)
        return Projection(axes, np.eye(len(names))[:, chosen], np.zeros(len(names)))
    gaussians = _gaussians_of(model)
    means, covariances = gaussians.mean, gaussians.covariance
    directions = discriminant_directions(model.weights, means, covariances)
    axes = "first discriminant", "second discriminant"
    return Projection(axes, directions, model.weights @ means)


def plane_of(model, projection, X=None, max_rows=None):
    """Return the components in a plane, with at most `max_rows` of the rows, evenly chosen."""
    if isinstance(model.family, Laplace):
        location, scale = model.parameters
        centres = projection.points(location)
        outline = partial(_diamond, centres, scale @ projection.directions)
    else:
        gaussians, degrees = _gaussians_of(model), None
        if isinstance(model.family, StudentT):
            degrees = np.broadcast_to(model.parameters.degrees_of_freedom, model.n_components)
        centres = projection.points(gaussians.mean)
        covariances = projection.covariances(gaussians.covariance, model.n_components)
        outline = partial(_ellipse, centres, covariances, degrees)
    if X is None:
        return Plane(projection.names, centres, outline)
    if len(X) > max_rows:
        X = X[np.linspace(0, len(X) - 1, max_rows).astype(int)]
    components = model.posterior(Rows(X, has_gaps=bool(np.isnan(X).any()))).argmax(axis=1)
    return Plane(projection.names, centres, outline, projection.points(X), components)


def _gaussians_of(model):
    """Return the Gaussians of components that are no Laplace distributions; ValueError if none."""
    if isinstance(model.family, StudentT):
        return model.parameters.gaussians
    if isinstance(model.family, Gaussian):
        return model.parameters
    raise ValueError(
        f"{type(model.family).__name__} components cannot be drawn in a plane; Gaussian, Student's"
        " t and Laplace components can."
    )


def telling(scores, n):
    """Return the numbers of the n highest scores, in ascending order."""
    return sorted(np.argsort(-scores, kind="stable")[:n].tolist())


# ----------------------------------------------------------------------------- regions of a mass


def _ellipse(centres, covariances, degrees, k, mass, **style):
    r"""Return the region of a Gaussian in the plane, :math:`(x - m)' S^{-1} (x - m) \le r^2`.

    That of probability p has :math:`r^2 = F^{-1}_{\chi^2_2}(p) = -2 \log(1 - p)`. That of Student's
    t distribution, of some `degrees` of freedom, has :math:`r^2 = 2 F^{-1}_{2, \nu}(p)`.
    """
    from matplotlib.patches import Ellipse

    variances, axes = np.linalg.eigh(covariances[k])
    if degrees is None:
        radius = np.sqrt(stats.chi2.ppf(mass, 2))
    else:
        radius = np.sqrt(2.0 * stats.f.ppf(mass, 2, degrees[k]))
    width, height = 2.0 * radius * np.sqrt(np.maximum(variances, 0.0))
    angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
    return Ellipse(centres[k], width, height, angle=angle, **style)


def _diamond(centres, scales, k, mass, **style):
    r"""Return the region of a Laplace component, :math:`\sum_j |x_j - m_j| / b_j \le r`.

    The sum has a gamma distribution of shape 2; r is its quantile.
    """
    from matplotlib.patches import Polygon

    corners = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    radius = stats.gamma.ppf(mass, 2.0)
    return Polygon(centres[k] + radius * scales[k] * corners, closed=True, **style)


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
        basis = linalg.null_space(directions.T @ within) if directions.size else np.eye(len(within))
        # The principal directions of W that are uncorrelated with those found.
        widest = basis @ np.linalg.eigh(basis.T @ within @ basis)[1][:, ::-1]
        widest = widest / np.sqrt(np.einsum("ij,ik,kj->j", widest, within, widest))
        directions = np.hstack([directions, widest[:, : 2 - n_found]])
    directions = directions / units[:, None]
    # Signs of eigenvectors are arbitrary: the largest coefficient is made positive.
    largest = np.abs(directions * units[:, None]).argmax(axis=0)
    return directions * np.sign(directions[largest, [0, 1]])
