"""The adapter to river, under river's own checks, pipelines and validation."""

import pickle
import re
from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases.guide import blocks_of
from numpy.testing import assert_array_equal
from sklearn.impute import SimpleImputer

from sklearn_onlineem import (
    AnomalyDetector,
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    MultinomialMixture,
    PoissonMixture,
    PrequentialSearch,
    StreamPipeline,
)

HAS_RIVER = find_spec("river") is not None
pytestmark = pytest.mark.skipif(not HAS_RIVER, reason="river is not installed")
if HAS_RIVER:
    from river import checks, datasets, evaluate, metrics, preprocessing

    from sklearn_onlineem.interop.river import RiverClusterer, RiverDetector


def mixture(**parameters):
    return GaussianMixture(2, random_state=0, **parameters)


class Cards:
    """Rows as those of river's CreditCard, which has to be downloaded: few lie apart."""

    def take(self, n):
        rng = np.random.default_rng(0)
        for number in range(n):
            is_odd = int(number % 50 == 30)
            row = rng.normal(size=30) + 4.0 * is_odd
            yield {f"V{column}": float(value) for column, value in enumerate(row)}, is_odd


def yielded():
    """river's checks of the adapters, with rows that are at hand."""
    if not HAS_RIVER:
        return []
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(datasets, "CreditCard", Cards)
        return [
            pytest.param(kind, check, id=f"{kind.__name__}-{check.__name__}")
            for kind in (RiverClusterer, RiverDetector)
            for check in checks.yield_checks(kind(mixture()))
        ]


@pytest.mark.parametrize("kind, check", yielded())
def test_rivers_checks(kind, check):
    model = kind(mixture())
    if check.__name__ in model._unit_test_skips():
        # They want other keys than the first, and these are refused.
        with pytest.raises(ValueError, match="RiverDetector: 'V.* is new"):
            check(model)
    else:
        check(model)


def test_rivers_checks_are_many_and_few_are_left_out():
    names = {check.values[1].__name__ for check in yielded()}
    assert {"check_roc_auc", "check_bounded_memory_growth", "check_pickling"} <= names
    left_out = RiverDetector(mixture())._unit_test_skips()
    assert len(left_out) == 1 and len(names - left_out) > 20


@pytest.fixture
def rows(rng):
    return 6.0 * rng.integers(2, size=(400, 1)) + rng.normal(size=(400, 2))


def test_it_learns_and_answers_as_its_estimator(rows):
    model, ours = RiverClusterer(mixture()), mixture()
    x = {"b": rows[0, 1], "a": rows[0, 0]}
    assert (model.predict_one(x), model.score_one(x), model.predict_proba_one(x)) == (0, 0.0, {})
    for a, b in rows[:300].tolist():
        model.learn_one({"b": b, "a": a})
        ours.partial_fit([[a, b]])
    assert model.keys == ["a", "b"]
    assert_array_equal(model.learner.means_, ours.means_)
    # Columns in any order.
    for kind in (pd.DataFrame, pl.DataFrame):
        model.learn_many(kind({"b": rows[300:, 1], "a": rows[300:, 0]}))
        ours.partial_fit(rows[300:])
    assert_array_equal(model.learner.means_, ours.means_)
    assert model.score_one(x) == -ours.score_samples(rows[:1])[0]
    assert model.predict_one(x) == ours.predict(rows[:1])[0] and type(model.predict_one(x)) is int
    assert model.predict_proba_one(x) == dict(enumerate(ours.predict_proba(rows[:1])[0]))
    assert model.centers[1] == {"a": ours.means_[1, 0], "b": ours.means_[1, 1]}
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.score_one(x) == model.score_one(x)
    fresh = model.clone()
    assert fresh.keys is None and not hasattr(fresh.estimator, "model_")


def test_weights(rows):
    model, ours = RiverClusterer(mixture()), mixture()
    for number, (a, b) in enumerate(rows.tolist()):
        model.learn_one({"a": a, "b": b}, w=number % 3)
        if number % 3:
            ours.partial_fit([[a, b]], sample_weight=[number % 3])
    assert_array_equal(model.learner.means_, ours.means_)


def test_keys_are_columns(rows):
    model = RiverClusterer(MultinomialMixture(2, random_state=0))
    rows = np.abs(rows)
    for wrong, message in [
        ({"a": 1.0, "b": "high"}, "'b' must be a number, got 'high'"),
        ({"a": 1.0, "b": None}, "MultinomialMixture: X contains NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.learn_one(wrong)
    assert model.keys is None
    for a, b in rows.tolist():
        model.learn_one({"a": a, "b": b})
    before = model.learner.means_.copy()
    for method in (model.learn_one, model.predict_one, model.predict_proba_one, model.score_one):
        with pytest.raises(
            ValueError, match="RiverClusterer: 'c', 3 is new; the columns are 'a', 'b'"
        ):
            method({"a": 1.0, "b": 2.0, "c": 3.0, 3: 4.0})
        with pytest.raises(
            ValueError, match="RiverClusterer: 'b' is missing. MultinomialMixture: X con"
        ):
            method({"a": 1.0})
    with pytest.raises(ValueError, match="RiverClusterer: 'c' is new"):
        model.learn_many(pd.DataFrame({"a": [1.0], "b": [1.0], "c": [1.0]}))
    with pytest.raises(ValueError, match="RiverClusterer: 'a' is missing"):
        model.learn_many(pd.DataFrame({"b": [1.0]}))
    assert_array_equal(model.learner.means_, before)


def test_missing_keys_are_integrated_out(rows):
    model, ours = RiverClusterer(mixture()), mixture()
    for number, (a, b) in enumerate(rows.tolist()):
        is_gap = number % 7 == 1
        model.learn_one({"b": b} if is_gap else {"a": a, "b": b})
        ours.partial_fit([[np.nan if is_gap else a, b]])
    assert_array_equal(model.learner.means_, ours.means_)
    assert model.score_one({"a": 1.0, "b": None}) == -ours.score_samples([[1.0, np.nan]])[0]


def test_gaps_are_filled_by_those_that_take_them(rows):
    steps = [("imputer", SimpleImputer(strategy="constant")), ("mixture", mixture())]
    filled, gaps = RiverClusterer(mixture()), RiverClusterer(StreamPipeline(steps))
    for number, (a, b) in enumerate(rows.tolist()):
        is_gap = number % 7 == 1
        filled.learn_one({"a": a, "b": 0.0 if is_gap else b})
        gaps.learn_one({"a": a} if is_gap else {"a": a, "b": b})
    assert_array_equal(gaps.learner["mixture"].means_, filled.learner.means_)
    assert gaps.score_one({"a": 1.0}) == filled.score_one({"a": 1.0, "b": 0.0})


def test_searches(rows):
    model = RiverClusterer(
        PrequentialSearch(GaussianMixture(random_state=0), {"n_components": [1, 2]})
    )
    for a, b in rows.tolist():
        model.learn_one({"a": a, "b": b})
    assert model.learner.best_params_ == {"n_components": 2}
    assert model.score_one({"a": 99.0, "b": 0.0}) > 100.0


def test_detectors_score_as_their_estimators(rows):
    model = RiverDetector(AnomalyDetector(mixture()))
    for a, b in rows.tolist():
        model.learn_one({"a": a, "b": b})
    assert model.predict_one({"a": 99.0, "b": 0.0}) == -1
    assert model.score_one({"a": 1.0, "b": 2.0}) == -model.learner.score_samples([[1.0, 2.0]])[0]


def test_others_than_rows_are_refused():
    for estimator in (GaussianHMM(), EditDistance(), SimpleImputer()):
        name = type(estimator).__name__
        with pytest.raises(TypeError, match=f"RiverClusterer must learn rows .* got {name}"):
            RiverClusterer(estimator)


def test_progressive_validation_in_a_pipeline():
    odd, noise = list(Cards().take(1500)), np.random.default_rng(0).normal(size=(500, 2))
    model = preprocessing.StandardScaler() | RiverDetector(GaussianMixture(covariance_type="diag"))
    found = evaluate.progressive_val_score(odd, model, metrics.RollingROCAUC(window_size=1000))
    assert found.get() > 0.9
    apart = [({"a": 9.0 * (i % 3) + a, "b": b}, None) for i, (a, b) in enumerate(noise.tolist())]
    model = preprocessing.StandardScaler() | RiverClusterer(GaussianMixture(3, random_state=0))
    # The silhouette compares distances to the nearest centre and to the next.
    found = evaluate.progressive_val_score(apart, model, metrics.Silhouette())
    assert 0.1 < found.get() < 0.6
    assert {*model["RiverClusterer"].centers} == {0, 1, 2}
    counts = [({"n": 9.0 * (i % 2) + 1.0}, i % 2) for i in range(400)]
    # With given means, components keep their order.
    model = RiverClusterer(PoissonMixture(2, means_init=[[1.0], [10.0]]))
    assert evaluate.progressive_val_score(counts, model, metrics.AdjustedRand()).get() > 0.9


def test_the_page_prints_what_it_says(capsys):
    code = "".join(blocks_of("from_river.rst"))
    exec(code, {})
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, flags=re.M)
    assert capsys.readouterr().out.splitlines() == expected and len(expected) > 2
