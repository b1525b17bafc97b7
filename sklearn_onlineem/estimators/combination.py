"""Merging of estimators that were fitted apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._errors import ours
from sklearn_onlineem._typing import RandomState
from sklearn_onlineem._values import average, differences
from sklearn_onlineem.em.loop import Progress
from sklearn_onlineem.em.sample import NO_SAMPLE
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.step import Sampled
from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._parameters import are_same
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.mixture import MixtureStatistics
from sklearn_onlineem.statistics import Statistics, Sums, combine, pooled

__all__ = ["combine_estimators", "no_model"]

# Alignment must reduce the divergence to less than this share.
_CLOSER = 0.5
# Members with smaller weights, relative to about the largest, are ignored.
_SMALLEST_SHARE = 1e-100
# Attributes that may differ between members.
_OF_MEMBERS = ("feature_names_in_", "aligned_members_")

Estimator = TypeVar("Estimator", bound=OnlineEM)


def combine_estimators(
    estimators: Iterable[Estimator],
    weights: ArrayLike | None = None,
    method: str = "entropic",
    align: bool | str = "auto",
    *,
    n_pseudo_samples: int = 10_000,
    random_state: RandomState = None,
) -> Estimator:
    r"""Merge estimators of one class that were fitted apart, into one that continues from all.

    .. math::
        \Theta &= \operatorname*{arg\,min}_{\tilde\Theta} \sum_m \alpha_m
        \mathrm{KL}\big(p(h, v \mid \Theta_m) \,\|\, p(h, v \mid \tilde\Theta)\big) \\
        &= \mathrm{M}\Big(\sum_m \alpha_m \mathrm{E}_{\Theta_m}[S]\Big)

    so each component, or state, is the average of those of the members, weighed by their expected
    occupancies. Components must have the same numbers in all members: they have if these started
    from one model, and others are aligned to the first. The `prior` of mixtures of counts, bits,
    codes, chains and durations, whose statistics are sums, counts once, as in a fit of all rows:
    that of each member is taken off its statistics, and that of the first is added to the sum.
    Priors of other models, and of weights, count once for each member.

    Parameters
    ----------
    estimators : list of fitted estimators
        Of one class, with models of the same shape.
    weights : array-like of shape (n_estimators,), default=None
        :math:`\alpha`, not negative, of any sum; members with less than 1e-100 of the largest are
        left out. None: the rows, or sequences, seen.
    method : {"entropic", "averaging", "sampled"}, default="entropic"
        "entropic": the minimiser above. "averaging": the averages of all parameters, as is common
        [2]_; a baseline. "sampled": as "entropic", with the statistics of `n_pseudo_samples` drawn
        from each member; a baseline for models whose own statistics have no closed form. In both
        baselines priors count once for each member.
    align : bool or "auto", default="auto"
        Whether to renumber components or states as in the first estimator, by the smallest KL
        divergence between the models (of hidden Markov models: of occupancies and emissions).
        States of Kalman filters are transformed by the linear map that brings their effect on rows,
        present and later, closest to the first estimator's. Edit operations need no alignment.
        "auto": each member for which this reduces its joint KL divergence to the first estimator to
        less than half.
    n_pseudo_samples : int, default=10000
        For ``method="sampled"``.
    random_state : int, RandomState instance or None, default=None
        For ``method="sampled"``.

    Returns
    -------
    merged : estimator
        Of the same class, with the parameters of the first estimator; `n_samples_seen_` and
        `n_steps_` are sums. It can continue with `partial_fit`. Its attribute `aligned_members_` is
        a list of bool, whether members were aligned. Names of features are those of members that
        have any.

    Raises
    ------
    ValueError
        If the estimators do not match, or the weights are not valid.
    TypeError
        If they are not estimators of one class of this library.
    NotFittedError
        If one of them is not fitted.

    Notes
    -----
    Merging is associative until a merged estimator learns more. If lengths of sequences are given,
    not modelled, expected occupancies are those for the lengths that each member has learnt from; a
    piece of a sequence that continues counts as a sequence.

    References
    ----------
    .. [1] Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden Variable
       Models", UAI 2020, section 6; for chains of given lengths with expected occupancies for
       transitions and for emissions.
    .. [2] Sanderson & Curtin, "gmm_diag and gmm_full: C++ classes for multi-threaded Gaussian
       mixture models and Expectation-Maximisation", JOSS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture, combine_estimators
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([1.0, 20.0], size=(3000, 1)))
    >>> sites = [PoissonMixture(2, random_state=0).partial_fit(part)
    ...          for part in np.array_split(X, 3)]
    >>> merged = combine_estimators(sites)
    >>> merged.means_.round().ravel(), merged.n_samples_seen_
    (array([ 1., 20.]), 3000)
    """
    estimators = _checked_members(estimators)
    weights = _checked_weights(weights, estimators)
    if method not in _METHODS:
        raise ValueError(f"method must be one of {sorted(_METHODS)}, got {method!r}.")
    if not isinstance(align, bool | np.bool_) and align != "auto":
        raise ValueError(f"align must be True, False or 'auto', got {align!r}.")
    before = [estimator._fitted.state for estimator in estimators]
    states = [_aligned_state(state, before[0], align) for state in before]
    aligned = [one is not other for one, other in zip(states, before, strict=True)]
    chosen = [(w, state) for w, state in zip(weights, states, strict=True) if w > 0.0]
    with single_threaded_blas(n_rows=n_pseudo_samples):
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=4)
        rng = np.random.default_rng(seed)
        sampled_statistics = partial(Sampled(n_pseudo_samples), rng=rng)
        model, statistics = _METHODS[method](chosen, sampled_statistics)
    return _estimator_of(model, statistics, estimators, aligned)


# ------------------------------------------------------------------------------- ways of merging


def _averaging(members, sampled_statistics):
    total = sum(weight for weight, _ in members)
    shares = [weight / total for weight, _ in members]
    return average([state.model for _, state in members], shares), None


def _entropic(members, sampled_statistics):
    statistics = combine((weight, _evidence(state)) for weight, state in members)
    prior, n_seen = _component_prior(members[0][1]), sum(state.n_seen for _, state in members)
    if prior is not None and n_seen > 0.0:
        total = sum(weight for weight, _ in members)
        statistics = statistics.merge(1.0, prior, total / n_seen)
    return _maximiser(members, statistics)


def _evidence(state):
    """Return the own statistics of a member without the prior of its components."""
    own, prior = state.own_statistics, _component_prior(state)
    if prior is None or state.n_seen == 0.0:
        return own
    if state.merged is None:
        # Own statistics have the weight of the rows, and those of the M-step that of the prior too.
        model, emissions = state.model, prior.emissions
        known = model.family.own_statistics(model.parameters, emissions.weight)
        prior = replace(prior, emissions=emissions.merge(1.0, known, -1.0))
    return own.merge(1.0, prior, -1.0 / state.n_seen)


def _component_prior(state):
    """Return the prior of the components of a mixture if their statistics are sums, else None."""
    prior = state.prior
    if not isinstance(prior, MixtureStatistics) or not isinstance(prior.emissions, Sums):
        return None
    return MixtureStatistics(np.zeros_like(prior.counts), prior.emissions)


def _sampled(members, sampled_statistics):
    statistics = combine(
        (weight, sampled_statistics(state.model, state.lengths)) for weight, state in members
    )
    return _maximiser(members, statistics)


def _maximiser(members, statistics):
    # Parts without statistics, such as floors and fixed parameters, are averaged.
    average, _ = _averaging(members, None)
    total = sum(weight for weight, _ in members)
    statistics = statistics.scale(1.0 / total)
    return average.m_step(statistics), statistics


_METHODS = {"entropic": _entropic, "averaging": _averaging, "sampled": _sampled}


def _aligned_state(state, reference, align):
    """Return the state, aligned to the reference if requested; "auto": if that is much closer."""
    if not align:
        return state
    model, like = state.model, reference.lengths
    try:
        aligned = model.aligned_to(reference.model, like)
    except ours(TypeError, ValueError):  # components cannot be matched, or not be renumbered
        if align != "auto":
            raise
        return state
    if aligned is model:
        return state
    if align == "auto":
        before, after = (one.kl_divergence(reference.model, like) for one in (model, aligned))
        if not after < _CLOSER * before:
            return state
    # Statistics of merged members have the old numbering.
    return state._replace(model=aligned, merged=None)


def _estimator_of(model: Model, statistics: Statistics | None, estimators, aligned):
    """Return a fitted estimator with the parameters of the first, that has seen all data."""
    first, states = estimators[0], [estimator._fitted.state for estimator in estimators]
    seen = [state.n_seen for state in states]
    lengths = [(one.n_seen, one.lengths) for one in states if one.lengths is not None]
    needed, unit, size_seen = _sizes(states, seen)
    state = State(
        model,
        sum(state.n_steps for state in states),
        sum(seen),
        lengths=pooled(lengths) if lengths else None,
        merged=statistics,
        seed=states[0].seed,
        size_seen=size_seen,
        n_rows=sum(state.n_rows for state in states),
        prior=states[0].prior,
        observations_needed=needed,
        size_unit=unit,
        sample=None if states[0].sample is None else NO_SAMPLE,
        is_known=all(state.is_known for state in states),
    )
    attributes = {**first._fitted.attributes}
    attributes["_dtype"] = np.result_type(*(estimator._dtype for estimator in estimators))
    attributes["aligned_members_"] = aligned
    known = (estimator._fitted.attributes.get("feature_names_in_") for estimator in estimators)
    names = next((names for names in known if names is not None), None)
    if names is not None:
        attributes["feature_names_in_"] = names
    merged = clone(first)
    merged._commit(Progress(state), attributes)
    return merged


def _sizes(states, seen):
    """Return observations needed, size of an observation, and size seen, for learning rates."""
    if states[0].awaits_data:
        return 1.0, 0.0, 0.0
    units = [state.size_unit for state in states]
    unit = float(np.average(units, weights=seen)) if len(set(units)) > 1 else units[0]
    shares = [own / unit for own in units]
    pairs = list(zip(states, shares, strict=True))
    needed = np.average([one.observations_needed * share for one, share in pairs], weights=seen)
    return float(needed), unit, sum(one.size_seen * share for one, share in pairs)


# ---------------------------------------------------------------------------------------- checks


def _checked_members(estimators):
    """Return fitted estimators as a list; refuse those that cannot merge."""
    if not isinstance(estimators, Iterable):
        raise TypeError(
            f"estimators must be a list of fitted estimators, got {type(estimators).__name__}."
        )
    estimators = list(estimators)
    if not estimators:
        raise ValueError("combine_estimators needs at least one estimator.")
    first = estimators[0]
    for i, estimator in enumerate(estimators):
        if not isinstance(estimator, OnlineEM):
            raise TypeError(f"estimators[{i}] cannot be {no_model(estimator)}.")
        if type(estimator) is not type(first):
            raise TypeError(
                f"estimators[{i}] is {type(estimator).__name__}, and estimators[0] is"
                f" {type(first).__name__}; they must be of one class."
            )
        check_is_fitted(
            estimator, msg=f"estimators[{i}], a %(name)s, is not fitted; only fitted ones merge."
        )
        if estimator._fitted.state.awaits_data != first._fitted.state.awaits_data:
            names = ["with data", "of a known model without data"]
            own, other = (names[e._fitted.state.awaits_data] for e in (estimator, first))
            raise ValueError(
                f"estimators[{i}], a {type(first).__name__}, is one {own}, and estimators[0] is one"
                f" {other}; call partial_fit first."
            )
        for name, own, other in _mismatches(estimator, first):
            raise ValueError(
                f"estimators[{i}], a {type(first).__name__}, has {name}={own}, and estimators[0]"
                f" has {name}={other}."
            )
    learnt = [estimator._fitted.attributes.get("feature_names_in_") for estimator in estimators]
    known = [(i, names.tolist()) for i, names in enumerate(learnt) if names is not None]
    for i, names in known[1:]:
        if names != known[0][1]:
            raise ValueError(
                f"estimators[{i}], a {type(estimators[i]).__name__}, has feature_names_in_={names},"
                f" and estimators[{known[0][0]}] has feature_names_in_={known[0][1]}."
            )
    for i, estimator in enumerate(estimators):
        own, others = (e._fitted.attributes.get("_categories", {}) for e in (estimator, first))
        for j in own.keys() | others.keys():
            if j not in own or j not in others or own[j].tolist() != others[j].tolist():
                raise ValueError(
                    f"estimators[{i}], a {type(first).__name__}, has other categories of column {j}"
                    " than estimators[0]. Declare all of them in the types of the columns."
                )
    return estimators


def no_model(estimator):
    """Return what something is that has no model, and what to take instead, for a message."""
    if isinstance(estimator, type):
        return f"the class {estimator.__name__}: make an estimator of it"
    name = type(estimator).__name__
    parts = [part for part in ("estimator", "mixture", "edit_distance") if hasattr(estimator, part)]
    if hasattr(estimator, "steps"):
        return f"{name}: take its last step, if that is a mixture or another model"
    if parts:
        best = "best_" if hasattr(estimator, "param_grid") else ""
        return f"{name}: take its {best}{parts[0]}_, the model within"
    return f"{name}: it is no mixture, hidden Markov model or other model of this library"


def _mismatches(estimator, first):
    """Yield (name, own value, the first's) of differences, the most informative first."""
    for name in first._fitted.attributes:
        if name.startswith("_") or name in _OF_MEMBERS:
            continue
        own, other = (getattr(e, name, None) for e in (estimator, first))
        if not (np.array_equal(own, other) if isinstance(own, np.ndarray) else own == other):
            yield name, own, other
    own, other = (getattr(e.model_, "n_components", None) for e in (estimator, first))
    if own != other:
        yield "n_components", own, other
    # Shapes differ because something else does.
    found = differences(estimator.model_, first.model_)
    found = sorted(found, key=lambda difference: difference[0].startswith("shape"))
    structures = estimator._fitted.structure, first._fitted.structure
    parameters = {
        name: (repr(own), repr(other))
        for name, own, other in zip(first._structural_parameters, *structures, strict=True)
        if not are_same(own, other)
    }
    # The values that users set, not those of the model.
    found = [(name, *parameters.get(name, values)) for name, *values in found]
    named = [(name, *values) for name, values in parameters.items()]
    if not parameters.keys() & {name for name, *_ in found} and (found or _sets_parts(parameters)):
        found = named + found
    yield from found


def _sets_parts(parameters):
    """Return whether parameters that differ say which parts of a model there are, or are learnt."""
    return not parameters.keys().isdisjoint({"absorbing_states", "params"})


def _checked_weights(weights, estimators):
    if weights is None:
        weights = [estimator._fitted.state.n_seen for estimator in estimators]
    try:
        weights = np.asarray(weights, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise ValueError(
            f"weights must be finite numbers, one for each estimator, got {weights!r:.200}."
        ) from None
    if weights.shape != (len(estimators),):
        raise ValueError(
            f"weights must be of shape ({len(estimators)},), one for each estimator, got shape"
            f" {weights.shape}."
        )
    if not (np.isfinite(weights).all() and weights.min() >= 0.0 and weights.any()):
        raise ValueError(f"weights must be finite, not negative, and not all 0, got {weights}.")
    # A power of two, which keeps all digits. Products below the normal numbers lose them.
    scaled = np.ldexp(weights, -np.frexp(weights.max())[1])
    return np.where(scaled < _SMALLEST_SHARE, 0.0, scaled)
