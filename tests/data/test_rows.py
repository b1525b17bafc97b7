"""Rows with missing values: their order, and what fills them."""

import numpy as np
from numpy.testing import assert_array_equal

from sklearn_onlineem.data.rows import Rows


def test_rows_with_gaps_are_put_together_by_what_they_lack(rng):
    X = np.where(rng.random((300, 10)) < 0.2, np.nan, rng.normal(size=(300, 10)))
    X[7], X[8] = np.nan, 1.0
    data = Rows(X, rng.random(300), rng.integers(-1, 3, 300).astype(np.intc), has_gaps=True)
    (whole, complete), (numbers, gaps) = data.by_completeness()
    assert_array_equal(whole, np.flatnonzero(~np.isnan(X).any(axis=1)))
    assert_array_equal(np.sort(np.concatenate([whole, numbers])), np.arange(300))
    for chosen, part in ((whole, complete), (numbers, gaps)):
        assert_array_equal(part.X, X[chosen])
        assert_array_equal(part.sample_weight, data.sample_weight[chosen])
        assert_array_equal(part.labels, data.labels[chosen])
    assert gaps.has_gaps and not complete.has_gaps
    changes = (np.isnan(gaps.X[1:]) != np.isnan(gaps.X[:-1])).any(axis=1).sum()
    assert changes + 1 == len(np.unique(np.isnan(gaps.X), axis=0))
    assert data.by_completeness()[1][1] is gaps
    ((every, only),) = Rows(X[whole], has_gaps=True).by_completeness()
    assert len(every) == len(whole) and not only.has_gaps


def test_gaps_are_filled_with_values_of_the_column():
    X = np.array([[1.0, np.nan, np.nan], [np.nan, 2.0, np.nan], [3.0, np.nan, np.nan]])
    filled = Rows(X, has_gaps=True).filled()
    assert_array_equal(filled.X[:, :2], [[1.0, 2.0], [1.0, 2.0], [3.0, 2.0]])
    assert np.isin(filled.X[:, 2], [1.0, 2.0, 3.0]).all() and not filled.has_gaps
