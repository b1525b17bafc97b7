"""The solver "adaptive": each of its models is one of "online", and their weights follow a rule."""

import copy
import math

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.merged_cases import MERGED
from scipy.special import logsumexp

from sklearn_onlineem import (
    CategoricalHMM,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem._values import n_bytes
from sklearn_onlineem.em import Adaptive, Auto, Forgetting, Harmonic, Online
from sklearn_onlineem.models.topics.inference import MaximumAPosteriori

every_estimator = pytest.mark.parametrize("case", MERGED, ids=repr)
endless = pytest.mark.parametrize("make", [GaussianHMM, KalmanFilter])


def batches(X, n=8):
    size = len(X) // n if isinstance(X, list) else X.shape[0] // n
    return [X[i * size : (i + 1) * size] for i in range(n)]


def memories(estimator):
    return estimator._fitted.state.carry.get("memories")


def streamed(estimator, parts, **where):
    for part in parts:
        estimator.partial_fit(part, **where)
    return estimator


def clusters(rng, n_rows=600, jump=6.0):
    X = rng.normal(size=(n_rows, 2)) + rng.choice([-5.0, 0.0, 5.0], size=(n_rows, 1))
    X[n_rows // 2 :] += jump
    return X


# ----------------------------------------------------------------------------------- laws for all


@every_estimator
def test_one_model_is_the_online_one(case, rng):
    X, _ = case.data(rng, 400)
    found = streamed(case(3, solver=Adaptive((math.inf,))), batches(X))
    expected = streamed(case(3, solver="online", schedule="harmonic"), batches(X))
    assert_identical(found.model_, expected.model_)
    assert [step[:4] for step in found.history_] == [step[:4] for step in expected.history_]


class SideBySide:
    """Streams of "online", one for each half-life, and the weights of their models."""

    def __init__(self, make, half_lives, first, **where):
        self._where, n = where, len(half_lives)
        start = make(solver=Online(start_rows=0)).partial_fit(first, **where)
        needed = start._fitted.state.constants.observations_needed
        schedules = [Harmonic() if h == math.inf else Forgetting(half_life=h * needed)
                     for h in half_lives]  # fmt: skip
        self.members = [copy.deepcopy(start).set_params(schedule=one) for one in schedules]
        self.weights = np.full(n, 1.0 / n)

    def learn(self, batch):
        state = self.members[0]._fitted.state
        for member in self.members:
            member.partial_fit(batch, **self._where)
        size = self.members[0]._fitted.state.counters.size - state.counters.size
        gamma = 1.0 - 2.0 ** (-size * state.constants.size_unit / 250.0)
        scores = [member.history_[-1].log_likelihood for member in self.members]
        joint = np.log(self.weights) + scores
        self.log_likelihood = logsumexp(joint)
        evidence = 0.94 * np.exp(joint - self.log_likelihood) + 0.06 / len(scores)
        self.weights = (1.0 - gamma) * self.weights + gamma * evidence


def assert_side_by_side(make, parts, **where):
    half_lives = math.inf, 3.0, 0.5
    adaptive = make(solver=Adaptive(half_lives, start_rows=0)).partial_fit(parts[0], **where)
    alone = SideBySide(make, half_lives, parts[0], **where)
    for batch in parts[1:]:
        adaptive.partial_fit(batch, **where)
        alone.learn(batch)
        step = adaptive.history_[-1]
        assert_close(step.model_weights, alone.weights)
        assert step.log_likelihood == pytest.approx(alone.log_likelihood, rel=1e-9)
    leader = alone.members[alone.weights.argmax()]
    assert_identical(adaptive.model_, leader.model_)
    assert step[2] == leader.history_[-1][2]
    return adaptive, alone


@pytest.mark.parametrize("case", MERGED, ids=repr)
def test_models_are_those_of_streams_side_by_side(case, rng):
    parts = batches(case.data(rng, 400)[0])
    adaptive, alone = assert_side_by_side(lambda **given: case(3, **given), parts)
    if hasattr(adaptive, "score_samples"):
        scores = [member.score_samples(parts[0]) for member in alone.members]
        expected = logsumexp(scores, axis=0, b=alone.weights[:, None])
        assert_close(adaptive.score_samples(parts[0]), expected)
        assert adaptive.score(parts[0]) == pytest.approx(expected.mean())


@endless
def test_models_of_an_endless_sequence_have_their_own_ends(make, rng):
    parts = batches(clusters(rng))

    def made(**given):
        return make(2, random_state=0, **given)

    adaptive, alone = assert_side_by_side(made, parts, continues=True)
    ends = [member._fitted.end for member in alone.members]
    assert_identical(memories(adaptive).ends, tuple(ends))
    adaptive.partial_fit(parts[0])
    assert memories(adaptive).ends == ()


# ------------------------------------------------------------------------------------- behaviour


def test_memory_is_flat(rng):
    # The gate of outliers remembers some batches.
    solver = Adaptive(skips_outliers=False)
    mixture = streamed(GaussianMixture(3, solver=solver, random_state=0), batches(clusters(rng)))
    before = n_bytes(mixture._fitted.state)
    streamed(mixture, batches(clusters(rng, 6000), 600))
    assert mixture.n_rows_kept_ == 0
    assert n_bytes(mixture._fitted.state) == before


def test_weights_stay_when_the_start_is_made_anew(rng):
    mixture, weights, starts = GaussianMixture(3, solver="adaptive", random_state=0), [], 0
    for batch in batches(clusters(rng), 30):
        before = [*weights]
        mixture.partial_fit(batch)
        if memories(mixture) is None:
            continue
        weights = memories(mixture).weights.tolist()
        if before and math.isnan(mixture.history_[-1].kl_divergence):
            starts += 1
            assert weights == before
            assert len(set(map(id, memories(mixture).models))) == 1
    assert starts > 1


def test_a_row_is_scored_by_the_mixture_before_it_is_learnt(rng):
    X = clusters(rng, 700)
    mixture = GaussianMixture(3, solver="adaptive", random_state=0).partial_fit(X[:400])
    for row in X[400:, None]:
        score = mixture.score(row)
        assert mixture.partial_fit(row).history_[-1].log_likelihood == pytest.approx(score)


def test_what_was_learnt_is_merged_by_the_leader(rng):
    sites = [
        streamed(PoissonMixture(2, solver="adaptive", random_state=0), batches(X))
        for X in np.split(rng.poisson(rng.choice([1.0, 20.0], size=(2000, 1))), 2)
    ]
    leaders = [memories(site).models[memories(site).weights.argmax()] for site in sites]
    alone = [copy.deepcopy(site) for site in sites]
    for one, leader in zip(alone, leaders, strict=True):
        state = one._fitted.state._replace(model=leader, carry={})
        one._fitted = one._fitted._replace(state=state)
    merged = combine_estimators(sites)
    assert_identical(merged.model_, combine_estimators(alone).model_)
    assert merged._fitted.state.carry == {}
    assert merged.partial_fit([[1], [20]]).history_[-1].model_weights is not None


def test_a_model_that_cannot_explain_a_batch_is_replaced():
    symbols, new = np.arange(400)[:, None] % 2, np.array([[0], [0], [1], [1]])
    given = {"transmat_init": np.full((2, 2), 0.5), "startprob_init": [0.5, 0.5]}

    def learnt(half_lives):
        solver = Adaptive(half_lives, start_rows=0)
        hmm = CategoricalHMM(2, solver=solver, semi_supervised=True, random_state=0, **given)
        for _ in range(3):
            hmm.partial_fit(symbols, symbols[:, 0])
        return hmm

    # The memory is so short that states which were known never follow themselves.
    short = 0.001
    for half_lives in [(short,), (short, short)]:
        with pytest.raises(ValueError, match="impossible"):
            learnt(half_lives).partial_fit(new, new[:, 0])
    hmm = learnt((short, math.inf)).partial_fit(new, new[:, 0])
    first, second = memories(hmm).models
    assert first is second is hmm.model_
    assert hmm.history_[-1].model_weights[0] < 0.03


def test_all_models_take_changed_settings(rng):
    X = rng.multinomial(30, np.full(6, 1 / 6), size=80)
    topics = streamed(
        LatentDirichletAllocation(2, solver="adaptive", random_state=0), batches(X, 4)
    )
    topics.set_params(e_step="map").partial_fit(X)
    assert {type(model.inference) for model in memories(topics).models} == {MaximumAPosteriori}


def test_other_half_lives_continue_from_the_leader(rng):
    mixture = streamed(
        GaussianMixture(3, solver="adaptive", random_state=0), batches(clusters(rng))
    )
    before, X = mixture.score(clusters(rng)), clusters(rng)
    mixture.set_params(solver=Adaptive((math.inf, 2.0))).partial_fit(X)
    assert memories(mixture).weights.shape == (2,)
    assert mixture.history_[-1].log_likelihood > before - 3.0


def test_fit_is_that_of_auto(rng):
    X = clusters(rng, 2500)
    found = GaussianMixture(3, solver="adaptive", random_state=0).fit(X)
    expected = GaussianMixture(3, solver=Auto(), random_state=0).fit(X).model_
    assert_identical(found.model_, expected)
    with pytest.warns(UserWarning, match="its own learning rates"):
        assert_identical(found.set_params(eta0=0.1, beta=0.9).fit(X).model_, expected)


def test_rates_that_were_set_are_warned_of(rng):
    with pytest.warns(UserWarning, match="depends on eta0 or beta.*its own learning rates"):
        GaussianMixture(2, solver="adaptive", eta0=0.5, beta=0.7).partial_fit(
            rng.normal(size=(9, 2))
        )
