"""States at rows that are all equal, where densities have no bound."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem import HMM, GaussianHMM, PoissonHMM


def stuck(rng):
    """Numbers, of which every tenth is the same."""
    X = rng.normal(size=(300, 1))
    X[::10] = 20.0
    return X


def told(estimator, X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X)
    return [str(warning.message) for warning in caught if "collapsed" in str(warning.message)]


@pytest.mark.parametrize(
    "hmm",
    [
        *(GaussianHMM(2, covariance_type=kind) for kind in ("diag", "full", "spherical")),
        HMM(2, family="laplace"),
        HMM(2, family={"x": "gaussian_diag", "n": "poisson"}),
    ],
    ids=repr,
)
def test_a_state_of_equal_rows_is_named(hmm, rng):
    X = stuck(rng)
    if isinstance(hmm, HMM) and isinstance(hmm.family, dict):
        X = pd.DataFrame({"n": rng.poisson(3.0, 300), "x": X[:, 0]})
    (message,) = told(hmm.set_params(random_state=0), X)
    state, name = int(message.split("state ")[1][0]), type(hmm).__name__
    assert f"{name}: state {state} has collapsed onto 30 equal rows, [20.0]" in message
    assert (hmm.predict(X)[::10] == state).all()


def test_it_is_a_warning_of_convergence(rng):
    with pytest.warns(ConvergenceWarning, match="collapsed"):
        GaussianHMM(2, random_state=0).fit(stuck(rng))


@pytest.mark.parametrize(
    ("hmm", "change"),
    [
        (GaussianHMM(2), lambda X: np.where(X == 20.0, np.nan, X)),
        (GaussianHMM(2, covariance_type="tied"), lambda X: X),
        (GaussianHMM(1), lambda X: X),
        (GaussianHMM(2), lambda X: np.where(X == 20.0, 0.0, 1.0)),
        (GaussianHMM(2), lambda X: np.where(X == 20.0, 20.0 + 1e-3 * np.arange(300)[:, None], X)),
        (PoissonHMM(2), lambda X: np.where(X == 20.0, 0.0, 20.0)),
    ],
    ids=["missing", "tied", "one state", "two values", "narrow", "counts"],
)
def test_other_states_are_not(hmm, change, rng):
    assert not told(hmm.set_params(random_state=0), change(stuck(rng)))
