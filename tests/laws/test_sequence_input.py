"""What holds for every estimator of sequences, in whatever form its data and labels come."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases.comparing import assert_identical
from cases.sequence_cases import (
    all_models,
    flat,
)
from cases.states import state_of
from numpy.testing import assert_allclose, assert_array_equal

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
