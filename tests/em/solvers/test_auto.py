"""Where the default solver takes split and merge steps, and where components keep their places."""

import numpy as np
import pytest

from sklearn_onlineem import GaussianMixture, MultinomialMixture
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


@pytest.mark.parametrize(("n_rows", "n_starts"), [(1440, 2), (15_999, 2), (16_000, 1)])
def test_few_rows_take_several_starts(n_rows, n_starts):
    rows = np.resize(X, (n_rows, 2)) + np.random.default_rng(0).normal(size=(n_rows, 2))

    def bits(**parameters):
        mixture = GaussianMixture(5, random_state=0, **parameters).fit(rows)
        return mixture.means_, mixture.covariances_, mixture.lower_bounds_

    for own, other in zip(bits(), bits(n_init=n_starts), strict=True):
        np.testing.assert_array_equal(own, other)


SMALL = np.random.default_rng(5).normal(size=(208, 5)) + 3.0 * RNG.integers(0, 2, size=(208, 5))


@pytest.mark.parametrize(("n_rows", "takes_turns"), [(207, True), (208, False)])
def test_passes_take_turns_where_parameters_have_few_values(n_rows, takes_turns):
    mixture = GaussianMixture(5, n_init=1, random_state=0).fit(SMALL[:n_rows])
    is_online = np.isfinite([step.eta for step in mixture.history_])
    turn = [*8 * [True], *5 * [False]]
    assert mixture.model_.n_parameters() == 104
    assert list(is_online[: 6 * len(turn)]) == 6 * turn if takes_turns else not is_online.any()
    assert not is_online[6 * len(turn) :].any()
    assert mixture.converged_


def test_turns_find_likelier_fits_than_ten_starts():
    """And the same ones with several threads."""
    plain = GaussianMixture(8, solver="batch", n_init=10, random_state=0).fit(SMALL)
    mixture, other = (GaussianMixture(8, random_state=0, n_jobs=n).fit(SMALL) for n in (1, 2))
    assert mixture.score(SMALL) > plain.score(SMALL) + 0.1
    np.testing.assert_array_equal(other.covariances_, mixture.covariances_)


def test_many_values_for_each_parameter_need_no_turns():
    """As counts of many words: each component has hundreds of rows."""
    rows = np.random.default_rng(0).poisson(0.3, size=(600, 200))
    mixture = MultinomialMixture(5, n_init=1, random_state=0).fit(rows)
    assert len(rows) < mixture.model_.n_parameters()
    assert not np.isfinite([step.eta for step in mixture.history_]).any()


@pytest.mark.parametrize("eta0", ["auto", 0.5], ids="eta0={}".format)
def test_adaptive_fits_take_as_many_starts(eta0):
    mixture = GaussianMixture(5, random_state=0).fit(X)
    adaptive = GaussianMixture(5, solver="adaptive", eta0=eta0, random_state=0).fit(X)
    np.testing.assert_array_equal(adaptive.means_, mixture.means_)


@pytest.mark.parametrize("callbacks", [None, [lambda step: None]], ids=["alone", "watched"])
def test_starts_of_its_own_accord_may_fail(callbacks):
    """Seeds have clusters of one row, which without a floor have no covariance."""
    rows = np.random.default_rng(38).normal(size=(40, 2))
    mixture = GaussianMixture(5, reg_covar=0.0, random_state=38, callbacks=callbacks).fit(rows)
    first = GaussianMixture(5, reg_covar=0.0, random_state=38, n_init=1).fit(rows)
    assert mixture.score(rows) >= first.score(rows)
    with pytest.raises(ValueError, match="not positive definite"):
        GaussianMixture(5, reg_covar=0.0, random_state=38, n_init=3).fit(rows)


def test_turns_that_fail_are_counted():
    rows, steps = np.random.default_rng(29).normal(size=(60, 2)), []
    mixture = GaussianMixture(5, reg_covar=0.0, random_state=29, n_init=1)
    mixture.set_params(callbacks=[steps.append]).fit(rows)
    history = mixture.history_
    assert list(history) == steps
    assert 0 < np.isfinite([step.eta for step in history]).sum() < 6 * 8
    assert np.diff([step.n_rows for step in history]).min() > 0
    assert mixture.n_steps_ == len(history) and mixture.n_iter_ == len(mixture.lower_bounds_)
    assert mixture.converged_


@pytest.mark.parametrize("n_before", [0, 20, 100])
def test_callbacks_that_fail_end_turns(n_before):
    def fails(step):
        steps.append(step)
        if len(steps) > n_before:
            raise ValueError("no more")

    mixture, steps = GaussianMixture(5, random_state=0, callbacks=[fails]), []
    with pytest.raises(ValueError, match="no more"):
        mixture.fit(SMALL[:207])
    assert len(steps) == n_before + 1 and not hasattr(mixture, "history_")


def test_a_fit_from_a_stream_keeps_its_rates():
    def rates(solver):
        mixture = GaussianMixture(4, warm_start=True, batch_size=200, random_state=0)
        for _ in range(5):
            mixture.partial_fit(X)
        return [step.eta for step in mixture.set_params(solver=solver).fit(X).history_[5:13]]

    assert rates("auto") == rates("online")


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
