"""States and components at rows that are all equal, where densities have no bound."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem import HMM, GaussianHMM, GaussianMixture, Mixture, PoissonHMM, PoissonMixture


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
    "estimator",
    [
        *(GaussianHMM(2, covariance_type=kind) for kind in ("diag", "full", "spherical")),
        *(GaussianMixture(2, covariance_type=kind) for kind in ("diag", "full", "spherical")),
        Mixture(2, family="laplace"),
        Mixture(2, family={"x": "gaussian_diag", "n": "poisson"}),
        HMM(2, family="laplace"),
        HMM(2, family={"x": "gaussian_diag", "n": "poisson"}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n_times", [1, 60], ids=["few", "many"])
def test_a_state_of_equal_rows_is_named(estimator, n_times, rng):
    X = stuck(rng)
    X = np.vstack(
        [X, *(np.where(X == 20.0, X, rng.normal(size=X.shape)) for _ in range(n_times - 1))]
    )
    if isinstance(getattr(estimator, "family", None), dict):
        X = pd.DataFrame({"n": rng.poisson(3.0, len(X)), "x": X[:, 0]})
    (message,) = told(estimator.set_params(random_state=0), X)
    what = "state" if hasattr(estimator, "transmat_") else "component"
    part, name = int(message.split(f"{what} ")[1][0]), type(estimator).__name__
    equal = f"{30 * n_times} equal rows, [20.0]"
    assert f"{name}: {what} {part} has collapsed onto {equal}" in message
    assert (estimator.predict(X)[::10] == part).all()


def test_it_is_a_warning_of_convergence(rng):
    with pytest.warns(ConvergenceWarning, match="collapsed"):
        GaussianHMM(2, random_state=0).fit(stuck(rng))


@pytest.mark.parametrize(
    ("estimator", "change"),
    [
        (GaussianMixture(2), lambda X: np.where(X == 20.0, np.nan, X)),
        (GaussianMixture(2, covariance_type="tied"), lambda X: X),
        (GaussianMixture(2), lambda X: np.where(X == 20.0, 0.0, 1.0)),
        (PoissonMixture(2), lambda X: np.where(X == 20.0, 0.0, 20.0)),
        (GaussianHMM(2), lambda X: np.where(X == 20.0, np.nan, X)),
        (GaussianHMM(2, covariance_type="tied"), lambda X: X),
        (GaussianHMM(1), lambda X: X),
        (GaussianHMM(2), lambda X: np.where(X == 20.0, 0.0, 1.0)),
        (GaussianHMM(2), lambda X: np.where(X == 20.0, 20.0 + 1e-3 * np.arange(300)[:, None], X)),
        (PoissonHMM(2), lambda X: np.where(X == 20.0, 0.0, 20.0)),
    ],
    ids=lambda value: repr(value) if hasattr(value, "fit") else "rows",
)
def test_others_are_not(estimator, change, rng):
    assert not told(estimator.set_params(random_state=0), change(stuck(rng)))
