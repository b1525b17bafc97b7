"""Models whose parameters are known: fitted attributes that users set, one by one or together.

A line of an estimator declares an attribute that shows a part of its models: what it determines,
and how `params` learns it; the part reads and puts it. From this table follow the checks, the order
of values, and what is missing: the estimator is fitted as soon as all parts of its model are there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np
from sklearn.exceptions import NotFittedError

from sklearn_onlineem._checks import LARGEST_SQUARE, finite_start
from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Floats
from sklearn_onlineem._values import aligned, frozen, has_arrays_of
from sklearn_onlineem.em.loop import Progress
from sklearn_onlineem.em.state import Constants, State
from sklearn_onlineem.estimators.fitted import commit, exposed
from sklearn_onlineem.estimators.learning import drawn_seed
from sklearn_onlineem.estimators.validation import check_complete, error_context
from sklearn_onlineem.families import Gaussian
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.fixed import Fixed

Value = TypeVar("Value")


@dataclass(eq=False)
class Settable(Generic[Value]):
    """Descriptor of a fitted attribute that can be set: a line of an estimator's table."""

    # Parts of the model that it determines, separated by blanks. "": the one of its name.
    parts: str = ""
    # Whether a model need not have its own part from attributes: True; the name of a parameter that
    # says it, unless it is None; or a function of the estimator.
    optional: bool | str | Callable[[Any], bool] = False
    # Setting without which models have no such part.
    requires: str = ""
    # Letters of `params`, each of which learns it, and axes of the masks that it may have there,
    # such as "k kd", or a function of the estimator. None: `params` knows it not.
    letters: str = ""
    masks: str | Callable[[Any], str] | None = None
    # Makes what is put of a start value, a parameter with its name: a function of the estimator,
    # that name, the value, and the model. None: start values have its axes.
    start: Callable[[Any, str, object, Any], Floats] | None = None
    # Whether values may be infinite.
    may_be_infinite: bool = False
    # Otherwise it only has start values.
    can_be_set: bool = True
    # For attributes that differ from the part of the model of this name, or are none: a function of
    # the estimator that returns the values, and axes and `put` as of a `Part`.
    read: Callable[[Any], Value] | None = None
    axes: str | Callable[[Any], str] | None = ""
    put_into: Callable[..., Model] | None = None

    def __set_name__(self, owner, name):
        self.name, self.part = name, name.removesuffix("_")
        self.determines = frozenset(self.parts.split() or [self.part])

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
        seen = instance._seen()
        if self.read is not None:
            return frozen(self.read(seen))
        model = seen._fitted.state.model  # `model_` would make all of it read-only.
        part = self._among(model.parts)
        if part is None:
            raise AttributeError(f"{self.name} requires {self.requires}.")
        values = part.get(model)
        return frozen(values if part.axes is None else exposed(seen, values))

    def _among(self, parts):
        return next((part for part in parts if part.name == self.part), None)

    def __set__(self, instance: object, value: object) -> None:
        if not self.can_be_set:
            raise AttributeError(f"{self.name} of {type(instance).__name__} cannot be set.")
        set_known(instance, {self.name: value})

    def is_optional(self, estimator):
        """Return whether models of an estimator need not have its part from attributes."""
        if isinstance(self.optional, str):
            return getattr(estimator, self.optional) is not None
        return _said(self.optional, estimator)

    def converted(self, estimator, value):
        """Return the value as an array, and its sizes by the letters of its axes."""
        check_complete(self.name, value)
        axes = self.axes_in(estimator._parts())
        if axes is None:
            return aligned(copy.deepcopy(value), "C"), {}
        try:
            values = np.asarray(value, dtype=np.float64, order="C")
        except ours(TypeError, ValueError):
            raise ValueError(
                f"{self.name} must be an array of numbers, got {value!r:.60}."
            ) from None
        axes = _said(axes, values)
        if values.ndim != len(axes):
            raise ValueError(f"{self.name} must have {len(axes)} axes, got shape {values.shape}.")
        sizes = dict(zip(axes, values.shape, strict=True))
        shape = tuple(sizes[axis] for axis in axes)
        if not all(shape):
            raise ValueError(f"{self.name} must not be empty, got shape {values.shape}.")
        finite = np.where(values == np.inf, 0.0, values) if self.may_be_infinite else values
        found = finite_start(self.name, finite, shape, LARGEST_SQUARE)
        return values.copy() if self.may_be_infinite else found, sizes

    def axes_in(self, parts):
        part = self._among(parts) if self.axes == "" else self
        return None if part is None else part.axes

    def put(self, model, value, name=None, parts=None):
        """Return the model with the value; ValueError, which has its name, if it is invalid."""
        try:
            if self.put_into is not None:
                return self.put_into(model, value)
            part = self._among(parts or model.parts)
            if part is None:
                raise ValueError(f"{self.name} requires {self.requires}.")
            return part.put(model, value)
        except ours(ValueError) as error:
            text, name = str(error), name or self.name
            what = text.removeprefix(self.name) if text.startswith(self.name) else f": {text}"
            raise ValueError(f"{name}{what}") from error


def _said(setting, *arguments):
    """Return a setting of an attribute, or what a function says of the estimator."""
    return setting(*arguments) if callable(setting) else setting


@cache
def _settables(kind):
    """Return the settable attributes of a class by name, in the order in which values are put.

    They have the order in which they are defined, those of bases first.
    """
    found = {}
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            found.pop(name, None)
            if isinstance(value, Settable) and value.can_be_set:
                found[name] = value
    return found


@cache
def _letters(kind):
    """Return the letters of `params` that learn each part, by name; those of a class."""
    lines = _settables(kind).values()
    letters = {line.part: line.letters for line in lines if line.masks is not None}
    whole, of_whole = kind._whole
    is_told = set(of_whole) & set().union(*letters.values())
    return letters | {whole: "" if is_told else of_whole}


# Parts that hidden chains have, or mixtures, besides their components.
_OF_CHAINS = {"weights", "startprob", "transmat", "durationprob"}
_OTHER_STARTS = {"n_init", "startprob_init", "transmat_init", "durationprob_init"}


@cache
def _starts(kind):
    """Return the attributes that may have start values, by the names of these parameters."""
    return {
        name: getattr(kind, name.removesuffix("init"))
        for name in kind._defaults
        if name.endswith("_init") and name not in _OTHER_STARTS
    }


class KnownModel:
    """Mixin of estimators whose fitted attributes can be set: they define these, and `_blank`."""

    # Parameters that are sizes, by letters of axes.
    _sizes: ClassVar[dict[str, str]] = {"k": "n_components"}

    # ------------------------------------------------------------------ provided by a subclass

    def _known_sizes(self, given):
        """Return sizes that parameters, or values that are no arrays, determine, by axes."""
        sizes = {axis: getattr(self, name) for axis, name in self._sizes.items()}
        return {axis: size for axis, size in sizes.items() if size is not None}

    def _standard(self, family, n_components, n_features):
        """Return parameters of this shape, into which values are put."""
        return np.full((n_components, n_features), 1.0 / n_features)

    def _features_of(self, sizes, given):
        """Return the number of columns, 0 if data have none; None if no attribute shows it yet."""
        return sizes.get("d")

    def _parts(self):
        return ()

    def _blank(self, sizes, n_features, given):
        """Return a model of these sizes, into which values are put."""
        raise ValueError("its fitted attributes cannot be set.")

    def _attributes_of(self, given, n_steps):
        """Return attributes that values determine besides the model, after `n_steps` updates."""
        return {}

    def _bound(self, model, data):
        """Return a known model with what depends on the first data."""
        return model

    def _with(self, model, given):
        for name, value in given.items():
            model = _settables(type(self))[name].put(model, value)
        return model

    def _fitted_sizes(self):
        """Return the sizes that fitted attributes have, by axes."""
        sizes, parts = {"d": self._fitted.attributes.get("n_features_in_")}, self._parts()
        for line in _settables(type(self)).values():
            # Others take longer to compute.
            axes = line.axes_in(parts) if line.part in line.determines else None
            values = None if axes is None else getattr(self, line.name, None)
            if values is not None:
                sizes |= zip(_said(axes, values), values.shape, strict=True)
        return sizes

    # -------------------------------------------------------------------------------------- use

    def _seen(self):
        """Return a copy of the estimator as it is now, which later updates do not change."""
        seen = object.__new__(type(self))
        seen.__dict__ = self.__dict__.copy()
        if "_fitted" not in seen.__dict__:
            raise not_fitted(self)
        return seen

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
                for axis in sizes.keys() & {"k", "j"} & cls._sizes.keys():
                    settings.setdefault(cls._sizes[axis], sizes[axis])
        estimator = cls(**settings)
        set_known(estimator, given)
        if not estimator.__sklearn_is_fitted__():
            missing = missing_names(estimator, estimator.__dict__.get("_given", {}), "")
            raise ValueError(f"{cls.__name__}.from_parameters needs {missing}, too.")
        return estimator


def learnt_parts(estimator):
    """Return what `params` says is learnt, by names of parts: True, False, or a mask."""
    if isinstance(estimator.params, str):
        letters = _letters(type(estimator))
        # Letters of one part come first.
        joined = "".join(letters.values())
        if set(estimator.params) - set(joined):
            known = "".join(dict.fromkeys(sorted(joined, key=joined.count)))
            raise ValueError(f"params has letters other than {known!r}: {estimator.params!r}.")
        return {
            name: not own or not set(own).isdisjoint(estimator.params)
            for name, own in letters.items()
        }
    lines, whole = _settables(type(estimator)).values(), {estimator._whole[0]: "k"}
    masks = {line.part: _said(line.masks, estimator) for line in lines if line.masks is not None}
    return masked_parts(estimator.params, masks | whole, estimator.n_components)


def start_values(estimator):
    """Return the start values among the parameters, by their lines, but for those of a chain."""
    lines = _starts(type(estimator))
    return {line: x for name, line in lines.items() if (x := getattr(estimator, name)) is not None}


def names_instead_of_clusters(estimator, family):
    """Return the names of start values that together need no clusters, if there are any."""
    lines, needed = _starts(type(estimator)), set(missing_parts(estimator, ())) - _OF_CHAINS
    if "means_init" in lines and family.determined_by_means:
        needed = lines["means_init"].determines
    found = [name for name, line in lines.items() if line.determines & needed]
    return found if needed <= frozenset().union(*(lines[n].determines for n in found)) else []


def with_start_values(estimator, model, data):
    """Return a model with the start values that are given."""
    if not (given := start_values(estimator)):
        return model
    sizes, parts = {**estimator._known_sizes({}), "d": data.n_features}, model.parts
    for line, value in given.items():
        name = f"{line.name}init"
        if line.start is not None:
            values = line.start(estimator, name, value, model)
        else:
            shape = tuple(map(sizes.get, _said(line.axes_in(parts), np.asarray(value))))
            values = finite_start(name, value, shape, LARGEST_SQUARE)
        model = line.put(model, values, name, parts)
    return model


def with_lengths(family, parameters, rows):
    """Return parameters with the mean lengths of rows, if they have any."""
    put = getattr(family, "with_mean_length", None)
    return parameters if put is None else put(parameters, rows.X, rows.sample_weight)


def known_model(estimator, data):
    """Return the known model, bound to its first data, or None if there is none."""
    fitted = vars(estimator).get("_fitted")
    if fitted is None or not fitted.state.awaits_data:
        return None
    model = estimator._bound(fitted.state.model, data)
    family = getattr(model, "family", None)
    if family is None or "lengths" in _parts_of(estimator, fitted.attributes["_names_set"]):
        return model
    parameters = with_lengths(family, model.parameters, getattr(data, "rows", data))
    return replace(model, parameters=parameters)


def set_known(estimator, new):
    """Set fitted attributes: all of them, or none if one is invalid."""
    estimator._validate_params()
    with estimator._lock(), error_context(estimator):
        fitted = vars(estimator).get("_fitted")
        if fitted is None:
            _give(estimator, new)
            return
        changed = {
            name: value for name, value in new.items() if not _is_present(estimator, name, value)
        }
        if not changed:
            return
        estimator._check_structure()
        given, sizes = _converted(estimator, changed, estimator._fitted_sizes())
        model = estimator._with(fitted.state.model, given)
        names = fitted.attributes.get("_names_set", ())
        attributes = {
            **fitted.attributes,
            **estimator._attributes_of(given, fitted.state.counters.n_steps),
            "_names_set": tuple(sorted({*names, *changed})),
        }
        # The last sequence, and the convergence, are those of another model.
        estimator._fitted = fitted._replace(
            state=fitted.state.with_model(model), attributes=attributes, lower_bounds=(),
            converged=False, end=None, distance=np.inf,
        )  # fmt: skip
        vars(estimator).pop("_present_rules", None)


def _is_present(estimator, name, value):
    """Return whether a value is the attribute that users see."""
    attribute = _settables(type(estimator))[name]
    if np.ma.is_masked(value):
        return False
    if attribute.axes_in(estimator._parts()) is None:
        return has_arrays_of(value, getattr(estimator, name))
    try:
        return np.array_equal(np.asarray(value, dtype=np.float64), getattr(estimator, name))
    except (TypeError, ValueError, AttributeError):
        return False


def _give(estimator, new):
    """Keep values until the model is complete."""
    table, given = _settables(type(estimator)), dict(vars(estimator).get("_given", {}))
    for name in new:
        # A value replaces those with the same meaning.
        parts = table[name].determines
        given = {old: x for old, x in given.items() if not table[old].determines <= parts}
        given[name] = new[name]
    given, sizes = _converted(estimator, given, estimator._known_sizes(given))
    n_features = estimator._features_of(sizes, given)
    model = estimator._with(estimator._blank(sizes, n_features or 1, given), given)
    if n_features is None or missing_parts(estimator, given):
        estimator._given = given
        return
    attributes = {
        **({"n_features_in_": n_features} if n_features else {}),
        **estimator._attributes_of(given, 0),
        "_dtype": np.dtype(np.float64),
        "_names_set": tuple(sorted(given)),
    }
    constants = Constants(size_unit=0.0, is_known=True)
    state = State(model, seed=drawn_seed(estimator.random_state), constants=constants)
    commit(estimator, Progress(state), attributes)


def _converted(estimator, given, sizes):
    """Return converted values in the order in which they are put, and all sizes."""
    table, converted, sizes = _settables(type(estimator)), {}, dict(sizes)
    for name in sorted(given, key=[*table].index):
        converted[name], own = table[name].converted(estimator, given[name])
        for axis, size in own.items():
            if sizes.setdefault(axis, size) != size:
                what = _AXES.get(axis, "entries along an axis")
                raise ValueError(f"{name} has {size} {what}, but {sizes[axis]} are expected.")
    return converted, sizes


def _parts_of(estimator, names):
    return frozenset().union(*(_settables(type(estimator))[name].determines for name in names))


def missing_parts(estimator, given):
    """Return the parts that neither attributes nor parameters determine."""
    found = _parts_of(estimator, given)
    return [
        line.part
        for line in _settables(type(estimator)).values()
        if line.part in line.determines - found and not line.is_optional(estimator)
    ]


def missing_names(estimator, given, end="_"):
    """Return the names of the attributes that are missing, with alternatives."""
    missing, table = missing_parts(estimator, given), _settables(type(estimator))
    names = [
        " or ".join(line.part + end for line in table.values() if part in line.determines)
        for part in missing
    ]
    return " and ".join(dict.fromkeys(names)) or "an attribute that shows the number of columns"


def not_fitted(estimator):
    """Return the error of methods before a fit."""
    what = f"This {type(estimator).__name__} instance is not fitted yet"
    given = vars(estimator).get("_given")
    if not given:
        return NotFittedError(
            f"{what}. Call 'fit' with appropriate arguments before using this estimator."
        )
    return NotFittedError(
        f"{what}: {', '.join(given)} {'is' if len(given) == 1 else 'are'} set. Set"
        f" {missing_names(estimator, given)}, too, or call 'fit'."
    )


_AXES = {"k": "components or states", "d": "columns"}


# ------------------------------------------------------------------------------- what is learnt


def masked_parts(params, masks, n_components):
    """Return what is learnt of each part by name: True, False, or a mask of booleans.

    `params` has masks by names of parts, which are learnt without one. `masks` has their axes, such
    as "k" or "k kd", where "e" has one more entry than "k", and others have any length.
    """
    if not isinstance(params, Mapping):
        raise ValueError(f"params must be letters, or a dict of masks, got {params!r:.60}.")
    unknown = [name for name in params if name not in masks]
    if unknown:
        raise ValueError(f"params has the key {unknown[0]!r}; it may have {', '.join(masks)}.")
    sizes = {"k": n_components, "e": n_components + 1}
    return {
        name: _checked(
            f"params[{name!r}]", params.get(name, True),
            [tuple(map(sizes.get, axes)) for axes in kinds.split()],
        )
        for name, kinds in masks.items()
    }  # fmt: skip


def _checked(name, mask, shapes):
    if isinstance(mask, bool | np.bool):
        return bool(mask)
    mask = np.array(mask)
    fits = any(
        mask.ndim == len(shape)
        and all(n in (None, own) for n, own in zip(shape, mask.shape, strict=True))
        for shape in shapes
    )
    if mask.dtype != bool or not fits:
        texts = [str(shape).replace("None", "n_features") for shape in shapes]
        masks = f", or an array of booleans of shape {' or '.join(texts)}" if shapes else ""
        raise ValueError(
            f"{name} must be True or False{masks}, True where an entry is learnt; got shape"
            f" {mask.shape} of {mask.dtype}."
        )
    return mask


def masks_of_means(estimator):
    """Return the axes of masks of means of Gaussians."""
    return "k kd" if estimator.covariance_type in ("diag", "spherical") else "k"


def masks_of_covariances(estimator):
    """Return the axes of masks of their covariances; shared ones are learnt or not."""
    return "" if estimator.covariance_type == "tied" else "k"


def gaussian_family(estimator, shape, learnt, covariances, of_components):
    """Return the Gaussians of a shape, with masks of what is learnt of them.

    `covariances` and `of_components` are names of parts. What fixes all of a component fixes its
    mean, about which covariances are then learnt; a shared covariance is no component's.
    """
    means, whole = learnt["means"], learnt[of_components]
    if isinstance(means, np.ndarray) and means.ndim == 1:
        means = means[:, None]
    if isinstance(whole, np.ndarray):
        means = means & whole[:, None]
    floor = None if estimator.reg_covar == "relative" else float(estimator.reg_covar)
    return Gaussian(shape, floor, learns_means=means, learns_covariances=learnt[covariances])


def fixed_entries(n_components, **learnt):
    """Return the entries that are fixed, as models take them, or None if all are learnt.

    Masks are of what is learnt, of the shapes of `Fixed`; True is all, False no component.
    """
    every = np.ones(n_components, dtype=bool)
    masks = {
        name: ~(mask if isinstance(mask, np.ndarray) else every & mask)
        for name, mask in learnt.items()
        if mask is not True
    }
    return Fixed(**masks) if masks else None


def with_masks(family, other):
    """Return a family, bound to data, with the masks of another."""
    masks = {name: mask for name, mask in vars(other).items() if name.startswith("learns_")}
    if hasattr(family, "family"):
        masks["family"] = with_masks(family.family, other.family)
    return replace(family, **masks) if masks else family
