"""Names of families, as estimators take them."""

from __future__ import annotations

from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    CompoundDirichlet,
    DiagonalGaussian,
    Exponential,
    FullGaussian,
    Gamma,
    Laplace,
    Multinomial,
    Poisson,
    SphericalGaussian,
    TiedGaussian,
    Wishart,
)

__all__ = ["COVARIANCE_TYPES", "FAMILIES"]

FAMILIES = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "compound_dirichlet": CompoundDirichlet,
    "exponential": Exponential,
    "gamma": Gamma,
    "gaussian_diag": DiagonalGaussian,
    "gaussian_full": FullGaussian,
    "gaussian_spherical": SphericalGaussian,
    "gaussian_tied": TiedGaussian,
    "laplace": Laplace,
    "multinomial": Multinomial,
    "poisson": Poisson,
    "wishart": Wishart,
}

COVARIANCE_TYPES = {
    "full": FullGaussian,
    "tied": TiedGaussian,
    "diag": DiagonalGaussian,
    "spherical": SphericalGaussian,
}
