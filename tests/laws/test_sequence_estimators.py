"""What holds for every estimator of sequences that learns, as a whole or in parts."""

import numpy as np
import pytest
from cases.comparing import arrays, assert_identical
from cases.sequence_cases import (
    SEQUENCE_ESTIMATORS,
    accuracy,
    all_estimators,
    all_models,
    finite_models,
    flat,
)
from cases.states import state_of
from numpy.testing import assert_allclose


@all_estimators
def test_states_are_found_in_a_stream(case, rng):
    X, y = case.data(rng, 40)
    hmm = case(init=case.centres(X, y))
    for start in range(0, 40, 5):
        hmm.partial_fit(X[start : start + 5])
    assert accuracy(y, hmm.predict(X)) > 0.9
    assert hmm.n_samples_seen_ == 40


@finite_models
def test_pieces_of_one_sequence_have_its_log_likelihood(case, rng):
    """With hardly any learning, what the updates report adds up to the whole."""
    X, _ = case.data(rng, 30)
    rows, _ = flat(X)
    hmm = case(eta0=1e-12, beta=0.0, schedule="constant").fit(X)
    hmm.partial_fit(rows[:50], continues=True)  # starts a sequence
    n_before = len(hmm.history_)
    for begin, end in ((50, 51), (51, 200), (200, len(rows))):
        hmm.partial_fit(rows[begin:end], continues=True)
    total = sum(step.log_likelihood for step in hmm.history_[n_before - 1 :])
    assert_allclose(total, hmm.score(rows), rtol=1e-8)
    # A call that does not continue ends the sequence.
    hmm.partial_fit(rows[:50]).partial_fit(rows[:50], continues=True)
    assert_allclose(hmm.history_[-1].log_likelihood, hmm.score(rows[:50]), rtol=1e-8)


@finite_models
def test_several_sequences_of_which_the_first_continues(case, rng):
    X, _ = case.data(rng, 30)
    hmm = case(eta0=1e-12, beta=0.0, schedule="constant").fit(X)
    rows = np.concatenate(X[1:6])
    hmm.partial_fit(rows[:40], continues=True)
    before = hmm.history_[-1].log_likelihood
    hmm.partial_fit([rows[40:], X[7], X[8]], continues=True)
    scores = hmm.score_samples([rows, X[7], X[8]])
    assert_allclose(before + 3.0 * hmm.history_[-1].log_likelihood, scores.sum(), rtol=1e-8)
    hmm.partial_fit(X[9], continues=True)  # goes on where the last of these stopped
    whole = hmm.score(np.concatenate(X[8:10])) - hmm.score(X[8])
    assert_allclose(hmm.history_[-1].log_likelihood, whole, rtol=1e-7)


def test_absorbed_sequences_do_not_go_on(rng):
    case = SEQUENCE_ESTIMATORS[-1]
    X, _ = case.data(rng)
    hmm = case().fit(X)
    before = state_of(hmm)
    with pytest.raises(ValueError, match="HMM.*continues"):
        hmm.partial_fit(X[1], continues=True)
    assert_identical(state_of(hmm), before)


@all_models
def test_further_starts_differ_and_the_best_is_kept(case, rng):
    """From the same emissions, too: the transitions are drawn."""
    X, y = case.data(rng)
    arguments = {**case.start(X, y), "solver": "batch", "tol": 0.0, "max_iter": 1}

    def fitted(n_init, seed, **more):
        return case(**arguments, n_init=n_init, random_state=seed, **more).fit(X)

    # In the only pass of each, callbacks are told the likelihood of the start.
    steps = [[] for _ in range(4)]
    best = [fitted(6, seed, callbacks=[s.append]).lower_bound_ for seed, s in enumerate(steps)]
    starts = np.array([[step.log_likelihood for step in told] for told in steps])
    assert (best == starts.max(axis=1)).all() and (starts[:, 0] == fitted(1, 0).lower_bound_).all()
    # The first is that of all seeds.
    assert len(np.unique(starts.round(8))) == 1 + 4 * 5
    assert_identical(arrays(fitted(3, 1).model_), arrays(fitted(3, 1).model_))
