"""Families by columns of tables, and the categories of nominal columns."""

from __future__ import annotations

from contextlib import contextmanager
from numbers import Integral

import numpy as np

from sklearn_onlineem.estimators._families import FAMILIES
from sklearn_onlineem.families import Family, Product

__all__ = ["ColumnFamilies", "product_of"]

# Within a group, columns are correlated unless another family is asked for.
_SHORT = {"gaussian": FAMILIES["gaussian_full"]}
_MOST_SHOWN = 10


class ColumnFamilies:
    """Mixin of estimators whose `family` is one of all columns, or a dict of those of groups.

    The columns of a dict are found in first data, of which the estimator keeps the names while it
    learns.
    """

    # What validation found in the first data of the fit that goes on.
    _first_attributes = None

    def _family(self):
        family, known = self.family, self._first_attributes
        if isinstance(family, dict):
            if known is None:
                fitted = vars(self).get("_fitted")
                known = {} if fitted is None else fitted.attributes
            return product_of(family, known.get("feature_names_in_"), known.get("n_features_in_"))
        return FAMILIES[family] if isinstance(family, str) else family

    def _converted(self, X, fresh, ensure_all_finite=True):
        X, attributes = super()._converted(X, fresh, ensure_all_finite)
        if fresh:
            self._first_attributes = attributes
        return X, attributes

    @contextmanager
    def _lock(self):
        with super()._lock():
            try:
                yield
            finally:
                self.__dict__.pop("_first_attributes", None)

    @property
    def _hyperparameters(self):
        """Hyper-parameters of priors, of groups by their names."""
        given = super()._hyperparameters
        if isinstance(given, dict) and isinstance(self.family, dict):
            return {_name_of(columns): values for columns, values in given.items()}
        return given


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
    if not isinstance(value, str) or value not in known:
        raise ValueError(
            f"family has {value!r} for {name!r}, which must be a Family or one of {sorted(known)}."
        )
    return known[value]


def _n_features_of(families):
    """Return how many columns there are if keys are positions; else a ValueError."""
    positions = []
    for key in families:
        for part in key if isinstance(key, tuple) else (key,):
            if not isinstance(part, Integral) or isinstance(part, bool) or part < 0:
                raise ValueError(
                    f"family has the key {key!r}, of which the columns are known with first data."
                )
            positions.append(int(part))
    return max(positions, default=-1) + 1


def _positions(key, names, n_features):
    if isinstance(key, tuple):
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
    if isinstance(key, slice):
        return _positions(tuple(range(*key.indices(n_features))), names, n_features)
    if isinstance(key, range):
        return _positions(tuple(key), names, n_features)
    if not isinstance(key, Integral) or isinstance(key, bool):
        raise ValueError(
            f"family has the key {key!r}; keys are names of columns, positions, slices, or tuples"
            " of these."
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


def _column_name(column, names):
    return f"column {column}" if names is None else f"column {names[column]!r}"
