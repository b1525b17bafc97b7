"""Symbols of sequences: letters, texts and categories keep their names; codes may begin at 1."""

import copy

import numpy as np
import pandas as pd
import pytest
from cases.comparing import assert_identical
from numpy.testing import assert_array_equal

from sklearn_onlineem import (
    HMM,
    CategoricalHMM,
    CategoricalMixture,
    MarkovChainMixture,
    Mixture,
    combine_estimators,
)
from sklearn_onlineem.families import Categorical, MixtureOf

WORDS = ["abab" * 5 + "cc" * 8, "ccab" * 6, "c" * 9 + "ab" * 7, "abc"]
CODES = [np.array(["abc".index(letter) for letter in word]) for word in WORDS]
estimators = pytest.mark.parametrize(
    "estimator",
    [
        CategoricalHMM(2, random_state=0),
        MarkovChainMixture(2, random_state=0),
        HMM(2, family=MixtureOf(Categorical()), random_state=0),
    ],
    ids=repr,
)


def columns(parts, kind=object):
    return [np.array(list(part), dtype=kind)[:, None] for part in parts]


def forms():
    letters = columns(WORDS)
    flat, lengths = np.concatenate(letters), [len(word) for word in WORDS]
    yield letters, {}
    yield flat, {"lengths": lengths}
    yield flat, {"groups": np.repeat(["u", "v", "w", "x"], lengths)}
    yield columns(WORDS, str), {}
    frames = [pd.DataFrame({"s": list(word)}) for word in WORDS]
    yield frames, {}
    yield [frame.astype(pd.CategoricalDtype(list("abc"))) for frame in frames], {}


@estimators
def test_letters_are_learnt_as_their_codes(estimator):
    coded = copy.deepcopy(estimator).fit([code[:, None] for code in CODES])
    expected = coded.score([code[:, None] for code in CODES])
    for X, where in forms():
        named = copy.deepcopy(estimator).fit(X, **where)
        assert named.score(X, **where) == expected
        assert named.categories_[0].tolist() == list("abc")
        named.partial_fit(X, **where)
    assert_array_equal(coded.categories_[0], [0, 1, 2])


@pytest.mark.parametrize("make", [CategoricalHMM, MarkovChainMixture])
def test_texts_are_sequences_of_letters(make):
    texts, letters = (make(2, random_state=0).fit(X) for X in (WORDS, columns(WORDS)))
    assert texts.score(WORDS) == letters.score(WORDS) == texts.score(columns(WORDS))
    assert texts.score(np.array(WORDS)) == texts.score([np.array(list(word)) for word in WORDS])
    for bad, message in [
        (["ab", ""], "Sequence 1 of X is empty"),
        (["ab", 3], "Sequence 1 of X is no text"),
        (["abz"], "unknown category 'z' in column 0: the first data have 'a', 'b', 'c'"),
        (columns(CODES, int), "unknown category 0"),
    ]:
        before = texts.model_
        for method in (texts.score, texts.partial_fit):
            with pytest.raises(ValueError, match=f"{make.__name__}.*{message}"):
                method(bad)
        assert texts.model_ is before


@estimators
def test_draws_have_the_names(estimator):
    X = columns(WORDS)
    named, coded = (copy.deepcopy(estimator).fit(x) for x in (X, columns(CODES, int)))
    drawn, codes = (np.concatenate(e.sample(9)[0]).ravel() for e in (named, coded))
    assert_array_equal(drawn, np.array(list("abc"))[codes.astype(int)])


def test_forecasts_and_live_filters_have_the_names():
    named = CategoricalHMM(2, random_state=0).fit(WORDS)
    coded = CategoricalHMM(2, random_state=0).fit(CODES)
    found, codes = named.forecast(WORDS[:1], 3)[0], coded.forecast(CODES[:1], 3)[0]
    assert_array_equal(found[:, 0], np.array(list("abc"))[codes[:, 0].astype(int)])
    live, of_codes = named.live_filter(), coded.live_filter()
    for letter, code in zip("acb", [[0], [2], [1]], strict=True):
        assert_array_equal(live.update([letter]), of_codes.update(code))
    assert_array_equal(live.update([None]), of_codes.update([np.nan]))
    assert live.forecast(2).ravel().tolist() == ["abc"[int(x)] for x in of_codes.forecast(2)[:, 0]]
    before = live.probabilities
    for bad in (["z"], [0]):
        with pytest.raises(ValueError, match="no category"):
            live.update(bad)
    assert live.probabilities is before and live.n_steps == 4


@pytest.mark.parametrize("make", [CategoricalMixture, lambda k: Mixture(k, family="categorical")])
def test_codes_from_one_up_have_no_unused_category(make):
    L = np.random.default_rng(0).integers(1, 4, (200, 3))
    L[:, 2] = 1 + L[:, 2] % 2
    tables = L, L - 1, L.astype(str), pd.DataFrame(L), pd.DataFrame(L).astype("category"), L * 1.0
    fits = [make(1).fit(X) for X in tables]
    for mixture, X in zip(fits, tables, strict=True):
        assert mixture.bic(X) == pytest.approx(fits[0].bic(L), rel=1e-12)
        assert [len(names) for names in mixture.categories_] == [3, 3, 2]
    assert fits[0].categories_[0].tolist() == [1, 2, 3]
    drawn = fits[0].sample(50)[0]
    assert drawn.dtype == np.float64 and set(drawn[:, 2]) == {1.0, 2.0}
    with pytest.raises(ValueError, match="unknown category 0 in column 0: the first data have 1"):
        fits[0].score(L - 1)
    with_gap = np.where(np.arange(3) == 1, np.nan, L)[:5]
    assert np.isfinite(fits[0].score(with_gap))


@pytest.mark.parametrize("make", [CategoricalHMM, MarkovChainMixture])
def test_so_have_sequences(make):
    ones = [code[:, None] + 1 for code in CODES]
    X = [code[:, None] for code in CODES]
    from_one, from_zero = make(2, random_state=0).fit(ones), make(2, random_state=0).fit(X)
    assert from_one.bic(ones) == from_zero.bic(X)
    assert from_one.categories_[0].tolist() == [1, 2, 3]
    assert set(np.concatenate(from_one.sample(99)[0]).ravel()) == {1, 2, 3}


def test_codes_count_from_zero_where_that_is_told_or_data_are_not_all():
    ones = [code[:, None] + 1 for code in CODES]
    given = np.full((1, 4), 0.25)
    for arguments in (
        {"n_features": 4},
        {"emissionprob_init": given},
        {"emissionprob_prior": np.full((1, 4), 1.5)},
        {"params": {"emissionprob": np.array([[False, True, True, True]])}},
    ):
        assert CategoricalHMM(1, **arguments).fit(ones).emissionprob_.shape == (1, 4)
    # A first batch may lack some symbols.
    stream = CategoricalHMM(1).partial_fit(ones[:1]).partial_fit([[[0], [3]]])
    assert stream.categories_[0].tolist() == [0, 1, 2, 3]
    assert MarkovChainMixture(1).partial_fit(ones[:1]).startprob_.shape == (1, 4)


@pytest.mark.parametrize("make", [CategoricalMixture, CategoricalHMM])
def test_another_fit_has_the_symbols_of_its_data_alone(make):
    before, data = (np.array([*letters] * 4, dtype=object)[:, None] for letters in ("ab", "cde"))
    again, alone = make(random_state=0).fit(before).fit(data), make(random_state=0).fit(data)
    assert_array_equal(again.categories_, [["c", "d", "e"]])
    assert_identical(again.model_, alone.model_)


@pytest.mark.parametrize("make", [CategoricalHMM, MarkovChainMixture])
def test_learnt_priors_keep_the_names(make):
    prior = make(1).fit(WORDS).as_prior(1e6)
    later = make(1, prior=prior).fit(["cccb", "cb"])
    assert later.categories_[0].tolist() == list("abc")
    assert later.score(["abab"]) == pytest.approx(make(1).fit(WORDS).score(["abab"]), rel=1e-3)
    with pytest.raises(ValueError, match="unknown category 'z'"):
        make(1, prior=prior).fit(["zc"])


@pytest.mark.parametrize("make", [CategoricalHMM, MarkovChainMixture])
def test_members_with_other_symbols_are_not_merged(make):
    members = [make(1).fit(WORDS), make(1).fit(["xyz", "zyx"])]
    with pytest.raises(ValueError, match="categor"):
        combine_estimators(members)
    assert combine_estimators(members[:1] * 2).categories_[0].tolist() == list("abc")
