"""Arguments by position are those of hmmlearn and pykalman, or refused by name."""

import inspect

import numpy as np
import pytest
from cases.comparing import arrays, assert_identical
from cases.sequence_cases import all_estimators, all_models, flat
from cases.states import state_of

from sklearn_onlineem import GaussianHMM, KalmanFilter
from sklearn_onlineem.distributed import DistributedEM

# In the place of lengths these have what scikit-learn has there.
TAKES_Y = {"fit", "partial_fit", "fit_predict", "fit_transform", "score", "log_posterior"}
TAKES_A_NUMBER = {"forecast", "predict_next_proba"}


def methods_of_sequences(kind):
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith(("_", "set_")) and "lengths" in inspect.signature(method).parameters:
            yield name


@all_models
def test_lengths_come_second(case, rng):
    X, _ = case.data(rng, 8)
    rows, lengths = flat(X)
    fitted = case(max_iter=2).fit(X)
    found = set(methods_of_sequences(type(fitted)))
    assert {*TAKES_Y, *case.inference} - {"fit_predict"} <= found
    for name in found - TAKES_Y - TAKES_A_NUMBER - {"decompose"}:  # It requires a structure.
        method = getattr(fitted, name)
        assert_identical(method(rows, lengths), method(rows, lengths=lengths))
        for error, by_name in ((ValueError, {}), (TypeError, {"lengths": lengths})):
            with pytest.raises(error, match=f"{type(fitted).__name__}.*lengths"):
                method(rows, [len(rows) + 1], **by_name)


@all_models
def test_lengths_in_the_place_of_y_are_refused(case, rng):
    X, _ = case.data(rng, 8)
    rows, lengths = flat(X)
    fitted, n = case(max_iter=2).fit(X), len(rows)
    before, name = state_of(fitted), type(fitted).__name__
    for method in (getattr(fitted, name) for name in TAKES_Y if hasattr(fitted, name)):
        for given in (lengths, np.array(lengths), tuple(lengths), [n]):
            with pytest.raises(ValueError, match=f"{name}: X has {n} rows.*pass lengths="):
                method(rows, given)
        for given in ([n + 1], lengths[:-1], [], np.zeros(n + 1), {}, 3, [[0], [1, 2]]):
            with pytest.raises(ValueError, match=f"{name}: X has {n} rows, and y .*lengths="):
                method(rows, given)
    assert_identical(state_of(fitted), before)


def test_lengths_in_the_place_of_y_are_refused_by_shards_too(rng):
    rows = rng.standard_normal((30, 2))
    learner = DistributedEM(GaussianHMM(2, random_state=0, max_iter=2))
    with pytest.raises(ValueError, match="GaussianHMM: X has 30 rows.*pass lengths="):
        learner.fit(rows, [10, 20])
    learner.fit(rows)
    with pytest.raises(ValueError, match="GaussianHMM: X has 30 rows.*pass lengths="):
        learner.score(rows, [10, 20])
    for method in (learner.score_samples, learner.predict, learner.predict_proba):
        with pytest.raises(TypeError, match=f"{method.__name__}.*lengths.*by name"):
            method(rows, [10, 20])
        assert_identical(
            method(rows, lengths=[10, 20]),
            getattr(learner.estimator_, method.__name__)(rows, [10, 20]),
        )


@all_estimators
def test_decode_as_in_hmmlearn(case, rng):
    X, _ = case.data(rng, 8)
    rows, lengths = flat(X)
    hmm = case(max_iter=2).fit(X)
    for algorithm in ("map", "viterbi"):
        expected = hmm.decode(rows, lengths=lengths, algorithm=algorithm)
        assert_identical(hmm.decode(rows, lengths, algorithm), expected)


def test_hmmlearn_agrees_by_position(rng):
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    rows, lengths = rng.standard_normal((60, 2)) + np.repeat([[0.0], [4.0]], 30, axis=0), [25, 35]
    ours = GaussianHMM(2, random_state=0).fit(rows, lengths=lengths)
    theirs = hmmlearn.GaussianHMM(2)
    theirs.startprob_, theirs.transmat_ = ours.startprob_, ours.transmat_
    theirs.means_, theirs.covars_ = ours.means_, np.einsum("kii->ki", ours.covars_)
    assert_identical(ours.predict(rows, lengths), theirs.predict(rows, lengths))
    for name in ("predict_proba", "decode"):
        found, expected = (getattr(model, name)(rows, lengths) for model in (ours, theirs))
        for a, b in zip(arrays(found), arrays(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    total = ours.score(rows, lengths=lengths) * len(lengths)
    assert total == pytest.approx(theirs.score(rows, lengths), rel=1e-9)
    assert ours.score_samples(rows, lengths).sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("make", [GaussianHMM, KalmanFilter])
def test_what_others_have_second_in_sample(make, rng):
    """hmmlearn has random_state there, and pykalman the initial state."""
    fitted = make(2, random_state=0).fit(rng.standard_normal((50, 2)))
    with pytest.raises(TypeError, match=rf"{make.__name__}.sample.*n_sequences is passed by name"):
        fitted.sample(10, 42)
    assert len(fitted.sample(10, n_sequences=3)[0]) == 3
