"""Families that users write: what is wrong with them is told by name."""

import numpy as np
import pytest

from sklearn_onlineem import Mixture
from sklearn_onlineem.families import ExponentialFamily


class Geometric(ExponentialFamily):
    def to_natural(self, mean):
        return np.log(mean / (1.0 + mean))

    def from_natural(self, natural):
        return np.exp(natural) / -np.expm1(natural)

    def log_partition(self, natural):
        return -np.log(-np.expm1(natural)).sum(axis=1)

    def regularise(self, mean):
        return np.maximum(mean, 1e-10)

    def sample(self, mean, components, rng):
        return rng.geometric(1.0 / (1.0 + mean[components])) - 1.0


WRONG = [np.sum, lambda x: x[:1], lambda x: x[..., None], lambda x: x * np.nan]


@pytest.mark.parametrize("name", ["to_natural", "log_partition"])
@pytest.mark.parametrize("wrong", WRONG, ids=["number", "one", "column", "NaN"])
def test_functions_with_wrong_results_are_named(name, wrong, rng):
    X = rng.geometric(rng.choice([0.5, 0.02], (200, 1)), (200, 3)) - 1.0
    Mixture(2, family=Geometric(), random_state=0, max_iter=2).fit(X)
    right = getattr(Geometric, name)
    own = type("Own", (Geometric,), {name: lambda *given: wrong(right(*given))})
    with pytest.raises(ValueError, match=f"Mixture: {name} of Own must return numbers"):
        Mixture(2, family=own(), random_state=0).fit(X)
