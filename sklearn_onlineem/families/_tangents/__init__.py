"""Directions of the parameters of families, in units of information, by the family's class."""

from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    CompoundDirichlet,
    Exponential,
    Gamma,
    Gaussian,
    GaussianRegression,
    Laplace,
    MarkovChain,
    Multinomial,
    Poisson,
    StudentT,
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
from sklearn_onlineem.families._tangents.compound_dirichlet import CompoundDirichletTangents
from sklearn_onlineem.families._tangents.gaussian import gaussian_tangents
from sklearn_onlineem.families._tangents.gaussian_regression import RegressionTangents
from sklearn_onlineem.families._tangents.laplace import LaplaceTangents
from sklearn_onlineem.families._tangents.student_t import StudentTTangents
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
    CompoundDirichlet: CompoundDirichletTangents,
    Exponential: DurationTangents,
    FixedDegreesWishart: FixedDegreesWishartTangents,
    FixedShapeGamma: DurationTangents,
    Gamma: GammaTangents,
    Gaussian: gaussian_tangents,
    GaussianRegression: RegressionTangents,
    Laplace: LaplaceTangents,
    MarkovChain: MarkovChainTangents,
    Multinomial: MultinomialTangents,
    Poisson: PoissonTangents,
    StudentT: StudentTTangents,
    Wishart: WishartTangents,
}
