"""Families by the names that estimators take."""

from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    CompoundDirichlet,
    Exponential,
    Gamma,
    Gaussian,
    Laplace,
    Multinomial,
    Poisson,
    StudentT,
    Wishart,
)
from sklearn_onlineem.families.covariance_shapes import COVARIANCES

FAMILIES = {
    "bernoulli": Bernoulli(),
    "categorical": Categorical(),
    "compound_dirichlet": CompoundDirichlet(),
    "exponential": Exponential(),
    "gamma": Gamma(),
    **{f"gaussian_{name}": Gaussian(shape) for name, shape in COVARIANCES.items()},
    "laplace": Laplace(),
    "multinomial": Multinomial(),
    "poisson": Poisson(),
    **{f"student_t_{name}": StudentT(shape) for name, shape in COVARIANCES.items()},
    "wishart": Wishart(),
}
