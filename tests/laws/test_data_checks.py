"""Data that are made by hand are checked where they are made; families refuse codes they lack."""

import numpy as np
import pytest
from scipy import sparse

from sklearn_onlineem.data import Rows, Sequences, StringPairs, Strings
from sklearn_onlineem.families import Categorical, Multinomial, Poisson

X = np.arange(12.0).reshape(6, 2)
FEW = np.array([0, 6])


def rows(**changes):
    return Rows(**{"X": X, **changes})


def corrupt():
    bad = sparse.csr_array(X)
    bad.indptr[1] = 10**6
    return bad


def unsorted():
    parts = np.ones(2), np.array([1, 0], np.int32), np.array([0, 2], np.int32)
    return sparse.csr_array(parts, shape=(1, 2))


def misaligned():
    return np.frombuffer(bytes(1 + X.nbytes), offset=1).reshape(X.shape)


BAD_ROWS = {
    "list": {"X": X.tolist()},
    "whole numbers": {"X": X.astype(int)},
    "one dimension": {"X": X[0]},
    "columns": {"X": np.asfortranarray(X)},
    "misaligned": {"X": misaligned()},
    "big-endian": {"X": X.astype(">f8")},
    "corrupt": {"X": corrupt()},
    "unsorted": {"X": unsorted()},
    "csc": {"X": sparse.csc_array(X)},
    "few weights": {"sample_weight": np.ones(5)},
    "negative weights": {"sample_weight": -np.ones(6)},
    "no weights": {"sample_weight": np.zeros(6)},
    "infinite weights": {"sample_weight": np.full(6, np.inf)},
    "weights that are not numbers": {"sample_weight": np.full(6, np.nan)},
    "single weights": {"sample_weight": np.ones(6, np.float32)},
    "few labels": {"labels": np.zeros(5, np.intc)},
    "labels below -1": {"labels": np.full(6, -2, np.intc)},
    "long labels": {"labels": np.zeros(6, np.int64)},
    "no threads": {"n_threads": 0},
    "half a thread": {"n_threads": 0.5},
}

by_name = pytest.mark.parametrize("changes", BAD_ROWS.values(), ids=BAD_ROWS.keys())


@by_name
def test_rows_of_other_arrays_are_refused(changes):
    with pytest.raises(ValueError, match=r"Rows|CSR|corrupt|n_threads"):
        rows(**changes)


def test_subnormal_weights_are_weights():
    assert len(rows(sample_weight=np.full(6, 5e-324))) == 6


BAD_SEQUENCES = {
    "rows that are an array": (X, FEW),
    "sparse rows": (Rows(sparse.csr_array(X)), FEW),
    "offsets of half the bits": (rows(), FEW.astype(np.int32)),
    "offsets in a list": (rows(), [0, 6]),
    "offsets beyond": (rows(), np.array([0, 8])),
    "offsets short": (rows(), np.array([0, 5])),
    "offsets late": (rows(), np.array([1, 6])),
    "offsets that fall": (rows(), np.array([0, 9, 6])),
    "an empty sequence": (rows(), np.array([0, 3, 3, 6])),
    "no offsets": (rows(), np.empty(0, int)),
    "before that is not finite": (rows(), FEW, np.array([0.5, np.nan])),
    "before in a list": (rows(), FEW, [0.5, 0.5]),
    "before of single precision": (rows(), FEW, np.ones(2, np.float32)),
    "before of shapes that differ": (rows(), FEW, (np.zeros(2), np.eye(3))),
    "before of three": (rows(), FEW, (np.zeros(2), np.eye(2), np.eye(2))),
}


@pytest.mark.parametrize("parts", BAD_SEQUENCES.values(), ids=BAD_SEQUENCES.keys())
def test_sequences_that_are_none_are_refused(parts):
    with pytest.raises(ValueError, match=r"Sequences|offsets|before"):
        Sequences(*parts)


def codes(*symbols, dtype=np.intc):
    return np.array(symbols, dtype=dtype)


BAD_STRINGS = {
    "negative": (codes(0, -1), np.array([0, 2])),
    "long": (codes(0, 1, dtype=np.int64), np.array([0, 2])),
    "beyond": (codes(0, 1), np.array([0, 3])),
    "falling": (codes(0, 1), np.array([0, 3, 2])),
}


@pytest.mark.parametrize("parts", BAD_STRINGS.values(), ids=BAD_STRINGS.keys())
def test_strings_that_are_none_are_refused(parts):
    with pytest.raises(ValueError, match=r"Strings|offsets"):
        Strings(*parts)


def test_pairs_need_as_many_of_both():
    one, two = (Strings(codes(0, 1), np.array(offsets)) for offsets in ([0, 2], [0, 1, 2]))
    with pytest.raises(ValueError, match="1 sources and 2 targets"):
        StringPairs(one, two)


@pytest.mark.parametrize("code", [-1.0, 3.0, 0.5, 1e6, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_that_a_categorical_lacks_are_refused(code, dtype):
    family, parameters = Categorical(3), np.full((2, 6), 1.0 / 3.0)
    bad = np.array([[0.0, 1.0], [2.0, 0.0]])
    bad[1, 1] = code
    with np.errstate(over="ignore"):
        bad = bad.astype(dtype)
    for use in (
        family.check,
        lambda X: family.log_density(parameters, X),
        lambda X: family.expected_statistics(X, np.ones((2, 2))),
        lambda X: family.e_step(parameters, np.log([0.5, 0.5]), Rows(X)),
    ):
        with pytest.raises(ValueError, match="integer codes in 0..2"):
            use(bad)


@pytest.mark.parametrize("family", [Poisson(), Multinomial()], ids=repr)
def test_families_refuse_corrupt_matrices(family):
    for bad in (corrupt(), unsorted(), sparse.csc_array(X)):
        with pytest.raises(ValueError, match="CSR|corrupt"):
            family.check(bad)
