"""When passes end, and how many more there are to be."""

import math

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem import GaussianMixture, PoissonMixture
from sklearn_onlineem.em import Batch
from sklearn_onlineem.em.certificate import Certificate
from sklearn_onlineem.em.stopping import (
    STOPPING_RULES,
    KLStopping,
    LikelihoodStopping,
    StandardErrorStopping,
    expected_passes,
)


def decisions(rule, path):
    return [rule(*step) for step in path]


def test_the_likelihood_rule_looks_at_changes_up_or_down():
    path = [(-10.0, 0.0), (-5.0, 0.0), (-4.5, 0.0), (-4.6, 0.0), (-4.55, 0.0)]
    assert decisions(LikelihoodStopping(0.09), path) == [False, False, False, False, True]
    assert decisions(LikelihoodStopping(0.2), path) == [False, False, False, True, True]


def test_the_kl_rule_looks_at_divergences_only():
    path = [(-10.0, 1.0), (-10.0, 0.1), (-3.0, 0.01)]
    assert decisions(KLStopping(0.05), path) == [False, False, True]


def test_rounding_errors_about_zero_are_no_gains():
    path = [(1e-11, 0.0), (-1e-11, 0.0)]
    assert decisions(StandardErrorStopping(200, 5), path) == [False, True]


def test_quasi_newton_steps_promise_what_is_left():
    rule = StandardErrorStopping(1, 2)
    assert [rule(*step) for step in [(-1.0, 0.0, 1.0), (-0.5, 0.0, 1e-4)]] == [False, True]
    assert rule.left == 1e-4 and rule.distance(rule.tol) == rule.errors


@pytest.mark.parametrize("rule", STOPPING_RULES.values())
def test_tol_0_never_stops(rule):
    assert decisions(rule(0.0), [(-1.0, 0.0)] * 5) == [False] * 5


@pytest.mark.parametrize("stopping", STOPPING_RULES)
def test_a_fit_that_ends_too_early_says_how_far_it_came(stopping, rng):
    X = rng.standard_normal((200, 2))
    mixture = GaussianMixture(
        3, solver=Batch(acceleration=None), max_iter=50, tol=1e-9, stopping=stopping, random_state=0
    )
    with pytest.warns(ConvergenceWarning) as caught:
        mixture.fit(X)
    assert not mixture.converged_ and mixture.n_iter_ == 50
    certificates = [step.kl_divergence for step in mixture.history_]
    values = certificates if stopping == "kl" else np.diff(mixture.lower_bounds_).tolist()
    rate, n_passes = expected_passes(values, 1e-9)
    assert str(caught[0].message) == (
        "GaussianMixture did not converge within max_iter=50 passes: the last changed the"
        f" log-likelihood by {np.diff(mixture.lower_bounds_)[-1]:.2g} nats and had KL(new || old) ="
        f" {certificates[-1]:.2g} nats, and at a rate of {rate:.3g} tol=1e-09 needs some"
        f" {n_passes} more. Raise max_iter or tol."
    )
    assert 0.5 < rate < 1.0


def test_a_fit_without_a_certificate_says_so(rng, monkeypatch):
    monkeypatch.setattr(Certificate, "is_due", lambda certificate: False)
    X = np.concatenate([rng.standard_normal((99, 2)), rng.standard_normal((99, 2)) + 9.0])
    told = "standard errors from where they go, but that is not certified to be a maximum yet"
    with pytest.warns(ConvergenceWarning, match=told):
        GaussianMixture(2, max_iter=20, random_state=0).fit(X)


def test_a_fit_without_a_rate_says_so(rng):
    X = rng.standard_normal((200, 2))
    with pytest.warns(ConvergenceWarning) as caught:
        GaussianMixture(3, max_iter=1, tol=1e-9, solver="batch", random_state=0).fit(X)
        GaussianMixture(3, max_iter=1, tol=1e-9, solver="online", random_state=0).fit(X)
    batch, online = (str(warning.message) for warning in caught)
    assert batch.startswith(
        "GaussianMixture did not converge within max_iter=1 passes: the last had"
    )
    assert batch.endswith(" nats. Raise max_iter or tol.")
    assert online == (
        "GaussianMixture did not converge within max_iter=1 passes: one pass does not determine a"
        " rate. Raise max_iter or tol."
    )


@pytest.mark.parametrize("stopping", STOPPING_RULES)
def test_passes_of_mini_batches_have_gains_but_no_divergence(stopping, rng):
    X = rng.standard_normal((300, 2))
    mixture = GaussianMixture(
        2, solver="online", batch_size=50, max_iter=4, tol=1e-12, stopping=stopping, random_state=0
    )
    with pytest.warns(ConvergenceWarning) as caught:
        mixture.fit(X)
    change = abs(mixture.lower_bounds_[-1] - mixture.lower_bounds_[-2])
    found = f"max_iter=4 passes: the last changed the log-likelihood by {change:.2g} nats"
    assert found in str(caught[0].message)
    assert ("tol=1e-12" in str(caught[0].message)) is (stopping == "likelihood")


def test_a_rate_of_1_and_more_is_no_rate():
    """Gains of EM on a plateau rise before they fall."""
    X = np.repeat([[0.0], [1.0], [10.0], [11.0]], 10, axis=0)
    start = {"weights_init": [0.5, 0.5], "means_init": [[5.499], [5.501]]}
    close = PoissonMixture(2, **start, max_iter=6, tol=1e-9, solver="batch")
    with pytest.warns(ConvergenceWarning, match="and does not approach tol=1e-09. Raise max_iter"):
        close.fit(X)


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


@pytest.mark.parametrize("values, tol, rate, n_passes", [
    # Only the latest values count, after a pass that gained nothing, or a jump to a finite value.
    ([100.0, 1.0, 0.5, 0.25, 0.125], 0.01, 0.5, 4),
    *(([8.0, odd, 0.5, 0.25], 0.2, 0.5, 1) for odd in (0.0, -1.0, math.nan, math.inf)),
    # A pass without a gain tells nothing, nor do values that do not fall.
    *(([2.0, 1.0, last], 0.1, 1.0, math.inf) for last in (0.0, -1.0, math.nan)),
    ([], 0.1, 1.0, math.inf),
    ([1.0], 0.1, 1.0, math.inf),
    ([1.0, 1.0], 0.1, 1.0, math.inf),
    ([1.0, 2.0], 0.1, 2.0, math.inf),
    ([1.0, 0.5], 0.0, 0.5, math.inf),
    # Below `tol` there is nothing to do.
    ([1.0, 0.05], 0.1, 0.05, 0),
    ([0.05], 0.1, 1.0, 0),
    # Numbers may have any size.
    ([1e300, 1e-300], 5e-324, 0.0, 1),
    ([5e-324, 1e308], 1.0, math.exp(700.0), math.inf),
])  # fmt: skip
def test_what_the_latest_values_foretell(values, tol, rate, n_passes):
    assert expected_passes(values, tol) == pytest.approx((rate, n_passes))


def test_a_rate_that_is_hardly_below_1_takes_long():
    rate, n_passes = expected_passes([1.0, math.nextafter(1.0, 0.0)], 5e-324)
    assert rate < 1.0 and 6e18 < n_passes < 7e18
