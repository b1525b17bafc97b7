"""What holds for every estimator of sequences, in any form of these."""

import numpy as np
import pandas as pd
import polars as pl
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
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sklearn_onlineem import CategoricalHMM, MarkovChainMixture
from sklearn_onlineem.distributed import DistributedEM


@all_models
def test_the_four_forms_of_input_give_the_same_model(case, rng):
    X, y = case.data(rng)
    rows, lengths = flat(X)
    groups = np.repeat([f"sequence {i % 7}{i}" for i in range(len(X))], lengths)
    order = np.argsort(np.repeat(rng.permutation(len(X)), lengths), kind="stable")
    expected = case(**case.start(X, y)).fit(X)
    for arguments in ({"lengths": lengths}, {"groups": groups}):
        found = case(**case.start(X, y)).fit(rows, **arguments)
        assert_identical(state_of(found), state_of(expected))
        assert_identical(found.score_samples(rows, **arguments), expected.score_samples(X))
        for method in case.row_methods:
            out = getattr(found, method)(rows, **arguments)
            assert_array_equal(out, np.concatenate(getattr(expected, method)(X)))
        for method in ("score", "bic", "aic"):
            assert getattr(found, method)(rows, **arguments) == getattr(expected, method)(X)
    # Sequences in another order: the same likelihoods, and rows come back where they were.
    shuffled = expected.transform(rows[order], groups=groups[order])
    assert_allclose(shuffled, np.concatenate(expected.transform(X))[order], atol=1e-12)


@all_models
def test_rows_of_different_groups_may_alternate(case, rng):
    X, y = case.data(rng, 6)
    rows, lengths = flat(X)
    groups = np.repeat(np.arange(6), lengths)
    time = np.concatenate([np.arange(length) for length in lengths])
    order = np.lexsort([groups, time])  # all first rows, then all second rows, ...
    hmm = case(**case.start(X, y)).fit(X)
    mixed = case(**case.start(X, y)).fit(rows[order], groups=groups[order])
    assert_identical(state_of(mixed), state_of(hmm))
    out = hmm.transform(rows[order], groups=groups[order])
    assert_array_equal(out, np.concatenate(hmm.transform(X))[order])
    labels = np.concatenate(y)
    start = {**case.start(X, y), **case.labelled}
    labelled = case(**start).fit(rows[order], labels[order], groups=groups[order])
    assert_identical(state_of(labelled), state_of(case(**start).fit(X, y)))


@pytest.mark.parametrize("make", [CategoricalHMM, MarkovChainMixture])
def test_arrays_of_one_dimension_are_sequences_of_symbols(make, rng):
    X = [rng.integers(0, 3, 12) for _ in range(20)]  # as long as a row of counts of 3 symbols
    model, columns = make(2, random_state=0), [x[:, None] for x in X]
    expected = state_of(model.fit(columns))
    scores, states = model.score_samples(columns), model.predict(columns)
    ragged = np.array([*X, X[0][:5]], dtype=object)[:-1]
    for form in (X, tuple(X), ragged, [*map(pd.Series, X)], [*map(pl.Series, X)]):
        assert_identical(state_of(model.fit(form)), expected)
        assert_identical(model.score_samples(form), scores)
        assert_identical(model.predict(form), states)
    found, same = (DistributedEM(model, n_shards=2).fit(data).estimator_ for data in (X, columns))
    assert_identical(state_of(found), state_of(same))


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


@all_estimators
def test_consistency_of_what_a_fitted_model_gives(case, rng):
    X, _ = case.data(rng)
    hmm = case().fit(X)
    posterior, filtered = hmm.predict_proba(X), hmm.filter(X)
    for one in (*posterior, *filtered):
        assert_allclose(one.sum(axis=1), 1.0, rtol=1e-9)
    for smoothed, past in zip(posterior, filtered, strict=True):
        if not case.ends_by_itself:
            assert_allclose(smoothed[-1], past[-1], rtol=1e-9, atol=1e-12)
    assert_identical(hmm.transform(X), posterior)
    assert_identical(clone(hmm).fit_predict(X), hmm.predict(X))
    assert hmm.score(X) == pytest.approx(hmm.score_samples(X).mean(), rel=1e-12)
    by_row = hmm.decode(X, algorithm="map")[1]
    assert_identical(by_row, [one.argmax(axis=1) for one in posterior])
    assert_identical(clone(hmm).set_params(algorithm="map").fit(X).predict(X), by_row)
    log_probability, paths = hmm.decode(X)
    assert_identical(paths, hmm.predict(X))
    assert log_probability <= hmm.score_samples(X).sum() + 1e-9
    assert hmm.aic(X) < hmm.bic(X)
    with pytest.raises(ValueError, match="algorithm"):
        hmm.decode(X, algorithm="best")
    assert_allclose(hmm.startprob_.sum(), 1.0)
    ends = hmm.endprob_ if case.ends_by_itself else 0.0
    assert_allclose(hmm.transmat_.sum(axis=1) + ends, 1.0)
    assert hasattr(hmm, "endprob_") == case.ends_by_itself


@all_models
def test_samples(case, rng):
    X, _ = case.data(rng)
    hmm = case().fit(X)
    drawn, states = hmm.sample(7, n_sequences=4)
    assert [len(part) for part in drawn] == [len(part) for part in states]
    if not case.ends_by_itself:
        assert {len(part) for part in drawn} == {7}
        assert hmm.sample(7)[0].shape == (7, X[0].shape[1])
    assert np.isfinite(hmm.score_samples(drawn)).all()
    again = hmm.sample(7, n_sequences=4)
    assert_identical(again, (drawn, states))
    for wrong in ({"n_samples": 0}, {"n_sequences": 0}):
        with pytest.raises(ValueError, match=f"n_s.*{type(hmm).__name__}"):
            hmm.sample(**wrong)
