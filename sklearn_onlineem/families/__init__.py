"""Families of distributions, one concept a file; stateless, for all components at once."""

from typing import TYPE_CHECKING

from sklearn_onlineem._lazy import lazy_names

if TYPE_CHECKING:
    from sklearn_onlineem.families._family import ExponentialFamily as ExponentialFamily
    from sklearn_onlineem.families._family import Family as Family
    from sklearn_onlineem.families.bernoulli import Bernoulli as Bernoulli
    from sklearn_onlineem.families.categorical import Categorical as Categorical
    from sklearn_onlineem.families.compound_dirichlet import CompoundDirichlet as CompoundDirichlet
    from sklearn_onlineem.families.covariance_shapes import Diagonal as Diagonal
    from sklearn_onlineem.families.covariance_shapes import Full as Full
    from sklearn_onlineem.families.covariance_shapes import Gaussians as Gaussians
    from sklearn_onlineem.families.covariance_shapes import Spherical as Spherical
    from sklearn_onlineem.families.covariance_shapes import Tied as Tied
    from sklearn_onlineem.families.gamma import Exponential as Exponential
    from sklearn_onlineem.families.gamma import Gamma as Gamma
    from sklearn_onlineem.families.gaussian import Gaussian as Gaussian
    from sklearn_onlineem.families.gaussian_regression import (
        GaussianRegression as GaussianRegression,
    )
    from sklearn_onlineem.families.laplace import Laplace as Laplace
    from sklearn_onlineem.families.markov_chain import MarkovChain as MarkovChain
    from sklearn_onlineem.families.mixture_emissions import MixtureOf as MixtureOf
    from sklearn_onlineem.families.multinomial import Multinomial as Multinomial
    from sklearn_onlineem.families.poisson import Poisson as Poisson
    from sklearn_onlineem.families.product import Product as Product
    from sklearn_onlineem.families.responses import BernoulliRegression as BernoulliRegression
    from sklearn_onlineem.families.responses import PoissonRegression as PoissonRegression
    from sklearn_onlineem.families.student_t import StudentT as StudentT
    from sklearn_onlineem.families.wishart import Wishart as Wishart
else:
    _HOMES = {
        "_family": ["ExponentialFamily", "Family"],
        "bernoulli": ["Bernoulli"],
        "categorical": ["Categorical"],
        "compound_dirichlet": ["CompoundDirichlet"],
        "covariance_shapes": ["Diagonal", "Full", "Gaussians", "Spherical", "Tied"],
        "gamma": ["Exponential", "Gamma"],
        "gaussian": ["Gaussian"],
        "gaussian_regression": ["GaussianRegression"],
        "laplace": ["Laplace"],
        "markov_chain": ["MarkovChain"],
        "mixture_emissions": ["MixtureOf"],
        "multinomial": ["Multinomial"],
        "poisson": ["Poisson"],
        "product": ["Product"],
        "responses": ["BernoulliRegression", "PoissonRegression"],
        "student_t": ["StudentT"],
        "wishart": ["Wishart"],
    }
    __all__, __getattr__, __dir__ = lazy_names(
        __name__, _HOMES, [*_HOMES, "capabilities", "linear_gaussian"]
    )
