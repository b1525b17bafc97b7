"""Directions of the parameters of families, in units of information, by the family's class."""

from sklearn_onlineem._lazy import ByClass

__all__ = ["TANGENTS"]

TANGENTS = ByClass(
    "sklearn_onlineem.families",
    __name__,
    {
        "bernoulli.Bernoulli": "base.BernoulliTangents",
        "categorical.Categorical": "base.CategoricalTangents",
        "compound_dirichlet.CompoundDirichlet": "base.CompoundDirichletTangents",
        "exponential.Exponential": "base.DurationTangents",
        "wishart.FixedDegreesWishart": "wishart.FixedDegreesWishartTangents",
        "gamma.FixedShapeGamma": "base.DurationTangents",
        "gamma.Gamma": "base.GammaTangents",
        "gaussian.Gaussian": "gaussian.gaussian_tangents",
        "gaussian_regression.GaussianRegression": "gaussian_regression.RegressionTangents",
        "laplace.Laplace": "laplace.LaplaceTangents",
        "markov_chain.MarkovChain": "base.MarkovChainTangents",
        "multinomial.Multinomial": "base.MultinomialTangents",
        "poisson.Poisson": "base.PoissonTangents",
        "student_t.StudentT": "student_t.StudentTTangents",
        "wishart.Wishart": "wishart.WishartTangents",
    },
)
