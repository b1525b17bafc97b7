"""Where the default solver takes split and merge steps, and where components keep their places."""

import numpy as np
import pytest

from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Auto

RNG = np.random.default_rng(3)
CENTRES = RNG.uniform(-20.0, 20.0, size=(12, 2))
LABELS = np.repeat(np.arange(12), 120)
X = CENTRES[LABELS] + RNG.normal(size=(1440, 2)) * [1.0, 4.0]
UNKNOWN = np.where(RNG.uniform(size=1440) < 0.1, LABELS, -1)


def fitted(solver="auto", n_components=12, init="random_from_data", y=None, **parameters):
    mixture = GaussianMixture(
        n_components, solver=solver, init=init, batch_size=200, random_state=1, **parameters
    )
    return mixture.fit(X, y)


def test_default_fits_split_and_merge():
    assert fitted().score(X) > fitted(Auto(split_merge=False)).score(X) + 0.1


@pytest.mark.parametrize(("n_rows", "n_starts"), [(1440, 3), (4095, 3), (4096, 2), (16_000, 1)])
def test_few_rows_take_several_starts(n_rows, n_starts):
    rows = np.resize(X, (n_rows, 2)) + np.random.default_rng(0).normal(size=(n_rows, 2))

    def bits(**parameters):
        mixture = GaussianMixture(5, random_state=0, **parameters).fit(rows)
        return mixture.means_, mixture.covariances_, mixture.lower_bounds_

    for own, other in zip(bits(), bits(n_init=n_starts), strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("eta0", ["auto", 0.5], ids="eta0={}".format)
def test_adaptive_fits_take_as_many_starts(eta0):
    mixture = GaussianMixture(5, random_state=0).fit(X)
    adaptive = GaussianMixture(5, solver="adaptive", eta0=eta0, random_state=0).fit(X)
    np.testing.assert_array_equal(adaptive.means_, mixture.means_)


def test_starts_of_its_own_accord_may_fail():
    """Seeds have clusters of one row, which without a floor have no covariance."""
    rows = np.random.default_rng(38).normal(size=(40, 2))
    mixture = GaussianMixture(5, reg_covar=0.0, random_state=38).fit(rows)
    first = GaussianMixture(5, reg_covar=0.0, random_state=38, n_init=1).fit(rows)
    assert mixture.score(rows) >= first.score(rows)
    with pytest.raises(ValueError, match="not positive definite"):
        GaussianMixture(5, reg_covar=0.0, random_state=38, n_init=3).fit(rows)


PLACES = {
    "start values": {"means_init": X[:12]},
    "centres": {"init": X[:12]},
    "labels": {"semi_supervised": True, "y": UNKNOWN},
    "a learnt prior": {"prior": fitted(init="k-means").as_prior(10.0), "init": "k-means"},
    "a number of passes": {"tol": 0.0, "max_iter": 40},
    "a chosen rate": {"eta0": 0.5, "max_iter": 5},
    "a prior that removes components": {"weight_concentration_prior": 0.9},
    "four components": {"n_components": 4},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", PLACES)
def test_components_keep_their_places(case):
    plain = fitted(Auto(split_merge=False), **PLACES[case])
    np.testing.assert_array_equal(fitted(**PLACES[case]).means_, plain.means_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_continues_keeps_its_components():
    def continued(solver):
        mixture = fitted(Auto(split_merge=False), max_iter=3, warm_start=True)
        return mixture.set_params(solver=solver, max_iter="auto").fit(X)

    plain = continued(Auto(split_merge=False))
    np.testing.assert_array_equal(continued("auto").means_, plain.means_)
