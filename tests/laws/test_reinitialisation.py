"""Empty components of a stream are reinitialised where rows ask for it."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem import GaussianMixture, MultinomialMixture, PoissonMixture
from sklearn_onlineem._values import take
from sklearn_onlineem.em import Online
from sklearn_onlineem.families.capabilities import n_shared_parameters
from sklearn_onlineem.models.split_merge import reinitialised

all_mixtures = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)


@pytest.fixture(autouse=True)
def few_passes():
    """Models are made by one pass with all labels known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def labelled(case, X, y, weights):
    """The components of these clusters, with other weights."""
    mixture = case(3, semi_supervised=True, solver="batch", max_iter=1)
    return replace(mixture.fit(X, y).model_, weights=np.array(weights))


def nearly_empty(case, X, y):
    """A mixture whose first component has both of the first clusters, and whose second has none."""
    return labelled(case, X, np.where(y == 1, 0, y), [0.6, 1e-3, 0.399])


@all_mixtures
def test_an_empty_component_is_reinitialised_as_half_of_what_covers_two_clusters(case, rng):
    X, y = case.data(rng, 400)
    model, data = nearly_empty(case, X, y), case()._input(fresh=True).read(X)
    move = model.reinitialised(data)
    if model.family.is_nominal:
        assert move is None
        return
    assert (move.reinitialised, move.half_of) == (1, 0)
    odd = data[np.arange(1, 400, 2)]
    gain = move.model.log_likelihood(odd).sum() - model.log_likelihood(odd).sum()
    assert gain > np.log(1e6)
    np.testing.assert_allclose(move.model.weights[2], 0.399, rtol=1e-12)
    np.testing.assert_allclose(move.model.weights.sum(), 1.0, rtol=1e-12)
    if n_shared_parameters(model.family, model.parameters) == 0:
        third = [take(m.parameters, [2, 2, 2]) for m in (model, move.model)]
        assert_close(third[1], third[0], rtol=1e-4)
    found = move.model.posterior(data).argmax(axis=1)
    # Each cluster is one component's, but for few rows.
    assert sum(np.bincount(found[y == k]).max() for k in range(3)) > 0.9 * 400


@all_mixtures
def test_none_comes_back_where_the_rest_describes_the_rows(case, rng):
    X, y = case.data(rng, 400)
    model, rows = labelled(case, X, y, [0.5, 0.4999, 1e-4]), case()._input(fresh=True).read(X)
    assert model.reinitialised(rows[np.flatnonzero(y < 2)]) is None
    assert replace(model, weights=np.full(3, 1 / 3)).reinitialised(rows) is None


def test_those_without_weight_and_those_with_labels_stay(rng):
    case = next(case for case in ESTIMATORS if case.make is GaussianMixture)
    X, y = case.data(rng, 400)
    model = nearly_empty(case, X, y)
    data = case()._input(fresh=True).read(X)
    assert model.reinitialised(data) is not None
    assert replace(model, weights=np.array([0.6, 0.0, 0.4])).reinitialised(data) is None
    assert replace(model, weights=np.array([1.0, 0.0, 0.0])).reinitialised(data) is None
    known = case(semi_supervised=True)._input(fresh=True).read(X, np.where(y == 2, 2, -1))
    assert model.reinitialised(known) is None
    assert model.reinitialised(data[:3]) is None


def test_where_all_rows_are_of_the_empty_one_it_stays(rng):
    mixture = GaussianMixture(2, means_init=[[0.0], [1e3]], random_state=0)
    mixture.fit(np.array([0.0, 0.1, 0.2, 1e3, 1e3 + 0.1, 1e3 + 0.2])[:, None])
    model = replace(mixture.model_, weights=np.array([0.999, 0.001]))
    rows = mixture._input().read(1e3 + rng.random((40, 1)))
    assert model.posterior(rows)[:, 0].max() == 0.0
    assert model.reinitialised(rows) is None


def test_sparse_rows_are_as_dense_ones(rng):
    X = rng.multinomial(40, np.repeat([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], 50, axis=0)).astype(float)
    mixture = MultinomialMixture(2, random_state=0).fit(X)
    wide = take(
        MultinomialMixture(2, means_init=[X.mean(axis=0)] * 2, solver="batch", max_iter=1)
        .fit(X).model_.parameters, np.array([0, 0]),
    )  # fmt: skip
    model = replace(mixture.model_, weights=np.array([0.99, 0.01]), parameters=wide)
    moves = [reinitialised(model, mixture._input().read(rows)) for rows in (sparse.csr_array(X), X)]
    for move in moves:
        assert move.reinitialised == 1
        assert move.model.log_likelihood(mixture._input().read(X)).mean() > -8.0


def jump(mixture, rng, n_after, before=100, shift=20.0):
    """Stream two clusters, which jump; return what is held out after the jump."""
    centres = np.array([[-4.0, 0.0], [4.0, 0.0]])

    def draw(n):
        return centres[rng.integers(2, size=n)] + rng.standard_normal((n, 2))

    for _ in range(before):
        mixture.partial_fit(draw(100))
    for _ in range(n_after):
        mixture.partial_fit(draw(100) + shift)
    return draw(5000) + shift


@pytest.mark.parametrize("seed", range(4))
def test_after_a_jump_a_stream_is_as_good_as_it_can_be_and_says_so(seed):
    """Within .1 nats after 20,000 rows; without reinitialisation it stays .7 below."""
    mixture = GaussianMixture(2, schedule="forgetting", beta=0.98, random_state=seed)
    with pytest.warns(UserWarning, match=r"GaussianMixture: component \d was nearly empty"):
        held_out = jump(mixture, np.random.default_rng(seed), 200)
    best = GaussianMixture(2, random_state=0).fit(held_out).score(held_out)
    assert mixture.score(held_out) > best - 0.1
    moves = [step for step in mixture.history_ if step.n_components is not None]
    assert [(step.n_components, {step.reinitialised, step.half_of}) for step in moves] == [
        (2, {0, 1})
    ]


def test_a_stream_that_is_pickled_before_it_comes_back_goes_on_alike():
    streams = []
    for loads in (False, True):
        mixture = GaussianMixture(2, schedule="forgetting", beta=0.98, random_state=1)
        rng = np.random.default_rng(1)
        jump(mixture, rng, 60)
        mixture = pickle.loads(pickle.dumps(mixture)) if loads else mixture
        with pytest.warns(UserWarning, match="was nearly empty"):
            jump(mixture, rng, 140, before=0)
        streams.append(mixture)
    assert_identical(streams[0].model_, streams[1].model_)


@pytest.mark.filterwarnings("error:.*was nearly empty")
def test_where_the_warning_is_an_error_the_batch_is_not_learnt():
    mixture = GaussianMixture(2, schedule="forgetting", beta=0.98, random_state=1)
    with pytest.raises(UserWarning, match="was nearly empty"):
        jump(mixture, np.random.default_rng(1), 200)
    assert (mixture.n_steps_ + 1) % 32 == 0
    assert not any(step.n_components is not None for step in mixture.history_)
    assert mixture.n_samples_seen_ == 100 * mixture.n_steps_


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.97, 0.03), (0.4, 0.4, 0.17, 0.03)], ids=str)
@pytest.mark.parametrize("tails", [None, 3], ids=["normal", "t(3)"])
def test_stationary_streams_lose_nothing(weights, tails):
    """A rare component is not taken from its rows, whatever the tails of the others are."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        centres = 6.0 * rng.standard_normal((len(weights), 3))
        # The rows furthest out would be left out.
        solver = Online(skips_outliers=False)
        mixture = GaussianMixture(len(weights), solver=solver, random_state=seed)
        for _ in range(100):
            noise = rng.standard_normal((100, 3))
            noise *= np.sqrt(tails / rng.chisquare(tails, (100, 1))) if tails else 1.0
            mixture.partial_fit(centres[rng.choice(len(weights), 100, p=weights)] + noise)
        assert not any(step.n_components is not None for step in mixture.history_)


def test_counts_come_back_too():
    rng = np.random.default_rng(0)
    mixture = PoissonMixture(2, schedule="constant", eta0=0.05, random_state=0)
    for _ in range(60):
        mixture.partial_fit(rng.poisson(rng.choice([2.0, 12.0], size=(100, 1)), (100, 3)))
    with pytest.warns(UserWarning, match="PoissonMixture: component . was nearly empty"):
        for _ in range(100):
            mixture.partial_fit(rng.poisson(rng.choice([40.0, 80.0], size=(100, 1)), (100, 3)))
    assert np.sort(mixture.rates_[:, 0]) == pytest.approx([40.0, 80.0], rel=0.05)
