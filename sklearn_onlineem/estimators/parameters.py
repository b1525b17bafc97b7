"""Parameters of estimators, declared once: name, default, valid values, and documentation.

An estimator is a dataclass whose fields are its parameters. So its signature is explicit, and its
`__init__` only stores, as scikit-learn requires; `clone`, `get_params` and editors work as usual.
A field also lists its valid values, and whether it shapes the fitted model. Its documentation is in
the class that declares it, and is inserted into the docstrings of subclasses. What all methods say
of X, their result and their errors is inserted, too. Errors of calls name the user's class: Python
would name the base that defines the method.

NumPy numbers are read as Python numbers, as arithmetic in int8 overflows from 128 on. They are
stored as they were given, and `get_params` returns them so.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, dataclass_transform
from weakref import WeakKeyDictionary

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import metaestimators
from sklearn.utils._param_validation import (
    Interval,
    StrOptions,
    make_constraint,
    validate_parameter_constraints,
)

from sklearn_onlineem._typing import Method
from sklearn_onlineem.em.settings import merged_params
from sklearn_onlineem.estimators.validation import check_complete, error_context

# Constraints of parameters that many estimators have.
COUNT, COUNT_FROM_0 = (Interval(Integral, least, None, closed="left") for least in (1, 0))
POSITIVE, NOT_NEGATIVE = (Interval(Real, 0, None, closed=kind) for kind in ("neither", "left"))
AUTO = StrOptions({"auto"})
RELATIVE = [StrOptions({"relative"}), NOT_NEGATIVE]
_HEADER = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def completed(cls, names):
    """Return a class's docstring with the parameters and attributes that it inherits.

    Parameters have the order of `names`, attributes and references follow the class's own. A class
    may document an inherited one again.
    """
    summary, sections = _sections(cls.__dict__.get("__doc__"))
    inherited = [_sections(_OWN_DOCS.get(base))[1] for base in cls.__mro__[1:]]
    _OWN_DOCS[cls] = cls.__dict__.get("__doc__")
    entries = _merged("Parameters", sections, inherited)
    entries = [entries[key] for key in sorted(entries, key=lambda key: names.index(key[0]))]
    attributes = _merged("Attributes", sections, inherited).values()
    first = {
        name: "\n".join(entry.rstrip() for entry in part)
        for name, part in (("Parameters", entries), ("Attributes", attributes))
    }
    references = filter(None, (one.get("References", "").strip() for one in (sections, *inherited)))
    last = {"References": "\n\n".join(references), "Examples": sections.pop("Examples", "")}
    others = {name: sections[name] for name in sections if name not in first | last}
    return _joined(summary, first | others | last) + "\n"


# Docstrings of classes before they were completed.
_OWN_DOCS = WeakKeyDictionary()


def _sections(doc):
    pieces = _HEADER.split(inspect.cleandoc(doc or ""))
    return pieces[0], dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _joined(summary, sections):
    texts = {name: text for name, part in sections.items() if (text := part.rstrip())}
    parts = (f"{name}\n{'-' * len(name)}\n{text}" for name, text in texts.items())
    return "\n\n".join([summary.rstrip(), *parts])


def _merged(section, own, inherited):
    """Return entries of a section by their names; those of the class replace inherited ones."""
    found = {}
    for sections in (own, *inherited):
        for names, entry in _entries(sections.get(section, "")).items():
            if not any(set(names) & set(known) for known in found):
                found[names] = entry
    return found


def _entries(text):
    """Return the entries of the text of a section by the names that they begin with."""
    entries = filter(None, _ENTRY.split(text.strip("\n")))
    return {tuple(re.split(r",\s*", re.split(" :|\n", one)[0].strip())): one for one in entries}


_FORGETTING = "schedule='forgetting' forgets, by the factor 'beta'"
_START_VALUES = (
    "start values are parameters whose names end in '_init', and 'params' says what is learnt"
)
_NO_MIXTURE = "a state has no mixture of emissions here; those of GMMHMM have"
_HYPERPARAMETERS = """means_prior means_weight covars_prior covars_weight beta_prior dof_prior
    scale_prior mean_prior mean_precision_prior degrees_of_freedom_prior covariance_prior""".split()
# Least similarity of a misspelt name: 'params' is not a misspelt 'init_params'.
_CLOSE = 0.75
# Names in hmmlearn, pykalman, scikit-learn and river; the name here, if the class has it; and the
# message, if this is not "it is called ... here".
_ELSEWHERE = [
    ("n_iter", "max_iter", None),
    ("min_covar", "reg_covar", None),
    ("init_params", "startprob_init", _START_VALUES),
    ("init_params", "init", None),
    ("implementation", None, "there is one implementation only"),
    ("n_trials", None, "the data say how many trials each row has"),
    ("n_mix", "startprob_init", _NO_MIXTURE),
    ("n_dim_obs", None, "the data say how many features there are"),
    ("n_dim_state", "n_components", None),
    ("n_components", "n_dim_state", None),
    ("em_vars", "params", None),
    ("params", "em_vars", None),
    *((name, "prior", "'prior' is a dict of hyper-parameters") for name in _HYPERPARAMETERS),
    ("weights_prior", "weight_concentration_prior", None),
    ("weights_prior", "startprob_init", _NO_MIXTURE),
    ("weight_concentration_prior_type", None, "the prior of the weights is a Dirichlet"),
    ("learning_method", "solver", None),
    ("learning_decay", "beta", None),
    ("learning_offset", "eta0", "'eta0' sets the first learning rates"),
    ("max_doc_update_iter", "n_sweeps", None),
    ("mean_change_tol", "n_sweeps", "the E-step ends after 'n_sweeps'"),
    ("perp_tol", "tol", None),
    ("evaluate_every", "callbacks", "'callbacks' may score, such as diagnostics.EarlyStopping"),
    ("total_samples", None, "the size of a stream need not be known"),
    ("n_clusters", "n_components", None),
    ("seed", "random_state", None),
    ("learning_rate", "eta0", None),
    ("halflife", "schedule", _FORGETTING),
    ("fading_factor", "schedule", _FORGETTING),
]


# Attributes and methods of hmmlearn and pykalman, and what there is here.
OTHER_ATTRIBUTES = {
    "em": "it is called 'fit' here",
    "monitor_": "'history_', 'converged_' and 'n_iter_' tell how it has learnt",
    "loglikelihood": "it is called 'score' here, the mean of sequences",
    "n_features": "it is called 'n_features_in_' here",
}


def by_name(remedy: str) -> Callable[[Method], Method]:
    """Let a method say which arguments users of other libraries have to pass by name."""

    def decorated(method):
        method.remedy = remedy
        return method

    return decorated


class _Argument(NamedTuple):
    """An argument beside X: its type, and the entry of docstrings that do not name it."""

    annotation: str = "ArrayLike | None"
    entry: str = ""
    # The only method that takes it; "": all.
    method: str = ""
    default: object = None


# In the order of signatures.
_ARGUMENTS = {
    "y": _Argument("ArrayLike", default=inspect.Parameter.empty),
    "lengths": _Argument(),
    "groups": _Argument(),
    "classes": _Argument(
        entry="""
classes : array-like of shape (n_components,), default=None
    With ``semi_supervised=True`` all labels, of which the first batch may have fewer; later the
    same ones, if any. None: they are those of the first batch with labels.""",
        method="partial_fit",
    ),
    "continues": _Argument(
        entry="""
continues : bool, default=False
    Whether the first sequence of X continues the last one that `partial_fit` has learnt with
    ``continues=True``."""
    ),
    "inputs": _Argument(
        "SequenceData | None",
        """
inputs : array-like, default=None
    Known inputs, a row for each row of X, cut into sequences as X is, without NaN; of one
    dimension if there is one input. None: there are none.""",
    ),
    "future_inputs": _Argument(
        "SequenceData | None",
        """
future_inputs : array-like, default=None
    Known inputs of the rows to come, `n_steps` rows for each sequence, in the forms of `inputs`
    without lengths and groups. None: there are none.""",
        "forecast",
    ),
}


@cache
def arguments_beside(kind: type, method: str = "") -> list[str]:
    """Return the names of the arguments beside X that a class, or a method of it, takes."""
    names = {name for base in kind.__mro__ for name in vars(base).get("_where", ())}
    return [n for n, one in _ARGUMENTS.items() if n in names and one.method in ("", method)]


def _with_arguments(signature, names):
    """Return the signature with arguments in the place of `cut`, which is the first, and `where`.

    The method itself may have some of them.
    """
    own, kind = signature.parameters, inspect.Parameter
    names = [name for name in names if name not in own]
    by_position, by_name = kind.POSITIONAL_OR_KEYWORD, kind.KEYWORD_ONLY
    parameters = {k: [one for one in own.values() if one.kind is k] for k in (by_position, by_name)}
    if "lengths" in names:
        parameters[by_position][1] = parameters[by_position][1].replace(annotation="SequenceData")
    for number, name in enumerate(names):
        one, by = _ARGUMENTS[name], by_position if "cut" in own and not number else by_name
        parameters[by].append(kind(name, by, default=one.default, annotation=one.annotation))
    return signature.replace(parameters=parameters[by_position] + parameters[by_name])


# What methods of estimators say alike.
_INVALID = """TypeError, ValueError
    If a parameter or the data are invalid; the message names the estimator, which is left
    unchanged."""
_UNFITTED = """NotFittedError, TypeError, ValueError
    If it is not fitted, or an argument is invalid."""
# Methods that say it have one of these arguments.
_OF_DATA = {"X", "x", "n_samples", "continues"}


def _is_ours(thing):
    return (thing.__module__ or "").startswith("sklearn_onlineem.")


def _documented(method, signature):
    """Return the docstring of a method with what it does not say: arguments, result, errors."""
    summary, sections = _sections(method.__doc__)
    is_of_data = _is_ours(method) and not _OF_DATA.isdisjoint(signature.parameters)
    if not is_of_data or not ("Returns" in sections or signature.return_annotation == "Self"):
        return method.__doc__
    own = [n for n, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD][1:]
    entries = _entries(sections.pop("Parameters", ""))
    silent = [name for name in own if not any(name in names for names in entries)]
    told = {(n,): one.entry for n, one in _ARGUMENTS.items() if n in silent and one.entry}
    alike = tuple(name for name in silent if (name,) not in told)
    entries |= told | ({alike: f"{', '.join(alike)}\n    As in `fit`."} if alike else {})
    given = sorted(entries, key=lambda names: own.index(names[0]) if names[0] in own else len(own))
    given = "\n".join(entries[names].strip("\n") for names in given)
    errors = _INVALID if "fit" in method.__name__ else _UNFITTED
    first = {"Parameters": given, "Returns": "self : object", "Raises": errors}
    return _joined(summary, first | sections)


def naming_calls(cls: Method) -> Method:
    """Let errors of wrong arguments name this class, in public methods and the constructor.

    Methods may hand `where`, arguments beside X, on to an input. In their signatures and docstrings
    stand the names in `_where` of the class, and of its bases, instead.
    """
    # `inspect.getmembers_static` takes milliseconds for a class.
    members = {name: m for kind in reversed(cls.__mro__) for name, m in vars(kind).items()}
    for name, member in members.items():
        is_public = name == "__init__" or not name.startswith("_")
        is_ours = getattr(BaseEstimator, name, None) is not member
        method = member.__func__ if isinstance(member, classmethod) else member
        if not (is_public and is_ours and inspect.isfunction(method)):
            continue
        # Attributes of what it wraps are its own, too.
        source, names = getattr(method, "source", method), None
        # To inspect signatures takes longer.
        code = inspect.unwrap(source).__code__
        if code.co_flags & inspect.CO_VARKEYWORDS and "where" in code.co_varnames:
            names = arguments_beside(cls, name)
        is_same = getattr(method, "where", None) == names
        if not (is_same and getattr(method, "names_calls", None) is method):
            called = with_named_calls(method if is_same else source, names)
            setattr(cls, name, called if method is member else classmethod(called))
    return cls


class ReadsData:
    """Base of estimators whose methods hand on `where`: scikit-learn reads their signatures."""

    def __init_subclass__(cls, **kwargs):
        if _is_ours(cls):
            naming_calls(cls)
        super().__init_subclass__(**kwargs)


def with_named_calls(method: Method, names: Sequence[str] | None = None) -> Method:
    """Decorate a method so that errors of wrong arguments name its instance's class.

    One that hands on `where` takes the arguments with these names instead, and those of the class
    of the instance where a subclass calls it.
    """
    own = signature = inspect.signature(method)
    known, most = None, 0
    if names is not None:
        signature = _with_arguments(own, names)
        known, kinds = {*signature.parameters}, [p.kind for p in signature.parameters.values()]
        most = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) - 1

    def signature_of(instance):
        if names is None:
            return signature
        return _with_arguments(own, arguments_beside(type(instance), method.__name__))

    @wraps(method)
    def called(self, /, *args, **kwargs):
        try:
            if known is not None and not (len(args) <= most and known.issuperset(kwargs)):
                signature_of(self).bind(self, *args, **kwargs)
            return method(self, *args, **kwargs)
        except TypeError:
            # Only after a failure, as it takes longer than some methods.
            refusal = _refusal(method, signature_of(self), self, args, kwargs)
            if refusal is None:
                raise
        raise TypeError(refusal)

    called.__doc__, called.names_calls = _documented(method, signature), called
    called.source, called.where = getattr(method, "source", method), names
    if names is not None:
        called.__signature__ = signature
    return called


def _refusal(method, signature, instance, args, kwargs):
    """Return what is wrong with arguments, or None if a method takes them."""
    try:
        signature.bind(instance, *args, **kwargs)
    except TypeError as error:
        found = error
    else:
        return None
    kind = instance if isinstance(instance, type) else type(instance)
    parameters = list(signature.parameters.values())[1:]
    is_constructor = method.__name__ == "__init__"
    whose = kind.__name__ if is_constructor else f"{kind.__name__}.{method.__name__}"
    kinds = [parameter.kind for parameter in parameters]
    most = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    plain = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    takes = f"its arguments are {inspect.Signature(plain)}"
    if len(args) > most:
        remedy = "pass the others by name" if is_constructor else getattr(method, "remedy", takes)
        return f"{whose} takes {most} by position, got {len(args)}: {remedy}."
    unknown = [name for name in kwargs if name not in signature.parameters]
    if unknown and is_constructor:
        return unknown_parameter(kind, unknown[0], [p.name for p in parameters])
    of_estimator = set(unknown) & set(inspect.signature(kind).parameters)
    if of_estimator and inspect.Parameter.VAR_KEYWORD not in kinds:
        return f"{whose} does not take {min(of_estimator)}, a parameter of the estimator."
    return f"{whose}() {found}; {takes}."


def unknown_parameter(kind, name, known):
    """Return the message that a class has no such parameter, with its name here if it has one."""
    whose = f"{kind.__name__} has no parameter {name!r}"
    for elsewhere, here, remedy in _ELSEWHERE:
        if elsewhere == name and (here is None or here in known):
            return f"{whose}: {remedy or f'it is called {here!r} here'}."
    close = get_close_matches(name, known, n=1, cutoff=_CLOSE)
    if close:
        return f"{whose}; did you mean {close[0]!r}?"
    return f"{whose}; it has {', '.join(sorted(known))}."


class _Parameter:
    """Descriptor of a parameter: value of the instance, or default of the class."""

    def __init__(self, name, default):
        self._name, self._default = name, default

    def __get__(self, instance, owner):
        if instance is None:
            return self._default
        try:
            value = instance.__dict__[self._name]
        except KeyError:
            return self._default
        return value.item() if isinstance(value, np.number) else value

    def __set__(self, instance, value):
        instance.__dict__[self._name] = value
        # Objects that were built from the parameters.
        instance.__dict__.pop("_present_rules", None)

    def __delete__(self, instance):
        instance.__dict__.pop(self._name, None)
        instance.__dict__.pop("_present_rules", None)


Estimator = TypeVar("Estimator", bound=type)


def parameter(
    *, default: object, valid: list, structural: bool = False, kw_only: bool = True
) -> Any:
    """Declare a parameter of an estimator.

    `valid` lists constraints of scikit-learn's validation, one of which must hold. A `structural`
    one shapes the model, and cannot change once that is fitted.
    """
    metadata = {"valid": valid, "structural": structural}
    return field(default=default, kw_only=kw_only, metadata=metadata)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter,))
def estimator(cls: Estimator) -> Estimator:
    """Give an estimator its `__init__`, its constraints and a docstring of all parameters.

    Those that set the start are `_other_starts`, and those whose names end in "_init".
    """
    cls = dataclass(cls, eq=False, repr=False)
    declared = fields(cls)
    cls._parameter_constraints = {f.name: f.metadata["valid"] for f in declared}
    cls._structural_parameters = tuple(f.name for f in declared if f.metadata["structural"])
    cls._defaults = {f.name: f.default for f in declared}
    starts = {"init", "init_params", *getattr(cls, "_other_starts", ())}
    is_start = re.compile(r"(?!n_init$)\w+_init").fullmatch
    cls._start_parameters = [n for n in cls._defaults if n in starts or is_start(n)]
    for name, default in cls._defaults.items():
        setattr(cls, name, _Parameter(name, default))
    # First the positional one, then the class's own, then inherited ones.
    positional = [f.name for f in declared if not f.kw_only]
    annotated = (name for kind in cls.__mro__ for name in inspect.get_annotations(kind))
    names = [name for name in dict.fromkeys([*positional, *annotated]) if name in cls._defaults]
    signature = inspect.signature(cls.__init__)
    ordered = [
        signature.parameters[name].replace(annotation=inspect.Parameter.empty)
        for name in ("self", *names)
    ]
    cls.__init__.__signature__ = signature.replace(
        parameters=ordered, return_annotation=inspect.Signature.empty
    )
    cls.__doc__ = completed(cls, names)
    return naming_calls(cls)


class Parameterised(ReadsData, BaseEstimator):
    """Estimator whose parameters are declared here, and checked where they differ from defaults."""

    @classmethod
    def _get_param_names(cls):
        # To inspect a signature takes longer than an update.
        if "_param_names" not in vars(cls):
            cls._param_names = tuple(super()._get_param_names())
        return list(cls._param_names)

    def get_params(self, deep: bool = True) -> dict[str, object]:
        params = super().get_params(deep)
        return {name: self.__dict__.get(name, value) for name, value in params.items()}

    get_params.__doc__ = BaseEstimator.get_params.__doc__

    def set_params(self, **params: object) -> Self:
        known = self._get_param_names()
        for name in (key.partition("__")[0] for key in params):
            if name not in known:
                raise ValueError(unknown_parameter(type(self), name, known))
        for name, value in merged_params(self, params).items():
            setattr(self, name, value)
        return self

    def _validate_params(self):
        # Defaults are valid, and to check all takes longer than some fits.
        defaults, values = self._defaults, vars(self).items()
        given = {name: x for name, x in values if name in defaults and x is not defaults[name]}
        kind, valid = type(self), self._parameter_constraints
        if "_constraints" not in vars(kind):  # To make them takes longer than to check them.
            kind._constraints = {
                name: [*map(make_constraint, constraints)]
                for name, constraints in valid.items()
                if constraints != "no_validation"
            }
        for name, value in given.items():
            if not any(one.is_satisfied_by(value) for one in kind._constraints.get(name, ())):
                try:
                    validate_parameter_constraints(valid, {name: value}, kind.__name__)
                except ValueError as error:
                    raise type(error)(_OWN_CLASS.sub(_as_users_say, str(error))) from None
        with error_context(self):
            for name, value in given.items():
                check_complete(name, value)

    if not TYPE_CHECKING:  # Type checkers would take any name for an attribute.

        def __getattr__(self, name):
            # Also called where a property has raised.
            if name not in OTHER_ATTRIBUTES or hasattr(type(self), name):
                return object.__getattribute__(self, name)
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}: {OTHER_ATTRIBUTES[name]}."
            )


# Classes within the package, as scikit-learn names them in messages.
_OWN_CLASS = re.compile(r"an instance of 'sklearn_onlineem\.(\w+)\.[\w.]*?(\w+)'")


def _as_users_say(found):
    return f"a {found[2]} of sklearn_onlineem.{found[1]}"


def are_same(a, b):
    """Return whether two values of a parameter are equal, or of a class without equality."""
    if a is b or (type(a) is type(b) and type(a).__eq__ is object.__eq__):
        return True
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return list(a) == list(b) and all(map(are_same, a.values(), b.values()))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(are_same, a, b))
    # NumPy 2.0 can't compare strings with numbers.
    return isinstance(a, str) == isinstance(b, str) and np.array_equal(a, b)


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Decorate a method that learns, so that parameters are validated before.

    Those of a fitted estimator as well, which scikit-learn's `partial_fit` does not validate again.
    """
    in_context = _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorated(method):
        fit = in_context(method)
        if method.__name__ != "partial_fit":
            return fit

        @wraps(method)
        def partial_fit(self, /, *args, **kwargs):
            if not get_config()["skip_parameter_validation"]:
                self._validate_params()
            return fit(self, *args, **kwargs)

        return partial_fit

    return decorated


def available_if(
    check: Callable[..., bool], names: Sequence[str] | None = None
) -> Callable[[Method], Method]:
    """Decorate a method that instances have only if a check of them is true.

    `names` are the arguments beside X of one that hands on `where`.
    """
    available = metaestimators.available_if(check)
    return lambda method: available(with_named_calls(method, names))


def estimator_has(name: str) -> Callable[..., bool]:
    """Return a check whether what a meta-estimator wraps has a method, fitted or not."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)
