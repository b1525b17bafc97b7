"""Data that are made by hand are checked where they are made; families refuse codes they lack."""

import numpy as np
import pytest
from cases.family_cases import FAMILIES, OTHER_FAMILIES
from scipy import sparse

from sklearn_onlineem.data.documents import Documents
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.data.strings import StringPairs, Strings
from sklearn_onlineem.families import Categorical, Multinomial, Poisson
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

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
    "threads beyond a C int": {"n_threads": 2**31},
}

by_name = pytest.mark.parametrize("changes", BAD_ROWS.values(), ids=BAD_ROWS.keys())


@by_name
def test_rows_of_other_arrays_are_refused(changes):
    with pytest.raises(ValueError, match=r"Rows|CSR|corrupt|n_threads"):
        rows(**changes)


def test_subnormal_weights_are_weights():
    assert len(rows(sample_weight=np.full(6, 5e-324))) == 6


COUNTS = sparse.csr_array(X)
BAD_DOCUMENTS = {
    "counts that are no rows": {"rows": COUNTS},
    "dense counts": {"rows": rows()},
    "negative counts": {"rows": Rows(-COUNTS)},
    "counts that are not numbers": {"rows": Rows(COUNTS * np.nan)},
    "infinite counts": {"rows": Rows(COUNTS * np.inf)},
    "numbers of half the bits": {"numbers": np.arange(6, dtype=np.int32)},
    "few numbers": {"numbers": np.arange(5)},
    "numbers in a list": {"numbers": list(range(6))},
    "topics for few": {"allowed": np.ones((5, 2), np.uint8)},
    "topics as truth values": {"allowed": np.ones((6, 2), bool)},
    "a document without topics": {"allowed": np.eye(6, 2, dtype=np.uint8)},
    "topics in one dimension": {"allowed": np.ones(6, np.uint8)},
}


@pytest.mark.parametrize("changes", BAD_DOCUMENTS.values(), ids=BAD_DOCUMENTS.keys())
def test_documents_of_other_arrays_are_refused(changes):
    with pytest.raises(ValueError, match=r"Documents|Counts"):
        Documents(**{"rows": Rows(COUNTS), **changes})


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
    checks = () if np.isnan(code) else (family.check,)  # where missing values are ignored
    for use in (
        *checks,
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


@pytest.mark.parametrize(
    "case", [case for case in [*FAMILIES, *OTHER_FAMILIES] if not case.matrix], ids=repr
)
@pytest.mark.parametrize("n_columns", [3, 40])
def test_models_refuse_rows_of_another_width(case, n_columns, rng):
    """Below the estimators, too, where kernels would read beyond their tables."""
    narrow = case.draw(rng, 2, 4)
    model = MixtureModel(case.family, np.array([0.5, 0.5]), narrow)
    X = case.rows(rng, 20, n_columns)
    if X.shape[1] == 4:
        X = np.tile(X, 10)[:, :n_columns].copy()
    rows = Rows(X)
    for use in (model.e_step, model.posterior, model.log_likelihood):
        with pytest.raises(ValueError):
            use(rows)


@pytest.mark.parametrize("step", [slice(None, None, 2), slice(5, None, -3), slice(1, 5, 2)])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_of_a_slice_with_a_step_are_as_kernels_take_them(step, is_sparse):
    numbers = np.arange(6)
    parts = sparse.csr_array(X) if is_sparse else X, numbers + 1.0, numbers.astype(np.int32)
    rows, documents = Rows(*parts), Documents(Rows(sparse.csr_array(X)))
    chosen, expected = rows[step], rows[numbers[step]]
    for part, other in zip(vars(chosen).values(), vars(expected).values(), strict=True):
        if sparse.issparse(part):
            part, other = part.toarray(), other.toarray()
        np.testing.assert_array_equal(part, other)
        assert np.asarray(part).flags.c_contiguous
    Rows(chosen.X, chosen.sample_weight, chosen.labels)
    np.testing.assert_array_equal(documents[step].numbers, numbers[step])
    assert documents[step].numbers.flags.c_contiguous
