"""Inputs of estimators of sequences: streams, pieces, forms, searches, samples, refusals."""

import pickle

import numpy as np
import pandas as pd
import pytest
from cases.comparing import assert_identical
from cases.inputs import NAMED, WRONG, all_learners
from cases.states import state_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import StreamPipeline, combine_estimators

DAYS = pd.date_range("2020", periods=20)


def parts_of(found):
    """What a filter says of states: moments, or probabilities alone."""
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("n_rows", [1, 7, 100])
@all_learners
def test_a_stream_in_pieces_of_any_size(learner, n_rows, rng):
    X, u = learner.data(rng)
    X[151] = np.nan
    X[150, 1:] = np.nan
    estimator = learner.make()
    first = max(n_rows, 1 + getattr(estimator, "lags", 0))
    cuts = range(first, len(X), n_rows)
    for rows, inputs in zip(np.split(X, cuts), np.split(u, cuts), strict=True):
        estimator.partial_fit(rows, inputs=inputs, continues=True)
    learner.assert_found(estimator)
    batch = learner.make().fit(X, inputs=u)
    assert estimator.score(X, inputs=u) > batch.score(X, inputs=u) - 15.0
    # The last state knows the rows before the piece.
    live = estimator.live_filter(continues=True)
    more = parts_of(estimator.filter(np.vstack([X, X[:1]]), inputs=[*u, u[0]]))[0]
    assert_allclose(parts_of(estimator.filtered_state_)[0], more[-2], atol=learner.atol)
    assert_allclose(parts_of(live.update(X[0], inputs=u[:1]))[0], more[-1], atol=learner.atol)


@all_learners
def test_scores_of_pieces_are_those_of_the_whole(learner, rng):
    X, u = learner.data(rng)
    estimator = learner.make().fit(X, inputs=u).set_params(schedule="constant", eta0=1e-12)
    estimator.partial_fit(X[:80], inputs=u[:80], continues=True)
    whole = estimator.score_rows(X, inputs=u)
    piece = estimator.score_rows(X[80:], inputs=u[80:], continues=True)
    assert_allclose(piece, whole[80:], rtol=1e-6, atol=1e-9)
    pieces = [X[80:120], X[:7]], [u[80:120], u[:7]]
    found = estimator.score_rows(pieces[0], inputs=pieces[1], continues=True)
    assert_allclose(found[0], whole[80:120], rtol=1e-6, atol=1e-9)
    assert_allclose(found[1], whole[:7], rtol=1e-6, atol=1e-9)


@all_learners
def test_a_live_filter_and_its_forecasts(learner, rng):
    X, u = learner.data(rng)
    estimator = learner.make().fit(X, inputs=u)
    X[50] = X[60, 1:] = np.nan
    live = estimator.live_filter()
    rows = zip(X, u[:, None], strict=True)
    found = zip(*(parts_of(live.update(row, inputs=value)) for row, value in rows), strict=True)
    for own, other in zip(found, parts_of(estimator.filter(X, inputs=u)), strict=True):
        assert_allclose(own, other, rtol=1e-9, atol=1e-12)
    asked = {"return_cov": True, "quantiles": [0.1]}
    ours = live.forecast(4, inputs=u[:4, None], **asked)
    theirs = estimator.forecast(X, 4, inputs=u, future_inputs=u[:4], **asked)
    for own, other in zip(ours, theirs, strict=True):
        assert_allclose(own, other, rtol=1e-9)
    before = getattr(live, learner.now).copy()
    for given in ({}, {"inputs": [1.0, 2.0]}, {"inputs": [np.nan]}):
        with pytest.raises(ValueError, match="inputs must"):
            live.update(np.ones(X.shape[1]), **given)
        with pytest.raises(ValueError, match="inputs must"):
            live.forecast(**given)
    assert_array_equal(getattr(live, learner.now), before)


@all_learners
def test_merged_and_saved(learner, rng):
    X, u = learner.data(rng, 1600)
    parts = list(zip(np.split(X, 4), np.split(u, 4), strict=True))
    members = [learner.make().fit(x, inputs=v) for x, v in parts]
    learner.assert_found(combine_estimators(members))
    estimator = learner.make()
    for x, v in parts[:2]:
        estimator.partial_fit(x, inputs=v, continues=True)
    loaded = pickle.loads(pickle.dumps(estimator))
    for x, v in parts[2:]:
        estimator.partial_fit(x, inputs=v, continues=True)
        loaded.partial_fit(x, inputs=v, continues=True)
    assert_identical(state_of(estimator), state_of(loaded))


@all_learners
def test_forms_of_inputs_are_those_of_sequences(learner, rng):
    X, u = learner.data(rng, 90)
    parts, cuts = ([X[:40], X[40:]], [u[:40], u[40:]]), [40, 50]
    expected = learner.make().fit(parts[0], inputs=parts[1])
    groups = np.repeat([7, 3], cuts)
    for rows, given in [
        (X, {"inputs": u, "lengths": cuts}),
        (X, {"inputs": u[:, None], "groups": groups}),
        (parts[0], {"inputs": [part[:, None] for part in parts[1]]}),
        (X, {"inputs": pd.DataFrame({"price": u}), "lengths": cuts}),
        (X, {"inputs": pd.Series(u), "lengths": cuts}),
        (X, {"inputs": u.tolist(), "lengths": cuts}),
    ]:
        found = learner.make().fit(rows, **given)
        assert_array_equal(learner.effects(found), learner.effects(expected))
        assert found.score(rows, **given) == expected.score(parts[0], inputs=parts[1])
    # Groups that alternate keep the order of their own rows.
    mixed, states = np.argsort(np.r_[:40, :50], kind="stable"), getattr(expected, learner.states)
    again = states(X[mixed], groups=groups[mixed], inputs=u[mixed])
    assert_array_equal(again, states(X, groups=groups, inputs=u)[mixed])
    single = learner.make().fit(X.astype("f4"), inputs=u)
    assert learner.effects(single).dtype == np.float32


@all_learners
def test_searches_pipelines_and_routing(learner, rng):
    X, u = learner.data(rng, 300)
    sequences, inputs = np.split(X, 6), np.split(u, 6)
    with config_context(enable_metadata_routing=True):
        estimator = learner.make().set_fit_request(inputs=True)
        estimator.set_score_request(inputs=True).set_partial_fit_request(inputs=True)
        search = GridSearchCV(estimator, learner.grid, cv=2).fit(sequences, inputs=inputs)
        assert search.best_params_ == {name: values[0] for name, values in learner.grid.items()}
        pipeline = make_pipeline(StandardScaler(), estimator).fit(X, inputs=u)
        assert np.isfinite(pipeline.score(X, inputs=u))
        stream = StreamPipeline([("scale", StandardScaler()), ("last", clone(estimator))])
        stream.partial_fit(X[:200], inputs=u[:200]).partial_fit(X[200:], inputs=u[200:])
    plain = StreamPipeline([("scale", StandardScaler()), ("last", learner.make())])
    plain.partial_fit(X[:200], inputs=u[:200]).partial_fit(X[200:], inputs=u[200:])
    assert_array_equal(*(learner.effects(each["last"]) for each in (plain, stream)))
    estimator, poor = learner.make(), learner.make().set_params(**learner.poor).fit(X, inputs=u)
    states = estimator.fit_transform(X, inputs=u)
    assert_array_equal(states, getattr(estimator, learner.states)(X, inputs=u))
    assert estimator.aic(X, inputs=u) < poor.aic(X, inputs=u)
    assert estimator.bic(X, inputs=u) < poor.bic(X, inputs=u)
    names = ["load", "price"][: X.shape[1]]
    frame = pd.DataFrame(X, pd.date_range("2026-01-01", periods=300), names)
    mean = poor.fit(frame, inputs=u).forecast(frame, 2, inputs=u, future_inputs=u[:2])
    assert mean.index[0] == pd.Timestamp("2026-10-28") and list(mean.columns) == names


@all_learners
def test_samples_given_inputs_are_learnt_from_again(learner, rng):
    X, u = learner.data(rng)
    estimator, inputs = learner.make().fit(X, inputs=u), rng.normal(size=3000)
    drawn, states = estimator.sample(inputs=inputs)
    assert len(drawn) == len(states) == 3000
    again = learner.make().set_params(**learner.start(states)).fit(drawn, inputs=inputs)
    assert_allclose(learner.effects(again), learner.effects(estimator), atol=0.1)
    drawn, _ = estimator.sample(inputs=[u[:4], u[:7]])
    assert [len(part) for part in drawn] == [4, 7]
    with pytest.raises(ValueError, match=f"{type(estimator).__name__}: inputs must be passed"):
        estimator.sample(4)


@all_learners
def test_inputs_to_come_may_be_data_frames(learner, rng):
    X, u = rng.normal(size=(20, 1)), pd.DataFrame(rng.normal(size=(20, 2)))
    live = learner.make().fit(X, inputs=u).live_filter()
    for t in range(10):
        live.update(X[t], inputs=u.iloc[t])
    found, expected = (live.forecast(3, inputs=one) for one in (u[:3], u[:3].to_numpy().tolist()))
    assert_array_equal(found, expected)


@pytest.mark.parametrize("as_list", [False, True])
@all_learners
def test_inputs_of_other_dates_are_refused(learner, as_list, rng):
    X, u = (pd.DataFrame(rng.normal(size=(20, n)), DAYS) for n in (1, 2))
    estimator = learner.make().fit(X, inputs=u)
    name, ahead = type(estimator).__name__, {"future_inputs": u[:3]}
    for method, more in (("score", {}), ("fit", {}), ("partial_fit", {}), ("forecast", ahead)):
        for wrong in (u[::-1], u.shift(freq="D")):
            data = {"X": X, "inputs": wrong, **more}
            if as_list:
                data = {key: [value] for key, value in data.items()}
            if more:
                data["n_steps"] = 3
            with pytest.raises(ValueError, match=f"{name}: inputs have other dates"):
                getattr(estimator, method)(**data)
    assert estimator.score(X, inputs=u.to_period()) == estimator.score(X, inputs=u)


@pytest.mark.parametrize("which", WRONG)
@all_learners
def test_wrong_inputs_are_refused_by_name_and_nothing_is_lost(learner, which, rng):
    X, given, error = rng.normal(size=(20, 1)), WRONG[which], (ValueError, TypeError)
    estimator = learner.make().fit(X, inputs=NAMED + rng.normal(size=(20, 1)))
    state, name = estimator._fitted, type(estimator).__name__
    methods = ("partial_fit", "score", "predict", "filter", "bic", "decode", "impute", "smooth")
    for method in (getattr(estimator, one) for one in methods if hasattr(estimator, one)):
        with pytest.raises(error, match=rf"{name}.*\b(inputs|lengths)\b"):
            method(X, **given)
    assert estimator._fitted is state
    future = {"future_inputs" if name == "inputs" else name: x for name, x in given.items()}
    if which != "lengths":
        with pytest.raises(error, match=rf"{name}.*\bfuture_inputs\b"):
            estimator.forecast(X, 20, inputs=NAMED, **future)
    if which not in ("one input more", "other names", "none"):
        with pytest.raises(error, match=rf"{name}.*\b(inputs|lengths)\b"):
            learner.make().fit(X, **given)
