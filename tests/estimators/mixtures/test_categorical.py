"""Latent class analysis: numbers of categories, and texts and categories of tables."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases.comparing import assert_close
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from sklearn_onlineem import HMM, CategoricalMixture, Mixture, combine_estimators
from sklearn_onlineem.diagnostics import standard_errors
from sklearn_onlineem.displays import MixtureDisplay
from sklearn_onlineem.families import Categorical

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SIZES = (2, 4, 3, 2)


def codes(rng, n=500):
    """Of two classes of rows; columns have 2, 4, 3 and 2 categories."""
    kind = rng.integers(0, 2, n)
    X = np.column_stack([rng.integers(0, size, n) for size in SIZES])
    likely = np.where(kind[:, None] == 1, np.array(SIZES) - 1, 0)
    return kind, np.where(rng.random(X.shape) < 0.8, likely, X).astype(float)


def table(X):
    """The same as texts, and as categories in another order than the alphabet's."""
    texts = {
        "answer": np.array(["no", "yes"])[X[:, 0].astype(int)],
        "region": np.array(["a", "b", "c", "d"])[X[:, 1].astype(int)],
        "level": pd.Categorical.from_codes(X[:, 2].astype(int), ["low", "middle", "high"]),
        "code": X[:, 3].astype(int),
    }
    return pd.DataFrame(texts)


def test_classes_are_found_and_columns_have_their_own_probabilities(rng):
    kind, X = codes(rng)
    mixture = CategoricalMixture(2, random_state=0).fit(X)
    assert adjusted_rand_score(kind, mixture.predict(X)) > 0.9
    assert [p.shape for p in mixture.probabilities_] == [(2, size) for size in SIZES]
    for p in mixture.probabilities_:
        assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    by_hand = np.log(mixture.weights_) + sum(
        np.log(p.T[x]) for p, x in zip(mixture.probabilities_, X.T.astype(int), strict=True)
    )
    assert_allclose(mixture.score_samples(X), np.logaddexp(*by_hand.T), rtol=1e-10)
    assert_array_equal([len(c) for c in mixture.categories_], SIZES)


def test_what_no_column_can_have_is_no_parameter(rng):
    _, X = codes(rng)
    n_parameters = 2 * sum(size - 1 for size in SIZES) + 1
    mixture = CategoricalMixture(2, random_state=0).fit(X)
    assert mixture.model_.n_parameters() == n_parameters
    penalty = mixture.bic(X) + 2.0 * len(X) * mixture.score(X)
    assert_allclose(penalty, n_parameters * np.log(len(X)), rtol=1e-9)
    # Nor has it pseudo-counts of the default prior.
    wide = CategoricalMixture(2, n_categories=4, random_state=0).fit(X)
    assert wide.model_.n_parameters() == 2 * 4 * 3 + 1
    assert wide.bic(X) > mixture.bic(X) + 60.0
    assert mixture.score(X) > wide.score(X)
    for family in ("categorical", {(0, 1, 2, 3): "categorical"}, {0: "categorical"}):
        if isinstance(family, dict) and len(family) == 1 and 0 in family:
            family = dict.fromkeys(range(4), "categorical")
        same = Mixture(2, family=family, random_state=0).fit(X)
        assert same.model_.n_parameters() == n_parameters
        assert_allclose(same.score(X), mixture.score(X), atol=1e-3)


def test_numbers_of_categories_may_be_given(rng):
    _, X = codes(rng)
    for sizes in ([2, 4, 3, 2], np.array([2, 4, 3, 2])):
        given = CategoricalMixture(2, n_categories=sizes, random_state=0).fit(X[:3])
        given.partial_fit(X)
        assert [p.shape[1] for p in given.probabilities_] == list(SIZES)
    with pytest.raises(ValueError, match=r"CategoricalMixture.*0\.\.2 in column 1.*n_categories"):
        CategoricalMixture(2, random_state=0).fit(X[X[:, 1] < 3.0]).predict(X)
    for sizes, message in (
        ([2, 4, 3], "4 columns"),
        ([2, 4, 3, 0], "whole numbers from 1"),
        ([[2], [4]], "whole numbers from 1"),
        ([2.5, 4, 3, 2], "whole numbers from 1"),
        ([2, 4, 2, 2], r"0\.\.1 in column 2"),
        (0, "n_categories"),
    ):
        with pytest.raises(ValueError, match=message):
            CategoricalMixture(2, n_categories=sizes).fit(X)


@pytest.mark.parametrize(
    "sizes", [(2, 4, 3, 2), [2, 4, 3, 2], np.array([2, 4, 3, 2]), [2, None, 3, 2]]
)
def test_families_take_numbers_of_categories_of_any_sequence(sizes, rng):
    _, X = codes(rng)
    for make in (Mixture, HMM):
        given, known = (
            make(2, family=Categorical(n_categories=n), max_iter=5, random_state=0).fit(X)
            for n in (sizes, SIZES)
        )
        assert given.score(X) == known.score(X)


@pytest.mark.parametrize("sizes", [0, 2.5, "3", (), (2, 0), (2, 2.0), {0: 3}, [[2], [3]], 1 << 21])
def test_families_refuse_what_is_no_number_of_categories(sizes):
    with pytest.raises(ValueError, match="n_categories must be whole numbers from 1 to 1048576"):
        Categorical(n_categories=sizes)


FORMS = {
    "pandas": lambda frame: frame,
    "objects": lambda frame: frame.to_numpy(dtype=object),
    "lists": lambda frame: frame.to_numpy(dtype=object).tolist(),
    "polars": lambda frame: pl.from_pandas(frame.astype({"level": str})),
    "strings": lambda frame: frame.astype({"answer": "string", "region": "string"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_texts_and_categories_are_codes(form, rng):
    _, X = codes(rng)
    frame = table(X)
    made = FORMS[form](frame)
    mixture = CategoricalMixture(2, random_state=0).fit(made)
    expected = CategoricalMixture(2, random_state=0).fit(X)
    answer, region, level, code = mixture.categories_
    assert answer.tolist() == ["no", "yes"] and region.tolist() == ["a", "b", "c", "d"]
    declared = ["low", "middle", "high"] if form in ("pandas", "strings") else sorted(set(level))
    assert level.tolist() == declared and code.tolist() == [0, 1]
    assert_allclose(mixture.score(made), expected.score(X), rtol=1e-6)
    order = [list(level).index(x) for x in ("low", "middle", "high")]
    found = mixture.probabilities_[2][:, order]
    assert_allclose(found, expected.probabilities_[2], atol=1e-3)
    if form in ("pandas", "strings"):
        assert_close(mixture.probabilities_, expected.probabilities_)
    # Other rows, and another order of rows, have the same codes.
    part = FORMS[form](frame[::-7])
    assert_allclose(mixture.score_samples(part), mixture.score_samples(made)[::-7], rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_unknown_categories_are_refused_by_the_known_ones(form, rng):
    _, X = codes(rng)
    frame = table(X)
    mixture = CategoricalMixture(2, random_state=0).fit(FORMS[form](frame))
    before = mixture.model_
    frame.loc[3, "region"] = "north"
    column = "'region'" if hasattr(FORMS[form](frame), "columns") else "1"
    message = rf"CategoricalMixture.*unknown category 'north' in column {column}.*'a', 'b', 'c'"
    for method in (mixture.predict, mixture.partial_fit, mixture.score):
        with pytest.raises(ValueError, match=message):
            method(FORMS[form](frame))
    assert mixture.model_ is before


def test_declared_categories_may_come_later(rng):
    _, X = codes(rng)
    frame, stream = table(X), CategoricalMixture(2, random_state=0)
    for column in ("answer", "region"):
        frame[column] = frame[column].astype("category")
    first = frame[frame["region"] != "d"][:30]
    stream.partial_fit(first)
    assert stream.categories_[1].tolist() == ["a", "b", "c", "d"]
    stream = pickle.loads(pickle.dumps(stream)).partial_fit(frame)
    assert stream.probabilities_[1].shape == (2, 4)
    assert stream.categories_[0].tolist() == ["no", "yes"]


def test_families_by_columns_number_their_nominal_columns_alone(rng):
    kind, X = codes(rng)
    frame = table(X).assign(age=rng.normal(40.0 + 9.0 * kind, 3.0))
    family = {("answer", "region"): "categorical", ("level", "code"): Categorical(), "age": "gamma"}
    mixture = Mixture(2, family=family, random_state=0).fit(frame)
    assert adjusted_rand_score(kind, mixture.predict(frame)) > 0.9
    assert [len(c) for c in mixture.categories_] == list(SIZES)
    hmm = HMM(2, family=family, random_state=0).fit(frame)
    assert hmm.categories_[1].tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="Mixture.*strings that are not numbers"):
        Mixture(2, family={**family, ("level", "code"): "poisson"}).fit(frame)
    named = Mixture(2, family="categorical", random_state=0).fit(table(X))
    assert named.categories_[0].tolist() == ["no", "yes"]
    assert Mixture(2, random_state=0).fit(X).categories_ == []


def test_missing_categories_are_nan(rng):
    _, X = codes(rng)
    frame, family = table(X), {(0, 1, 2, 3): "categorical"}
    gaps = frame.astype(object)
    gaps.iloc[3, 0], gaps.iloc[4, 1], gaps.iloc[5, 2] = None, np.nan, pd.NA
    hmm = HMM(2, family=family, random_state=0).fit(gaps)
    assert hmm.categories_[0].tolist() == ["no", "yes"]
    X[3, 0] = X[4, 1] = X[5, 2] = np.nan
    known = HMM(2, family=family, random_state=0).fit(X)
    assert_allclose(hmm.score(gaps), known.score(X), rtol=1e-4)


def test_estimators_of_other_categories_do_not_merge(rng):
    _, X = codes(rng)
    frame = table(X)
    other = frame.assign(region=frame["region"].str.upper())
    members = [CategoricalMixture(2, random_state=0).fit(part) for part in (frame, other)]
    with pytest.raises(ValueError, match=r"estimators\[1\].*other categories of column 1"):
        combine_estimators(members)
    members = [CategoricalMixture(2, random_state=0).fit(frame[i::2]) for i in range(2)]
    merged = combine_estimators(members)
    assert merged.categories_[1].tolist() == ["a", "b", "c", "d"]
    assert np.isfinite(merged.score(frame))


def test_columns_of_several_numbers_of_categories_are_drawn(rng):
    pytest.importorskip("matplotlib").use("agg")
    _, X = codes(rng)
    frame = table(X)
    fitted = CategoricalMixture(2, random_state=0).fit(frame)
    display = MixtureDisplay.from_estimator(fitted, frame)
    assert len(display.ax_) == 4


def test_standard_errors_of_columns_of_several_numbers_of_categories(rng):
    _, X = codes(rng)
    fitted = CategoricalMixture(1, prior=None).fit(X)
    errors = standard_errors(fitted, X).errors["probabilities_"]
    p = np.concatenate(fitted.probabilities_, axis=1)
    assert_allclose(errors, np.sqrt(p * (1.0 - p) / len(X)), rtol=1e-6)
