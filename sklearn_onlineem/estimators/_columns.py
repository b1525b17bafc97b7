"""Families by columns of tables, and the categories of nominal columns."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from numbers import Integral

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_feature_names, _check_n_features

from sklearn_onlineem._checks import require
from sklearn_onlineem._python import ours
from sklearn_onlineem.estimators._known import Settable
from sklearn_onlineem.estimators.fitted import fitted_property
from sklearn_onlineem.estimators.validation import (
    ALL_DATA,
    check_in_memory,
    filled,
    frame_of,
    is_missing,
)
from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    CompoundDirichlet,
    Exponential,
    Family,
    Gamma,
    Gaussian,
    Laplace,
    MixtureOf,
    Multinomial,
    Poisson,
    Product,
    StudentT,
    Wishart,
)
from sklearn_onlineem.families.covariance_shapes import COVARIANCES
from sklearn_onlineem.families.parts import drawn

FAMILIES = {
    "bernoulli": Bernoulli(),
    "categorical": Categorical(),
    "compound_dirichlet": CompoundDirichlet(),
    "exponential": Exponential(),
    "gamma": Gamma(),
    **{f"gaussian_{name}": Gaussian(shape) for name, shape in COVARIANCES.items()},
    "laplace": Laplace(),
    "multinomial": Multinomial(),
    "poisson": Poisson(),
    **{f"student_t_{name}": StudentT(shape) for name, shape in COVARIANCES.items()},
    "wishart": Wishart(),
}


# Within a group, columns are correlated unless another family is asked for.
_SHORT = {"gaussian": FAMILIES["gaussian_full"]}
_MOST_SHOWN = 10
# Codes are numbered from the least one on if they are so few, or no more than rows, and small.
_MOST_CODES, _LARGEST_CODE = 1 << 12, 1 << 53
# Parameters whose arrays have an entry for each code, or have codes.
_OF_CODES = "init", "means_init", "emissionprob_init", "emissionprob_prior", "prior"


class NominalColumns:
    """Mixin of estimators of nominal columns: texts and categories are numbered by first data.

    Attributes
    ----------
    categories_ : list of ndarray
        What the codes 0, 1, ... of each nominal column stand for, in the order of the columns.
    """

    # Validation sets it to what it finds in the first data of a fit, until the fit ends.
    _first_attributes = None

    def _family(self):
        fitted = vars(self).get("_fitted")
        known = self._first_attributes or ({} if fitted is None else fitted.attributes)
        categories, n_features = known.get("_categories", {}), known.get("n_features_in_")
        return _with_categories(self._given_family(known), categories, n_features)

    def _family_before_data(self):
        # Categories are those of the data to come.
        return self._given_family({})

    def _converted(self, X, fresh, ensure_all_finite=True):
        check_in_memory("X", X)
        categories = {} if fresh else self._fitted.attributes.get("_categories", {})
        table = table_of(X) if fresh or categories else None
        if table is not None and len(table.shape) == 2:
            names, n_features = names_of(table), table.shape[1]
            if not fresh:
                if names and hasattr(self, "feature_names_in_"):
                    _check_feature_names(self, table, reset=False)
                _check_n_features(self, table, reset=False)
            try:
                if fresh:
                    known = {"feature_names_in_": names, "n_features_in_": n_features}
                    nominal = nominal_columns(self._given_family(known), n_features)
                    categories = first_categories(self, table, nominal, fresh)
                X = with_codes(table, categories) if categories else X
            except ours(TypeError) as error:
                raise TypeError(f"X has values that cannot be categories: {error}.") from error
        elif isinstance(table, np.ndarray) and any(isinstance(x, str) for x in table.ravel()):
            raise ValueError(
                f"X must be of shape (n_samples, n_features), got an array of shape {table.shape}."
            )
        X, attributes = super()._converted(X, fresh, ensure_all_finite)
        if fresh:
            self._first_attributes = {**attributes, "_categories": categories}
            attributes = self._first_attributes
        return X, attributes

    def _in_container(self, rows, X):
        return self._named(super()._in_container(rows, X), rows)

    def _as_given(self, rows):
        return self._named(super()._as_given(rows), rows)

    def _named(self, out, rows):
        """Return a table of rows with the categories that codes stand for."""
        known = self._fitted.attributes.get("_categories")
        if not known:
            return out
        return _with_columns(out, {j: named(names, rows[:, j]) for j, names in known.items()})

    def _lock(self):
        lock = super()._lock()
        # By the rules of a stream that goes on, no first data are read.
        return lock if self.__dict__.get("_present_rules") else self._forgetting(lock)

    @contextmanager
    def _forgetting(self, lock):
        with lock:
            try:
                yield
            finally:
                self.__dict__.pop("_first_attributes", None)

    @fitted_property
    def categories_(self) -> list[NDArray[np.generic]]:
        known, model = self._fitted.attributes.get("_categories", {}), self.model_
        numbers = nominal_columns(model.family, self.n_features_in_)
        return [known[j].copy() if j in known else np.arange(n) for j, n in numbers.items()]


class ColumnFamilies(NominalColumns):
    """Mixin of estimators whose `family` is one of all columns, or a dict of those of groups.

    The columns of a dict are found in first data. The estimator keeps their names while it learns.
    """

    parameters_ = Settable[object]("parameters lengths")

    def _standard(self, family, n_components, n_features):
        return None

    def _features_of(self, sizes, given):
        if "parameters_" not in given:
            return None
        return drawn(self._family(), given["parameters_"], 1)[0].shape[1]

    def _given_family(self, known):
        family = self.family
        if isinstance(family, dict):
            return product_of(family, known.get("feature_names_in_"), known.get("n_features_in_"))
        return FAMILIES[family] if isinstance(family, str) else family

    def _family_before_data(self):
        return None if isinstance(self.family, dict) else super()._family_before_data()

    def __repr__(self, N_CHAR_MAX=700):
        # scikit-learn sorts keys, and NumPy's integers do not compare with tuples.
        shown = {
            name: {_plain(key): item for key, item in value.items()}
            for name, value in self.get_params(deep=False).items()
            if isinstance(value, dict) and name in ("family", "prior")
        }
        alike = type(self)(**{**self.get_params(deep=False), **shown})
        return super(ColumnFamilies, alike).__repr__(N_CHAR_MAX)

    @property
    def _hyperparameters(self):
        """Hyper-parameters of priors, of groups by their names."""
        given = super()._hyperparameters
        if isinstance(given, dict) and isinstance(self.family, dict):
            return {_name_of(columns): values for columns, values in given.items()}
        return given


# ----------------------------------------------------------------------------- nominal columns


def nominal_columns(family, n_features):
    """Return the nominal columns of a family in order, each with its number of categories."""
    if isinstance(family, MixtureOf):
        return nominal_columns(family.family, n_features)
    if isinstance(family, Product):
        numbers = {}
        for factor, columns in zip(family.families, family.columns, strict=True):
            own = nominal_columns(factor, len(columns))
            numbers.update({columns[place]: n for place, n in own.items()})
        return dict(sorted(numbers.items()))
    if not isinstance(family, Categorical):
        return {}
    sizes = family.n_categories
    if not isinstance(sizes, tuple):
        sizes = (sizes,) * n_features
    return dict(enumerate(sizes))


def _with_categories(family, categories, n_features):
    """Return a family with the numbers of known categories, by column, if it has no others."""
    if isinstance(family, MixtureOf):
        return replace(family, family=_with_categories(family.family, categories, n_features))
    if isinstance(family, Product):
        families = []
        for factor, columns in zip(family.families, family.columns, strict=True):
            own = {place: categories[j] for place, j in enumerate(columns) if j in categories}
            families.append(_with_categories(factor, own, len(columns)))
        return replace(family, families=tuple(families))
    if not categories or not isinstance(family, Categorical):
        return family
    return family.with_numbers([len(categories.get(j, ())) or None for j in range(n_features)])


def names_of(X):
    """Return the names of the columns of a data frame, or None."""
    names = X.columns if isinstance(X, nw.DataFrame) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def table_of(X):
    """Return X as an array or a data frame; None for what is neither, nor a list that makes one."""
    if isinstance(X, list | tuple):
        try:
            return np.array(filled(X), dtype=object)
        except ValueError:  # as of rows of several lengths
            return None
    if isinstance(X, np.ndarray):
        return filled(X)
    return frame_of(X)


def has_texts(column):
    if _declared(column) is not None:
        return True
    if isinstance(column, np.ndarray) and column.dtype.kind in "biufc":
        return False
    return any(isinstance(value, str) for value in _objects(column))


def _objects(column):
    return column.to_list() if hasattr(column, "to_list") else column.tolist()


def _declared(column):
    """Return the categories that the type of a column declares, or None."""
    if isinstance(column.dtype, nw.Enum):
        return list(column.dtype.categories)
    # Other libraries, and Arrow's columns of pandas, list what occurs, or what other data have.
    is_declared = isinstance(column.dtype, nw.Categorical) and column.implementation.is_pandas()
    with suppress(AttributeError):
        return column.cat.get_categories().to_list() if is_declared else None
    return None


def first_categories(estimator, table, nominal, fresh):
    """Return the categories of the nominal columns of first data, which are not numbers from 0."""
    if estimator._learnt_prior is not None:
        return estimator._learnt_prior.categories
    is_told = fresh != ALL_DATA or codes_are_told(estimator)
    found = {
        j: _categories_of(table[:, j], n is not None or is_told)
        for j, n in nominal.items()
        if j < table.shape[1]
    }
    return {j: categories for j, categories in found.items() if categories is not None}


def _categories_of(column, is_told):
    """Return the categories of texts, or of codes from 1 up unless these are told; else None."""
    if has_texts(column):
        found = _declared(column)
        if found is None:
            found = {value for value in _objects(column) if not is_missing(value)}
            try:
                found = sorted(found)
            except TypeError:
                found = sorted(found, key=lambda value: (type(value).__name__, value))
        out = np.empty(len(found), dtype=object)
        out[:] = found
        return out
    values = None if is_told else _reals(column)
    if values is None:
        return None
    seen = values[~np.isnan(values)]
    least, most = seen.min(initial=np.inf), seen.max(initial=0.0)
    are_codes = 1.0 <= least <= most < min(least + max(_MOST_CODES, len(values)), _LARGEST_CODE)
    if not (are_codes and (seen == np.floor(seen)).all()):
        return None
    return np.arange(int(least), int(most) + 1)


def codes_are_told(estimator):
    """Return whether parameters have the shape of codes from 0 up."""
    masks = getattr(estimator, "params", None)
    given = [getattr(estimator, name, None) for name in _OF_CODES]
    given.append(masks.get("emissionprob") if isinstance(masks, dict) else None)
    return any(map(_is_shaped, given))


def named(names, codes):
    """Return the categories that codes stand for; NaN stays."""
    return np.append(names, np.nan)[np.where(np.isnan(codes), -1, codes).astype(int)]


def _reals(column):
    values = column if isinstance(column, np.ndarray) else _objects(column)
    try:
        return None if np.iscomplexobj(values) else np.array(values, dtype=float)
    except (TypeError, ValueError):
        return None


def _is_shaped(value):
    """Return whether a parameter has a shape, which codes are to fit."""
    if isinstance(value, dict):
        return any(map(_is_shaped, value.values()))
    return not isinstance(value, str) and np.ndim(value) > 0


def codes_of(column, known):
    """Return codes of known categories, NaN where missing, and -1 of others."""
    values = _reals(column) if known.dtype.kind in "iu" else None
    if values is None:
        numbers = {value: code for code, value in enumerate(known.tolist())}
        return np.array([
            np.nan if is_missing(value) else numbers.get(value, -1) for value in _objects(column)
        ])  # fmt: skip
    codes = values - known[0]
    is_code = (codes >= 0.0) & (codes < len(known)) & (codes == np.floor(codes))
    return np.where(is_code | np.isnan(codes), codes, -1.0)


def with_codes(X, categories):
    """Return a table with codes of known categories in some columns; ValueError for others."""
    frame = frame_of(X)
    X = X if frame is None else frame
    names, codes = names_of(X), {}
    for j, known in categories.items():
        column = X[:, j]
        codes[j] = codes_of(column, known)
        unknown = np.flatnonzero(codes[j] == -1)
        if len(unknown):
            shown = known[:_MOST_SHOWN].tolist()
            shown = ", ".join(map(repr, shown)) + ", ..." * (len(known) > _MOST_SHOWN)
            raise ValueError(
                f"X has the unknown category {_objects(column)[unknown[0]]!r} in"
                f" {_column_name(j, names)}: the first data have {shown}."
            )
    return _with_columns(X, codes)


def _with_columns(X, columns):
    """Return a copy of a table with other columns, by position."""
    if (frame := frame_of(X)) is not None:
        names, library = frame.columns, frame.implementation
        series = [nw.new_series(names[j], list(x), backend=library) for j, x in columns.items()]
        return frame.with_columns(*series).to_native()
    are_numbers = all(values.dtype.kind in "iuf" for values in columns.values())
    X = np.array(X, dtype=None if are_numbers and X.dtype.kind == "f" else object)
    for j, values in columns.items():
        X[:, j] = values
    return X


# ----------------------------------------------------------------------------------- families


def product_of(families, names=None, n_features=None):
    """Return the product of families by columns, the keys of a dict.

    A key is the name of a column, its position, a slice or range of positions, or a tuple of these.
    Names need the `names` of all columns, and slices `n_features`. ValueError unless each column is
    in one group.
    """
    if n_features is None:
        n_features = _n_features_of(families)
    groups = {_name_of(key): _positions(key, names, n_features) for key in families}
    owner = {}
    for name, columns in groups.items():
        if not columns:
            raise ValueError(f"family has the key {name}, which selects no column.")
        for column in columns:
            if column in owner:
                raise ValueError(
                    f"family must have each column once; {_column_name(column, names)} is in"
                    f" {owner[column]!r} and in {name!r}."
                )
            owner[column] = name
    lacking = [_column_name(j, names) for j in range(n_features) if j not in owner]
    if lacking:
        shown = ", ".join(lacking[:_MOST_SHOWN])
        raise ValueError(f"family must have each column once; no group has {shown}.")
    members = [_member(name, value) for name, value in zip(groups, families.values(), strict=True)]
    return Product(members, list(groups.values()), list(groups))


def _member(name, value):
    if isinstance(value, Family):
        return value
    known = {**FAMILIES, **_SHORT}
    is_known = isinstance(value, str) and value in known
    require(is_known, f"family of {name!r}", f"a Family or one of {sorted(known)}", value)
    return known[value]


def _n_features_of(families):
    """Return how many columns there are if keys are positions; else a ValueError."""
    positions = []
    for key in families:
        for part in key if isinstance(key, tuple) else (key,):
            if not isinstance(part, Integral) or isinstance(part, bool) or part < 0:
                raise ValueError(
                    f"family has the key {key!r}, of which the columns are known with first data:"
                    " call fit, or use positions of columns as keys."
                )
            positions.append(int(part))
    return max(positions, default=-1) + 1


def _positions(key, names, n_features):
    if isinstance(key, slice):
        key = range(*key.indices(n_features))
    if isinstance(key, tuple | range):
        return [column for part in key for column in _positions(part, names, n_features)]
    if isinstance(key, str):
        if names is None:
            raise ValueError(
                f"family has the column {key!r}, but X has no names of columns: pass a data frame,"
                " or positions."
            )
        found = np.flatnonzero(np.asarray(names, dtype=object) == key)
        if len(found) == 0:
            shown = ", ".join(map(repr, names[:_MOST_SHOWN]))
            raise ValueError(f"family has the column {key!r}, which X lacks; it has {shown}.")
        return found.tolist()
    if not isinstance(key, Integral) or isinstance(key, bool):
        raise ValueError(
            f"family has the key {key!r}; keys are names of columns, positions, ranges, slices,"
            " or tuples of these."
        )
    if not -n_features <= key < n_features:
        raise ValueError(f"family has the column {key}, but X has {n_features}.")
    return [int(key) % n_features]


def _name_of(key):
    """Return the name of a group, by which errors and priors call it."""
    if isinstance(key, tuple):
        return ", ".join(map(_name_of, key))
    if isinstance(key, slice):
        return ":".join("" if part is None else str(part) for part in (key.start, key.stop))
    return f"{key.start}:{key.stop}" if isinstance(key, range) else str(key)


def _plain(key):
    """Return a key of columns with Python's integers for NumPy's."""
    if isinstance(key, tuple):
        return tuple(map(_plain, key))
    return int(key) if isinstance(key, np.integer) else key


def _column_name(column, names):
    return f"column {column}" if names is None else f"column {names[column]!r}"
