"""Batches of rows, sequences, strings and documents."""

import numpy as np
import pytest
from cases.comparing import arrays, assert_identical
from numpy.testing import assert_array_equal
from scipy import sparse

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import LengthDistribution, Sequences
from sklearn_onlineem.data.strings import StringPairs, Strings
from sklearn_onlineem.statistics import combine, pooled


def rows(rng):
    return Rows(rng.normal(size=(12, 3)).astype(np.float32), rng.random(12), None, n_threads=2)


def labelled_rows(rng):
    return Rows(rng.normal(size=(12, 3)), None, rng.integers(-1, 2, 12).astype(np.int32))


def sparse_rows(rng):
    return Rows(sparse.csr_array(rng.random((12, 3)) * (rng.random((12, 3)) < 0.4)))


def sequences(rng):
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 5, size=12))))
    return Sequences(Rows(rng.normal(size=(offsets[-1], 2))), offsets, np.array([0.5, 0.5]))


def strings(rng):
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 5, size=12))))
    return Strings(rng.integers(0, 4, size=offsets[-1]).astype(np.intc), offsets)


def string_pairs(rng):
    return StringPairs(strings(rng), strings(rng), n_threads=2)


BATCHES = [rows, labelled_rows, sparse_rows, sequences, string_pairs]
all_batches = pytest.mark.parametrize("draw", BATCHES, ids=lambda draw: draw.__name__)


def contents(batch):
    if isinstance(batch, Rows) and sparse.issparse(batch.X):
        return [batch.X.toarray()]
    return arrays(batch)


@all_batches
@pytest.mark.parametrize("cuts", [[12], [5, 12], [1, 2, 12]])
def test_slices_concatenate_to_the_whole(draw, cuts, rng):
    batch = draw(rng)
    parts = [batch[a:b] for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]
    assert_identical(contents(type(batch).concatenate(parts)), contents(batch))


@all_batches
def test_parts_have_what_the_whole_has(draw, rng):
    batch = draw(rng)
    first, rest = batch[:5], batch[np.arange(5, 12)]
    assert len(first) + len(rest) == len(batch) == 12
    assert first.n_rows + rest.n_rows == batch.n_rows
    np.testing.assert_allclose(first.total_weight + rest.total_weight, batch.total_weight)
    assert first.dtype == rest.dtype == batch.dtype
    assert first.n_threads == rest.n_threads == batch.n_threads


def test_rows_without_weights_or_labels_get_neutral_ones_beside_others(rng):
    plain, rich = (
        Rows(np.zeros((2, 1))),
        Rows(np.ones((1, 1)), np.array([3.0]), np.array([1], np.intc)),
    )
    both = Rows.concatenate([plain, rich])
    np.testing.assert_array_equal(both.sample_weight, [1.0, 1.0, 3.0])
    np.testing.assert_array_equal(both.labels, [-1, -1, 1])


def test_only_the_first_of_several_batches_may_continue_a_sequence(rng):
    with pytest.raises(ValueError, match="Only the first"):
        Sequences.concatenate([sequences(rng), sequences(rng)])


def test_length_distributions_add_up_like_other_statistics(rng):
    whole = sequences(rng)
    parts = [whole[:3], whole[3:7], whole[7:]]
    found = pooled([(len(part), part.length_distribution) for part in parts])
    np.testing.assert_allclose(found.survival, whole.length_distribution.survival)
    short, long = (LengthDistribution((np.array([n]), np.ones(1))) for n in (1, 2))
    both = combine([(0.25, short), (0.75, long)])
    np.testing.assert_array_equal(both.survival, [1.0, 0.75])
    np.testing.assert_array_equal((2.0 * both).survival, [2.0, 1.5])
    is_long = np.random.default_rng(0).random(50) < 0.75
    drawn = both.draw_lengths(50, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, np.where(is_long, 2, 1))


@pytest.mark.parametrize("index", [[3, 0, 7], [-12, 3], [0, 0], []])
def test_sequences_in_any_order(index, rng):
    whole, index = sequences(rng), np.array(index, dtype=int)
    parts = whole[index]
    pieces = np.split(whole.X, whole.offsets[1:-1])
    expected = [pieces[i] for i in index] or [np.empty((0, 2))]
    np.testing.assert_array_equal(parts.X, np.concatenate(expected))
    np.testing.assert_array_equal(parts.lengths, whole.lengths[index])
    begins = len(index) > 0 and index[0] in (0, -12)
    assert parts.before is (whole.before if begins else None)
    as_mask = np.arange(12) % 3 == 0
    np.testing.assert_array_equal(whole[as_mask].X, whole[np.flatnonzero(as_mask)].X)


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
