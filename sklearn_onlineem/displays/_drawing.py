"""Colours, line styles, and regions of a given probability."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
from scipy import stats

_DASHES = ["-", "--", "-.", ":", (0, (7, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1))]


def colors(n):
    """Return `n` colours of the style's cycle, or of its colour map if there are too few."""
    import matplotlib

    cycled = matplotlib.rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])
    if n <= len(cycled):
        return [matplotlib.colors.to_hex(color) for color in cycled[:n]]
    of_map = matplotlib.colormaps[matplotlib.rcParams["image.cmap"]]
    # The lightest part of a colour map is not visible on paper.
    return [matplotlib.colors.to_hex(color) for color in of_map(np.linspace(0.0, 0.88, n))]


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


# ----------------------------------------------------------------------------- regions of a mass


@dataclass(frozen=True)
class Ellipses:
    r"""Regions of Gaussians in the plane, :math:`(x - m)' S^{-1} (x - m) \le r^2`.

    The region of probability p has :math:`r^2 = F^{-1}_{\chi^2_2}(p) = -2 \log(1 - p)`. That of
    Student's t distribution, of some `degrees` of freedom, has :math:`r^2 = 2 F^{-1}_{2, \nu}(p)`.
    """

    centres: np.ndarray
    covariances: np.ndarray
    degrees: np.ndarray | None = None

    def patch(self, k, mass, **style):
        """Return the boundary of the region of component k of this probability."""
        from matplotlib.patches import Ellipse

        variances, axes = np.linalg.eigh(self.covariances[k])
        if self.degrees is None:
            radius = np.sqrt(stats.chi2.ppf(mass, 2))
        else:
            radius = np.sqrt(2.0 * stats.f.ppf(mass, 2, self.degrees[k]))
        width, height = 2.0 * radius * np.sqrt(np.maximum(variances, 0.0))
        angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
        return Ellipse(self.centres[k], width, height, angle=angle, **style)


@dataclass(frozen=True)
class Diamonds:
    r"""Regions of Laplace components in the plane, :math:`\sum_j |x_j - m_j| / b_j \le r`.

    The sum has a gamma distribution of shape 2; r is its quantile.
    """

    centres: np.ndarray
    scales: np.ndarray

    def patch(self, k, mass, **style):
        from matplotlib.patches import Polygon

        corners = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
        radius = stats.gamma.ppf(mass, 2.0)
        return Polygon(self.centres[k] + radius * self.scales[k] * corners, closed=True, **style)
