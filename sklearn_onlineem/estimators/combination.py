"""Merging of estimators that were fitted apart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._checks import finite_start, require
from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import RandomState
from sklearn_onlineem._values import average, checksum, differences
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.loop import Progress
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.stages.sample import NO_SAMPLE, Challenge
from sklearn_onlineem.em.state import Constants, Counters, State
from sklearn_onlineem.em.step import Sampled
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.fitted import commit, n_labels
from sklearn_onlineem.estimators.learning import schedule_of
from sklearn_onlineem.estimators.parameters import are_same
from sklearn_onlineem.estimators.progress import warn_user
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.models.mixtures.mixture import MixtureStatistics
from sklearn_onlineem.statistics import Sums, combine, pooled

# Alignment must reduce the divergence to less than this share.
_CLOSER = 0.5
# Members with smaller weights, relative to about the largest, are ignored.
_SMALLEST_SHARE = 1e-100
# Statistics of a sum may be so many times as far from the mean of the members as they are if
# divergences are quadratic. Beyond, more was taken off than there was.
_FARTHEST = 100.0
# Least and largest decays of an origin within a member.
_DECAYS = 1e-12, 700.0
# Components are fused if those of the merge explain a member worse by so many nats a row, beyond
# what estimation explains: 2 n times that loss has about a chi-squared distribution. So many
# standard deviations are allowed, and a term of second order for few rows, by
# `benchmarks.papers.unequal_sites`. So many rows are drawn.
_APART, _DEVIATIONS, _SECOND_ORDER, _N_DRAWN = 0.05, 15.0, 1.5, 2000
_METHODS = ["averaging", "entropic", "sampled"]
# Attributes that may differ between members.
_OF_MEMBERS = ("feature_names_in_", "aligned_members_", "classes_")

Estimator = TypeVar("Estimator", bound=OnlineEM)


class MergeWarning(UserWarning):
    """Members of a merge do not have the same components, and some without a partner were fused.

    It says by how many nats a row the merged components explain each such member worse, beside its
    own shares or transitions, if that is more than few rows explain. It tells of mixtures, hidden
    Markov models and topics.

    Examples
    --------
    >>> import warnings
    >>> from sklearn_onlineem import MergeWarning, PoissonMixture, combine_estimators
    >>> sites = [PoissonMixture.from_parameters(weights=[0.5, 0.5], means=[[2.0], [mean]])
    ...          for mean in (20.0, 60.0)]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     merged = combine_estimators(sites, weights=[1, 1])
    >>> caught[0].category is MergeWarning, merged.means_.ravel()
    (True, array([ 2., 40.]))
    """


def combine_estimators(
    estimators: Iterable[Estimator],
    weights: ArrayLike | None = None,
    method: str = "entropic",
    align: bool | str = "auto",
    *,
    base: Estimator | None = None,
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

    In *rounds* of merging and learning, what the members continue counts once, too: if they were
    copies of one merged estimator, or with `base`, the sum is that of its own statistics and of
    what each member has learnt since,

    .. math::
        R \, \mathrm{E}_{\Theta_0}[S] + \sum_m n_m \bar S_m, \qquad
        \mathrm{E}_{\Theta_m}[S] = (1 - \rho_m) \bar S_m + \rho_m \mathrm{E}_{\Theta_0}[S], \qquad
        \rho_m = \prod_t \frac{1}{1 + \eta_t} = \frac{R_m}{R_m + n_m},

    where member m has learnt from :math:`n_m` rows at the rates :math:`\eta_t`, beside which the
    start counted for :math:`R_m` rows; R is their mean. See :ref:`rounds`.

    Parameters
    ----------
    estimators : list of fitted estimators
        Of one class, with models of the same shape.
    weights : array-like of shape (n_estimators,), default=None
        :math:`\alpha`, not negative, of any sum; members with less than 1e-100 of the largest are
        left out. None: the rows, or sequences, seen; in rounds, those since the last merge.
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
        less than half; of Kalman filters, if it reduces it. Members that continue one model keep
        its numbers, unless nothing of it is left in them; those that know all of their classes by
        labels keep these, and others are aligned to the one with the most labels. Unless False, a
        `MergeWarning` tells of members with components that have no partner in the others.
    base : estimator, default=None
        Fitted, or known: what all members continue. None: members that were copies of one merged
        estimator tell by themselves; their pickles have its model, too.
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
        If the estimators do not match, the weights are not valid, or members have seen less than
        `base`.
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
    estimators = _checked_members(estimators, base)
    if weights is not None:
        weights = _checked_weights(weights, len(estimators))
    require(method in _METHODS, "method", f"one of {_METHODS}", method)
    is_valid = isinstance(align, bool | np.bool_) or align == "auto"
    require(is_valid, "align", "True, False or 'auto'", align)
    labels = np.array([*map(n_labels, estimators)])
    named, first = np.isinf(labels), int(np.argmax(labels))
    renumbers = False if named.all() and align == "auto" else align
    groups = _groups([estimator._fitted.state for estimator in estimators], base)
    with single_threaded_blas(n_rows=n_pseudo_samples):
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=4)
        inertia = partial(Sampled(n_pseudo_samples), rng=np.random.default_rng(seed))
        before, members, totals, aligned = [], [], [], np.zeros(len(estimators), dtype=bool)
        for places, states, origins in groups:
            shares = None if weights is None else weights[places]
            state = states[0]
            if len(states) > 1:
                states, aligned[places] = _renumbered(states, origins, renumbers)
                state = _continued(estimators[0], states, origins, shares, method == "averaging")
                members += [
                    (place, own, state, own.counters.n_seen - origin.counters.n_seen)
                    for place, own, origin in zip(places, states, origins, strict=True)
                ]
            before.append(state)
            totals.append(state.counters.n_seen if shares is None else shares.sum())
        # The member with the most labels knows best which components are those of classes.
        states, reference = [], before[[first in places for places, *_ in groups].index(True)]
        for (places, *_), old in zip(groups, before, strict=True):
            keeps = named[places].any() and align == "auto"
            new = _aligned_state(old, reference, False if keeps else align)
            states.append(new)
            aligned[places] |= new is not old
        totals = _checked_weights(totals, len(totals))
        chosen = [(w, state) for w, state in zip(totals, states, strict=True) if w > 0.0]
        model, statistics = _merged(chosen, method, inertia)
    state = _state_of(model, statistics, before)
    if align and model.has_components and getattr(model, "n_components", 1) > 1:
        of_groups = zip(groups, states, strict=True)
        # A model that is known has no errors.
        members += [
            (places[0], own, state, own.counters.n_seen or math.inf)
            for (places, *_), own in of_groups
        ]
        _check_partners(members, weights)
    if labels[first] and aligned[first]:
        # Members continue what was learnt without labels.
        state, aligned = _aligned_state(state, estimators[first]._fitted.state, align), ~aligned
    # Copies continue it, however it was merged.
    return _estimator_of(state._replace(merged=state.own_statistics), estimators, aligned.tolist())


def _estimator_of(state, estimators, aligned):
    """Return a fitted estimator with the parameters of the first."""
    first, best = estimators[0], max(estimators, key=n_labels)._fitted.attributes
    of_labels = {
        name: best[name] for name in ("classes_", "_agreement", "_are_components") if name in best
    }
    attributes = {**first._fitted.attributes, **of_labels}
    attributes["_dtype"] = np.result_type(*(one._fitted.attributes["_dtype"] for one in estimators))
    attributes["aligned_members_"] = aligned
    known = (estimator._fitted.attributes.get("feature_names_in_") for estimator in estimators)
    names = next((names for names in known if names is not None), None)
    if names is not None:
        attributes["feature_names_in_"] = names
    merged = clone(first)
    commit(merged, Progress(state), attributes)
    return merged


# ---------------------------------------------------------------------------------------- rounds


def _groups(states, base):
    """Return places of members that continue one state, the members, and that state for each."""
    if base is not None:
        return [([*range(len(states))], states, [base._fitted.state.as_origin()] * len(states))]
    own = [state.merged is not None and _key(state) for state in states]
    of_origins, groups = [state.origin and _key(state.origin) for state in states], {}
    for i, state in enumerate(states):
        # Copies of a merged state, and those that continue it.
        is_origin = own[i] and own[i] in [*own[:i], *own[i + 1 :], *of_origins]
        key = own[i] if is_origin else of_origins[i] or i
        origin = state.as_origin() if is_origin else state.origin
        groups.setdefault(key, []).append((i, state, origin))
    return [tuple(map(list, zip(*group, strict=True))) for group in groups.values()]


def _pooling(estimator, pairs, weights):
    """Return how many times as much an origin counts for if all batches of a step are one.

    With rates by rows it is about 1, with rates by steps the number of members.
    """
    sizes = [state.counters.size - origin.counters.size for state, origin in pairs]
    if estimator._solver().has_own_rates or min(sizes) < 0.0 or not any(sizes):
        return 1.0
    steps = [max(1, state.counters.n_steps - origin.counters.n_steps) for state, origin in pairs]
    sizes = [size / n for size, n in zip(sizes, steps, strict=True)]
    schedule, before = schedule_of(estimator, pairs[0][0]), pairs[0][1].counters.size
    alone = [size / rate_of(schedule, before, size) if size else 0.0 for size in sizes]
    together = sum(sizes) / rate_of(schedule, before, sum(sizes))
    alone = np.average(alone, weights=weights)
    return float(np.clip(together / alone, 1.0, len(pairs))) if alone > 0.0 else 1.0


def _decays(states, origins):
    """Return logs of how often as much an origin has counted for as it does in each state."""
    pairs = zip(states, origins, strict=True)
    decays = np.array([state.counters.decay - origin.counters.decay for state, origin in pairs])
    return np.where(decays < 0.0, _DECAYS[1], np.clip(decays, *_DECAYS))


def _renumbered(states, origins, align):
    """Return states, aligned if nothing of their origin is left in them, and which are."""
    decays = _decays(states, origins)
    reference = states[decays.argmin()]
    found = [
        _aligned_state(state, reference, align) if decay == _DECAYS[1] else state
        for state, decay in zip(states, decays, strict=True)
    ]
    return found, [new is not old for new, old in zip(found, states, strict=True)]


def _key(state):
    return state.counters.n_seen, state.counters.n_steps, checksum(state.model)


def _continued(estimator, states, origins, shares, is_averaged):
    """Return the state that has learnt what each of the states has learnt since their origin."""
    origin, pairs = origins[0], [*zip(states, origins, strict=True)]
    since = np.array([float(state.counters.n_seen - one.counters.n_seen) for state, one in pairs])
    if not since.any():
        return states[0]
    if shares is not None and (shares := np.where(since > 0.0, shares, 0.0)).any():
        since = shares * (since.sum() / shares.sum())
    model = average([one.model for one in states], since / since.sum())
    state = _state_of(model, None, states, origins)
    if is_averaged:
        return state
    # How many rows the origin counts for in each member, beside those that it has learnt from.
    counted = since / np.expm1(_decays(states, origins))
    n_origin = np.average(counted, weights=since) * _pooling(estimator, pairs, since)
    excess = (counted.sum() - n_origin) / (n_origin + since.sum())
    weighted = [*zip(since + counted, map(_evidence, states), strict=True)]
    mean, of_origin, prior = pooled(weighted), _evidence(origin), _component_prior(states[0])

    def without(excess):
        """Return the state after a part of the origin, which all members have, is taken off."""
        statistics = mean.merge(1.0 + excess, of_origin, -excess)
        if prior is not None:
            statistics = statistics.merge(1.0, prior, 1.0 / state.counters.n_seen)
        return state._replace(model=state.model.m_step(statistics), merged=statistics)

    found = without(0.0)
    start, like = found.model, state.lengths
    distance = start.kl_divergence(origin.model, like)
    # Where own statistics are not those of the M-step, a part of them may be more than there is.
    with np.errstate(all="ignore"):
        for part in excess * 0.5 ** np.arange(10 if start.is_conjugate else 0):
            try:
                trial = without(part)
                far = start.kl_divergence(trial.model, like)
            except ours(ValueError):
                continue
            if far <= _FARTHEST * part**2 * distance + 1e-9:
                found = trial
                break
    decay = origin.counters.decay + math.log1p(since.sum() / max(n_origin, 1e-300))
    return found._replace(origin=origin, counters=found.counters._replace(decay=decay))


# ------------------------------------------------------------------------------- ways of merging


def _merged(members, method, inertia):
    """Return the model of members, pairs of a weight and a state, and its statistics, or None."""
    total = sum(weight for weight, _ in members)
    shares = [weight / total for weight, _ in members]
    mean = average([state.model for _, state in members], shares)
    if method == "averaging":
        return mean, None
    if method == "sampled":
        statistics = combine((w, inertia(state.model, state.lengths)) for w, state in members)
    else:
        statistics = combine((weight, _evidence(state)) for weight, state in members)
        prior = _component_prior(members[0][1])
        n_seen = sum(state.counters.n_seen for _, state in members)
        if prior is not None and n_seen > 0.0:
            statistics = statistics.merge(1.0, prior, total / n_seen)
    statistics = statistics.scale(1.0 / total)
    # Parts without statistics, such as floors and fixed parameters, are averaged.
    return mean.m_step(statistics), statistics


def _evidence(state):
    """Return the own statistics of a member without the prior of its components."""
    own, prior = state.own_statistics, _component_prior(state)
    if prior is None or state.counters.n_seen == 0.0:
        return own
    if state.merged is None:
        # Own statistics have the weight of the rows, and those of the M-step that of the prior too.
        model, emissions = state.model, prior.emissions
        known = model.family.own_statistics(model.parameters, emissions.weight)
        prior = replace(prior, emissions=emissions.merge(1.0, known, -1.0))
    return own.merge(1.0, prior, -1.0 / state.counters.n_seen)


def _component_prior(state):
    """Return the prior of the components of a mixture if their statistics are sums, else None."""
    prior = state.prior
    if not isinstance(prior, MixtureStatistics) or not isinstance(prior.emissions, Sums):
        return None
    return MixtureStatistics(np.zeros_like(prior.counts), prior.emissions)


def _check_partners(members, weights):
    """Warn of members whose components have no partner.

    Members are (place, state, merged state, observations that they have learnt from apart).
    """
    told = []
    for place, state, merged, n_seen in members:
        if n_seen == 0.0 or (weights is not None and weights[place] == 0.0):
            continue
        n_parameters = state.model.n_parameters()
        error = 0.5 * n_parameters / (n_seen * _length(state))
        spread = _DEVIATIONS * math.sqrt(2.0 / max(1, n_parameters)) + _SECOND_ORDER * error
        if (loss := _loss(state, merged.model)) > _APART + error * (1.0 + spread):
            told.append(f"estimators[{place}] by {loss:.3g}")
    if told:
        warn_user(
            "combine_estimators: members do not have the same components, and some without a"
            " partner were fused. In nats a row, components of the merged model explain worse what"
            f" is known of {', '.join(told)}. Fit more components at each site, as many as all"
            " sites have together; or pass align=False if components of one number are the same.",
            MergeWarning,
        )


def _length(state):
    """Return the mean number of rows of an observation."""
    if state.lengths is None:
        return 1.0
    lengths, shares = state.lengths.steps
    return float(np.diff(lengths, prepend=0) @ shares)


def _loss(state, model):
    """Return how much worse the components of a model explain rows of a state's, in nats a row."""
    own, length = state.model, _length(state)
    other = own.with_components_of(model)
    # The divergence of hidden and visible variables is at least that of the visible ones.
    if own.kl_divergence(other, state.lengths) <= _APART * length:
        return 0.0
    length = int(min(length, _N_DRAWN))
    like = state.lengths and LengthDistribution((np.array([length]), np.ones(1)))
    data = own.pseudo_data(_N_DRAWN // length, np.random.default_rng(0), like).unlabelled
    return float((own.log_likelihood(data) - other.log_likelihood(data)).sum() / data.n_rows)


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
        # States of Kalman filters have no numbers that could be right without it.
        if not after < (_CLOSER if model.has_components else 1.0) * before:
            return state
    # Statistics of merged members have the old numbering.
    return state._replace(model=aligned, merged=None)


def _state_of(model, statistics, states, origins=()):
    """Return the state of a merged model, which has seen all data; an origin counts once."""
    first, again = states[0], origins[1:]

    def total(name):
        parts = [[getattr(one.counters, name) for one in some] for some in (states, again)]
        return sum(parts[0]) - sum(parts[1])

    constants, size = _sizes(states, again)
    lengths = [(one.counters.n_seen, one.lengths) for one in states if one.lengths is not None]
    lengths = pooled(lengths) if lengths else None
    if again and again[0].lengths is not None:
        excess = sum(one.counters.n_seen for one in again) / total("n_seen")
        lengths = lengths.merge(1.0 + excess, again[0].lengths, -excess)
    alone = len(states) == 1
    decay, numbers = first.counters.decay if alone else 0.0, ("n_steps", "n_seen", "n_rows")
    # A sample is of one stream.
    carry = {Challenge.name: NO_SAMPLE} if Challenge.name in first.carry else {}
    counters = Counters(*map(total, numbers), size, decay)
    return State(
        model, first.prior, None, first.seed, counters, constants, lengths, statistics,
        first.origin if alone else None, carry,
    )  # fmt: skip


def _sizes(states, again):
    """Return constants of a merged state, and the size seen, for learning rates."""
    is_known = all(state.constants.is_known for state in states)
    if states[0].awaits_data:
        return Constants(size_unit=0.0, is_known=is_known), 0.0
    units = [state.constants.size_unit for state in states]
    seen = [state.counters.n_seen for state in states]
    unit = float(np.average(units, weights=seen)) if len(set(units)) > 1 else units[0]
    shares = [own / unit for own in units]
    needed = [state.constants.observations_needed for state in states]
    needed = [one * share for one, share in zip(needed, shares, strict=True)]
    size = sum(one.counters.size * share for one, share in zip(states, shares, strict=True))
    for one, state in zip(again, states[1:], strict=False):
        # After a `Restart`, an origin counts for less.
        sizes = [each.counters.size * each.constants.size_unit for each in (one, state)]
        size -= min(sizes) / unit
    return Constants(float(np.average(needed, weights=seen)), unit, is_known=is_known), size


# ---------------------------------------------------------------------------------------- checks


def _checked_members(estimators, base):
    """Return fitted estimators as a list; refuse those that cannot merge or continue a base."""
    if not isinstance(estimators, Iterable):
        raise TypeError(
            f"estimators must be a list of fitted estimators, got {type(estimators).__name__}."
        )
    estimators = list(estimators)
    if not estimators:
        raise ValueError("combine_estimators needs at least one estimator.")
    first, named = estimators[0], {f"estimators[{i}]": one for i, one in enumerate(estimators)}
    named |= {} if base is None else {"base": base}
    kind = type(first).__name__
    for who, estimator in named.items():
        if not isinstance(estimator, OnlineEM):
            raise TypeError(f"{who} cannot be {no_model(estimator)}.")
        if type(estimator) is not type(first):
            found = f"{who} is {type(estimator).__name__}, and estimators[0] is {kind}"
            raise TypeError(f"{found}; they must be of one class.")
        check_is_fitted(estimator, msg=f"{who}, a %(name)s, is not fitted; only fitted ones merge.")
        it, awaits = f"{who}, a {kind},", [e._fitted.state.awaits_data for e in (estimator, first)]
        if who != "base" and awaits[0] != awaits[1]:
            own, other = (["data", "only a known model"][one] for one in awaits)
            found = f"{it} has {own}, and estimators[0] has {other}"
            raise ValueError(f"{found}; call partial_fit first.")
        for name, own, other in _mismatches(estimator, first):
            if own == type(None).__name__ and awaits[0]:
                continue  # Members have found it in their first data.
            raise ValueError(f"{it} has {name}={own}, and estimators[0] has {name}={other}.")
        own, before = estimator.n_samples_seen_, getattr(base, "n_samples_seen_", 0)
        if own < before:
            found = f"{it} has seen {own} rows or sequences, and base has seen {before}"
            raise ValueError(f"{found}; members must continue it.")
    for name, of_none in (("feature_names_in_", None), ("classes_", None), ("_categories", {})):
        learnt = [(who, one._fitted.attributes.get(name, of_none)) for who, one in named.items()]
        known = [(who, _as_lists(names)) for who, names in learnt if names is not None]
        for who, names in known[1:]:
            if names != known[0][1]:
                own, other = (f"has {name.lstrip('_')}={x!s:.100}" for x in (names, known[0][1]))
                remedy = "; declare all of them in the types of columns" if of_none == {} else ""
                raise ValueError(f"{who}, a {kind}, {own}, and {known[0][0]} {other}{remedy}.")
    return estimators


def _as_lists(names):
    if isinstance(names, dict):
        return {column: categories.tolist() for column, categories in names.items()}
    return names.tolist()


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
    if parameters.keys().isdisjoint(name for name, *_ in found):
        # These say which parts of a model there are, or are learnt.
        if found or not parameters.keys().isdisjoint({"absorbing_states", "params"}):
            yield from ((name, *values) for name, values in parameters.items())
    yield from found


def _checked_weights(weights, n):
    weights = finite_start("weights", weights, (n,), math.inf)
    is_valid = weights.min() >= 0.0 and weights.any()
    require(is_valid, "weights", "not negative, and not all 0", weights)
    # A power of two, which keeps all digits. Products below the normal numbers lose them.
    scaled = np.ldexp(weights, -np.frexp(weights.max())[1])
    return np.where(scaled < _SMALLEST_SHARE, 0.0, scaled)
