"""Hidden semi-Markov models against the hidden Markov models whose states are rows of segments."""

from dataclasses import replace
from itertools import groupby, product

import numpy as np
import pytest
from cases.chains import extended
from cases.comparing import assert_close, assert_identical
from cases.enumeration import LogDensities, logs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import gammaln

from sklearn_onlineem import GaussianHMM, PoissonHMM, RegressionHMM
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.models.hidden_markov.durations import DURATIONS, CategoricalDurations
from sklearn_onlineem.models.hidden_markov.semi_markov import HiddenSemiMarkovModel
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState, GivenLength

LENGTHS = [1, 7, 2, 12, 4]
beginnings = pytest.mark.parametrize("left_censored", [False, True])
ENDS = [GivenLength(), EndState(), AbsorbingStates((1,))]
terminations = pytest.mark.parametrize("termination", ENDS, ids=lambda end: type(end).__name__)
tables = pytest.mark.parametrize("kind", ["any", "zeros"])


def drawn(
    rng, left_censored=False, kind="any", termination=ENDS[0], n_states=3, n_durations=4
):  # fmt: skip
    """A model whose rows are its log densities; with zeros, some durations are certain."""
    width = n_states + isinstance(termination, EndState)
    transmat = rng.dirichlet(np.ones(width), n_states) * (1.0 - np.eye(n_states, width))
    table = rng.dirichlet(np.ones(n_durations), n_states)
    if kind == "zeros":
        transmat[0, 1], table[0], table[1, 0] = 0.0, np.eye(n_durations)[-1], 0.0
    for state in getattr(termination, "states", ()):
        transmat[state], table[state] = np.eye(n_states)[state], np.eye(n_durations)[0]
    return HiddenSemiMarkovModel(
        LogDensities(n_states),
        rng.dirichlet(np.ones(n_states)),
        transmat / transmat.sum(axis=1, keepdims=True),
        None,
        termination,
        durations=CategoricalDurations(left_censored=left_censored),
        table=table / table.sum(axis=1, keepdims=True),
    )


def sequences(rng, n_states=3, scale=3.0, lengths=LENGTHS):
    X = scale * rng.normal(size=(sum(lengths), n_states))
    X[rng.random(len(X)) < 0.2] = 0.0
    return Sequences(Rows(X), np.concatenate(([0], np.cumsum(lengths))))


def expanded(model, data):
    """The hidden Markov model of rows of segments, its data, and the state of each of these."""
    states, chain = extended(model)
    rows = Rows(np.ascontiguousarray(data.X[:, states]))
    return chain, Sequences(rows, data.offsets), np.eye(model.n_components)[states]


def rows_of_segments(model):
    n = model.table.shape[1]
    return np.tile(
        [(r, s) for s in range(1, n + 1) for r in range(1, s + 1)], (len(model.start), 1)
    )


@beginnings
@terminations
@tables
def test_inference_is_that_of_the_expanded_chain(left_censored, kind, termination, rng):
    model, data = drawn(rng, left_censored, kind, termination), sequences(rng)
    chain, same, fold = expanded(model, data)
    found = model.log_likelihood(data)
    assert_allclose(found, chain.log_likelihood(same), rtol=1e-10, atol=1e-12)
    assert_allclose(model.posterior(data), chain.posterior(same) @ fold, rtol=0, atol=1e-10)
    assert_allclose(model.filtered(data), chain.filtered(same) @ fold, rtol=0, atol=1e-10)
    rows = model.row_log_likelihoods(data)
    assert_allclose(rows, chain.row_log_likelihoods(same), rtol=1e-10, atol=1e-10)


@beginnings
@terminations
@tables
def test_statistics_are_those_of_the_expanded_chain(left_censored, kind, termination, rng):
    model, data = drawn(rng, left_censored, kind, termination), sequences(rng)
    if kind == "zeros" and not isinstance(termination, GivenLength):
        data = data[data.lengths > 6]  # Others are too short for a way to the end.
    chain, same, fold = expanded(model, data)
    found, expected = model.e_step(data)[0], chain.e_step(same)[0]
    row, duration = rows_of_segments(model).T
    ends, begins = row == duration, row == 1
    moves = expected.transitions[:, : len(row)] * ends[:, None] * begins
    assert_allclose(found.start, expected.start @ fold, rtol=1e-10)
    assert_allclose(found.transitions[:, :3], fold.T @ moves @ fold, rtol=1e-9, atol=1e-10)
    if isinstance(termination, EndState):
        last = fold.T @ expected.transitions[:, -1]
        assert_allclose(found.transitions[:, 3], last, rtol=1e-9, atol=1e-10)
    # Segments are counted where they begin, and the first ones, whenever that was.
    counts = moves.sum(axis=0) + expected.start
    lasting = fold.T @ (counts[:, None] * np.eye(model.table.shape[1])[duration - 1])
    assert_allclose(found.durations, lasting, rtol=1e-9, atol=1e-10)
    assert_allclose(found.emissions.weight, expected.emissions.weight @ fold, rtol=1e-10)


@beginnings
def test_own_statistics_are_those_of_samples(left_censored, rng):
    """Exactly those of rows that tell nothing, of the lengths of the data."""
    model, data = drawn(rng, left_censored), sequences(rng, scale=0.0, lengths=[1, 3, 3, 40])
    own, evidence = model.own_statistics(data), model.e_step(data)[0]
    for name in ("start", "transitions", "durations", "running"):
        assert_allclose(getattr(own, name), getattr(evidence, name), rtol=1e-9, atol=1e-12)
    assert_allclose(own.emissions.weight, evidence.emissions.weight, rtol=1e-9)
    assert_close(model.m_step(own), model, rtol=1e-10)


def test_renewals_that_are_stationary_are_not_followed(rng):
    """What does not change any more is known for all rows that are left."""
    model = drawn(rng, n_durations=9)
    long = sequences(rng, scale=0.0, lengths=[30_000, 20_000, 5])
    own, evidence = model.own_statistics(long), model.e_step(long)[0]
    assert_allclose(own.transitions, evidence.transitions, rtol=1e-9)
    assert_allclose(own.emissions.weight, evidence.emissions.weight, rtol=1e-9)


@beginnings
@terminations
def test_the_best_path_is_that_of_enumeration(left_censored, termination, rng):
    model = drawn(rng, left_censored, termination=termination)
    data = sequences(rng, lengths=[1, 6, 4])
    states, best = model.decoded(data)
    for i, found in enumerate(np.split(states, data.offsets[1:-1])):
        one = data[i : i + 1]
        paths = np.array(list(product(range(3), repeat=len(found))))
        expected = [log_joint(model, one.X, path) for path in paths]
        assert_allclose(best[i], max(expected), rtol=1e-10)
        assert_array_equal(found, paths[np.argmax(expected)])


def log_joint(model, X, path):
    """log p(rows, path), whatever the duration of a segment that goes on."""
    segments, at_least = [], np.cumsum(model.table[:, ::-1], axis=1)[:, ::-1]
    for state, rows in groupby(path):
        segments.append((state, len(list(rows))))
    if max(n for _, n in segments) > model.table.shape[1]:
        return -np.inf
    first = model.table
    if model.durations.left_censored:
        first = at_least / at_least.sum(axis=1, keepdims=True)
    total = logs(model.start)[path[0]] + X[np.arange(len(path)), path].sum()
    moves = model.termination.transitions(model.transmat)
    for i, (state, n) in enumerate(segments):
        table = first if i == 0 else model.table
        if i + 1 < len(segments):
            total += logs(table[state, n - 1]) + logs(moves)[state, segments[i + 1][0]]
        elif not isinstance(model.termination, GivenLength):
            total += logs(table[state, n - 1] * model.termination.final(model.transmat)[state])
        else:
            total += logs(table[state, n - 1 :].sum())
    return total


@beginnings
def test_pieces_go_on_where_the_one_before_has_ended(left_censored, rng):
    """Filtered states, likelihoods and durations of a sequence in pieces are those of the whole."""
    model, data = drawn(rng, left_censored), sequences(rng, lengths=[23])
    cuts, before, totals, filtered, evidence = [0, 1, 2, 9, 12, 13, 23], None, 0.0, [], []
    for begin, stop in zip(cuts[:-1], cuts[1:], strict=True):
        piece = Sequences(Rows(data.X[begin:stop]), np.array([0, stop - begin]), before)
        found, log_likelihood = model.e_step(piece)
        totals, before = totals + log_likelihood, model.filtered_end(piece)
        filtered.append(model.filtered(piece))
        evidence.append(found)
        assert_allclose(model.row_log_likelihoods(piece).sum(), log_likelihood, rtol=1e-10)
        assert_allclose(model.states_of_end(before), filtered[-1][-1], rtol=1e-10)
    assert_allclose(totals, model.log_likelihood(data)[0], rtol=1e-10)
    assert_allclose(np.concatenate(filtered), model.filtered(data), rtol=1e-9, atol=1e-10)
    # Nothing is revised but durations, so that each segment is counted once.
    counts = sum(one.durations.sum() for one in evidence)
    moves = sum(one.transitions.sum() for one in evidence)
    assert_allclose(counts, moves + 1.0, rtol=1e-9)


def test_durations_are_revised_as_rows_come(rng):
    """One row after another, where states are certain: segments count as they turn out."""
    states = np.repeat([0, 1, 0, 1, 0], [2, 3, 1, 4, 2])
    model = drawn(rng, n_states=2)
    X, counts, before = 200.0 * np.eye(2)[states], np.zeros((2, 4)), None
    for row in X:
        piece = Sequences(Rows(row[None]), np.array([0, 1]), before)
        counts, before = counts + model.e_step(piece)[0].durations, model.filtered_end(piece)
    last = model.table[0] * [0, 1, 1, 1]
    expected = [[1.0, 1.0, 0.0, 0.0] + last / last.sum(), [0.0, 0.0, 1.0, 1.0]]
    assert_allclose(counts, expected, rtol=1e-8, atol=1e-8)


@beginnings
@terminations
def test_drawn_paths_have_the_expected_statistics(left_censored, termination, rng):
    model = drawn(rng, left_censored, termination=termination)
    data = sequences(rng, lengths=[6, 3])
    many = Sequences.concatenate([data] * 3000)
    found, expected = model.e_step(many, rng)[0], model.e_step(data)[0]
    for name in ("start", "transitions", "durations", "running"):
        assert_allclose(getattr(found, name), getattr(expected, name), atol=0.03)


def test_densities_that_are_far_apart_lose_no_path(rng):
    """A state that rows speak against by thousands of nats may be what its durations demand."""
    model, data = drawn(rng, kind="zeros"), sequences(rng, scale=2000.0, lengths=[60, 31])
    chain, same, fold = expanded(model, data)
    assert_allclose(model.log_likelihood(data), chain.log_likelihood(same), rtol=1e-10)
    assert_allclose(model.posterior(data), chain.posterior(same) @ fold, atol=1e-7)


# ------------------------------------------------------------------------------------- durations


@beginnings
@pytest.mark.parametrize("kind", DURATIONS)
def test_the_m_step_maximises_what_it_says(kind, left_censored, rng):
    """Against a minimiser that knows nothing of it."""
    s = np.arange(1.0, 21.0)
    spread = np.exp(-(((s - 6.0) / [[2.0], [6.0]]) ** 2))
    counts = rng.gamma(2.0, size=spread.shape) * spread
    running = left_censored * np.array([0.3, 0.8]) * counts.sum(axis=1)
    found = DURATIONS[kind](left_censored=left_censored).m_step(counts, running, counts)

    def table(x):
        if kind == "categorical":
            weights = x
        elif kind == "poisson":
            weights = x[0] * s - gammaln(s)
        else:
            shape = np.exp(np.clip(x[1], np.log(1e-2), np.log(1e6)))
            weights = x[0] * s + gammaln(s - 1.0 + shape) - gammaln(shape) - gammaln(s)
        weights = np.exp(weights - weights.max())
        return weights / weights.sum()

    def objective(p, k):
        p = np.maximum(p, 1e-300)
        return running[k] * np.log(p @ s) - counts[k] @ np.log(p)

    size = {"categorical": 20, "poisson": 1, "negative_binomial": 2}[kind]
    for k in range(2):
        best = minimize(lambda x, k=k: objective(table(x), k), np.full(size, 0.3), tol=1e-12)
        assert objective(found[k], k) <= best.fun + 1e-9 * abs(best.fun)
        assert_allclose(found[k].sum(), 1.0)


@pytest.mark.parametrize("kind", ["poisson", "negative_binomial"])
def test_starts_have_the_durations_of_their_kind_that_fit_best(kind, rng):
    X, given = rng.normal(size=(200, 1)), np.tile([0.5, 0.0, 0.0, 0.0, 0.0, 0.5], (2, 1))
    closest = DURATIONS[kind](True).m_step(given, np.zeros(2), given)
    found = (
        GaussianHMM(
            2, durations=kind, max_duration=6, durationprob_init=start, max_iter=1, random_state=0
        ).partial_fit(X).durationprob_
        for start in (given, closest)
    )  # fmt: skip
    assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("kind", DURATIONS)
def test_durations_are_found(kind, rng):
    """Of states that tell themselves apart little, by one row."""
    lasting = 1 + rng.poisson(np.tile([3.0, 12.0], 150))
    states = np.repeat(np.tile([0, 1], 150), lasting)
    X = rng.normal(2.0 * states)[:, None]
    hmm = GaussianHMM(2, durations=kind, max_duration=30, random_state=0).fit(X)
    order = np.argsort(hmm.means_.ravel())
    means = (hmm.durationprob_ @ np.arange(1.0, 31.0))[order]
    assert_allclose(means, [4.0, 13.0], rtol=0.15)
    plain = GaussianHMM(2, random_state=0).fit(X)
    assert hmm.score(X) > plain.score(X) + 50.0
    right, before = (
        np.mean(np.argsort(one.means_.ravel())[states] == one.predict(X)) for one in (hmm, plain)
    )
    assert right > before > 0.9
    # The time that states have, whatever the number of their segments.
    shares = hmm.get_stationary_distribution()[order]
    assert_allclose(shares, [4 / 17, 13 / 17], atol=0.05)


# ------------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("kind", DURATIONS)
def test_a_prior_on_durations_is_so_many_segments(kind, rng):
    X, states = rng.poisson(3.0, (40, 1)), np.repeat([0, 1, 0, 1, 0], [3, 4, 5, 4, 24])
    counts = np.zeros((2, 30))
    counts[0, [2, 4]], counts[1, 3] = 1.0, 2.0
    hmm = PoissonHMM(
        2, durations=kind, max_duration=30, durationprob_prior=2.0, semi_supervised=True,
        solver="batch", tol=0.0, max_iter=50,
    ).fit(X, states)  # fmt: skip
    table = hmm.durationprob_
    # The last segment has 24 rows or more.
    counts[0, 23:] += table[0, 23:] / table[0, 23:].sum()
    expected = DURATIONS[kind]().m_step(counts + 1.0, np.zeros(2), table)
    assert_allclose(table, expected, rtol=1e-6)


def test_known_states_that_last_too_long_are_refused(rng):
    X, states = rng.poisson(3.0, (30, 1)), np.repeat([0, 1], 15)
    hmm = PoissonHMM(2, durations="categorical", max_duration=14, semi_supervised=True)
    with pytest.raises(ValueError, match="Some sequences are impossible"):
        hmm.fit(X, states)
    assert np.isfinite(hmm.set_params(max_duration=15).fit(X, states).score(X))


def test_known_segments_are_counted(rng):
    """All of them, and those at the ends with the durations that they may have had."""
    states = np.repeat([0, 1, 0, 1, 0], [3, 4, 5, 4, 1])
    X = rng.poisson(3.0, (len(states), 1))
    hmm = PoissonHMM(
        2, durations="categorical", max_duration=6, semi_supervised=True, solver="batch", tol=0.0,
        max_iter=200,
    ).fit(X, states)  # fmt: skip
    assert_allclose(hmm.durationprob_[1], [0, 0, 0, 1, 0, 0], atol=1e-9)
    # The last segment of state 0 tells nothing of its durations.
    assert_allclose(hmm.durationprob_[0], [0, 0, 0.5, 0, 0.5, 0], atol=1e-6)


@pytest.mark.parametrize("kind", DURATIONS)
def test_a_model_is_known_by_its_parameters(kind, rng):
    table = rng.dirichlet(np.ones(6), 2)
    table = DURATIONS[kind]().m_step(table, np.zeros(2), table)
    parts = {
        "startprob": [0.5, 0.5], "transmat": 1.0 - np.eye(2), "lambdas": [[1.0], [9.0]],
        "durationprob": table,
    }  # fmt: skip
    hmm = PoissonHMM.from_parameters(durations=kind, max_duration=6, **parts)
    assert_array_equal(hmm.durationprob_, table)
    X, states = hmm.sample(40)
    assert max(len(list(rows)) for _, rows in groupby(states)) <= 6
    assert_identical(hmm.predict(X), hmm.predict(X))
    if kind != "categorical":
        with pytest.raises(ValueError, match="durationprob_.*must be the probabilities of"):
            hmm.durationprob_ = np.tile([0.0, 0.5, 0.0, 0.0, 0.0, 0.5], (2, 1))
    with pytest.raises(ValueError, match="transmat_.*must be 0 on its diagonal"):
        hmm.transmat_ = np.full((2, 2), 0.5)
    fixed = PoissonHMM.from_parameters(
        durations=kind, max_duration=6, params={"durationprob": False}, **parts
    )
    assert_array_equal(fixed.partial_fit(X).durationprob_, table)
    assert fixed.model_.n_parameters() == 2 + 1
    with pytest.raises(AttributeError, match="durationprob_ requires durations"):
        PoissonHMM(2, random_state=0).fit(X).durationprob_  # noqa: B018


def test_states_that_are_regressions_may_have_durations(rng):
    x, slope = rng.normal(size=(200, 1)), np.repeat([3.0, -3.0] * 10, 10)[:, None]
    y = slope * x + 0.1 * rng.normal(size=x.shape)
    hmm = RegressionHMM(2, durations="poisson", max_duration=20, random_state=0).fit(y, inputs=x)
    assert_allclose(hmm.durationprob_ @ np.arange(1.0, 21.0), 10.0, rtol=0.1)
    live = hmm.live_filter()
    rows = [live.update(row, inputs=known) for row, known in zip(y, x, strict=True)]
    assert_allclose(rows, hmm.filter(y, inputs=x), rtol=1e-9, atol=1e-12)
    found = hmm.forecast(y, 2, inputs=x, future_inputs=x[:2])
    assert_allclose(live.forecast(2, inputs=x[:2]), found, rtol=1e-9)


def test_a_model_with_a_certain_rhythm_is_followed(rng):
    """Periods without noise: occupancies never become stationary."""
    model = replace(drawn(rng, n_states=2), transmat=1.0 - np.eye(2), start=np.array([1.0, 0.0]))
    model = replace(model, table=np.eye(4)[[2, 2]])
    own = model.own_statistics(Sequences(Rows(np.empty((602, 0))), np.array([0, 602])))
    assert_allclose(own.durations[:, 2], [101.0, 100.0])
    assert_allclose(own.emissions.weight, [302.0, 300.0])
