"""Models whose parameters are known: fitted attributes that users set, one by one or together.

An attribute is declared where it is read, with its axes and with the function that puts new values
into a model. From these declarations follow the checks, and the order in which values may come: the
estimator is fitted as soon as all parts of its model are there.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache, wraps
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np
from sklearn.exceptions import NotFittedError

from sklearn_onlineem._errors import ours
from sklearn_onlineem._typing import Floats
from sklearn_onlineem._values import aligned, frozen, has_arrays_of
from sklearn_onlineem.em.loop import Progress
from sklearn_onlineem.em.state import Constants, State
from sklearn_onlineem.estimators.validation import (
    LARGEST_SQUARE,
    check_complete,
    error_context,
    finite_start,
    shares,
)
from sklearn_onlineem.families import Family
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.fixed import floored

Value = TypeVar("Value")


class Settable(Generic[Value]):
    """Descriptor of a fitted attribute that can be set; see `settable`."""

    def __init__(
        self,
        read: Callable[[Any], Value],
        axes: str | Callable[[Any, Any], str] | None,
        put: Callable[..., Model],
        parts: str,
    ) -> None:
        self.read, self._axes, self._put = read, axes, put
        self.parts = frozenset(parts.split())
        wraps(read)(self)

    def __set_name__(self, owner, name):
        self.name = name

    def covering(self, parts: str) -> Settable[Value]:
        """Return the same attribute with other parts, for the class of a family with others."""
        return Settable(self.read, self._axes, self._put, parts)

    @overload
    def __get__(self, instance: None, owner: type) -> Settable[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance, owner):
        if instance is None:
            return self
        given = instance.__dict__.get("_given", {})
        if self.name in given and "_fitted" not in instance.__dict__:
            value = given[self.name]
            return frozen(value.copy()) if isinstance(value, np.ndarray) else value
        return frozen(self.read(instance._seen()))

    def __set__(self, instance: object, value: object) -> None:
        instance._set_known({self.name: value})

    def converted(self, estimator, value):
        """Return the value as an array, and its sizes by the letters of its axes."""
        check_complete(self.name, value)
        if self._axes is None:
            return aligned(copy.deepcopy(value), "C"), {}
        try:
            values = np.asarray(value, dtype=np.float64, order="C")
        except ours(TypeError, ValueError):
            raise ValueError(
                f"{self.name} must be an array of numbers, got {value!r:.60}."
            ) from None
        axes = self._axes if isinstance(self._axes, str) else self._axes(estimator, values)
        if values.ndim != len(axes):
            raise ValueError(f"{self.name} must have {len(axes)} axes, got shape {values.shape}.")
        sizes = dict(zip(axes, values.shape, strict=True))
        shape = tuple(sizes[axis] for axis in axes)
        if not all(shape):
            raise ValueError(f"{self.name} must not be empty, got shape {values.shape}.")
        return finite_start(self.name, values, shape, LARGEST_SQUARE), sizes

    def put(self, model, value):
        """Return the model with the value; ValueError if it is invalid."""
        try:
            return self._put(model, value)
        except ours(ValueError) as error:
            if str(error).startswith(self.name):
                raise
            raise ValueError(f"{self.name}: {error}") from error


def settable(
    axes: str | Callable[[Any, Any], str] | None, put: Callable[..., Model], parts: str
) -> Callable[[Callable[[Any], Value]], Settable[Value]]:
    """Declare a fitted attribute that can be set, by the function that reads it.

    `axes` are a letter for each axis, "k" for components or states, "d" for columns of the data, or
    a function of the estimator and the values; None: the value is no array. `put` returns a model
    with new values, or raises ValueError. `parts`, separated by blanks, are those of
    `KnownModel._all_parts` that it determines.
    """
    return lambda read: Settable(read, axes, put, parts)


@cache
def _settables(kind):
    """Return the settable attributes of a class by name, in the order in which values are put.

    It is the order of the class's parts.
    """
    found = {
        name: value
        for name, value in inspect.getmembers_static(kind)
        if isinstance(value, Settable)
    }

    def place(name):
        return min(map(kind._all_parts.index, found[name].parts))

    return {name: found[name] for name in sorted(found, key=place)}


def put_parameters(put: Callable[[Any, Any, Floats], object]) -> Callable[..., Model]:
    """Return a `put` of models from one of (family, parameters, values)."""

    def put_into(model, values):
        return replace(model, parameters=put(model.family, model.parameters, values))

    return put_into


def put_probabilities(put: Callable[[Any, Any, Floats], Floats]) -> Callable[..., Model]:
    """Return as `put_parameters`, of probabilities, with floors where they are learnt."""

    def put_into(model, values):
        given, learnt = put(model.family, model.parameters, values), getattr(model, "learnt", "e")
        return replace(model, parameters=floored(model.family, given, model.fixed, learnt))

    return put_into


def put_all_parameters(model: Any, parameters: object) -> Model:
    """Return a model with the family's parameters of all components."""
    family, n_components = model.family, model.n_components
    X, density = _drawn(family, parameters, n_components)
    if model.parameters is not None:
        n_features = _drawn(family, model.parameters, 1)[0].shape[1]
        if X.shape[1] != n_features:
            raise ValueError(
                f"parameters_ has {X.shape[1]} columns, but {n_features} are expected."
            )
    if density.shape[1] != n_components or not np.isfinite(np.diagonal(density)).all():
        raise ValueError(f"parameters_ must be those of {n_components} components of {family!r}.")
    return replace(model, parameters=parameters)


def n_features_of(family: Family, given: dict[str, Any]) -> int | None:
    """Return the number of columns of a family's `parameters_`, or None if they are not given."""
    return _drawn(family, given["parameters_"], 1)[0].shape[1] if "parameters_" in given else None


def _drawn(family, parameters, n_components):
    """Return a row of each of the first components, and the log densities of these."""
    try:
        with np.errstate(all="ignore"):
            X = family.sample(parameters, np.arange(n_components), np.random.default_rng(0))
            return X, family.log_density(parameters, X)
    except ours(TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(
            f"parameters_ must be those of {n_components} components of {family!r}: {error}"
        ) from error


def shares_as_given(name: str, values: Floats, may_lack: bool = False) -> Floats:
    """Return shares that add up to 1; those that do but for rounding stay as they are."""
    values = shares(name, values, values.shape, may_lack)
    totals = values.sum(axis=-1, keepdims=True)
    is_rounded = np.abs(totals - 1.0) <= values.shape[-1] * np.finfo(np.float64).eps
    keeps = is_rounded | (totals < 1.0) if may_lack else is_rounded
    return np.where(keeps, values, values / totals)


def check_definite(name: str, matrices: Floats) -> None:
    """Raise ValueError unless matrices are positive definite, or variances above 0."""
    if matrices.ndim == 2:
        wrong = np.flatnonzero(~(matrices > 1.0 / LARGEST_SQUARE).all(axis=1))
        what = "above 0"
    else:
        scale = np.abs(matrices).max(axis=(1, 2))
        gap = np.abs(matrices - matrices.transpose(0, 2, 1)).max(axis=(1, 2))
        scale[scale == 0.0] = 1.0
        smallest = np.linalg.eigvalsh(matrices / scale[:, None, None])[:, 0]
        wrong = np.flatnonzero(
            (gap > _ASYMMETRY * scale) | ~(smallest * scale > 1.0 / LARGEST_SQUARE)
        )
        what = "symmetric and positive definite"
    if len(wrong):
        where = f"; number {wrong[0]} is not" if len(matrices) > 1 else ""
        raise ValueError(f"{name} must be {what}{where}.")


# Rounding of symmetric matrices, relative to their largest entry.
_ASYMMETRY = 1e-8


class KnownModel:
    """Mixin of estimators whose fitted attributes can be set.

    Subclasses define `_all_parts`, the parts that a model needs, and `_blank`.
    """

    # Parts of a model that `settable` attributes determine, and those that it may lack.
    _all_parts: ClassVar[tuple[str, ...]] = ()
    _optional_parts: ClassVar[frozenset[str]] = frozenset()

    # ------------------------------------------------------------------ provided by a subclass

    def _needed_parts(self):
        """Return the parts that no parameter determines."""
        return [part for part in self._all_parts if part not in self._optional_parts]

    def _known_sizes(self, given):
        """Return sizes that parameters, or values that are no arrays, determine, by axes."""
        return {"k": self.n_components}

    def _features_of(self, sizes, given):
        """Return the number of columns, 0 if data have none; None if no attribute shows it yet."""
        return sizes.get("d")

    def _blank(self, sizes, n_features, given):
        """Return a model of these sizes, into which values are put."""
        raise ValueError("its fitted attributes cannot be set.")

    def _attributes_of(self, given, n_steps):
        """Return attributes that values determine besides the model, after `n_steps` updates."""
        return {}

    def _bound(self, model, data, lacks_lengths=False):
        """Return a known model with what depends on the first data."""
        return model

    def _known_model(self, data):
        """Return the known model, bound to its first data, or None if there is none."""
        fitted = self.__dict__.get("_fitted")
        if fitted is None or not fitted.state.awaits_data:
            return None
        return self._bound(fitted.state.model, data, self._lacks_lengths())

    # -------------------------------------------------------------------------------------- use

    def _set_known(self, new):
        """Set fitted attributes: all of them, or none if one is invalid."""
        self._validate_params()
        with self._lock(), error_context(self):
            fitted = self.__dict__.get("_fitted")
            if fitted is None:
                self._give(new)
                return
            changed = {
                name: value for name, value in new.items() if not self._is_present(name, value)
            }
            if not changed:
                return
            self._check_structure()
            given, sizes = self._checked(changed, self._fitted_sizes())
            model = self._with(fitted.state.model, given)
            names = fitted.attributes.get("_names_set", frozenset())
            attributes = {
                **fitted.attributes,
                **self._attributes_of(given, fitted.state.counters.n_steps),
                "_names_set": names | changed.keys(),
            }
            # The last sequence, and the convergence, are those of another model.
            self._fitted = fitted._replace(
                state=fitted.state.with_model(model), attributes=attributes, lower_bounds=(),
                converged=False, end=None, distance=np.inf,
            )  # fmt: skip
            self.__dict__.pop("_present_rules", None)

    def _fitted_sizes(self):
        model = self._fitted.state.model
        return {"k": model.n_components, "d": self.n_features_in_}

    def _is_present(self, name, value):
        """Return whether a value is the attribute that users see."""
        attribute = _settables(type(self))[name]
        if np.ma.is_masked(value):
            return False
        if attribute._axes is None:
            return has_arrays_of(value, getattr(self, name))
        try:
            return np.array_equal(np.asarray(value, dtype=np.float64), getattr(self, name))
        except (TypeError, ValueError, AttributeError):
            return False

    def _give(self, new):
        """Keep values until the model is complete."""
        table, given = _settables(type(self)), dict(self.__dict__.get("_given", {}))
        for name in new:
            # What has the same meaning is replaced.
            parts = table[name].parts
            given = {old: value for old, value in given.items() if not table[old].parts <= parts}
            given[name] = new[name]
        given, sizes = self._checked(given, self._known_sizes(given))
        n_features = self._features_of(sizes, given)
        model = self._with(self._blank(sizes, n_features or 1, given), given)
        if n_features is None or self._missing_parts(given):
            self._given = given
            return
        attributes = {
            **({"n_features_in_": n_features} if n_features else {}),
            **self._attributes_of(given, 0),
            "_dtype": np.dtype(np.float64),
            "_names_set": frozenset(given),
        }
        state = State(
            model, seed=self._drawn_seed(), constants=Constants(size_unit=0.0, is_known=True)
        )
        self._commit(Progress(state), attributes)

    def _checked(self, given, sizes):
        """Return converted values in the order in which they are put, and all sizes."""
        table, converted, sizes = _settables(type(self)), {}, dict(sizes)
        for name in sorted(given, key=[*table].index):
            converted[name], own = table[name].converted(self, given[name])
            for axis, size in own.items():
                if sizes.setdefault(axis, size) != size:
                    what = _AXES.get(axis, "entries along an axis")
                    raise ValueError(f"{name} has {size} {what}, but {sizes[axis]} are expected.")
        return converted, sizes

    def _with(self, model, given):
        for name, value in given.items():
            model = _settables(type(self))[name].put(model, value)
        return model

    def _missing_parts(self, given):
        table = _settables(type(self))
        found = frozenset().union(*(table[name].parts for name in given))
        return [part for part in self._needed_parts() if part not in found]

    def _lacks_lengths(self):
        """Return whether lengths of rows are unknown until first data come."""
        table = _settables(type(self))
        found = frozenset().union(*(table[n].parts for n in self._fitted.attributes["_names_set"]))
        return "lengths" in self._all_parts and "lengths" not in found

    def _missing(self, given, end="_"):
        """Return the names of the attributes that are missing, with alternatives."""
        missing, table = self._missing_parts(given), _settables(type(self))
        names = [
            " or ".join(
                name.removesuffix("_") + end for name, value in table.items() if part in value.parts
            )
            for part in missing
        ]
        return " and ".join(dict.fromkeys(names)) or "an attribute that shows the number of columns"

    def _not_fitted(self):
        """Return the error of methods before a fit."""
        what = f"This {type(self).__name__} instance is not fitted yet"
        given = self.__dict__.get("_given")
        if not given:
            return NotFittedError(
                f"{what}. Call 'fit' with appropriate arguments before using this estimator."
            )
        return NotFittedError(
            f"{what}: {', '.join(given)} {'is' if len(given) == 1 else 'are'} set. Set"
            f" {self._missing(given)}, too, or call 'fit'."
        )


class FromParameters:
    """Mixin of estimators all of whose parameters can be set."""

    # Parameters that are sizes, by letters of axes.
    _sizing_parameters: ClassVar[dict[str, str]] = {"k": "n_components"}

    @classmethod
    def from_parameters(cls, **parameters: object) -> Self:
        """Return an estimator that is fitted, of a model whose parameters are known.

        Parameters
        ----------
        **parameters
            The fitted attributes that can be set, without the underscore at the end; and parameters
            of the constructor. The number of components or states follows. Of names that are both,
            arrays are attributes, and numbers parameters.

        Returns
        -------
        estimator : object
            It has seen no data: `n_samples_seen_` is 0. `partial_fit`, and `fit` with
            ``warm_start=True``, continue from its model; see :ref:`known_models`.

        Raises
        ------
        ValueError
            If a value is invalid, or one is missing.
        TypeError
            If a name is unknown.

        Examples
        --------
        >>> from sklearn_onlineem import PoissonMixture
        >>> known = PoissonMixture.from_parameters(weights=[0.5, 0.5], rates=[[1.0], [9.0]])
        >>> known.n_components, known.predict([[0], [7]])
        (2, array([0, 1]))
        """
        names, given, settings = {n.removesuffix("_"): n for n in _settables(cls)}, {}, {}
        for name, value in parameters.items():
            if name in names.values():
                raise TypeError(
                    f"{cls.__name__}.from_parameters takes {name} by the name"
                    f" {name.removesuffix('_')!r}."
                )
            # A number that parameters of the constructor may be, too, is one.
            is_setting = name not in names or (name in cls._defaults and np.ndim(value) == 0)
            if is_setting:
                settings[name] = value
            else:
                given[names[name]] = value
        estimator = cls(**settings)
        estimator._validate_params()
        with error_context(estimator):
            for name, value in given.items():
                _, sizes = _settables(cls)[name].converted(estimator, value)
                for axis, parameter in cls._sizing_parameters.items():
                    if axis in sizes and parameter not in settings:
                        settings[parameter] = sizes[axis]
        estimator = cls(**settings)
        estimator._set_known(given)
        if not estimator.__sklearn_is_fitted__():
            missing = estimator._missing(estimator.__dict__.get("_given", {}), "")
            raise ValueError(f"{cls.__name__}.from_parameters needs {missing}, too.")
        return estimator


_AXES = {"k": "components or states", "d": "columns"}
