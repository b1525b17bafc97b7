"""Parameters as values: arrays, and tuples and dataclasses of these."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from sklearn_onlineem._values import aligned, average, differences, frozen, n_bytes, take


class Named(NamedTuple):
    location: np.ndarray
    rest: tuple


@dataclass(frozen=True)
class Both:
    array: np.ndarray
    named: Named
    setting: str = "as it is"


def value_of(x):
    x = np.asarray(x, dtype=float)
    return Both(x, Named(10.0 * x, (100.0 * x, (x[:, None], 3))))


def test_what_is_frozen_is_read_only_but_for_the_empty_array_that_kernels_share():
    empty, whole = np.empty(0), value_of([1.0, 2.0])
    frozen((whole, [empty]))
    assert empty.flags.writeable
    for array in (whole.array, whole.named.location, whole.named.rest[0], whole.named.rest[1][0]):
        assert not array.flags.writeable


def test_averages_reach_into_tuples():
    found = average([value_of([1.0, 2.0]), value_of([3.0, 6.0])], [0.75, 0.25])
    expected = value_of([1.5, 3.0])
    assert isinstance(found.named, Named) and found.setting == "as it is"
    assert_array_equal(found.array, expected.array)
    assert_array_equal(found.named.location, expected.named.location)
    assert_array_equal(found.named.rest[0], expected.named.rest[0])
    assert_array_equal(found.named.rest[1][0], expected.named.rest[1][0])
    assert found.named.rest[1][1] == 3


def test_arrays_are_aligned_wherever_they_are():
    """As a network hands them over, at any address; what is aligned stays the same object."""
    rows = np.zeros((2, 3, 9), dtype=np.uint8).reshape(-1)[1:49].view(float).reshape(2, 3)
    thin = sparse.csr_array(np.eye(2, 3))
    thin.data = rows[0, :2]
    assert not rows.flags.aligned and not thin.data.flags.aligned
    found = aligned({"a": [Both(rows.T, Named(rows, (thin, None)))], "b": 3})
    assert aligned(found["a"]) is found["a"] and found["b"] == 3
    both = found["a"][0]
    for array in (both.array, both.named.location, both.named.rest[0].data):
        assert array.flags.aligned
    assert both.array.flags.f_contiguous and both.named.location.flags.c_contiguous


def test_settings_that_differ_are_not_averaged():
    first, second = value_of([1.0]), value_of([2.0])
    other = Both(second.array, second.named, "another")
    with pytest.raises(TypeError, match="str differ and cannot be averaged"):
        average([first, other], [0.5, 0.5])
    assert np.isnan(average([np.nan, float("nan")], [0.5, 0.5]))


def test_components_are_taken_within_tuples():
    value = value_of([1.0, 2.0, 3.0])
    found = take((value.array, value.named.location, np.eye(2)), np.array([2, 0, 1]))
    assert isinstance(found, tuple)
    assert_array_equal(found[0], [3.0, 1.0, 2.0])
    assert_array_equal(found[1], [30.0, 10.0, 20.0])
    assert_array_equal(found[2], np.eye(2))
    named = take(Named(value.array, (value.array,)), np.array([1, 0, 2]))
    assert_array_equal(named.rest[0], [2.0, 1.0, 3.0])


def test_differences_within_tuples_are_named():
    a, b = value_of([1.0, 2.0]), value_of([5.0, 6.0])
    assert list(differences(a, b)) == []
    (found,) = differences((np.ones(2), np.ones((2, 1))), (np.ones(2), np.ones((2, 3))), "pair")
    assert found == ("shape of pair[1]", (2, 1), (2, 3))
    (found,) = differences((1, 2), (1, 3), "states")
    assert found == ("states", (1, 2), (1, 3))


def test_bytes_within_tuples_count():
    assert n_bytes((np.ones(2), (np.ones(3), "name"))) == 40
