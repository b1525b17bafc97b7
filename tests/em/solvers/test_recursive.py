"""The solver "recursive": what streams, fits, failures and other estimators make of it."""

import copy
import pickle

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.interruptions import Interruption
from cases.sequence_cases import SEQUENCE_ESTIMATORS
from cases.states import state_of

from sklearn_onlineem import CategoricalHMM, EditDistance
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Recursive, Restart

STICKY = np.array([[0.95, 0.05], [0.05, 0.95]])
SYMBOLS = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])


def stream(n, seed=0):
    rng, states = np.random.default_rng(seed), np.zeros(n, dtype=int)
    for t in range(1, n):
        states[t] = rng.choice(2, p=STICKY[states[t - 1]])
    return (rng.random(n)[:, None] > SYMBOLS.cumsum(axis=1)[states]).sum(axis=1)[:, None]


def hmm(**arguments):
    given = {"solver": "recursive", "transmat_init": STICKY, "random_state": 0, "n_features": 3}
    return CategoricalHMM(2, **given | arguments)


def learnt(pieces, **arguments):
    estimator = hmm(**arguments)
    for piece in pieces:
        estimator.partial_fit(piece, continues=True)
    return estimator


@pytest.mark.parametrize("arguments", [{}, {"eta0": 0.5}, {"emissionprob_prior": 1.5}], ids=str)
def test_how_a_stream_is_cut_changes_nothing(arguments):
    X = stream(400)
    expected = learnt([X[:50], X[50:]], **arguments)
    for cuts in ([50, 51, 52, 90, 399], range(50, 400, 7)):
        found = learnt(np.split(X, cuts), **arguments)
        if "emissionprob_prior" in arguments:
            # It is spread over all that was seen at the end of a piece.
            assert_close(found.model_, expected.model_, rtol=0.05, atol=0.02)
        else:
            assert_close(found.model_, expected.model_, rtol=1e-11, atol=1e-13)


def test_a_stream_is_learnt():
    X, truth = stream(20_000), hmm(
        emissionprob_init=SYMBOLS, startprob_init=[1.0, 0.0], params="", solver="batch", max_iter=1
    )  # fmt: skip
    found = learnt(np.split(X, range(500, 20_000, 500)))
    order = np.argsort(-found.emissionprob_[:, 0])
    np.testing.assert_allclose(found.emissionprob_[order], SYMBOLS, atol=0.06)
    np.testing.assert_allclose(found.transmat_[np.ix_(order, order)], STICKY, atol=0.03)
    held_out = stream(5000, seed=1)
    assert found.score(held_out) > truth.fit(X[:100]).score(held_out) - 0.01 * 5000


def test_log_likelihoods_on_record_are_of_what_comes_next():
    X = stream(300)
    found = learnt(np.split(X, range(20, 300)), solver=Recursive(warm_up=0))
    for t in (60, 200):
        before = learnt(np.split(X[:t], range(20, t)), solver=Recursive(warm_up=0))
        filtered = before._fitted.state.kept.filtered
        predicted = filtered @ before.transmat_ @ before.emissionprob_[:, X[t, 0]]
        assert found.history_[t - 19].log_likelihood == pytest.approx(np.log(predicted), rel=1e-12)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_stream_goes_on_after_copies(twin):
    pieces = np.split(stream(300), range(50, 300, 50))
    through, other = learnt(pieces), twin(learnt(pieces[:3]))
    for piece in pieces[3:]:
        other.partial_fit(piece, continues=True)
    assert_identical(other.model_, through.model_)
    assert_identical(state_of(other), state_of(through))


def test_sequences_of_their_own_begin_anew():
    first, second, *others = np.split(stream(160), [40, 80, 110])
    both, one_by_one = (hmm().partial_fit(first).partial_fit(second) for _ in range(2))
    both.partial_fit(np.concatenate(others), lengths=[30, 50])
    for sequence in others:
        one_by_one.partial_fit(sequence)
    assert_close(both.model_, one_by_one.model_, rtol=1e-11, atol=1e-13)


def test_strings_and_values_are_the_same_and_the_first_rows_are_held():
    X = stream(80)
    by_name, by_value = learnt([X[:30], X[30:]]), learnt([X[:30], X[30:]], solver=Recursive(100))
    assert_identical(by_name.model_, by_value.model_)
    assert_identical(by_name.model_, learnt([X[:30]]).model_)
    at_once = learnt([X[:30], X[30:]], solver=Recursive(warm_up=30))
    assert np.abs(at_once.emissionprob_ - by_name.emissionprob_).max() > 1e-4


def test_the_rate_of_a_batch_is_that_of_its_rows_together():
    found = learnt([stream(50), stream(30)], schedule="constant", eta0=0.25)
    step_size = 1.0 - 0.8**30
    assert found.history_[-1].eta == pytest.approx(step_size / (1.0 - step_size), rel=1e-9)


def test_fits_take_passes_and_explain_more():
    X, lengths = stream(1000), np.full(50, 20)
    start = hmm(solver="batch", max_iter=1).fit(X, lengths=lengths)
    found = hmm(max_iter=8, tol=0.0, batch_size=10).fit(X, lengths=lengths)
    assert found.n_iter_ == 8
    assert len(found.history_) == 40
    best = hmm(solver="batch", max_iter=1000, tol=1e-6).fit(X, lengths=lengths)
    after, most = (other.score(X, lengths=lengths) for other in (found, best))
    first = start.score(X, lengths=lengths)
    assert after - first > 0.7 * (most - first) > 0.0
    again = hmm(max_iter=8, tol=0.0, batch_size=10).fit(X, lengths=lengths)
    assert_identical(again.model_, found.model_)
    assert hmm(tol=1e-2).fit(X, lengths=lengths).converged_


@pytest.mark.parametrize("n_rows", [0, 10])
def test_a_restart_begins_with_what_the_model_says(n_rows):
    pieces = np.split(stream(400), [100, 200, 300])
    answers = iter([False, False, Restart(n_rows), False])
    estimator = learnt(pieces[:3], eta0=1.0, callbacks=[lambda step: next(answers)])
    state = estimator._fitted.state
    assert (state.kept is None) == (n_rows == 0)
    before = estimator.partial_fit(pieces[3], continues=True).history_
    # Rates of the first of hundred rows are up again.
    assert before[-1].eta > 3.0 * before[-2].eta


def test_solvers_may_change_in_mid_stream():
    pieces = np.split(stream(400), [100, 200, 300])
    estimator = learnt(pieces[:2])
    assert estimator._fitted.state.kept is not None
    estimator.set_params(solver="online").partial_fit(pieces[2], continues=True)
    assert estimator._fitted.state.kept is None
    estimator.set_params(solver="recursive").partial_fit(pieces[3], continues=True)
    assert estimator.n_samples_seen_ == 4


@pytest.mark.parametrize("wrong", [stream(20) + 5, stream(20) + 0.5, stream(20)[:, [0, 0]]])
def test_what_fails_leaves_the_stream_as_it_was(wrong):
    pieces = np.split(stream(300), [100, 200])
    estimator, expected = learnt(pieces[:2]), learnt(pieces)
    before = state_of(estimator)
    with pytest.raises(ValueError, match="CategoricalHMM"):
        estimator.partial_fit(wrong, continues=True)
    estimator.set_params(callbacks=[Interruption(1)])
    with pytest.raises(KeyboardInterrupt):
        estimator.partial_fit(pieces[2], continues=True)
    estimator.set_params(callbacks=None)
    assert_identical(state_of(estimator), before)
    assert_identical(estimator.partial_fit(pieces[2], continues=True).model_, expected.model_)


@pytest.mark.parametrize("case", [*ESTIMATORS, *SEQUENCE_ESTIMATORS], ids=repr)
def test_others_refuse_by_name(case, rng):
    name = case.make.__name__
    if name == "CategoricalHMM":
        return
    X = case.data(rng, 30)[0]
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=f"{name}: .*solver='recursive' learns"):
            getattr(case(solver=Recursive()), method)(X)
    with pytest.raises(ValueError, match=f"'solver' parameter of {name}"):
        case(solver="recursive").fit(X)


def test_others_that_are_no_mixtures_refuse_by_name():
    with pytest.raises(ValueError, match="EditDistance: .*solver='recursive' learns"):
        EditDistance(solver=Recursive()).fit([("ab", "ba"), ("a", "b")])
    with pytest.raises(ValueError, match="DistributedEM .*solver='auto', got 'recursive'"):
        DistributedEM(hmm(), n_shards=2, n_jobs=1).fit(np.split(stream(40), 2))
    for ends in ({"termination": "end_state"}, {"termination": "absorbing_states"}):
        absorbing = [1] if ends["termination"] == "absorbing_states" else None
        with pytest.raises(ValueError, match="CategoricalHMM: .*given lengths"):
            hmm(**ends, transmat_init=None, absorbing_states=absorbing).fit(stream(40))
