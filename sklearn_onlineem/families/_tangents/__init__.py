"""Directions of the parameters of families, in units of information, by the family's class."""

from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    MarkovChain,
    Multinomial,
    Poisson,
    Wishart,
)
from sklearn_onlineem.families._tangents.base import (
    BernoulliTangents,
    CategoricalTangents,
    DurationTangents,
    GammaTangents,
    MarkovChainTangents,
    MultinomialTangents,
    PoissonTangents,
)
from sklearn_onlineem.families._tangents.gaussian import gaussian_tangents
from sklearn_onlineem.families._tangents.wishart import (
    FixedDegreesWishartTangents,
    WishartTangents,
)
from sklearn_onlineem.families.gamma import FixedShapeGamma
from sklearn_onlineem.families.wishart import FixedDegreesWishart

__all__ = ["TANGENTS"]

TANGENTS = {
    Bernoulli: BernoulliTangents,
    Categorical: CategoricalTangents,
    Exponential: DurationTangents,
    FixedDegreesWishart: FixedDegreesWishartTangents,
    FixedShapeGamma: DurationTangents,
    Gamma: GammaTangents,
    Gaussian: gaussian_tangents,
    MarkovChain: MarkovChainTangents,
    Multinomial: MultinomialTangents,
    Poisson: PoissonTangents,
    Wishart: WishartTangents,
}
