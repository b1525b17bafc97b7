"""Families of distributions, one concept a file; stateless, for all components at once."""

from sklearn_onlineem.families._family import ExponentialFamily, Family
from sklearn_onlineem.families.bernoulli import Bernoulli
from sklearn_onlineem.families.categorical import Categorical
from sklearn_onlineem.families.compound_dirichlet import CompoundDirichlet
from sklearn_onlineem.families.covariance_shapes import (
    DiagonalCovariance,
    FullCovariance,
    SphericalCovariance,
)
from sklearn_onlineem.families.exponential import Exponential
from sklearn_onlineem.families.gamma import Gamma
from sklearn_onlineem.families.gaussian_axis import DiagonalGaussian, SphericalGaussian
from sklearn_onlineem.families.gaussian_matrix import FullGaussian, TiedGaussian
from sklearn_onlineem.families.laplace import Laplace
from sklearn_onlineem.families.markov_chain import MarkovChain
from sklearn_onlineem.families.multinomial import Multinomial
from sklearn_onlineem.families.poisson import Poisson
from sklearn_onlineem.families.wishart import Wishart

__all__ = [
    "Bernoulli",
    "Categorical",
    "CompoundDirichlet",
    "DiagonalCovariance",
    "DiagonalGaussian",
    "Exponential",
    "ExponentialFamily",
    "Family",
    "FullCovariance",
    "FullGaussian",
    "Gamma",
    "Laplace",
    "MarkovChain",
    "Multinomial",
    "Poisson",
    "SphericalCovariance",
    "SphericalGaussian",
    "TiedGaussian",
    "Wishart",
]
