"""What is drawn on shards: by the seed, the number of the step, and the number of the document."""

import copy
import pickle
import tracemalloc
from functools import partial
from itertools import product

import joblib
import numpy as np
import pytest
from cases.comparing import arrays, assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.shards import MODES, all_modes, batch_pass
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sklearn_onlineem import LatentDirichletAllocation, PoissonMixture
from sklearn_onlineem.data.documents import Documents
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.distributed import DistributedEM, _tasks
from sklearn_onlineem.distributed._executors import JoblibExecutor
from sklearn_onlineem.distributed._shards import cut
from sklearn_onlineem.distributed._tasks import LearningTask, evidence, learn
from sklearn_onlineem.em import Online, PowerDecay, Stochastic
from sklearn_onlineem.em.state import step_rng
from sklearn_onlineem.estimators.base import rules_of, set_start
from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel
from sklearn_onlineem.statistics import combine


@pytest.fixture
def X(rng):
    """Documents in pairs, so that equal draws for both would show."""
    topics = np.kron(np.eye(3), np.full((1, 4), 0.25)) + 0.02
    shares = rng.dirichlet(np.full(3, 0.3), 30) @ (topics / topics.sum(axis=1, keepdims=True))
    return np.tile(rng.multinomial(25, shares), (2, 1))


def lda(**arguments):
    arguments = {"max_iter": 3, "batch_size": 10, "n_sweeps": 4, "burn_in": 2, **arguments}
    return LatentDirichletAllocation(3, random_state=0, **arguments)


def with_start(X, **arguments):
    """A learner that has taken one pass over all data, and its estimator's twin."""
    learner = DistributedEM(lda(**{**arguments, "max_iter": 1}), n_shards=1, warm_start=True)
    learner.fit(X).set_params(estimator__max_iter=3)
    return learner, copy.deepcopy(learner.estimator_)


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7])
def test_batch_em_draws_as_one_machine_does_however_data_are_cut(n_shards, X):
    learner, local = with_start(X)
    found = learner.set_params(n_shards=n_shards).fit(X).estimator_
    path = [batch_pass(local, local._input().read(X)) for _ in range(3)]
    assert_close(found.model_, local.model_, rtol=1e-9, atol=1e-12)
    assert_allclose(found.lower_bounds_, path, rtol=1e-12)


def test_documents_without_weight_have_numbers_too(rng, X):
    weights = rng.integers(0, 3, 60).astype(float)
    weights[12:24] = 0.0
    learner = DistributedEM(lda(), n_shards=5).fit(X, sample_weight=weights)
    local = set_start(clone(learner.estimator), X[:12], sample_weight=weights[:12])
    data = local._input().read(X, sample_weight=weights)
    path = [batch_pass(local, data) for _ in range(3)]
    assert_close(learner.estimator_.model_, local.model_, rtol=1e-9, atol=1e-12)
    assert_allclose(learner.estimator_.lower_bounds_, path, rtol=1e-12)


@pytest.mark.parametrize("mode", ["synchronous", "asynchronous"])
def test_learners_draw_by_the_documents_numbers_in_the_whole(mode, X):
    """One learner's are the online steps of one machine; several are merged from these."""
    for n_shards in (1, 3) if mode == "asynchronous" else (1,):
        estimator = lda(schedule="harmonic", eta0=0.5)
        learner = DistributedEM(estimator, mode=mode, shuffle=False, n_shards=n_shards).fit(X)
        start = set_start(clone(estimator), X[: 60 // n_shards])
        data, members = start._input().read(X), []
        for part in np.split(np.arange(60), n_shards):
            member = copy.deepcopy(start)
            state, stream = member._fitted.state, rules_of(member).stream
            for t in range(0, len(part), 10):
                batch = data[part[t : t + 10]]
                state = state.after(Online()._learn(state, batch, stream, total_size=60.0))
            members.append((1.0 / n_shards, state.model.own_statistics()))
        expected = start.model_.m_step(combine(members))
        assert_close(learner.estimator_.model_, expected, rtol=1e-9, atol=1e-12)


@all_modes
@pytest.mark.parametrize("n_shards", [1, 2, 3])
def test_rounds_of_a_model_that_stays_draw_anew(mode, n_shards, X, monkeypatch):
    """The same for any shards, where each takes one step of a round."""
    learner, local = with_start(X, batch_size=60)
    monkeypatch.setattr(LatentDirichletModel, "m_step", lambda self, statistics: self)
    monkeypatch.setattr(_tasks, "average", lambda models, shares: models[0])
    learner.set_params(n_shards=n_shards, n_passes=3, **mode).fit(X)
    path = [done.log_likelihood for done in learner.history_]
    state, data = local._fitted.state, local._input().read(X)
    rngs = [step_rng(state.seed, state.counters.n_steps + t) for t in range(3)]
    expected = [state.model.e_step(data, rng)[1] for rng in rngs]
    assert_allclose(path, expected, rtol=1e-12)
    assert len({round(score, 6) for score in path}) == 3


@pytest.mark.parametrize("n_shards", [1, 2, 3, 8])
def test_documents_are_numbered_through_all_shards(n_shards, X):
    estimator = lda()
    shards = [X[:0], *cut({"X": X}, n_shards, estimator)["X"], X[:0]]
    executor = JoblibExecutor({"X": shards}, None)
    executor.open()
    executor.prepare(executor.begin(partial(set_start, clone(estimator)), executor.numbers[0]))
    assert_array_equal(Documents.concatenate(executor.data).numbers, np.arange(60))


def test_parts_of_documents_keep_their_places(X):
    data = lda()._input(fresh=True).read(X)
    moved = data[[3, 7]].numbered_from(np.uint8(250))
    assert_array_equal(moved.numbers, [253, 257])
    assert moved.numbers.dtype == np.int64
    assert moved.rows is not data.rows is data.numbered_from(5).rows
    assert data.rows.numbered_from(5) is data.rows
    for wrong in (-1, 1.5, "1", None, 1 << 63, np.arange(2)):
        with pytest.raises(ValueError, match="first must be a whole number"):
            data.numbered_from(wrong)


# ----------------------------------------------------------------------------------- stochastic EM


@pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
def test_stochastic_em_draws_for_the_rows_of_each_shard(case, rng):
    data, _ = case.data(rng, 60)
    average = Stochastic(average_from=2)
    for solver, n_shards in (("stochastic", 1), (average, 1), ("stochastic", 3)):
        estimator = case(3).set_params(solver=solver, max_iter=3, random_state=0)
        learner = DistributedEM(estimator, n_shards=n_shards).fit(data)
        assert learner.estimator_.n_steps_ == len(learner.history_) == 3
        if n_shards == 1:
            assert_identical(learner.estimator_.model_, clone(estimator).fit(data).model_)
    start = set_start(clone(estimator), data[:20])
    state, rows = start._fitted.state, start._input().read(data)
    model, prior = state.model, state.prior_terms(state.size_of(rows))
    for number in range(state.counters.n_steps, state.counters.n_steps + 3):
        bits = [np.random.PCG64((*state.seed, number)).jumped(shard) for shard in range(3)]
        parts = [
            (1 / 3, model.e_step(rows[20 * m : 20 * m + 20], np.random.Generator(bits[m]))[0])
            for m in range(3)
        ]
        model = model.m_step(combine([*parts, *prior]))
    assert_close(learner.estimator_.model_, model, rtol=1e-8, atol=1e-10)
    of_em = clone(learner).set_params(estimator__solver="batch", estimator__tol=0.0).fit(data)
    assert learner.history_[0].bytes_sent == of_em.history_[0].bytes_sent


def test_a_shard_sends_counts_of_drawn_components_and_keeps_nothing_of_its_rows(rng):
    n, n_components, seed = 50_000, 40, (1, 2)
    rates = rng.gamma(2.0, 2.0, (n_components, 1))
    mixture = PoissonMixture.from_parameters(weights=np.full(n_components, 0.025), rates=rates)
    data, model = Rows(rng.poisson(3.0, (n, 1)).astype(float)), mixture.model_
    evidence(data, 2, model, seed, 5, True)
    tracemalloc.start()
    found = evidence(data, 2, model, seed, 5, True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * n_components
    uniforms = np.random.Generator(np.random.PCG64((*seed, 5)).jumped(2)).random(n)
    drawn = (model.posterior(data).cumsum(axis=1) <= uniforms[:, None]).sum(axis=1)
    counts = np.bincount(drawn, minlength=n_components)
    assert_allclose(n * found.content.counts, counts, atol=1e-8)
    assert_allclose(n * found.content.emissions.total[:, 0], np.bincount(drawn, data.X[:, 0]))


def test_topics_are_drawn_for_documents_however_these_are_cut(X):
    """With 2 topics a word, at most, in a document: draws, not means."""
    learners = [DistributedEM(DRAWN[0], n_shards=n) for n in (1, 4)]
    start = DistributedEM(lda(max_iter=1), n_shards=1).fit(X).estimator_
    start.set_params(solver="stochastic", max_iter=3, warm_start=True)
    found = [learner.set_params(estimator=start).fit(X).estimator_ for learner in learners]
    assert_close(found[1].model_, found[0].model_, rtol=1e-9, atol=1e-12)
    counts = (
        60 * evidence(start._input().read(X), 0, found[0].model_, (1,), 0, True).content.counts_T
    )
    assert_allclose(counts, np.rint(counts), atol=1e-9)


@pytest.mark.parametrize("mode", ["synchronous", "asynchronous"])
def test_learners_draw_no_components(mode, X):
    learner = DistributedEM(PoissonMixture(2, solver=Stochastic()), mode=mode)
    with pytest.raises(ValueError, match="DistributedEM draws .* PoissonMixture has solver=Stoch"):
        learner.fit(X)
    learner.set_params(mode="batch", estimator__max_iter=2).fit([X[:0], X[:20], X[:0], X[20:]])
    with pytest.raises(ValueError, match="DistributedEM: all shards are empty"):
        learner.fit([X[:0], X[:0]])


# ------------------------------------------------------------------------------------ the same bits


def tasks(model):
    learning = LearningTask(PowerDecay(), 10, 0, 3, 0.0, 1.0, 2, (), (4,), (1, 2), 5, False)
    return {"evidence": (evidence, model, (1, 2), 5), "learn": (learn, model, learning)}


@pytest.mark.parametrize("name", ["evidence", "learn"])
def test_tasks_that_are_repeated_draw_the_same(name, X):
    local = set_start(lda(), X)
    data = local._input().read(X).numbered_from(100)
    task, *arguments = tasks(local.model_)[name]
    expected = task(data, 0, *arguments)
    for _ in range(2):
        elsewhere = pickle.loads(pickle.dumps((data, 0, *arguments)))
        assert_identical(task(*elsewhere), expected)
    other = task(data.numbered_from(1), 0, *arguments)
    assert any((a != b).any() for a, b in zip(arrays(other), arrays(expected), strict=True))


DRAWN = [lda(solver="stochastic"), PoissonMixture(3, solver="stochastic", max_iter=3)]
LEARNERS = [lda(), PoissonMixture(3, max_iter=3, tol=0.0, batch_size=20)]


@pytest.mark.parametrize(
    ("mode", "estimator"), [*product(MODES, LEARNERS), *(({}, drawn) for drawn in DRAWN)]
)
@pytest.mark.parametrize("backend", ["sequential", "threading", "loky"])
def test_bits_do_not_depend_on_the_backend_nor_on_jobs(mode, estimator, backend, X):
    estimator = clone(estimator).set_params(random_state=0)
    expected = DistributedEM(estimator, n_shards=4, **mode).fit(X)
    with joblib.parallel_backend(backend):
        found = DistributedEM(estimator, n_shards=4, n_jobs=2, **mode).fit(X)
    assert_identical(found.estimator_.model_, expected.estimator_.model_)
    assert found.history_[-1][1:5] == expected.history_[-1][1:5]
