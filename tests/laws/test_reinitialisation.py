"""Empty components of a stream are reinitialised where rows ask for it."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from cases.chains import with_known
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from scipy import sparse

from sklearn_onlineem import (
    CategoricalHMM,
    GaussianHMM,
    GaussianMixture,
    LatentDirichletAllocation,
    MultinomialMixture,
    PoissonHMM,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem._values import components, take
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import BayesianOnline, Constant, Forgetting, Online, Restart
from sklearn_onlineem.families import Gaussians
from sklearn_onlineem.models.mixtures.mixture import MixtureModel
from sklearn_onlineem.models.split_merge import reinitialised

all_mixtures = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
GAUSSIAN = next(case for case in ESTIMATORS if case.make is GaussianMixture)


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
    if model.family.n_shared_parameters(model.parameters) == 0:
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
    X, y = GAUSSIAN.data(rng, 400)
    model = nearly_empty(GAUSSIAN, X, y)
    data = GAUSSIAN()._input(fresh=True).read(X)
    assert model.reinitialised(data) is not None
    assert replace(model, weights=np.array([0.6, 0.0, 0.4])).reinitialised(data) is None
    assert replace(model, weights=np.array([1.0, 0.0, 0.0])).reinitialised(data) is None
    known = GAUSSIAN(semi_supervised=True)._input(fresh=True).read(X, np.where(y == 2, 2, -1))
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


@pytest.mark.filterwarnings("error:.*was nearly empty")
def test_where_the_warning_is_an_error_the_batch_is_not_learnt():
    mixture = GaussianMixture(2, schedule="forgetting", beta=0.98, random_state=1)
    with pytest.raises(UserWarning, match="was nearly empty"):
        jump(mixture, np.random.default_rng(1), 200)
    assert (mixture.n_steps_ + 1) % 32 == 0 and mixture.n_rows_kept_ == 400
    assert not any(step.n_components is not None for step in mixture.history_)
    assert mixture.n_samples_seen_ == 100 * mixture.n_steps_


def stationary(weights, tails, seed, **arguments):
    """A mixture after 10,000 rows of clusters that stay, and held-out rows of them."""
    rng = np.random.default_rng(seed)
    centres = 6.0 * rng.standard_normal((len(weights), 3))

    def draw(n):
        noise = rng.standard_normal((n, 3))
        noise *= np.sqrt(tails / rng.chisquare(tails, (n, 1))) if tails else 1.0
        return centres[rng.choice(len(weights), n, p=weights)] + noise

    mixture = GaussianMixture(len(weights), random_state=seed, **arguments)
    for _ in range(100):
        mixture.partial_fit(draw(100))
    return mixture, draw(5000)


@pytest.mark.filterwarnings("ignore:.*was nearly empty")
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.97, 0.03), (0.4, 0.4, 0.17, 0.03)], ids=str)
@pytest.mark.parametrize("tails", [None, 3], ids=["normal", "t(3)"])
def test_stationary_streams_lose_nothing(weights, tails):
    """A rare component is not taken from its rows, whatever the tails of the others are."""
    for seed in range(5):
        mixture, held_out = stationary(weights, tails, seed)
        steps = [step for step in mixture.history_ if step.n_components is not None]
        left, _ = stationary(weights, tails, seed, solver=Online(reinitialises=False))
        if steps:
            # A component of t(3) that began as a single far row, and has nearly no weight.
            assert tails == 3 and left.weights_.min() < 2e-3
            assert mixture.score(held_out) > left.score(held_out) + 0.5
        else:
            assert_identical(mixture.model_, left.model_)


def sorted_clusters(reinitialises, seed, n_rows=1000):
    """A mixture after five clusters, one after the other, and held-out rows of all."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(6.0 * rng.standard_normal((5, 4)), n_rows, axis=0)
    X, held_out = (centres + rng.standard_normal(centres.shape) for _ in range(2))
    mixture = GaussianMixture(5, solver=Online(reinitialises=reinitialises), random_state=seed)
    for batch in np.split(X, len(X) // 100):
        mixture.partial_fit(batch)
    return mixture.score(held_out)


@pytest.mark.filterwarnings("ignore:.*was nearly empty")
def test_clusters_that_are_over_are_remembered_where_rows_are_sorted():
    changes = [sorted_clusters(True, seed) - sorted_clusters(False, seed) for seed in range(6)]
    assert np.median(changes) > -0.01 and min(changes) > -1.0


@pytest.mark.parametrize("weights", [[0.6, 0.398, 0.002], [0.978, 0.02, 0.002]], ids=str)
def test_a_component_keeps_what_it_knows_while_others_without_latest_rows_have_weight(weights, rng):
    """The latest rows are two clusters of the first one; the second one may return, if it is of
    weight, and so may what else the first one knows."""
    family = GaussianMixture(3).fit(rng.standard_normal((9, 2))).model_.family
    means = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 3.0]])
    model = MixtureModel(
        family, np.array(weights), Gaussians(means, np.tile(np.diag([6.0, 0.25]), (3, 1, 1)))
    )
    rows = np.outer(rng.choice([-1.5, 1.5], 400), [1.0, 0.0])
    move = model.reinitialised(Rows(rows + 0.3 * rng.standard_normal((400, 2))))
    assert (move.reinitialised, move.half_of) == (2, 0)
    kept, new = (move.model.parameters.mean[k, 0] for k in (0, 2))
    if weights[1] > 0.2:
        np.testing.assert_allclose(move.model.parameters.mean[:2], means[:2], atol=1e-12)
        assert abs(new) < 0.3
    else:
        np.testing.assert_allclose(sorted([kept, new]), [-1.5, 1.5], atol=0.1)


@pytest.mark.parametrize("weight", [1e-2, 1e-4])
def test_latest_rows_that_are_few_of_what_a_component_knows_gain_for_these_alone(weight, rng):
    """A narrow cluster in a wide component, .02 of what that remembers, while another is absent."""
    family = GaussianMixture(3).fit(rng.standard_normal((9, 2))).model_.family
    covariances = np.array([100.0, 1.0, 1.0])[:, None, None] * np.eye(2)
    parameters = Gaussians(np.array([[0.0, 0.0], [90.0, 0.0], [86.0, 0.0]]), covariances)
    model = MixtureModel(family, np.array([0.4, 0.6 - weight, weight]), parameters)
    move = model.reinitialised(Rows(5.0 + rng.standard_normal((400, 2))))
    # It is .4 * .02 * 3.6 nats a row for .1 * 8 or .001 * 8.
    assert (move is not None) == (weight < 1e-3)


# ------------------------------------------------------------------- small batches, counted in rows


def stream_from(case, model, X, y, solver="online"):
    """An estimator that goes on from this model."""
    mixture = case(3, semi_supervised=True, solver="batch", max_iter=1, tol=0.0).fit(X, y)
    mixture._fitted = mixture._fitted._replace(state=mixture._fitted.state._replace(model=model))
    # From here on components are no classes.
    return mixture.set_params(semi_supervised=False, solver=solver, schedule=Constant(1e-6))


@pytest.mark.filterwarnings("ignore:.*was nearly empty")
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2, 5, 10, 100])
@all_mixtures
def test_batches_of_any_size_bring_it_back_after_the_same_rows(case, size, rng):
    X, y = case.data(rng, 400)
    mixture = stream_from(case, nearly_empty(case, X, y), X, y)
    rows, at = list(X) if isinstance(X, list) else X, 400
    kept = []
    while at < 3200:
        start = at % 400
        mixture.partial_fit(rows[start : start + size])
        at += size
        kept.append(mixture.n_rows_kept_)
    steps = [step for step in mixture.history_ if step.n_components is not None]
    if mixture.model_.family.is_nominal:
        assert not steps
        return
    assert [(s.n_rows, s.reinitialised, s.half_of) for s in steps] == [(3200, 1, 0)]
    # Rows are kept before the test only, and dropped afterwards.
    assert max(kept) == 500 - size and kept[-1] == 0
    assert [n for n in kept if n] == list(range(size, 500, size))


@pytest.mark.filterwarnings("ignore:.*was nearly empty")
@pytest.mark.parametrize("size", [10, 100])
@pytest.mark.parametrize("solver", ["online", BayesianOnline(forgetting=0.99)], ids=repr)
def test_what_it_keeps_is_pickled_and_merged_as_nothing(size, solver, rng):
    X, y = GAUSSIAN.data(rng, 400)
    model = nearly_empty(GAUSSIAN, X, y)
    streams = [stream_from(GAUSSIAN, model, X, y, solver) for _ in range(2)]
    before = stream_from(GAUSSIAN, labelled(GAUSSIAN, X, y, np.full(3, 1 / 3)), X, y, solver)
    for at in range(400, 3000, size):
        for mixture in (*streams, before):
            mixture.partial_fit(X[at % 400 : at % 400 + size])
    # Without empty components nothing is kept.
    assert [mixture.n_rows_kept_ for mixture in (*streams, before)] == [300, 300, 0]
    merged = combine_estimators(streams)
    assert merged.n_rows_kept_ == 0
    streams[0] = pickle.loads(pickle.dumps(streams[0]))
    for mixture in streams:
        for at in range(3000, 3600, size):
            # A user overwrites the batch afterwards, but not what is kept.
            batch = X[at % 400 : at % 400 + size].copy()
            mixture.partial_fit(batch)
            batch[:] = 1e6
    assert any(step.reinitialised == 1 for step in streams[0].history_)
    for first, second in zip(*(stream.history_ for stream in streams), strict=True):
        assert first[:4] == second[:4]
    assert_identical(streams[0].model_, streams[1].model_)
    assert streams[0].n_rows_kept_ == 0


def test_components_that_are_never_forgotten_are_never_reinitialised(rng):
    X, y = GAUSSIAN.data(rng, 400)
    mixture = stream_from(GAUSSIAN, nearly_empty(GAUSSIAN, X, y), X, y, "bayesian")
    for at in range(400, 6800, 100):
        mixture.partial_fit(X[at % 400 : at % 400 + 100])
    assert mixture.n_rows_kept_ == 0
    assert not any(step.reinitialised >= 0 for step in mixture.history_)


# ------------------------------------------------------------------------ hidden Markov models


def gaussian_rows(rng, states, jumped):
    return np.array([-4.0, 4.0])[states][:, None] + rng.standard_normal((len(states), 2)) + jumped


def count_rows(rng, states, jumped):
    rates = np.array([[2.0, 12.0], [40.0, 90.0]])[int(jumped > 0.0)]
    return rng.poisson(rates[states][:, None], (len(states), 3)).astype(float)


HMM_STREAMS = pytest.mark.parametrize(
    "make, rows", [(GaussianHMM, gaussian_rows), (PoissonHMM, count_rows)], ids=["normal", "counts"]
)


def chain(make, rows, size, continues, n_after=6400, **arguments):
    """A chain of two states that stay for ten rows, whose source jumps; and what is held out."""
    rng = np.random.default_rng(0)

    def draw(n, jumped):
        states = (np.cumsum(rng.random(n) < 0.1) + rng.integers(2)) % 2
        return rows(rng, states, jumped)

    first = [draw(50, 0.0) for _ in range(20)]
    # The unit of size is a first sequence, 50 rows.
    estimator = make(2, schedule=Forgetting(half_life=10), random_state=0, **arguments).fit(first)
    whole = draw(n_after, 20.0)
    for at in range(0, n_after, size):
        piece = whole[at : at + size]
        if continues:
            estimator.partial_fit(piece, continues=at > 0)
        else:
            estimator.partial_fit([piece])
    return estimator, [draw(50, 20.0) for _ in range(40)]


@HMM_STREAMS
@pytest.mark.parametrize(
    "size, continues",
    [(50, False), (5, False), (10, True), pytest.param(1, True, marks=pytest.mark.slow)],
)
def test_states_come_back_after_a_jump(make, rows, size, continues):
    """Within .1 nats a row; a state less costs 2.5 for normal rows, and 14 for counts."""
    with pytest.warns(UserWarning, match=r"HMM: state \d was nearly empty"):
        estimator, held_out = chain(make, rows, size, continues)
    best = make(2, random_state=0).fit(held_out).score(held_out) / 50
    assert estimator.score(held_out) / 50 > best - 0.1
    np.testing.assert_allclose(estimator.transmat_.sum(axis=1), 1.0, rtol=1e-12)
    (step,) = [step for step in estimator.history_ if step.reinitialised >= 0]
    assert {step.reinitialised, step.half_of} == {0, 1}
    if size == 50:
        left, _ = chain(make, rows, size, continues, solver=Online(reinitialises=False))
        assert left.score(held_out) / 50 < best - 1.0


@pytest.mark.filterwarnings("ignore:.*was nearly empty")
@pytest.mark.parametrize("continues", [False, True])
def test_a_chain_that_is_pickled_while_rows_are_kept_goes_on_alike(continues):
    rng, chains, n_loaded = np.random.default_rng(0), [], 0
    states = [np.cumsum(rng.random(n) < 0.1) % 2 for n in (1000, 6400)]
    first = np.split(gaussian_rows(rng, states[0], 0.0), 20)
    pieces = np.split(gaussian_rows(rng, states[1], 20.0), 128)
    for loads in (False, True):
        chain = GaussianHMM(2, schedule=Forgetting(half_life=10), random_state=0).fit(first)
        for at, piece in enumerate(pieces):
            if continues:
                chain.partial_fit(piece, continues=at > 0)
            else:
                chain.partial_fit([piece])
            if loads and chain.n_rows_kept_:
                chain, n_loaded = pickle.loads(pickle.dumps(chain)), n_loaded + 1
        chains.append(chain)
    assert n_loaded >= 9
    assert any(step.reinitialised >= 0 for step in chains[0].history_)
    assert_identical(chains[0].model_, chains[1].model_)


@HMM_STREAMS
def test_structural_zeros_and_what_is_not_learnt_stay(make, rows):
    rng = np.random.default_rng(0)
    states = (np.cumsum(rng.random(2000) < 0.1)) % 2
    sequences = np.split(rows(rng, states, 20.0), 40)
    estimator = make(2, max_iter=1, solver="batch", random_state=0).fit(sequences)
    model, data = estimator.model_, estimator._input().read(sequences)
    wide = components(make(1, random_state=0).fit(sequences).model_.parameters, np.array([0, 0]), 1)
    transmat = np.array([[1.0 - 1e-6, 1e-6], [0.5, 0.5]])
    model = replace(model, start=np.array([0.9, 0.1]), transmat=transmat, parameters=wide)
    assert model.has_empty(data) and not estimator.model_.has_empty(data)
    move = model.reinitialised(data)
    assert (move.reinitialised, move.half_of) == (1, 0)
    np.testing.assert_allclose(move.model.transmat[0], move.model.transmat[1], rtol=1e-12)
    np.testing.assert_allclose(move.model.transmat.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(move.model.start.sum(), 1.0, rtol=1e-12)
    for transmat in ([[1.0, 0.0], [0.5, 0.5]], [[1.0 - 1e-6, 1e-6], [1.0, 0.0]]):
        assert replace(model, transmat=np.array(transmat)).reinitialised(data) is None
    assert with_known(model, "t").reinitialised(data) is None
    alone = with_known(model, "s").reinitialised(data)
    assert_identical(alone.model.start, model.start)


def test_a_restart_after_another_counts_the_rows_since():
    rng = np.random.default_rng(0)
    answers = iter([False] * 9 + [Restart(100), Restart(100), Restart(150), Restart(1000), False])
    mixture = PoissonMixture(2, callbacks=[lambda step: next(answers)], random_state=0)
    mixture.set_params(solver=Online(start_rows=0))
    counted = []
    for _ in range(14):
        mixture.partial_fit(rng.poisson(rng.choice([2.0, 20.0], size=(100, 1))))
        counted.append(mixture._fitted.state.counters.size)
    assert counted == pytest.approx([*range(100, 1000, 100), 100, 100, 150, 250, 350])


def symbols(rng, n, jumped=False):
    """Symbols of a chain of two states that stay for ten rows; after a jump of one of them."""
    states = (np.cumsum(rng.random(n) < 0.1) + rng.integers(2)) % 2
    likely = np.array([[0, 2], [0, 0]])[int(jumped)][states]
    return np.where(rng.random(n) < 0.8, likely, rng.integers(6, size=n))[:, None]


def test_a_warning_tells_of_states_that_cannot_come_back_after_a_jump_and_only_then(rng):
    chain = CategoricalHMM(2, n_features=6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(150):
            chain.partial_fit([symbols(rng, 50)])
    with pytest.warns(UserWarning, match="a state is nearly empty, and cannot be .* fit on the"):
        for _ in range(200):
            chain.partial_fit([symbols(rng, 50, True)])
    chain.set_params(solver=Online(reinitialises=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(70):
            chain.partial_fit([symbols(rng, 50, True)])


# ------------------------------------------------------------------------------------------ topics


def topic_documents(rng, first_word, n, n_topics=5):
    """Documents of 60 words of 60, most of 30 from the first on, and some of all."""
    topics = np.full((n_topics, 60), 0.05 / 60)
    for k, words in enumerate(np.arange(first_word, first_word + 30).reshape(n_topics, 6)):
        topics[k, words] += 0.95 / 6
    proportions = rng.dirichlet(np.full(n_topics, 0.1), n)
    return np.array([rng.multinomial(60, shares @ topics) for shares in proportions]).astype(float)


@pytest.mark.parametrize("size", [100, pytest.param(20, marks=pytest.mark.slow)])
def test_topics_come_back_when_the_vocabulary_changes(size):
    """Perplexity is that of a fit; without, it stays a third above."""
    perplexities = []
    for reinitialises in (True, False):
        rng = np.random.default_rng(1)
        topics = LatentDirichletAllocation(5, random_state=1).fit(topic_documents(rng, 0, 1000))
        solver = Online(reinitialises=reinitialises)
        topics.set_params(solver=solver, schedule=Forgetting(half_life=500))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(12_800 // size):
                topics.partial_fit(topic_documents(rng, 30, size))
        found = [str(one.message) for one in said if "was nearly empty" in str(one.message)]
        assert len(found) == sum(step.reinitialised >= 0 for step in topics.history_)
        assert all("topic" in message for message in found) and bool(found) == reinitialises
        held_out = topic_documents(rng, 30, 1000)
        perplexities.append(topics.perplexity(held_out))
    best = LatentDirichletAllocation(5, random_state=1).fit(held_out).perplexity(held_out)
    assert perplexities[0] < 1.05 * best < 1.3 * best < perplexities[1]


def test_topics_of_a_source_that_stays_are_as_without_it():
    streams = []
    for reinitialises in (True, False):
        rng = np.random.default_rng(0)
        solver = Online(reinitialises=reinitialises)
        topics = LatentDirichletAllocation(8, solver=solver, random_state=0)
        for _ in range(66):
            topics.partial_fit(topic_documents(rng, 0, 50))
        streams.append(topics)
    # Three topics too many, none of which makes documents a million times likelier.
    assert_identical(streams[0].model_, streams[1].model_)
