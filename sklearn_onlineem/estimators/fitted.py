"""State of a fitted estimator: how users read it, and how it is saved, loaded and checked."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial, wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar, Unpack, get_type_hints
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.exceptions import InconsistentVersionWarning

from sklearn_onlineem._typing import Cut, FloatsOrList, RowData, Where
from sklearn_onlineem._values import Identified, aligned, checksum, frozen
from sklearn_onlineem._version import __version__
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.solvers import Chains
from sklearn_onlineem.em.stages.memories import Remember
from sklearn_onlineem.em.stages.sample import Challenge, without_sample
from sklearn_onlineem.em.state import History, State, Step
from sklearn_onlineem.estimators.parameters import are_same, arguments_beside, estimator
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import INVALID, error_context, raise_named
from sklearn_onlineem.models import Model

# Parameters that say what is learnt, which a fit that goes on may change.
RELEARNT = frozenset({"params", "em_vars"})
# Where scikit-learn keeps the callbacks of `set_callbacks`, which are not fitted state.
CALLBACKS = "_skl_callbacks"
_VERSION, _CHECKSUM = "_sklearn_onlineem_version", "_checksum"
_ITEMS = "_items"
# Rows of data that are saved.
_N_ROWS = "n_rows_kept"


class PersistentState(Identified):
    """Mixin of estimators whose pickled state has a version and a checksum.

    The checksum finds accidents, not attacks: whoever can write a pickle can make it execute code.
    """

    def __getstate__(self):
        state = _of_keys(_listed, saved_state(self))
        return {**state, _VERSION: __version__, _CHECKSUM: _checksum_of(type(self), state)}

    def __setstate__(self, state):
        name = type(self).__name__
        if not isinstance(state, dict):
            raise ValueError(f"{name}: its state must be a dict, got {type(state).__name__}.")
        state = {key: value for key, value in state.items() if key not in self._transient}
        version, found = state.pop(_VERSION, None), state.pop(_CHECKSUM, None)
        if version is None:
            raise ValueError(f"{name}: its state lacks the version that saved it.")
        if version != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=name,
                    current_sklearn_version=f"sklearn_onlineem {__version__}",
                    original_sklearn_version=f"sklearn_onlineem {version}",
                ),
                stacklevel=2,
            )
        elif found != _checksum_of(type(self), state):
            raise ValueError(
                f"{name}: its state differs from the saved one: part of it is missing or changed."
                " Save it again, and load it with the tool that saved it."
            )
        restore(self, _of_keys(_unlisted, state))


def saved_state(estimator):
    """Return what is saved, by names: parameters, and what was learnt."""
    state = {name: x for name, x in vars(estimator).items() if name not in estimator._transient}
    # For whoever passes them on.
    if isinstance(fitted := state.get("_fitted"), Fitted) and (n_rows := _n_rows_kept(fitted)):
        state[_N_ROWS] = n_rows
    return state


def restore(estimator, state):
    """Set what `saved_state` of this or an earlier version returned, or raise ValueError.

    Parameters that are missing get their defaults.
    """
    left_out = {*estimator._transient, _N_ROWS}
    own = {name: value for name, value in state.items() if name not in left_out}
    state = {**getattr(estimator, "_defaults", {}), **own}
    if missing := sorted(_names(type(estimator)) - state.keys()):
        raise ValueError(f"{type(estimator).__name__}: its state lacks {', '.join(missing)}.")
    fitted = state.get("_fitted")
    if isinstance(estimator, FittedState) and fitted is not None:
        with error_context(estimator):
            if not isinstance(fitted, Fitted):
                raise ValueError(f"the fitted state is {fitted!r:.60}.")
            fitted.check()
    # One assignment: a corrupt state leaves the estimator unchanged.
    estimator.__dict__ = aligned(state)


def _of_keys(function, state):
    """Return a state with a function of parameters, and of those of the model."""
    state = {name: x if name == "_fitted" else function(x) for name, x in state.items()}
    fitted = state.get("_fitted")
    if isinstance(fitted, Fitted) and isinstance(fitted.structure, tuple):
        state["_fitted"] = fitted._replace(structure=tuple(map(function, fitted.structure)))
    return state


def _listed(value):
    """Return the items of a dict with other keys than strings and numbers, which skops refuses."""
    if not isinstance(value, dict) or all(isinstance(key, str | Integral) for key in value):
        return value
    return {_ITEMS: [*value.items()]}


def _unlisted(value):
    return dict(value[_ITEMS]) if isinstance(value, dict) and [*value] == [_ITEMS] else value


def _checksum_of(kind, state):
    """Return a checksum of the names of parameters, and of all fitted state."""
    names = _names(kind)
    learnt = {name: value for name, value in state.items() if name not in {*names, CALLBACKS}}
    return checksum((sorted(names & state.keys()), sorted(learnt.items())))


@cache
def _names(kind):
    return frozenset(kind._get_param_names())


# Types that NumPy's numbers stand for.
_LOOSE = {int: Integral, bool: bool | np.bool, float: Real}


class Fitted(NamedTuple):
    """Fitted state, a frozen value: replaced in one assignment, so that readers see it whole."""

    state: State
    history: History
    # Attributes that validation found in the first data, and classes in the first labels.
    attributes: dict
    # Values of the structural parameters.
    structure: tuple
    lower_bounds: tuple = ()
    n_iter: int = 0
    converged: bool = False
    chains: Chains | None = None
    # Distribution of the state at the end of a sequence that continues.
    end: object = None
    distance: float = math.inf

    def check(self) -> None:
        for name, kind in get_type_hints(Fitted).items():
            if not isinstance(getattr(self, name), _LOOSE.get(kind, kind)):
                raise ValueError(f"{name} of the fitted state is {getattr(self, name)!r:.60}.")
        self.state.check()


def _n_rows_kept(fitted):
    return sum(carry.n_kept for carry in fitted.state.carry.values())


def fitted_of(estimator):
    """Return the fitted state; before a fit raise an AttributeError, as for any attribute."""
    try:
        return estimator.__dict__["_fitted"]
    except KeyError:
        raise AttributeError(
            f"This {type(estimator).__name__} instance is not fitted yet, so it has no such"
            " attribute."
        ) from None


def n_labels(estimator):
    """Return how many labels have told the components of classes: infinity if those of all are."""
    fitted = estimator._fitted.attributes
    agreement = fitted.get("_agreement")
    return (math.inf if agreement is None else agreement.sum()) if "classes_" in fitted else 0.0


def awaits_labels(estimator):
    """Return whether a fitted estimator that may learn from labels has had none."""
    return getattr(estimator, "semi_supervised", False) and not n_labels(estimator)


def structure_of(estimator):
    """Return the values of the structural parameters; later changes in place are not in them."""
    return tuple(map(_copied, map(partial(getattr, estimator), estimator._structural_parameters)))


def _copied(value):
    if type(value) is list:  # `deepcopy` takes longer than a pass over few rows.
        return [*map(_copied, value)]
    is_plain = isinstance(value, str) or not hasattr(value, "__len__")
    return value if is_plain else copy.deepcopy(value)


def fitted_after(estimator, progress, attributes, end=None):
    """Return the fitted state after a progress; `attributes` are those of first data."""
    return Fitted(
        progress.state, progress.history, attributes or estimator._fitted.attributes,
        structure_of(estimator), tuple(progress.lower_bounds), progress.n_iter, progress.converged,
        progress.chains, end, progress.distance,
    )  # fmt: skip


def commit(estimator, progress, attributes, end=None):
    """Set the fitted state after a progress, in one assignment."""
    estimator._fitted = fitted_after(estimator, progress, attributes, end)
    for name in ("_present_rules", "_given"):
        estimator.__dict__.pop(name, None)


def copy_after(estimator, progress, attributes):
    """Return a copy that is fitted as of a progress, without callbacks."""
    copied = object.__new__(type(estimator))
    left_out = {*estimator._transient, CALLBACKS}
    kept = {name: value for name, value in vars(estimator).items() if name not in left_out}
    copied.__dict__ = kept | {"callbacks": None}
    # Callbacks may pass the copy on, so it has no sample of the rows.
    progress = replace(progress, state=without_sample(progress.state))
    copied._fitted = fitted_after(estimator, progress, attributes)
    return copied


def exposed(estimator, values):
    """Return a copy of values in the type of the first data."""
    return values.astype(estimator._fitted.attributes.get("_dtype", np.float64))


def scorer_of(estimator):
    """Return what scores data: the model, or several that do it together."""
    state = fitted_of(estimator).state
    return state.carry.get(Remember.name) or state.model


@contextmanager
def rollback(estimator):
    """Return a context that restores an estimator if an exception leaves it."""
    before = vars(estimator).copy()
    try:
        yield
    except Exception:
        # One assignment, as other threads may read it.
        estimator.__dict__ = before
        raise


Value = TypeVar("Value")


class FittedAttribute(Generic[Value]):
    """Descriptor of an attribute that validation found in the first data.

    An instance may hold a value: scikit-learn's validation writes it to the blank estimator that
    checks first data.
    """

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, instance: object, owner: type) -> Value:
        if instance is None:
            return self
        attributes = fitted_of(instance).attributes
        if self._name not in attributes:
            raise AttributeError(f"{owner.__name__} has no {self._name}: its first data had none.")
        value = attributes[self._name]
        return frozen(value) if isinstance(value, np.ndarray) else value


# Type checkers know `property`, but not functions that return properties.
if TYPE_CHECKING:
    from builtins import property as fitted_property
else:

    def fitted_property(function):
        """Return a property that reads one consistent fitted state; its arrays are read-only."""

        @wraps(function)
        def value(self):
            return frozen(function(self._seen()))

        return property(value)


@estimator
class FittedState(PersistentState):
    """What an estimator has learnt: how it is set, read and saved.

    Attributes
    ----------
    converged_ : bool
        Whether the last `fit` stopped because of `tol`.
    distance_to_maximum_ : float
        How far the last `fit` ended from a local maximum, in standard errors a parameter (root mean
        square), by the certificate that ``tol="auto"`` asks for; infinity if there is none.
    n_iter_ : int
        Passes of the last `fit`.
    n_rows_kept_ : int
        Rows of a stream that the estimator holds: the first ones until its start is final, some 500
        latest ones at times while a component is empty, see :ref:`changing_streams`, and those of
        `sample_`; else 0.
    n_steps_ : int
        Updates so far.
    n_samples_seen_ : int
        Observations so far, by their weights.
    lower_bound_, lower_bounds_ : float, list of float
        Mean log-likelihood of the last pass, and of each pass of the last `fit`, before or during
        its updates; NaN, and none, after ``max_iter=0``.
    history_ : sequence of (eta, log_likelihood, kl_divergence, n_rows)
        The latest updates. Log-likelihoods are from before each update, and `n_rows` counts the
        rows read so far, in all passes. Entries are
        :class:`~sklearn_onlineem.em.state.ComponentStep` if components have their own rates
        (``solver="bayesian"``), if their number has changed, or with the weights of several models
        (``solver="adaptive"``).
    model_ : Model
        The fitted model, a frozen value whose arrays are read-only; of several, the one with the
        largest weight.
    """

    def _learning(self, model):
        """Return a fitted model that learns as parameters now say."""
        return model

    def _check_structure(self, may_change=frozenset(), shape=None):
        """Raise ValueError if parameters differ from the `shape`, of the fitted model if None."""
        shape = self._fitted.structure if shape is None else shape
        for name, fitted in zip(self._structural_parameters, shape, strict=True):
            now = getattr(self, name)
            if name not in may_change and not are_same(fitted, now):
                raise ValueError(
                    f"the fitted model has {name}={fitted!r}, but the parameter is now {now!r};"
                    " call fit again."
                )

    def _as_given(self, rows):
        """Return a copy of rows as the first data were given."""
        return exposed(self, rows)

    def __sklearn_is_fitted__(self):
        return "_fitted" in self.__dict__

    n_features_in_ = FittedAttribute[int]("Columns of the data.")
    feature_names_in_ = FittedAttribute[NDArray[np.object_]](
        "Names of the columns, where the first data had names."
    )
    aligned_members_ = FittedAttribute[list[bool]](
        "Which of the members that were merged had to be aligned."
    )

    @property
    def model_(self) -> Model:
        model = fitted_of(self).state.model
        if _HANDED_OUT.get(id(model)) is not model:
            _HANDED_OUT[id(model)] = frozen(model)
        return model

    @property
    def n_steps_(self) -> int:
        return fitted_of(self).state.counters.n_steps

    @property
    def n_samples_seen_(self) -> float:
        seen = fitted_of(self).state.counters.n_seen
        return int(seen) if float(seen).is_integer() else seen

    @property
    def n_rows_kept_(self) -> int:
        """First rows of a stream until its start is final; then rows while a component is empty.

        And those of `sample_`, and fewer than 10 of a Kalman stream that may be at a new level.
        """
        return _n_rows_kept(fitted_of(self))

    @property
    def sample_(self) -> NDArray[np.generic] | sparse.csr_array | list[NDArray[np.generic]]:
        """The rows, documents or sequences of a stream that the estimator holds, in no order.

        Only with ``solver=Online(sample=...)``, once the start is final, and before `drop_sample`.
        """
        sample = fitted_of(self).state.carry.get(Challenge.name)
        if sample is None or sample.kept is None:
            raise AttributeError(
                f"{type(self).__name__} has sample_ only in streams with Online(sample=...), once"
                " their start is final."
            )
        kept = sample.kept
        if not isinstance(kept, Sequences):
            return self._as_given(kept.X)
        X = kept.X[:, kept.X.shape[1] - kept.n_features :]
        return [self._as_given(part) for part in np.split(X, kept.offsets[1:-1])]

    def drop_sample(self) -> Self:
        """Forget the sample of a stream's rows; the stream goes on without it.

        Returns
        -------
        self : object

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import PoissonMixture
        >>> from sklearn_onlineem.em import Online
        >>> X = np.random.default_rng(0).poisson(3.0, size=(500, 1))
        >>> mixture = PoissonMixture(solver=Online(sample=50), random_state=0).partial_fit(X)
        >>> mixture.sample_.shape, hasattr(mixture.drop_sample(), "sample_")
        ((50, 1), False)
        """
        with self._lock():
            seen = self._seen()._fitted
            self._fitted = seen._replace(state=without_sample(seen.state))
        return self

    @property
    def history_(self) -> Sequence[Step]:
        return fitted_of(self).history.steps()

    @property
    def n_iter_(self) -> int:
        return fitted_of(self).n_iter

    @property
    def converged_(self) -> bool:
        return fitted_of(self).converged

    @property
    def distance_to_maximum_(self) -> float:
        return fitted_of(self).distance

    @property
    def lower_bounds_(self) -> list[float]:
        return list(fitted_of(self).lower_bounds)

    @property
    def chains_(self) -> Chains:
        """Record of the chains of the last ``fit`` with ``solver="gibbs"``, a `Chains` of `em`."""
        chains = fitted_of(self).chains
        if chains is None:
            raise AttributeError(
                f"{type(self).__name__} has chains_ only after a fit with solver='gibbs'."
            )
        return frozen(chains)

    @property
    def lower_bound_(self) -> float:
        fitted = fitted_of(self)
        bounds, step = fitted.lower_bounds, fitted.state.step
        if bounds:
            return bounds[-1]
        return math.nan if step is None else step.log_likelihood

    # --------------------------------------------------------------------------------- inference

    def _made(self, method, X, *cut, given=(), reader=None, **where):
        """Return what a method of the model makes of data, and the form of these if sequences."""
        seen = self._seen()
        if reader is None:
            reader = seen._input()
            reader.infers = reader.keeps_unobserved = True
        first = dict(zip(arguments_beside(type(self)), cut, strict=False)) if cut else {}
        data = reader.read(X, **first, **where)
        try:
            with single_threaded_blas(data.n_rows):
                owner = scorer_of(seen) if method == "log_likelihood" else seen._fitted.state.model
                return getattr(owner, method)(data, *given), reader.form
        except INVALID as error:
            raise_named(error, self)

    def _infer(self, method, X, *cut, given=(), **where):
        """Return what a method of the model makes of each row, in the form of X."""
        found, form = self._made(method, X, *cut, given=given, **where)
        return found if form is None else form.restored(found)

    # A lock cannot be pickled, rules may hold callbacks, which are parameters, and the tasks of a
    # fit end with it.
    _transient = (
        "_mutex", "_present_rules", "_callback_fit_ctx", "_skl_callbacks_to_teardown",
        "_parent_callback_ctx", "_first_attributes",
    )  # fmt: skip


# Models whose arrays are read-only, by id: to look at all takes longer than some predictions.
_HANDED_OUT = WeakValueDictionary()


class InformationCriteria:
    """Mixin of estimators whose `_evidence` has the log-likelihood of data, and their number."""

    def bic(self, X: RowData, *cut: Cut, **where: Unpack[Where]) -> float:
        r"""Return the Bayesian information criterion on X; lower is better.

        It is :math:`-2 \log L + p \log n`, of a model with p free parameters and n rows.

        Returns
        -------
        bic : float
            With log-likelihoods in nats.
        """
        seen = self._seen()
        log_likelihood, n = seen._evidence(X, *cut, **where)
        return _n_parameters(seen) * math.log(n) - 2.0 * log_likelihood

    def aic(self, X: RowData, *cut: Cut, **where: Unpack[Where]) -> float:
        r"""Return the Akaike information criterion on X; lower is better.

        It is :math:`-2 \log L + 2 p`, of a model with p free parameters.

        Returns
        -------
        aic : float
            With log-likelihoods in nats.
        """
        seen = self._seen()
        return 2.0 * (_n_parameters(seen) - seen._evidence(X, *cut, **where)[0])


def _n_parameters(estimator):
    """Return the number of free parameters, which is a matter of ranks for some models."""
    with single_threaded_blas(math.inf):
        return estimator.model_.n_parameters()


class FitTransformMixin(TransformerMixin):
    """Mixin of transformers: `fit_transform` is rolled back if `transform` fails."""

    @property
    def _n_features_out(self):
        return self.model_.n_components

    def fit_transform(self, X: object, y: object = None, **fit_params: object) -> FloatsOrList:
        """Fit, and return the result of `transform` for X.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.

        Returns
        -------
        transformed : ndarray, or list
        """
        with rollback(self):
            return self.fit(X, y, **fit_params).transform(X)
