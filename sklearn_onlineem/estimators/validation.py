"""Validation of data: all input is converted once, here, and errors name the estimator."""

import math
import re
import sys
from collections.abc import Mapping
from contextlib import contextmanager, suppress

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import assert_all_finite, check_array, get_tags
from sklearn.utils.validation import _check_n_features, _check_sample_weight, validate_data

from sklearn_onlineem._checks import REALS, check_squares
from sklearn_onlineem._kernels import _rows
from sklearn_onlineem._python import is_foreign, ours
from sklearn_onlineem.data.sparse import canonical_csr
from sklearn_onlineem.families.capabilities import Marginals


def is_empty(estimator, X):
    """Return whether X has no observations; refuse other columns than those of the first data."""
    if type(X) is np.ndarray and X.size:
        return False
    if type(X) in (list, tuple):
        return len(X) == 0
    # Data frames have columns; those of Dask do not know their length.
    is_table = isinstance(X, np.ndarray) or sparse.issparse(X) or hasattr(type(X), "columns")
    if not is_table or not X.shape or type(X.shape[0]) is not int or X.shape[0] > 0:
        return False
    if len(X.shape) == 2 and hasattr(estimator, "n_features_in_"):
        _check_n_features(estimator, X, reset=False)
    return True


def check_in_memory(name, values):
    """Raise TypeError if data are of Dask or Spark, a future, or a list with one."""
    if type(values) is np.ndarray or not {"dask", "pyspark"} & sys.modules.keys():
        return
    for part in values if isinstance(values, list | tuple) else (values,):
        if type(part) is not np.ndarray and (is_of_spark(part) or _is_of_dask(part)):
            kind = f"{type(part).__module__.partition('.')[0]} {type(part).__name__}"
            raise TypeError(
                f"{name} is a {kind}, or has one, and all of it would be loaded into this process."
                " Pass what its compute(), result() or toPandas() returns if that fits into memory."
                " To learn from it where it is, use sklearn_onlineem.distributed.DistributedEM; to"
                " predict, map blocks of rows, as in"
                " X.map_blocks(estimator.predict, dtype=int, drop_axis=1)."
            )


def is_of_spark(value):
    """Return whether it is a session or a data frame of PySpark, which need not be installed."""
    return type(value).__module__.partition(".")[0] == "pyspark"


def _is_of_dask(value):
    if "dask" not in sys.modules:
        return False
    from dask.base import is_dask_collection

    distributed = sys.modules.get("distributed")
    is_future = distributed is not None and isinstance(value, distributed.Future)
    return is_future or is_dask_collection(value)


def frame_of(X):
    """Return a data frame of any library, or a table of pyarrow, as one of narwhals; else None."""
    # To ask takes a while, and plain types are none.
    if type(X) in (list, tuple, np.ndarray) or sparse.issparse(X):
        return None
    return nw.from_native(X, eager_only=True) if nw.dependencies.is_into_dataframe(X) else None


def filled(X):
    """Return data with NaN where a value is masked or NA: a copy then, else the data themselves.

    TypeError for arrays of dates and durations; NumPy would take their numbers of units.
    """
    if type(X) is np.ndarray and X.dtype.kind in "biufc":
        return X
    if isinstance(X, np.ndarray):
        _check_times(X)
    if type(X) is np.ndarray:
        # Objects may be NA only if pandas has been imported.
        pandas = nw.dependencies.get_pandas()
        if X.dtype != object or X.ndim != 2 or pandas is None:
            return X
        missing = pandas.isna(X)
        return np.where(missing, np.nan, X) if missing.any() else X
    if isinstance(X, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(X)
        if not mask.any():
            return np.asarray(X.data)
        numbers = np.float64 if X.dtype.kind in "biu" else X.dtype
        values = np.array(X.data, dtype=object if X.dtype.kind in "US" else numbers)
        values[mask] = np.nan
        return values
    if isinstance(X, list | tuple) and any(isinstance(part, np.ma.MaskedArray) for part in X):
        return [filled(part) for part in X]
    if nw.dependencies.is_pandas_dataframe(X) and any(dtype.kind == "O" for dtype in X.dtypes):
        X = X.copy(deep=False)
        for j, dtype in enumerate(X.dtypes):
            if dtype.kind == "O" and not hasattr(dtype, "categories"):
                X.isetitem(j, filled(X.iloc[:, [j]].to_numpy(dtype=object))[:, 0])
    return X


def is_missing(value):
    """Return whether a value of any type stands for none."""
    # NA is equal to nothing, not even to a bool.
    is_na = value is None or type(value).__name__ in ("NAType", "NaTType")
    return is_na or (isinstance(value, float | np.floating) and value != value)


def _check_times(X):
    """Raise TypeError if data, or some columns of a data frame, are dates or durations."""
    found = [("", getattr(X, "dtype", None))]
    if isinstance(X, np.ndarray):
        kinds = set(map(type, X.flat)) if X.dtype.kind == "O" else ()
        found += [("", np.dtype(kind)) for kind in kinds if issubclass(kind, np.generic)]
    elif (frame := frame_of(X)) is not None:
        found = [(f" in column {name!r}", dtype) for name, dtype in frame.schema.items()]
    for where, dtype in found:
        # Types of NumPy have kinds.
        if getattr(dtype, "kind", " ") in "mM" or getattr(dtype, "is_temporal", bool)():
            raise TypeError(
                f"X has dates or durations{where}. Leave them out, or convert them to numbers, for"
                " instance to seconds."
            )


def check_complete(name, values):
    """Raise ValueError if a value is masked, TypeError if data are not in this process."""
    if type(values) in (str, int, float, np.ndarray):
        return
    check_in_memory(name, values)
    parts = values if isinstance(values, list | tuple) else (values,)
    # Types first: there may be a length for each of many short sequences.
    has_masked = any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, parts)))
    if has_masked and any(map(np.ma.is_masked, parts)):
        raise ValueError(f"{name} has masked entries, and none may be missing.")


def checked_lengths(name, lengths, n_samples, least=0):
    """Return one length, or one for each document, as an array of whole numbers."""
    lengths = np.asarray(lengths)
    if not np.issubdtype(lengths.dtype, np.integer) or lengths.min(initial=least) < least:
        raise ValueError(f"{name} must be whole numbers from {least} up, got {lengths}.")
    if lengths.shape not in ((), (n_samples,)):
        raise ValueError(f"{name} must be one number or {n_samples}, got shape {lengths.shape}.")
    return lengths


# Sums of squares below this have lost digits to underflow.
_SMALLEST_SQUARE = 1e-290
# Weights of rows are repetitions, which are multiplied: smaller ones count as 0, larger totals are
# refused.
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-100, 1e100


# Models, which users know by their estimators.
_MODEL = re.compile(
    r"\b(Mixture|Hidden(Semi)?Markov|LinearDynamical|LatentDirichlet)Model\b|\bEditTransducer\b"
)
# Errors of invalid input; an OverflowError comes from whole numbers of too many digits.
INVALID = (TypeError, ValueError, OverflowError)
# Value of `fresh` for the data of a fit, which are all there are: a stream has first ones.
ALL_DATA = "all"


@contextmanager
def error_context(estimator):
    """Return a context whose errors of invalid input name the estimator."""
    try:
        yield
    except INVALID as error:
        raise_named(error, estimator)


def raise_named(error, estimator):
    """Raise the error again, with the name of the estimator; in a note, if it is not ours."""
    name = type(estimator).__name__
    if is_foreign(error):
        if not any(name in note for note in getattr(error, "__notes__", ())):
            error.add_note(f"It was raised within {name}, by code that is not of this library.")
        raise error
    if isinstance(error, OverflowError):
        error = ValueError(f"a number is too large: {error}.")
    text = _MODEL.sub(name, str(error))
    if isinstance(error, NotFittedError) or re.search(rf"\b{name}\b", str(error)):
        raise error
    if text != str(error):
        raise type(error)(text) from error
    first, _, rest = text.partition(" ")
    if first.rstrip(":").partition("[")[0] in getattr(estimator, "_defaults", ()):
        whose = f"{first.rstrip(':')} of {name}{':' * first.endswith(':')}"
        raise type(error)(f"{whose} {rest}") from error
    raise type(error)(f"{name}: {text}") from error


def converted(estimator, X, fresh, ensure_all_finite=True):
    """Return rows as kernels take them, and the attributes that first data define.

    `fresh` data define `n_features_in_` and `feature_names_in_`; others are checked for agreement.
    The first data of a known model define the names alone.
    The estimator is not changed.
    """
    # scikit-learn takes longer to find nothing wrong with an array than a pass over few rows does.
    is_plain = fresh and type(X) is np.ndarray and X.ndim == 2 and X.dtype in REALS
    if is_plain and X.flags.carray and _SMALLEST_SQUARE <= _sum_of_squares(X) < math.inf:
        return X, {"n_features_in_": X.shape[1], "_dtype": X.dtype}
    fitted = None if fresh else vars(estimator).get("_fitted")
    awaits_data = fitted is not None and fitted.state.awaits_data
    if not (fresh or awaits_data):
        return _checked(estimator, X, False, ensure_all_finite), {}
    # Validation writes to a blank estimator, whose attributes are set once all has succeeded.
    blank, params = object.__new__(type(estimator)), estimator.get_params(deep=False)
    vars(blank).update(params)
    X = _checked(blank, X, True, ensure_all_finite)
    attributes = {name: value for name, value in vars(blank).items() if name not in params}
    if awaits_data:
        # A known model gets names of columns.
        _check_width(X, fitted.attributes["n_features_in_"])
        return X, {**attributes, **fitted.attributes}
    return X, {**attributes, "n_features_in_": X.shape[1], "_dtype": X.dtype}


def ready(estimator, X, allow_nan=False):
    """Return X as kernels take it if nothing can be wrong, else None: for small batches.

    An array, lists of numbers, CSR, a frame of pandas or polars with the columns of the first data.
    """
    known = estimator._fitted.attributes
    if known.get("_categories"):
        return None  # Values have to be numbered.
    if type(X) is list and {*map(type, X)} <= {list, np.ndarray}:
        with suppress(TypeError, ValueError):  # of rows of several lengths
            X = np.asarray(X)
    if type(X) is np.ndarray and X.dtype.kind in "iu":
        X = X.astype(REALS[0], order="C")
    names = known.get("feature_names_in_")
    if type(X) in (sparse.csr_array, sparse.csr_matrix):
        is_known = names is None and X.shape[1:] == (known["n_features_in_"],)
        if not (is_known and X.shape[0] and "sparse" in estimator._takes):
            return None
        X = canonical_csr(X)
        return X if _rows.are_ready(X.data[:, None], 1) else None
    if names is not None:
        is_polars = nw.dependencies.is_polars_dataframe(X)
        if nw.dependencies.is_pandas_dataframe(X):
            # Others are sparse, or may have NA.
            kinds, columns = set(map(type, X.dtypes.tolist())), X.columns.tolist()
            if not all(issubclass(kind, np.dtype) for kind in kinds):
                return None
        elif is_polars:
            columns = X.columns
        else:
            return None
        if columns != names.tolist():
            return None
        rows = X.to_numpy()
        # scikit-learn makes doubles of polars' frames in single precision.
        is_single = is_polars and rows.dtype == np.float32
        X = np.ascontiguousarray(rows, np.float64 if is_single else None)
    return X if _rows.are_ready(X, known["n_features_in_"], allow_nan) else None


def check_values(data, family, first=True):
    """Let the family check all complete rows, and refuse gaps that it cannot handle.

    A model that has started may get nothing but gaps: time passes.
    """
    observed = data.observed
    if observed is None:
        family.check(data.X)
        return
    some = data.X if observed.all() else data.X.compress(observed, axis=0)
    if not isinstance(family, Marginals) and np.isnan(some).any():
        raise ValueError(
            f"X has NaN in rows with other values: {type(family).__name__} has no marginal"
            " distributions of some features. Only whole rows can be missing."
        )
    if len(some):
        family.check(some)
    elif first:
        raise ValueError("X has nothing but NaN.")


class Reader:
    """Base of the inputs: they read data for a new model (`fresh`), or for the fitted one.

    First data define the `attributes` of the estimator, and its family if that is None. `form` is
    that of the last sequences.
    """

    form, _takes_labels = None, False

    def __init__(self, estimator, fresh=False):
        model = None if fresh else estimator._fitted.state.model
        self._estimator, self._fresh, self._n_jobs = estimator, fresh, estimator.n_jobs
        self._family, self.attributes = getattr(model, "family", None), {}
        self._n_components = getattr(estimator if fresh else model, "n_components", 1)
        self._takes_labels = getattr(estimator, "semi_supervised", self._takes_labels)


# Beginnings of scikit-learn's messages on X, and what replaces them. It prints whole arrays, and
# recommends supervised models.
_PLAINER = {
    "Expected 2D array": (
        "X must be of shape (n_samples, n_features), got an array of shape {shape}. Reshape your"
        " data: X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if it is a single"
        " sample."
    ),
    "Complex data not supported": (
        "X is complex. Complex data not supported: pass real and imaginary parts as features."
    ),
    "Input X contains NaN": (
        "X contains NaN, but missing values are not supported here. Drop the rows, or fill them,"
        " for instance by sklearn.impute.SimpleImputer; mixtures of Gaussians and of independent"
        " columns, hidden Markov models and Kalman filters take NaN for values that were not"
        " observed."
    ),
    "setting an array element with a sequence": (
        "X has rows of several lengths. Sequences are arrays of shape (length, n_features): make"
        " those of one feature so by np.reshape(x, (-1, 1))."
    ),
    "could not convert string to float": (
        "X has strings that are not numbers, such as {detail}. Leave such columns out, or turn"
        " symbols into codes 0, 1, ..., for instance by sklearn.preprocessing.OrdinalEncoder (of"
        " sequences within PerSequence), and texts into counts of words, by"
        " sklearn.feature_extraction.text.CountVectorizer."
    ),
    "float() argument": (
        "X has a value of type {detail}: each argument must be a string or a real number; NaN is"
        " missing."
    ),
}
_LONGEST_DETAIL = 40


@contextmanager
def _plainly(X):
    """Return a context that replaces scikit-learn's messages on X by shorter ones, without X."""
    try:
        yield
    except ours(OverflowError):
        raise ValueError("X has numbers beyond the largest float.") from None
    except ours(TypeError, ValueError) as error:
        text, kind = str(error), TypeError if isinstance(error, TypeError) else ValueError
        for beginning, plainer in _PLAINER.items():
            if text.startswith(beginning):
                shape = np.shape(X) if "{shape}" in plainer else ()
                detail = text.partition(": ")[2] or text.rpartition(" ")[2]
                detail = re.sub(r"^np\.\w+\((.*)\)$", r"\1", detail)[:_LONGEST_DETAIL]
                raise kind(plainer.format(shape=shape, detail=detail)) from None
        raise


def countable(X):
    """Return X, or an array of it if its class may claim a wrong number of rows."""
    if sparse.issparse(X):
        return canonical_csr(X)
    is_frame = hasattr(X, "columns") or hasattr(X, "iloc")
    if is_frame or type(X) in (list, tuple) or isinstance(X, np.ndarray):
        return X
    with _plainly(X):
        array = np.asarray(X)
    return array if array.ndim else X


def _checked(estimator, X, reset, ensure_all_finite):
    """Return rows as kernels take them; refuse values whose squares overflow, or underflow."""
    check_in_memory("X", X)
    inner = X
    for _ in range(3):
        if type(inner) in (list, tuple) and inner:
            inner = inner[0]
    # scipy keeps some sparse arrays in dicts.
    if isinstance(inner, Mapping) and not sparse.issparse(inner):
        raise TypeError(
            f"X {'is' if inner is X else 'has'} a {type(inner).__name__}, and must hold numbers."
            " sklearn.feature_extraction.DictVectorizer(sparse=False) makes rows of a list of"
            " dicts, pandas.DataFrame a table of a dict of columns, and list(X.values()) is the"
            " list of a dict of sequences. As in river, one dict at a time is learnt by"
            " sklearn_onlineem.interop.river.RiverClusterer."
        )
    _check_times(X)
    takes_sparse = get_tags(estimator).input_tags.sparse
    if takes_sparse or not sparse.issparse(X):
        X = filled(X)
        if isinstance(X, list | tuple):
            with _plainly(X):
                X = filled(np.asarray(X))
        X = countable(X)
    with _plainly(X):
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if takes_sparse else False,
            accept_large_sparse=True,
            dtype=REALS,
            order="C",
            ensure_all_finite=False,
        )
    if not reset:
        _check_width(X, estimator.n_features_in_)
    if not sparse.issparse(X):
        X = np.require(X, requirements=["A", "C"])
    values = X.data if sparse.issparse(X) else X
    square = _sum_of_squares(values)
    if not math.isfinite(square):
        with _plainly(X), np.errstate(invalid="ignore"):
            assert_all_finite(values, allow_nan=ensure_all_finite == "allow-nan", input_name="X")
        values = values[~np.isnan(values)]
        square = _sum_of_squares(values)
    if not math.isfinite(square):
        raise ValueError(f"X has values whose squares overflow {values.dtype}; rescale the data.")
    if reset and square < _SMALLEST_SQUARE and values.any():
        raise ValueError(f"X has values whose squares underflow {values.dtype}; rescale the data.")
    return X


def _check_width(X, expected):
    if X.shape[1] != expected:
        raise ValueError(f"X has {X.shape[1]} features, but {expected} are expected.")


def _sum_of_squares(values):
    """Return a sum of squares without BLAS, whose threads would keep spinning beside ours."""
    flat = values.ravel()
    return float(np.einsum("i,i->", flat, flat))


def targets_of(X, y, dtype, n_expected=None):
    """Return the targets of the rows of X as columns, and whether they were columns."""
    if y is None:
        # The words that scikit-learn expects.
        raise ValueError("requires y to be passed, but the target y is None.")
    check_complete("y", y)
    finite = {"input_name": "y", "ensure_all_finite": "allow-nan"}
    y = check_array(y, ensure_2d=False, dtype=dtype, order="C", **finite)
    if np.isnan(y).any():
        raise ValueError(
            "y contains NaN. Leave out rows without targets; a GaussianMixture of inputs and"
            " targets side by side takes rows in which any values are missing."
        )
    if len(y) != len(X):
        raise ValueError(f"y must have a row for each of the {len(X)} of X, got {y.shape}.")
    columns = y.reshape(len(y), -1)
    check_squares("y", columns)
    if n_expected not in (None, columns.shape[1]):
        raise ValueError(f"y has {columns.shape[1]} targets, but {n_expected} are expected.")
    return columns, y.ndim == 2


def column(name, values):
    """Return an array of one value for each row; refuse masked entries and other shapes."""
    check_complete(name, values)
    given = values
    try:
        values = np.asarray(values)
    except ours(ValueError):
        raise ValueError(f"{name} must have an entry for each row; it has parts.") from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must be of shape (n_rows,), got {values.shape}.")
    if values.dtype.kind in "SU" and isinstance(given, list | tuple):
        # Beside texts, None, NaN and -1 would become texts.
        objects = np.array(given, dtype=object).reshape(-1)
        return values if all(isinstance(x, str | bytes) for x in objects) else objects
    return values


def checked_weight(sample_weight, X):
    """Return weights of rows as float64, with 0 for those that would vanish in products."""
    check_complete("sample_weight", sample_weight)
    try:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    except ours(TypeError, ValueError) as error:
        if "weight" in str(error):
            raise
        raise type(error)(f"sample_weight: {error}") from None
    weight = np.where(weight < _SMALLEST_WEIGHT, 0.0, weight)
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not 0.0 < total <= _LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight must have a sum above 0 and at most {_LARGEST_WEIGHT:g}, got"
            f" {total:.3g} (weights below {_SMALLEST_WEIGHT:g} count as 0). Rescale it: a weight of"
            " 2 is equivalent to two equal rows."
        )
    return weight
