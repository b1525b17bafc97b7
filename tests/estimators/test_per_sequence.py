"""Transformers of rows for sequences: what they refuse, and that they stay as they were."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import PerSequence
from sklearn_onlineem.em import Online

SEQUENCES = [np.arange(6.0).reshape(3, 2), np.ones((2, 2))]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "transformer", [None, "scale", np.ones(3), Online(), BaseEstimator(), StandardScaler]
)
def test_what_transforms_nothing_is_refused(transformer, method):
    with pytest.raises((TypeError, ValueError), match="PerSequence"):
        getattr(PerSequence(transformer), method)(SEQUENCES)


@pytest.mark.parametrize("method", ["transform", "inverse_transform", "get_feature_names_out"])
@pytest.mark.parametrize("transformer", [None, np.ones(3), StandardScaler, StandardScaler()])
def test_what_is_not_fitted_says_so(transformer, method):
    with pytest.raises(NotFittedError):
        getattr(PerSequence(transformer), method)(SEQUENCES)


def test_a_batch_that_is_refused_changes_nothing():
    stream = PerSequence(StandardScaler()).partial_fit(SEQUENCES)
    before = copy.deepcopy(vars(stream.transformer_))
    with pytest.raises(ValueError, match="sparse"):
        stream.partial_fit(sparse.csr_array(SEQUENCES[0]))
    assert vars(stream.transformer_).keys() == before.keys()
    for name, value in before.items():
        assert_array_equal(getattr(stream.transformer_, name), value)


def test_transformers_that_require_targets_get_those_of_rows(rng):
    X = [rng.standard_normal((n, 3)) for n in (9, 5, 30)]
    y = [rng.integers(0, 3, len(part)) for part in X]
    names = [np.array([*"abc"])[part] for part in y]
    expected = LinearDiscriminantAnalysis().fit(np.concatenate(X), np.concatenate(y))
    for labels in (y, names, np.concatenate(names)):
        found = PerSequence(LinearDiscriminantAnalysis()).fit(X, labels).transform(X)
        assert [len(part) for part in found] == [9, 5, 30]
        assert_array_equal(np.concatenate(found), expected.transform(np.concatenate(X)))
    with pytest.raises(ValueError, match=r"PerSequence: y\[0\] has 5 entries"):
        PerSequence(LinearDiscriminantAnalysis()).fit(X, y[::-1][1:] + y[:1])
