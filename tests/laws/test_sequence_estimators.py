"""What holds for every hidden Markov estimator."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from laws.cases import arrays, assert_close, assert_identical
from laws.interruptions import InterruptAtLine, Interruption
from laws.sequence_cases import N_STATES, SEQUENCE_ESTIMATORS

# Tests stop fits on purpose before they converge.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

all_estimators = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS, ids=repr)
finite_estimators = pytest.mark.parametrize(
    "case", [case for case in SEQUENCE_ESTIMATORS if not case.ends_by_itself], ids=repr
)
INFERENCE = ["predict", "predict_proba", "transform", "filter", "score", "score_samples", "decode",
             "bic", "aic"]  # fmt: skip


def state_of(hmm):
    """All that later updates depend on."""
    before = hmm._state_before()
    return (
        hmm.n_steps_,
        hmm.n_samples_seen_,
        *[np.asarray(step) for step in hmm.history_],
        *([] if before is None else [before]),
        *arrays(hmm.model_),
    )


def essentials_of(hmm):
    return hmm.n_steps_, hmm.n_samples_seen_, *arrays(hmm.model_)


def accuracy(states, found):
    return np.mean(np.concatenate(states) == np.concatenate(found))


def flat(sequences):
    return np.concatenate(sequences), [len(sequence) for sequence in sequences]


# ----------------------------------------------------------------------------- learning in parts


@all_estimators
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_states_are_found(case, solver, rng):
    X, y = case.data(rng, 40)
    hmm = case(init=case.centres(X, y), solver=solver).fit(X)
    assert accuracy(y, hmm.predict(X)) > 0.9


@all_estimators
def test_states_are_found_in_a_stream(case, rng):
    X, y = case.data(rng, 40)
    hmm = case(init=case.centres(X, y))
    for start in range(0, 40, 5):
        hmm.partial_fit(X[start : start + 5])
    assert accuracy(y, hmm.predict(X)) > 0.9
    assert hmm.n_samples_seen_ == 40


@finite_estimators
def test_states_are_found_in_pieces_of_one_sequence(case, rng):
    X, y = case.data(rng, 60)
    hmm, (rows, _) = case(init=case.centres(X, y)), flat(X)
    for piece in np.array_split(rows, 15):
        hmm.partial_fit(piece, continues=True)
    assert np.mean(np.concatenate(y) == hmm.predict(rows)) > 0.9


@finite_estimators
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


@finite_estimators
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


@all_estimators
@pytest.mark.parametrize("how", [lambda hmm: pickle.loads(pickle.dumps(hmm)), copy.deepcopy],
                         ids=["pickle", "deepcopy"])  # fmt: skip
def test_a_copy_continues_bit_for_bit(case, how, rng):
    X, _ = case.data(rng)
    going_on = {} if case.ends_by_itself else {"continues": True}
    hmm = case().partial_fit(X[:8]).partial_fit(X[8:12], **going_on)
    loaded = how(hmm)
    for estimator in (hmm, loaded):
        estimator.partial_fit(X[12:16], **going_on).partial_fit(X[16:])
    assert_identical(state_of(loaded), state_of(hmm))
    assert_identical(loaded.sample(5), hmm.sample(5))


@all_estimators
def test_same_seed_same_bits(case, rng):
    X, _ = case.data(rng)
    first, second = (case(init="random").fit(X) for _ in range(2))
    assert_identical(state_of(first), state_of(second))


@all_estimators
def test_results_do_not_depend_on_n_jobs(case, rng):
    X, y = case.data(rng, 5000)
    arguments = {"init": case.centres(X, y), "max_iter": 2}
    first, second = (case(**arguments, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert_identical(state_of(first), state_of(second))
    assert_identical(first.predict_proba(X), second.predict_proba(X))


@all_estimators
def test_warm_start_goes_on(case, rng):
    X, _ = case.data(rng)
    arguments = {"solver": "batch", "tol": 0.0}
    once = case(**arguments, max_iter=6).fit(X)
    twice = case(**arguments, max_iter=3, warm_start=True).fit(X).fit(X)
    assert_identical(arrays(twice.model_), arrays(once.model_))


@all_estimators
def test_batch_em_never_lowers_the_likelihood(case, rng):
    X, _ = case.data(rng)
    hmm = case(solver="batch", init="random", tol=0.0, max_iter=30).fit(X)
    path = np.append(hmm.lower_bounds_, hmm.score(X))
    # A floor under the variances costs a little.
    slack = (1e-5 if case.is_gaussian else 1e-10) * np.abs(path[1:])
    assert (np.diff(path) >= -slack).all()
    assert hmm.n_steps_ == hmm.n_iter_ == 30 and hmm.n_samples_seen_ == len(X)


# --------------------------------------------------------------------------------- forms of input


@all_estimators
def test_the_four_forms_of_input_give_the_same_model(case, rng):
    X, y = case.data(rng)
    rows, lengths = flat(X)
    groups = np.repeat([f"sequence {i % 7}{i}" for i in range(len(X))], lengths)
    order = np.argsort(np.repeat(rng.permutation(len(X)), lengths), kind="stable")
    expected = case(init=case.centres(X, y)).fit(X)
    for arguments in ({"lengths": lengths}, {"groups": groups}):
        found = case(init=case.centres(X, y)).fit(rows, **arguments)
        assert_identical(state_of(found), state_of(expected))
        assert_identical(found.score_samples(rows, **arguments), expected.score_samples(X))
        for method in ("predict", "predict_proba", "filter"):
            out = getattr(found, method)(rows, **arguments)
            assert_array_equal(out, np.concatenate(getattr(expected, method)(X)))
        for method in ("score", "bic", "aic"):
            assert getattr(found, method)(rows, **arguments) == getattr(expected, method)(X)
    # Sequences in another order: the same likelihoods, and rows come back where they were.
    shuffled = expected.predict_proba(rows[order], groups=groups[order])
    assert_allclose(shuffled, np.concatenate(expected.predict_proba(X))[order], atol=1e-12)


@all_estimators
def test_arrays_of_three_dimensions_are_lists_of_their_parts(case, rng):
    X = np.array([case.rows(rng, rng.integers(N_STATES, size=12)) for _ in range(15)])
    whole, listed = case().fit(X), case().fit(list(X))
    assert_identical(state_of(whole), state_of(listed))
    assert_identical(whole.predict_proba(X), listed.predict_proba(list(X)))


@all_estimators
def test_rows_of_different_groups_may_alternate(case, rng):
    X, y = case.data(rng, 6)
    rows, lengths = flat(X)
    groups = np.repeat(np.arange(6), lengths)
    time = np.concatenate([np.arange(length) for length in lengths])
    order = np.lexsort([groups, time])  # all first rows, then all second rows, ...
    hmm = case(init=case.centres(X, y)).fit(X)
    mixed = case(init=case.centres(X, y)).fit(rows[order], groups=groups[order])
    assert_identical(state_of(mixed), state_of(hmm))
    out = hmm.predict_proba(rows[order], groups=groups[order])
    assert_array_equal(out, np.concatenate(hmm.predict_proba(X))[order])
    labels = np.concatenate(y)
    labelled = case(init=case.centres(X, y)).fit(rows[order], labels[order], groups=groups[order])
    assert_identical(state_of(labelled), state_of(case(init=case.centres(X, y)).fit(X, y)))


@all_estimators
def test_one_array_is_one_sequence(case, rng):
    X, _ = case.data(rng)
    rows, _ = flat(X)
    one, listed = case().fit(rows), case().fit([rows])
    assert_identical(state_of(one), state_of(listed))
    assert one.predict(rows).shape == (len(rows),)
    assert one.score_samples(rows).shape == (1,)
    assert_identical(one.predict(rows), listed.predict([rows])[0])


@all_estimators
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(case, library, rng):
    X, _ = case.data(rng)
    rows, lengths = flat(X)
    names = [f"x{j}" for j in range(rows.shape[1])]
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    frames = [make(dict(zip(names, part.T, strict=True))) for part in (rows, *X)]
    groups = np.repeat(np.arange(len(X)), lengths)
    order = rng.permutation(len(rows))
    whole, expected = frames[0], case().fit(X)
    found = case().fit(whole, lengths=lengths)
    assert_identical(state_of(found), state_of(expected))
    assert list(found.feature_names_in_) == names
    assert_identical(state_of(case().fit(frames[1:])), state_of(expected))
    shuffled = whole.iloc[order] if library == "pandas" else whole[order.tolist()]
    found.predict(shuffled, groups=groups[order])
    assert_identical(
        state_of(case().fit(shuffled, groups=groups[order])),
        state_of(case().fit(rows[order], groups=groups[order])),
    )
    renamed = dict(zip(names, [f"y{name}" for name in names], strict=True))
    other = whole.rename(columns=renamed) if library == "pandas" else whole.rename(renamed)
    with pytest.raises(ValueError, match="feature names"):
        found.partial_fit(other)


# ---------------------------------------------------------------------------------------- labels


@all_estimators
def test_labels_name_the_states(case, rng):
    X, y = case.data(rng, 40)
    for permutation in ([0, 1, 2], [2, 0, 1]):
        named = [np.take(permutation, states) for states in y]
        assert accuracy(named, case().fit(X, named).predict(X)) > 0.9
        few = [np.where(rng.random(len(states)) < 0.3, states, -1) for states in named]
        assert accuracy(named, case().fit(X, few).predict(X)) > 0.85


@finite_estimators
def test_known_states_are_counted(case, rng):
    X, y = case.data(rng, 40)
    hmm = case(solver="batch").fit(X, y)
    moves = np.zeros((N_STATES, N_STATES))
    for states in y:
        np.add.at(moves, (states[:-1], states[1:]), 1.0)
    assert_allclose(hmm.transmat_, moves / moves.sum(axis=1, keepdims=True), rtol=1e-9)
    starts = np.bincount([states[0] for states in y], minlength=N_STATES)
    assert_allclose(hmm.startprob_, starts / len(y), rtol=1e-9)


@all_estimators
@pytest.mark.parametrize("label", [3, -2, 0.5, np.nan])
def test_labels_that_are_none_are_an_error(case, label, rng):
    X, y = case.data(rng)
    hmm = case().partial_fit(X)
    before = state_of(hmm)
    bad = [states.astype(float) for states in y]
    bad[3][1] = label
    for method in (hmm.partial_fit, case().fit):
        with pytest.raises(ValueError, match=type(hmm).__name__):
            method(X, bad)
        with pytest.raises(ValueError, match=type(hmm).__name__):
            method(X, y[:-1])
    assert_identical(state_of(hmm), before)


# ------------------------------------------------------------------------------------- in use


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


@all_estimators
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
        with pytest.raises(ValueError, match="n_s"):
            hmm.sample(**wrong)


@all_estimators
def test_a_live_filter_is_filter_row_by_row(case, rng):
    X, _ = case.data(rng)
    hmm = case().fit(X)
    for sequence in X[:4]:
        live = hmm.live_filter()
        found = [live.update(row) for row in sequence]
        assert_allclose(found, hmm.filter(sequence), rtol=1e-9, atol=1e-14)
        assert live.n_steps == len(sequence)


@all_estimators
def test_nothing_can_be_asked_of_an_unfitted_model(case, rng):
    X, _ = case.data(rng)
    hmm = case()
    for method in INFERENCE:
        with pytest.raises(NotFittedError, match=type(hmm).__name__):
            getattr(hmm, method)(X)
    for method in ("sample", "live_filter"):
        with pytest.raises(NotFittedError, match=type(hmm).__name__):
            getattr(hmm, method)()
    for attribute in ("startprob_", "transmat_", "endprob_", "n_steps_", "model_"):
        assert not hasattr(hmm, attribute)
    with pytest.raises(AttributeError):
        hmm.get_stationary_distribution()


@all_estimators
def test_float32_is_preserved(case, rng):
    X, y = case.data(rng)
    short = [sequence.astype(np.float32) for sequence in X]
    init = case.centres(X, y)
    single, double = case(init=init).fit(short), case(init=init).fit(X)
    for hmm, data, dtype in ((single, short, np.float32), (double, X, np.float64)):
        outputs = (hmm.startprob_, hmm.transmat_, hmm.predict_proba(data)[0], hmm.filter(data)[0],
                   hmm.sample(3)[0])  # fmt: skip
        assert {output.dtype for output in outputs} == {np.dtype(dtype)}
    assert_allclose(single.transmat_, double.transmat_, atol=1e-3)
    assert accuracy(single.predict(short), double.predict(X)) > 0.99


@all_estimators
def test_parameters_set_in_mid_stream_are_used(case, rng):
    X, _ = case.data(rng)
    hmm = case(schedule="constant", eta0=0.5).partial_fit(X[:10]).partial_fit(X[10:15])
    assert hmm.history_[-1].eta == 0.5
    hmm.set_params(eta0=0.1).partial_fit(X[15:])
    assert hmm.history_[-1].eta == 0.1
    before = state_of(hmm)
    for wrong in ({"eta0": 0.0}, {"eta0": 0.1, "n_components": 4}):
        with pytest.raises(ValueError, match=next(reversed(wrong))):
            hmm.set_params(**wrong).partial_fit(X)
    assert_identical(state_of(hmm), before)


# ------------------------------------------------------------------------------------------ faults


@all_estimators
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(case, solver, rng):
    X, _ = case.data(rng)
    hmm = case(solver=solver, batch_size=5, tol=0.0, callbacks=[Interruption(2)])
    with pytest.raises(KeyboardInterrupt):
        hmm.fit(X)
    with pytest.raises(NotFittedError):
        hmm.predict(X)
    hmm.set_params(callbacks=None).partial_fit(X)
    before = state_of(hmm)
    with pytest.raises(KeyboardInterrupt):
        hmm.set_params(callbacks=[Interruption(2)]).fit(X)
    assert_identical(state_of(hmm), before)
    assert np.isfinite(hmm.set_params(callbacks=None).partial_fit(X).score(X))


@all_estimators
def test_a_failed_call_leaves_the_estimator_as_it_was(case, rng):
    X, _ = case.data(rng)
    going_on = {} if case.ends_by_itself else {"continues": True}
    hmm = case().fit(X).partial_fit(X[:5], **going_on)
    before = state_of(hmm)
    wide = [np.hstack([sequence, sequence]) for sequence in X]
    for call in (hmm.fit, hmm.partial_fit):
        for bad in (wide, [X[0], wide[1]], [X[0], X[1][:0]], np.full((3, X[0].shape[1]), np.nan)):
            if bad is wide and call == hmm.fit:
                continue  # a fit begins anew
            with pytest.raises(ValueError, match=type(hmm).__name__):
                call(bad)
            assert_identical(state_of(hmm), before)
    assert hmm.n_features_in_ == X[0].shape[1]


def test_partial_fit_can_be_interrupted_at_any_line(rng):
    """An update is made or not made, and a sequence goes on or starts afresh."""
    case = SEQUENCE_ESTIMATORS[0]
    X, _ = case.data(rng)
    fitted = case().partial_fit(X).partial_fit(X[1], continues=True)
    updated = copy.deepcopy(fitted).partial_fit(X[2], continues=True)
    before, after = essentials_of(fitted), essentials_of(updated)
    line, done = 0, False
    while not done:
        line += 1
        hmm = copy.deepcopy(fitted)
        try:
            with InterruptAtLine(line):
                hmm.partial_fit(X[2], continues=True)
                done = True
        except KeyboardInterrupt:
            found, seam = essentials_of(hmm), hmm._state_before()
            is_updated = found[0] != before[0]
            assert_identical(found, after if is_updated else before)
            expected = (updated if is_updated else fitted)._state_before()
            assert np.array_equal(seam, expected) or (is_updated and seam is None)
    assert line > 50


@all_estimators
def test_priors_hold_states_back(case, rng):
    """With a strong prior on the rows of the transitions they hardly move from it."""
    X, _ = case.data(rng)
    prior = np.full((N_STATES, N_STATES + case.ends_by_itself), 1e6)
    hmm = case(transmat_prior=prior, startprob_prior=1e6).fit(X)
    assert_allclose(hmm.startprob_, 1 / N_STATES, atol=1e-3)
    assert_allclose(hmm.transmat_, 1 / prior.shape[1], atol=1e-3)
    assert_close(hmm.partial_fit(X[:3]).startprob_, np.full(N_STATES, 1 / N_STATES), atol=1e-2)
