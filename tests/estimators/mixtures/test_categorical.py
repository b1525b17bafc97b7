"""Latent class analysis: numbers of categories, and texts and categories of tables."""

import pickle
from functools import partial
from itertools import cycle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases.comparing import assert_close, assert_identical
from cases.states import state_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from sklearn_onlineem import (
    HMM,
    CategoricalHMM,
    CategoricalMixture,
    MarkovChainMixture,
    Mixture,
    combine_estimators,
)
from sklearn_onlineem.diagnostics import standard_errors
from sklearn_onlineem.em import Online
from sklearn_onlineem.families import Categorical

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
    of_columns = dict.fromkeys(range(4), "categorical")
    for family in ("categorical", {(0, 1, 2, 3): "categorical"}, of_columns):
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


@pytest.mark.parametrize("sizes", [[2, 4, 3, 2], np.array(SIZES), [2, None, 3, 2]])
def test_families_take_numbers_of_categories_of_any_sequence(sizes, rng):
    _, X = codes(rng)
    for make in (Mixture, HMM):
        given, known = (
            make(2, family=Categorical(n_categories=n), max_iter=5, random_state=0).fit(X)
            for n in (sizes, SIZES)
        )
        assert given.score(X) == known.score(X)


TEXTS = ["answer", "region", "level"]
FORMS = {
    "pandas": lambda frame: frame,
    "objects": lambda frame: frame.to_numpy(dtype=object),
    "lists": lambda frame: frame.to_numpy(dtype=object).tolist(),
    "polars": lambda frame: pl.from_pandas(frame.astype({"level": str})),
    "polars categories": lambda frame: pl.from_pandas(frame.astype({"level": str})).cast(
        dict.fromkeys(TEXTS, pl.Categorical)
    ),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame.astype({"level": str})),
    "Arrow strings": lambda frame: frame.astype(dict.fromkeys(TEXTS, "string[pyarrow]")),
    "Arrow codes": lambda frame: frame.astype(dict.fromkeys(TEXTS, str)).astype(
        dict.fromkeys(TEXTS, pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    ),
    "strings": lambda frame: frame.astype({"answer": "string", "region": "string"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_texts_and_categories_are_codes(form, rng):
    kind, X = codes(rng)
    frame = table(X)
    made = FORMS[form](frame)
    # Codes in another order would have another start.
    settings = {"init": 0.1 + 0.8 * np.eye(2)[kind], "random_state": 0}
    mixture = CategoricalMixture(2, **settings).fit(made)
    expected = CategoricalMixture(2, **settings).fit(X)
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
    frame["region"] = frame["region"].astype("category")
    stream.partial_fit(frame[frame["region"] != "d"][:30])
    assert stream.categories_[1].tolist() == ["a", "b", "c", "d"]
    stream = pickle.loads(pickle.dumps(stream)).partial_fit(frame)
    assert stream.probabilities_[1].shape == (2, 4)


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
    members.append(CategoricalMixture(2, random_state=0).fit(X))  # of codes
    for others in ([0, 1], [0, 2], [2, 0]):
        with pytest.raises(ValueError, match=r"estimators\[1\].*categories=.*declare all"):
            combine_estimators([members[i] for i in others])
    members = [CategoricalMixture(2, random_state=0).fit(frame[i::2]) for i in range(2)]
    merged = combine_estimators(members)
    assert merged.categories_[1].tolist() == ["a", "b", "c", "d"]
    assert np.isfinite(merged.score(frame))


def test_standard_errors_of_columns_of_several_numbers_of_categories(rng):
    _, X = codes(rng)
    fitted = CategoricalMixture(1, prior=None).fit(X)
    errors = standard_errors(fitted, X).errors["probabilities_"]
    p = np.concatenate(fitted.probabilities_, axis=1)
    assert_allclose(errors, np.sqrt(p * (1.0 - p) / len(X)), rtol=1e-6)


# ------------------------------------------------------------- the same categories, in other types

GROUPS = {("a", "b"): "categorical", "n": "poisson"}
MAKERS = {
    "CategoricalMixture": partial(CategoricalMixture, 2, random_state=0, max_iter=5),
    "Mixture": partial(Mixture, 2, family="categorical", random_state=0, max_iter=5),
    "HMM": partial(HMM, 2, family="categorical", random_state=0, max_iter=5),
    "Mixture of groups": partial(Mixture, 2, family=GROUPS, random_state=0, max_iter=5),
    "HMM of groups": partial(HMM, 2, family=GROUPS, random_state=0, max_iter=5),
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
LIKE_NUMBERS = {
    "float": lambda X: X.astype(float),
    "integers": lambda X: X.astype("Int64"),
    "array": lambda X: X.to_numpy(dtype=float, na_value=np.nan),
    "lists": lambda X: X.to_numpy(dtype=object).tolist(),
    "polars": lambda X: pl.from_pandas(X.astype(float)),
    "pyarrow": lambda X: pa.Table.from_pandas(X.astype(float), preserve_index=False),
}
LIKE_CODES = {
    "texts": lambda X: X.astype(str),
    "codes": lambda X: X.astype(float) - 1.0,
    "bools": lambda X: X.astype(float) > 2.0,
}


def declared(rng, make, gap=False):
    """Categories in an order that is not that of the numbers; with a number if there are groups."""
    codes = rng.integers(0, 3, (60, 2))
    codes[:, 1] = np.where(rng.random(60) < 0.8, codes[:, 0], codes[:, 1])
    codes[0] = -1 if gap else 0
    columns = {
        name: pd.Categorical.from_codes(x, [3, 1, 2]) for name, x in zip("ab", codes.T, strict=True)
    }
    counts = {"n": rng.poisson(1.0 + 3.0 * (codes[:, 0] == 0))}
    return pd.DataFrame(columns | (counts if make.keywords.get("family") is GROUPS else {}))


@makers
@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_declared_categories_are_the_same_in_any_type(make, gap, rng):
    X = declared(rng, make, gap)
    fitted, named = make().fit(X), make().fit(X.astype({"a": str, "b": str}))
    assert [names.tolist() for names in fitted.categories_] == [[3, 1, 2]] * 2
    expected, before = fitted.predict_proba(X), state_of(named)
    for form in LIKE_NUMBERS.values():
        assert_identical(fitted.predict_proba(form(X)), expected)
    for form in LIKE_CODES.values():
        for method in (fitted.predict, fitted.partial_fit, fitted.score):
            with pytest.raises(ValueError, match="has the unknown category"):
                method(X.assign(b=form(X["b"])))
    for form in (*LIKE_NUMBERS.values(), LIKE_CODES["codes"]):
        for method in (named.predict, named.partial_fit):
            with pytest.raises(ValueError, match="has the unknown category"):
                method(form(X))
    assert_identical(state_of(named), before)


@makers
def test_a_second_fit_is_as_a_first_one(make, rng):
    X = declared(rng, make)
    texts = X.astype({"a": str, "b": str})
    others = [texts, texts.replace({"1": "x"}), X.astype(int), X[X["a"] != 2], X[X.columns[::-1]]]
    if "n" not in X:
        others += [X[["b"]], texts.assign(c=texts["a"]), X.to_numpy(dtype=int)]
    for first, other in zip(cycle((X, texts)), others, strict=False):
        again, fresh = make().fit(first).fit(other), make().fit(other)
        assert_identical(state_of(again), state_of(fresh))
        assert_identical(again.categories_, fresh.categories_)


@makers
def test_samples_have_the_categories(make, rng):
    X = declared(rng, make)
    for table in (X, X.astype({"a": str, "b": str})):
        fitted = make().fit(table)
        drawn, _ = fitted.sample(30)
        assert {*drawn[:, 0]} == {*table["a"]}
        frame = pd.DataFrame(drawn, columns=table.columns)
        assert_identical(fitted.score_samples(drawn), fitted.score_samples(frame))
        stream = make(solver=Online(sample=10)).partial_fit(pd.concat([table] * 20))
        kept = stream.sample_ if isinstance(stream, CategoricalMixture | Mixture) else []
        assert {*np.ravel([row[:2] for row in kept])} <= {*table["a"], *table["b"]}


STREAMS = {
    "CategoricalMixture": MAKERS["CategoricalMixture"],
    "HMM": MAKERS["HMM"],
    "groups": partial(Mixture, 2, family={0: "categorical"}, random_state=0),
    "CategoricalHMM": partial(CategoricalHMM, 2, random_state=0),
    "MarkovChainMixture": partial(MarkovChainMixture, 2, random_state=0),
}
streams = pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)


@streams
def test_a_symbol_may_come_last_in_the_first_call(make, rng):
    X = rng.integers(0, 3, (3000, 1))
    X[-1] = 5
    is_sequences = make.func not in (CategoricalMixture, Mixture)
    where = {"lengths": [20] * 150} if is_sequences else {}
    stream = make().partial_fit(X, **where)
    before = stream.score(X, **where)
    stream.partial_fit(X[-20:], **({"lengths": [20]} if is_sequences else {}))
    assert np.isfinite(before) and np.isfinite(stream.score(X, **where))


@streams
@pytest.mark.parametrize("code", [5000, (1 << 20) - 1, 2.0**31])
def test_codes_far_beyond_the_rows_are_refused(make, code):
    message = "the symbol" if make.func is MarkovChainMixture else "OrdinalEncoder"
    X = np.array([[[0], [code]], [[0], [1]]])
    for method in (make().fit, make().partial_fit):
        with pytest.raises(ValueError, match=f"{make.func.__name__}.*{message}"):
            method(X if make.func is MarkovChainMixture else X[0])


def test_there_may_be_as_many_categories_as_rows_or_as_asked_for():
    assert len(CategoricalMixture(1).fit(np.arange(5000)[:, None]).categories_[0]) == 5000
    given = CategoricalMixture(1, n_categories=5000).fit([[0], [4999]])
    assert len(given.categories_[0]) == 5000


NO_TABLES = {
    "a row": (["a", "x"], r"X must be of shape .* \(2,\)"),
    "dicts": ([{"answer": "a"}], "X has a dict"),
    "sets": ([[{1}, "x"]], "cannot be categories: .*'set'|a value of type 'set'"),
    "lists": (pd.DataFrame({"a": [["x"], "y"], "b": "z"}), "cannot be categories: .*'list'"),
    "rows of several lengths": ([["a", "x"], ["b"]], "rows of several lengths"),
    "parts of several lengths": ([[["a"], "x"], [["b"], "y"]], "several lengths|cannot be categ"),
}


@pytest.mark.parametrize(("X", "message"), NO_TABLES.values(), ids=NO_TABLES)
@pytest.mark.parametrize("make", [MAKERS["CategoricalMixture"], MAKERS["HMM"]])
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_what_is_no_table_of_categories(make, X, message):
    fitted = make().fit([["a", "x"], ["b", "y"]])
    before = state_of(fitted)
    for method in (fitted.predict, fitted.partial_fit, fitted.fit):
        with pytest.raises((TypeError, ValueError), match=f"{make.func.__name__}: .*({message})"):
            method(X)
    assert_identical(state_of(fitted), before)
