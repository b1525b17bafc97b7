"""Where the default solver takes split and merge steps, and where components keep their places."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from sklearn_onlineem import GaussianMixture, MultinomialMixture, _python
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
    rows, n_read = np.resize(X, (n_rows, 2)), []
    rows = rows + np.random.default_rng(0).normal(size=(n_rows, 2))
    callbacks = [lambda step: n_read.append(step.n_rows)]
    GaussianMixture(5, random_state=0, callbacks=callbacks).fit(rows)
    assert 1 + (np.diff(n_read) <= 0).sum() == n_starts


SMALL = np.random.default_rng(5).normal(size=(208, 5)) + 3.0 * RNG.integers(0, 2, size=(208, 5))


@pytest.mark.parametrize(
    ("n_rows", "n_turns"), [(20, 0), (32, 6), (90, 6), (208, 6), (15_999, 6), (16_000, 1)], ids=str
)
def test_passes_of_few_rows_take_turns(n_rows, n_turns):
    rows = np.resize(SMALL, (n_rows, 5)) + 0.1 * np.random.default_rng(0).normal(size=(n_rows, 5))
    mixture = GaussianMixture(5, n_init=1, random_state=0, batch_size=4000).fit(rows)
    is_online = np.isfinite([step.eta for step in mixture.history_])
    turn = [*8 * [True], *5 * [False]] if n_turns > 1 else 4 * [True]
    assert mixture.model_.n_parameters() == 104
    assert list(is_online[: n_turns * len(turn)]) == n_turns * turn
    assert not is_online[n_turns * len(turn) :].any()
    assert mixture.converged_ is True


N_TURNS = 6 * (8 + 5)


def test_the_better_of_two_starts_after_their_turns_goes_on_alone():
    seconds = 0
    for seed in range(6):
        steps = []
        mixture = GaussianMixture(6, random_state=seed, callbacks=[steps.append]).fit(SMALL)
        first, second = steps[:N_TURNS], steps[N_TURNS : 2 * N_TURNS]
        is_second = second[-1].log_likelihood > first[-1].log_likelihood
        own = second if is_second else first
        assert list(mixture.history_) == [*own, *steps[2 * N_TURNS :]]
        assert mixture.converged_ and mixture.n_iter_ == len(mixture.lower_bounds_) > 36
        if is_second:
            assert mixture.lower_bounds_[35] == second[-1].log_likelihood
        else:
            alone = GaussianMixture(6, random_state=seed, n_init=1).fit(SMALL)
            np.testing.assert_array_equal(mixture.covariances_, alone.covariances_)
        seconds += is_second
    assert 0 < seconds < 6


@pytest.mark.parametrize("n_failures", [0, 1, 2])
def test_another_start_goes_on_where_the_better_one_fails(n_failures, monkeypatch):
    left = n_failures
    # Errors of users' solvers would end the fit.
    monkeypatch.setattr(_python, "is_foreign", lambda error: False)

    class Failing(Auto):
        def passes(self, progress, data, plan):
            nonlocal left
            for number, found in enumerate(super().passes(progress, data, plan)):
                if number == 36 and left:
                    left -= 1
                    raise ValueError("no maximum")
                yield found

    steps = []
    mixture = GaussianMixture(8, solver=Failing(), random_state=0, callbacks=[steps.append])
    if n_failures == 2:
        with pytest.raises(ValueError, match="no maximum"):
            mixture.fit(SMALL)
        return
    mixture.fit(SMALL)
    tried = steps[:N_TURNS], steps[N_TURNS : 2 * N_TURNS]
    tried = sorted(tried, key=lambda own: -own[-1].log_likelihood)
    assert list(mixture.history_)[:N_TURNS] == tried[n_failures]
    assert mixture.converged_ is True


def test_both_starts_take_all_passes_where_these_are_few():
    """Fewer than those of the turns, after which the better one would go on."""
    steps = []
    arguments = {"random_state": 0, "max_iter": 3}
    with pytest.warns(ConvergenceWarning):
        mixture = GaussianMixture(8, callbacks=[steps.append], **arguments).fit(SMALL)
    assert mixture.n_iter_ == 3 and len(steps) == 2 * (8 + 2) == 2 * mixture.n_steps_
    with pytest.warns(ConvergenceWarning):
        both = GaussianMixture(8, n_init=2, **arguments).fit(SMALL)
    np.testing.assert_array_equal(mixture.covariances_, both.covariances_)


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


def test_singular_covariances_need_neither_turns_nor_two_starts():
    """Clusters of fewer rows than columns stay as the best of three k-means has found them."""
    rng, labels, n_right = np.random.default_rng(0), np.repeat(np.arange(10), 10), 0
    for seed in range(6):
        rows, steps = rng.normal(size=(100, 64)) + 2.0 * rng.normal(size=(10, 64))[labels], []
        mixture = GaussianMixture(10, random_state=seed, callbacks=[steps.append]).fit(rows)
        n_right += adjusted_rand_score(labels, mixture.predict(rows)) == 1.0
        assert len(steps) <= 3
    assert n_right >= 5


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
    assert mixture.converged_ is True


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


@pytest.mark.parametrize("case", PLACES)
def test_components_keep_their_places(case):
    plain = fitted(Auto(split_merge=False), **PLACES[case])
    np.testing.assert_array_equal(fitted(**PLACES[case]).means_, plain.means_)


def test_a_fit_that_continues_keeps_its_components():
    def continued(solver):
        mixture = fitted(Auto(split_merge=False), max_iter=3, warm_start=True)
        return mixture.set_params(solver=solver, max_iter="auto").fit(X)

    plain = continued(Auto(split_merge=False))
    np.testing.assert_array_equal(continued("auto").means_, plain.means_)
