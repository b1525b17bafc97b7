"""Ellipses of displays: their boundaries have the same distance from the mean."""

import numpy as np
from scipy import stats

CIRCLE = np.array([[np.cos(t), np.sin(t)] for t in np.linspace(0.0, 6.0, 13)])


def assert_holds(ellipse, mass, mean, covariance):
    """Squared distances of the boundary are the quantile of the mass."""
    deviations = ellipse.get_patch_transform().transform(CIRCLE) - mean
    distances = np.einsum("ni,ij,nj->n", deviations, np.linalg.inv(covariance), deviations)
    np.testing.assert_allclose(distances, stats.chi2.ppf(mass, 2), rtol=1e-9)
