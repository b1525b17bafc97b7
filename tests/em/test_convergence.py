"""How many more passes there are to be."""

import math

import numpy as np
import pytest

from sklearn_onlineem import GaussianMixture, PoissonMixture
from sklearn_onlineem.em.stopping import Outlook, expected_passes


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.93, 0.9999])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
@pytest.mark.parametrize("n_values", [2, 3, 4, 40])
def test_of_a_geometric_sequence_it_is_exact(rate, tol, n_values):
    values = 3.0 * rate ** np.arange(n_values)
    found = expected_passes(values, tol)
    assert found.rate == pytest.approx(rate, rel=1e-9)
    if values[-1] < tol:
        assert found.n_passes == 0
    else:
        last = values[-1] * rate**found.n_passes
        assert last < tol <= last / rate


def test_only_the_latest_values_count():
    values = [100.0, 1.0, 0.5, 0.25, 0.125]
    assert expected_passes(values, 0.01) == pytest.approx((0.5, 4))
    # What came before a pass that gained nothing, or before a jump to a finite value, is no guide.
    for odd in (0.0, -1.0, math.nan, math.inf):
        assert expected_passes([8.0, odd, 0.5, 0.25], 0.2) == pytest.approx((0.5, 1))


@pytest.mark.parametrize(
    "values, tol",
    [([], 0.1), ([1.0], 0.1), ([1.0, 1.0], 0.1), ([1.0, 2.0], 0.1), ([1.0, 0.5], 0.0)],
)
def test_what_is_not_in_sight_takes_for_ever(values, tol):
    assert expected_passes(values, tol).n_passes == math.inf


@pytest.mark.parametrize("last", [0.0, -1.0, math.nan])
def test_a_pass_without_a_gain_tells_nothing(last):
    assert expected_passes([2.0, 1.0, last], 0.1) == Outlook(1.0, math.inf)


def test_numbers_of_any_size_will_do():
    assert expected_passes([1e300, 1e-300], 5e-324) == Outlook(0.0, 1)
    rate, n_passes = expected_passes([1.0, math.nextafter(1.0, 0.0)], 5e-324)
    assert rate < 1.0 and 6e18 < n_passes < 7e18
    rate, n_passes = expected_passes([5e-324, 1e308], 1.0)
    assert rate > 1e300 and n_passes == math.inf


def test_below_tol_there_is_nothing_to_do():
    assert expected_passes([1.0, 0.05], 0.1) == pytest.approx((0.05, 0))
    assert expected_passes([0.05], 0.1).n_passes == 0


@pytest.mark.parametrize("stopping", ["likelihood", "kl"])
@pytest.mark.parametrize("estimator", [GaussianMixture, PoissonMixture])
def test_what_is_foretold_half_way_comes_about(estimator, stopping, rng):
    X = rng.poisson(rng.choice([3.0, 9.0], (500, 1)), (500, 3)).astype(float)
    fit = estimator(
        2, solver="batch", stopping=stopping, tol=1e-9, max_iter=5000, random_state=0
    ).fit(X)
    gains = np.diff(fit.lower_bounds_)
    values = [s.kl_divergence for s in fit.history_] if stopping == "kl" else gains.tolist()
    half = len(values) // 2
    _, foretold = expected_passes(values[:half], 1e-9)
    assert (len(values) - half) / 1.5 <= foretold <= 1.5 * (len(values) - half)
