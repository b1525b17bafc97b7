"""Hidden Markov models over any family of emissions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Self

import numpy as np
from scipy.special import logsumexp, xlogy

from sklearn_onlineem._checks import array_of, shares_as_given
from sklearn_onlineem._kernels import _forward_backward, _log_chains
from sklearn_onlineem._kernels._centred_moments import scaled_rows
from sklearn_onlineem._kernels._openmp import walk
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem._values import frozen, quick, take
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import LengthDistribution, Sequences, share_of_starts
from sklearn_onlineem.families import Family
from sklearn_onlineem.families._e_step import log_of
from sklearn_onlineem.families.capabilities import PosteriorMeans, require
from sklearn_onlineem.families.parts import Part
from sklearn_onlineem.models._model import Model, check_order, divergences, matching
from sklearn_onlineem.models.capabilities import Reinitialises, RowLikelihoods, SplitMergeStep
from sklearn_onlineem.models.coordinates import FAMILY_NODE, Coordinates, shares_node
from sklearn_onlineem.models.fixed import Fixed
from sklearn_onlineem.models.forecasts import MixtureForecast
from sklearn_onlineem.models.hidden_markov._long_sequences import decoded, explored, filtered_end
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, known_if_inputs
from sklearn_onlineem.models.split_merge import emptied
from sklearn_onlineem.models.terminations import (
    AbsorbingStates,
    EndState,
    GivenLength,
    Lengths,
    Termination,
)
from sklearn_onlineem.statistics import Statistics, combine

# Lengths by which long-run shares of states are told.
_LONG = LengthDistribution((np.array([1000]), np.ones(1)))
# Log densities of a chunk fit in a cache; a thread takes some milliseconds for it.
_CHUNK_VALUES = 1 << 19
_TINY = float(np.finfo(np.float64).tiny)
# Of chains, with durations or without.
_FIELDS = frozenset({"start", "transmat", "parameters", "table"})


@quick
@dataclass(frozen=True)
class HiddenMarkovStatistics(Statistics):
    """Expected statistics of a hidden Markov model, for each sequence.

    Parameters
    ----------
    start : ndarray of shape (n_states,)
        First states of sequences.
    transitions : ndarray of shape (n_states, n_states) or (n_states, n_states + 1)
        Transitions, and ends where they are modelled.
    emissions : Statistics
        The family's statistics, of all states.
    """

    start: Floats
    transitions: Floats
    emissions: Statistics


class ChainCoordinates(Coordinates):
    """Coordinates of hidden Markov models: start, transitions and emissions of a state."""

    what = "states"


def _put_start(model, values):
    return replace(model, start=shares_as_given("startprob_", values))


def _moves(model):
    return model.transmat[:, : model.n_components]


def _put_moves(model, values):
    transmat = shares_as_given("transmat_", values, may_lack=model._has_end)
    if model._has_end:
        end = np.maximum(1.0 - transmat.sum(axis=1), 0.0)
        transmat = np.column_stack([transmat, end])
        if end.max() <= len(end) * np.finfo(np.float64).eps:
            raise ValueError(
                "transmat_ leaves no room for the end: with termination='end_state' rows add up to"
                " less than 1, and the rest is the probability to end there."
            )
    if isinstance(model.termination, AbsorbingStates):
        states = list(model.termination.states)
        if not np.array_equal(transmat[states], np.eye(len(transmat))[states]):
            raise ValueError(f"transmat_ must not leave the absorbing states {states}.")
    return replace(model, transmat=transmat)


def _put_ends(model, values):
    if not (0.0 <= values.min() and 0.0 < values.max() <= 1.0):
        raise ValueError("endprob_ must be in 0..1, and above 0 in one state at least.")
    inner = model.transmat[:, :-1]
    totals, rest = inner.sum(axis=1), 1.0 - values
    if (rest[totals == 0.0] > 0.0).any():
        raise ValueError("endprob_ must be 1 in states that go nowhere else; set transmat_ first.")
    scale = np.divide(rest, totals, out=np.ones_like(rest), where=totals > 0.0)
    return replace(model, transmat=np.column_stack([inner * scale[:, None], values]))


@quick
@dataclass(frozen=True)
class HiddenMarkovModel(RowLikelihoods, Model[Sequences, HiddenMarkovStatistics], Reinitialises):
    r"""A hidden Markov chain whose states emit rows.

    .. math:: p(v, h) = \pi_{h_1} p(v_1 \mid h_1) \prod_{t > 1} a_{h_{t-1} h_t} p(v_t \mid h_t)

    Parameters
    ----------
    family : Family
        Family of the emissions.
    start : ndarray of shape (n_states,)
        Probabilities of the first state; C-ordered, float64.
    transmat : ndarray of shape (n_states, n_states) or (n_states, n_states + 1)
        Rows add up to 1; the termination defines the last of n_states + 1 columns. Zeros stay zero.
        C-ordered, float64.
    parameters : object
        The family's parameters of all states.
    termination : Termination, default=GivenLength()
        How sequences end.
    fixed : Fixed, default=None
        Entries that the M-step leaves as they are. None: all are learnt.

    Notes
    -----
    Methods take these, and those of `Model`:

    n_steps : int
        How many rows follow each sequence.
    end : ndarray
        What `filtered_end` returns: the distribution of the last state, and of what is left of it.

    References
    ----------
    Amid & Warmuth, UAI 2020, section 4.2, with separate occupancies for transitions and emissions.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.data.sequences import Sequences
    >>> from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel
    >>> transmat, rates = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[1.0], [9.0]])
    >>> model = HiddenMarkovModel(Poisson(), np.array([0.5, 0.5]), transmat, rates)
    >>> data = Sequences(Rows(np.array([[0.0], [2.0], [8.0], [11.0]])), np.array([0, 4]))
    >>> model.decoded(data)[0]
    array([0, 0, 1, 1])
    """

    coordinates = ChainCoordinates
    nodes = (
        shares_node("start", "start", "start"),
        shares_node("transmat", "transitions", "transitions"),
        FAMILY_NODE,
    )

    family: Family
    start: Floats
    transmat: Floats
    parameters: object
    termination: Termination = GivenLength()
    fixed: Fixed | None = None

    def __post_init__(self):
        # Kernels do not convert them.
        array_of("start", self.start)
        array_of("transmat", self.transmat, ndim=2)

    own_parts = (
        Part("startprob", "probability", "k", attrgetter("start"), _put_start),
        Part("transmat", "probability", "kk", _moves, _put_moves),
        Part("endprob", "probability", "k", lambda model: model.transmat[:, -1], _put_ends),
    )

    @property
    def parts(self) -> tuple[Part, ...]:
        parts, n = super().parts, len(self.own_parts)
        return (*parts[n:], *parts[:2], *parts[2 if self._has_end else 3 : n])

    @property
    def _has_end(self):
        return isinstance(self.termination, EndState)

    @property
    def n_components(self) -> int:
        return len(self.start)

    @property
    def n_features(self) -> int:
        first = np.zeros(1, dtype=np.intp)
        return self.family.sample(self.parameters, first, np.random.default_rng(0)).shape[1]

    is_conjugate, effective_counts = MixtureModel.is_conjugate, MixtureModel.effective_counts

    def mean_form(self, prior: HiddenMarkovStatistics) -> HiddenMarkovStatistics:
        require(self.family, PosteriorMeans)
        # Structural zeros are certain.
        return HiddenMarkovStatistics(
            prior.start + (self.start > 0),
            prior.transitions + (self.transmat > 0),
            self.family.mean_form(prior.emissions),
        )

    @property
    def learnt(self) -> frozenset[str]:
        """Fields of the model that are learnt, if only in part."""
        fixed = self.fixed
        if fixed is None:
            return _FIELDS
        masks = {"start": fixed.weights, "transmat": fixed.transmat, "parameters": fixed.components}
        is_fixed = (name for name, mask in masks.items() if mask is not None and mask.all())
        return _FIELDS.difference(is_fixed)

    def n_parameters(self) -> int:
        fixed, is_active = self.fixed or Fixed(), np.ones(self.n_components, dtype=bool)
        n_of_chain = fixed.n_free("weights", self.start > 0)
        n_of_chain += fixed.n_free("transmat", self.transmat > 0)
        return n_of_chain + fixed.n_learnt(self.family, self.parameters, is_active)

    def observations_needed(self, data: Sequences) -> float:
        n_parameters = max(1, self.family.n_parameters(self.parameters))
        return n_parameters / data.n_features / (data.row_weight / data.total_weight)

    def size_of(self, data: Sequences) -> float:
        return self.termination.size_of(data)

    # ------------------------------------------------------------------------------------ the EM

    def e_step(
        self, data: Sequences, rng: Generator | None = None, log_likelihoods: Floats | None = None
    ) -> tuple[HiddenMarkovStatistics, float]:
        total = data.total_weight
        if data.n_rows <= self._n_chunk:
            sums, log_likelihood = self._sums(data, rng, log_likelihoods)
            if total == 1.0:
                return sums, log_likelihood
            return combine([(1.0 / total, sums)]), log_likelihood / total
        chunks = data.chunks(self._n_chunk)
        rngs = outs = [None] * len(chunks)
        if rng is not None:
            # One for each chunk, so that draws do not depend on the order of chunks.
            seeds = rng.integers(1 << 63, size=(len(chunks), 4))
            rngs = [np.random.default_rng(seed) for seed in seeds]
        if log_likelihoods is not None:
            ends = np.cumsum([chunk.n_rows for chunk in chunks])
            outs = np.split(log_likelihoods, ends[:-1])
        long_sums = None if rng is not None else self._sums_of_long
        sums = self._walked(self._sums, long_sums, data.n_threads, chunks, rngs, outs)
        statistics, log_likelihoods = zip(*sums, strict=True)
        evidence = combine([(1.0 / total, part) for part in statistics])
        return evidence, sum(log_likelihoods) / total

    def _sums(self, data, rng, log_likelihoods):
        states, offsets, weight = self._log_densities(data), data.offsets, data.sample_weight
        if log_likelihoods is not None:
            self._best_of_rows(data, states, log_likelihoods)
        totals, moves = np.empty(len(data)), np.empty((self.n_components, self.n_components))
        chain, uniforms = self._chain(data), None if rng is None else rng.random(len(states))
        log_likelihood = _forward_backward.forward_backward(
            states, offsets, *chain, totals, moves, data.n_threads, weight, uniforms
        )
        if weight is not None:
            states *= np.repeat(weight, data.lengths)[:, None]
        if rng is not None or not math.isfinite(log_likelihood):
            log_likelihood = total_log_likelihood(totals, moves, weight)
        if data.before is not None:
            moves += _moves_into(states[0], data.before, chain)
        emissions = self._emission_statistics(data, states, rng)
        return self._statistics_of(data, moves, states, offsets, emissions), log_likelihood

    def _statistics_of(self, data, moves, states, offsets, emissions):
        """Return statistics from moves, emissions, and states that begin and end at offsets."""
        starts = states[offsets[int(data.before is not None) : -1]]
        # Mostly there is one, which takes longer to add up.
        is_one = len(starts) == 1
        starts = starts[0].astype(np.float64) if is_one else starts.sum(axis=0, dtype=np.float64)
        if self.transmat.shape[1] > self.n_components:
            moves = np.column_stack([moves, states[offsets[1:] - 1].sum(axis=0, dtype=np.float64)])
        return HiddenMarkovStatistics(starts, moves, emissions)

    def _sums_of_long(self, data, n_threads, rng, log_likelihoods):
        def visit(piece, posterior, where):
            return 1.0, self._emission_statistics(piece, posterior)

        log_likelihood, found = explored(
            self, data, self._n_chunk, n_threads, visit, log_likelihoods
        )
        total_log_likelihood(np.array(log_likelihood), np.zeros(1) if found is None else found[0])
        moves, *ends, emissions = found
        if data.before is not None:
            moves += _moves_into(ends[0], data.before, self._chain(data))
        statistics = self._statistics_of(
            data, moves, np.array(ends), np.array([0, 2]), combine(emissions)
        )
        weight = data.total_weight
        return statistics if weight == 1.0 else statistics.scale(weight), weight * log_likelihood

    def _best_of_rows(self, data, log_densities, out):
        """Write log p(v_t | h) of the state that explains a row best; no row depends on others."""
        _forward_backward.largest_of_rows(log_densities, out)
        if data.observed is not None:
            out[~data.observed] = np.nan

    def _emission_statistics(self, data, posterior, rng=None):
        if data.observed is None:
            return self.family._statistics_given(rng)(
                self.parameters, data.X, posterior, n_threads=data.n_threads
            )
        emissions = self.family.own_statistics(self.parameters, np.zeros(self.n_components))
        for rows, _, statistics_of in self._by_completeness(data, rng):
            emissions = emissions + statistics_of(
                self.parameters, data.X[rows], posterior[rows], n_threads=data.n_threads
            )
        return emissions

    def _chain(self, data):
        """Return p(first state), that of the first sequence, transitions and p(end | state)."""
        first, transmat = self.start, self.termination.transitions(self.transmat)
        if data.before is not None:
            first = data.before @ transmat
        return self.start, first, transmat, self.termination.final(self.transmat)

    def _log_densities(self, data):
        """Return log densities of the rows for each state."""
        if data.observed is None:
            out = self.family.log_density(self.parameters, data.X, n_threads=data.n_threads)
        else:
            out = np.zeros((data.n_rows, self.n_components), dtype=data.X.dtype)
            for rows, log_density, _ in self._by_completeness(data):
                out[rows] = log_density(self.parameters, data.X[rows], n_threads=data.n_threads)
        if data.labels is not None:
            labels = data.labels[:, None]
            out[(labels >= 0) & (labels != np.arange(self.n_components))] = -np.inf
        return out

    def _by_completeness(self, data, rng=None):
        """Yield complete rows, and rows with some values, each with functions for them."""
        family, complete = self.family, ~np.isnan(data.X).any(axis=1)
        if complete.any():
            yield complete, family.log_density, family._statistics_given(rng)
        incomplete = data.observed & ~complete
        if incomplete.any():
            yield incomplete, family.marginal_log_density, family.marginal_statistics

    def _occupancies(self, like):
        return self.termination.occupancies(self.start, self.transmat, like)

    def chain_statistics(
        self, start: Floats, transitions: Floats, emissions: Statistics, n_segments: float = 0.0
    ) -> HiddenMarkovStatistics:
        """Return pseudo-statistics.

        Parameters
        ----------
        start : ndarray of shape (n_states,)
            First states.
        transitions : ndarray
            Transitions, of the shape of the model's.
        emissions : Statistics
            The family's.
        n_segments : float, default=0.0
            Segments of each state, where these have durations.
        """
        return HiddenMarkovStatistics(start, transitions, emissions)

    def own_statistics(self, like: Lengths | None = None) -> HiddenMarkovStatistics:
        transitions, emissions = self.termination.occupancies(self.start, self.transmat, like)
        return HiddenMarkovStatistics(
            share_of_starts(like) * self.start,
            scaled_rows(transitions, self.transmat),
            self.family.own_statistics(self.parameters, emissions),
        )

    def m_step(self, statistics: HiddenMarkovStatistics) -> HiddenMarkovModel:
        start, transmat, parameters = self.start, self.transmat, self.parameters
        fixed, learnt = self.fixed, self.learnt
        if "start" in learnt:
            start = np.empty_like(self.start)
            counts = statistics.start[None], self.start[None]
            _forward_backward.normalise_rows(*counts, start[None])
        if "transmat" in learnt:
            transmat = np.empty_like(self.transmat)
            _forward_backward.normalise_rows(statistics.transitions, self.transmat, transmat)
        if "parameters" in learnt:
            parameters = self.family.m_step(statistics.emissions, parameters)
        if fixed is not None:
            start = fixed.shares("weights", start, self.start)
            transmat = fixed.shares("transmat", transmat, self.transmat)
            parameters = fixed.parameters(parameters, self.parameters)
        return HiddenMarkovModel(self.family, start, transmat, parameters, self.termination, fixed)

    def expected_log_likelihood(self, statistics: HiddenMarkovStatistics) -> float:
        start = xlogy(statistics.start, self.start).sum()
        transitions = xlogy(statistics.transitions, self.transmat).sum()
        emitted = self.family.expected_log_density(self.parameters, statistics.emissions)
        return float(start + transitions + emitted)

    def kl_divergence(self, other: HiddenMarkovModel, like: Lengths | None = None) -> float:
        transitions, emissions = self.termination.occupancies(self.start, self.transmat, like)
        emitted = self.family.kl_divergence(self.parameters, other.parameters)
        return _forward_backward.joint_divergence(
            self.start, self.transmat, other.start, other.transmat, share_of_starts(like),
            transitions, emissions, emitted,
        )  # fmt: skip

    def order_in(self, reference: HiddenMarkovModel, like: Lengths | None = None) -> Integers:
        # States are matched by how often they emit, and what; transitions follow.
        models = self, reference
        occupancy, reference_occupancy = (model._occupancies(like)[1] for model in models)
        ends = (model.termination.final(model.transmat) > 0.0 for model in models)
        return matching(occupancy, reference_occupancy, divergences(self, reference), *ends)

    def renumbered(self, order: Integers) -> Self:
        if self._is_partial:
            raise ValueError("states of which some parameters are fixed cannot be renumbered.")
        check_order(order, self.n_components)
        can_end = self.termination.final(self.transmat) > 0.0
        if (can_end != can_end[order]).any():
            raise ValueError("states in which sequences end cannot be renumbered.")
        columns = np.append(order, np.arange(len(order), self.transmat.shape[1]))
        return replace(
            self,
            start=self.start[order],
            transmat=np.ascontiguousarray(self.transmat[np.ix_(order, columns)]),
            parameters=take(self.parameters, order),
        )

    # -------------------------------------------------------------------------- states of streams

    def has_empty(self, data: Sequences) -> bool:
        return not self._is_partial and bool(emptied(self._shares(data)).any())

    @property
    def _is_partial(self):
        return self.fixed is not None and self.fixed.is_partial

    def _shares(self, data):
        """Return the shares of the states among the rows; in the long run for a piece."""
        like = data if data.before is None else _LONG
        emissions = self._occupancies(like)[1]
        return emissions / emissions.sum()

    def reinitialised(self, data: Sequences) -> SplitMergeStep | None:
        rows = data.rows
        if data.observed is not None:
            rows = rows[np.flatnonzero(~np.isnan(data.X).any(axis=1))]
        if not {"transmat", "parameters"} <= self.learnt or len(rows) == 0:
            return None
        # Rows have no order here: the halves of a state get the same transitions.
        move = MixtureModel(self.family, self._shares(data), self.parameters).reinitialised(rows)
        if move is None:
            return None
        new, old = halves = [move.reinitialised, move.half_of]
        possible, twins = self.transmat > 0.0, np.arange(self.n_components)
        twins[new] = old
        if (possible[:, new] != possible[:, old]).any() or (possible[new] != possible[old]).any():
            return None
        shares = move.model.weights[halves] / move.model.weights[halves].sum()
        transmat, start = self.transmat[twins], self.start.copy()
        transmat[:, halves] = transmat[:, halves].sum(axis=1, keepdims=True) * shares
        if "start" in self.learnt and start[halves].all():
            start[halves] = start[halves].sum() * shares
        model = replace(self, start=start, transmat=transmat, parameters=move.model.parameters)
        return SplitMergeStep(model, new, old)

    # --------------------------------------------------------------------------------- inference

    def log_likelihood(self, data: Sequences) -> Floats:
        def of_long(chunk, n_threads):
            return np.atleast_1d(explored(self, chunk, self._n_chunk, n_threads)[0])

        return _joined(self._in_chunks(self._log_likelihoods, data, of_long))

    def row_log_likelihoods(self, data: Sequences) -> Floats:
        """Return log p(v_t | v_1..t-1), of shape (n_rows,); 0 where nothing is observed.

        Where lengths are modelled, it is that of the row and of going on, or of the end.
        """
        return _joined(self._in_chunks(self._row_log_likelihoods, data))

    def filtered(self, data: Sequences) -> Floats:
        """Return p(h_t | v_1..t), an ndarray of shape (n_rows, n_states)."""
        return _joined(self._in_chunks(self._filtered, data))

    def filtered_end(self, data: Sequences) -> Floats | None:
        """Return the filtered distribution of the last state of all; None for impossible data.

        With durations, it is that of the state and the rows of its segment so far, of shape
        (n_states * max_duration,).

        A piece that continues the last sequence starts from its state.
        """
        last = data[len(data) - 1 :] if len(data) > 1 else data
        if self._is_long(last):
            filtered = filtered_end(self, last, self._n_chunk)
        else:
            filtered = self._filtered(last)[-1].astype(np.float64)
        return filtered if filtered.any() else None

    def forecast(self, data: Sequences, n_steps: int) -> MixtureForecast:
        """Return the distributions of the rows that follow each sequence.

        ValueError for a sequence that is impossible. `probabilities` are of shape (n_sequences,
        n_steps, n_states).
        """
        states = self._ends(data)
        if not states.any(axis=1).all():
            which = int(states.any(axis=1).argmin())
            raise ValueError(f"sequence {which} is impossible under the model.")
        return self.ahead(states, n_steps)

    def _ends(self, data):
        """Return the filtered ends of all sequences; zeros of impossible ones."""
        if len(data) == 1:
            end = self.filtered_end(data)
            return np.zeros((1, self.n_components)) if end is None else end[None]
        return self.filtered(data)[data.offsets[1:] - 1].astype(np.float64)

    def ahead(self, states: Floats | None, n_steps: int) -> MixtureForecast:
        r"""Return the distributions of the rows after those that led to states.

        .. math:: p_{T + s} \propto p_T Q^s

        with the transitions Q within a sequence. If lengths are modelled, all is conditional on
        going on; ValueError for a sequence that cannot.

        Parameters
        ----------
        states : ndarray of shape (n_sequences, n_states), or None
            Filtered ends; None: a new sequence begins.
        n_steps : int
            Rows ahead.
        """
        n = 1 if states is None else len(states)
        probabilities = room("n_steps", (n, n_steps, self.n_components))
        for step, now in zip(range(n_steps), self._steps_ahead(states), strict=False):
            totals = now.sum(axis=1, keepdims=True)
            if not totals.all():
                which = int(totals[:, 0].argmin())
                raise ValueError(f"sequence {which} surely ends before step {step + 1}.")
            probabilities[:, step] = now / totals
        return MixtureForecast(self.family, self.parameters, probabilities)

    table_of_durations = frozen(np.ones((1, 1)))

    def rests_of(self, end: Floats | None) -> Floats:
        """Return p(state, rows that are left to its segment), (K, D + 1), of a filtered end.

        Without an end a new sequence begins. Without durations each row is a segment, and D is 1.
        """
        nothing = np.zeros(self.n_components)
        return np.column_stack([nothing, self.start] if end is None else [end, nothing])

    def _steps_ahead(self, states):
        """Yield shares of the states at each step, of what has gone on until the one before."""
        transitions = self.termination.transitions(self.transmat)
        now = self.start[None] if states is None else states @ transitions
        while True:
            yield now
            now = now / now.sum(axis=1, keepdims=True) @ transitions

    def states_of_end(self, end: Floats) -> Floats:
        """Return the distribution of the state that a filtered end has, (n_states,)."""
        return end

    def posterior(self, data: Sequences) -> Floats:
        """Return p(h_t | v), an ndarray of shape (n_rows, n_states)."""
        return _joined(self._in_chunks(self._posterior, data, self._posterior_of_long))

    def decoded(self, data: Sequences) -> tuple[Integers, Floats]:
        """Return the most probable state paths h (n_rows,), and log p(v, h) of each (Viterbi)."""
        parts = self._in_chunks(self._decoded, data, partial(decoded, self, n_piece=self._n_chunk))
        return tuple(_joined(part) for part in zip(*parts, strict=True))

    @property
    def _n_chunk(self):
        return max(1, _CHUNK_VALUES // self.n_components)

    def _is_long(self, data):
        return len(data) == 1 and data.n_rows > 2 * self._n_chunk

    def _in_chunks(self, function, data, of_long=None):
        return self._walked(function, of_long, data.n_threads, data.chunks(self._n_chunk))

    def _walked(self, function, of_long, n_threads, chunks, *columns):
        """Call a function of each chunk; another, if any, of those that are a long sequence.

        Threads share the first; of each long sequence, the second tells them to share the rows.
        """
        calls = list(zip(chunks, *columns, strict=True))
        is_long = [of_long is not None and self._is_long(chunk) for chunk in chunks]
        short = [call for call, apart in zip(calls, is_long, strict=True) if not apart]
        results = iter(walk(function, n_threads, *zip(*short, strict=True)) if short else ())
        return [
            of_long(call[0], n_threads, *call[1:]) if apart else next(results)
            for call, apart in zip(calls, is_long, strict=True)
        ]

    def _forward(self, data, only_likelihoods=False):
        """Return filtered states, and log-likelihoods of sequences."""
        states, out = self._log_densities(data), np.empty(len(data))
        _forward_backward.filtered(
            states, data.offsets, *self._chain(data), out, data.n_threads, not only_likelihoods
        )
        return states, out

    def _filtered(self, data):
        return self._forward(data)[0]

    def _log_likelihoods(self, data):
        return self._forward(data, only_likelihoods=True)[1]

    def _row_log_likelihoods(self, data):
        log_densities, offsets = self._log_densities(data), data.offsets
        log_densities = log_densities.astype(np.float64, copy=False)
        filtered, log_likelihoods = log_densities.copy(), np.empty(len(data))
        start, first, transmat, final = chain = self._chain(data)
        _forward_backward.filtered(filtered, offsets, *chain, log_likelihoods, data.n_threads)
        begins, lasts = offsets[:-1], offsets[1:] - 1
        predicted = np.empty_like(log_densities)
        np.matmul(filtered[:-1], transmat, out=predicted[1:])
        predicted[begins], predicted[0] = start, first
        rows = logsumexp(log_densities + log_of(predicted), axis=1)
        rows[lasts] += log_of(filtered[lasts] @ final)
        # Filtered states below the smallest number may be the only ones that explain later rows.
        is_wrong = ~np.isclose(np.add.reduceat(rows, begins), log_likelihoods, rtol=1e-6)
        for s in np.flatnonzero(is_wrong):
            piece = slice(begins[s], offsets[s + 1])
            of_first = start if s else first
            rows[piece] = _in_logs(log_densities[piece], of_first, transmat, final)
        return rows

    def _posterior(self, data):
        states = self._log_densities(data)
        unused = np.empty((self.n_components, self.n_components))
        _forward_backward.forward_backward(
            states, data.offsets, *self._chain(data), np.empty(len(data)), unused, data.n_threads
        )
        return states

    def _posterior_of_long(self, data, n_threads):
        out = np.zeros((data.n_rows, self.n_components), dtype=data.dtype)

        def visit(piece, posterior, where):
            out[where] = posterior

        explored(self, data, self._n_chunk, n_threads, visit)
        return out

    def _decoded(self, data):
        states, best = np.empty(data.n_rows, dtype=np.int64), np.empty(len(data))
        log_densities, chain = self._log_densities(data), self._chain(data)
        _log_chains.viterbi(log_densities, data.offsets, *chain, best, states, data.n_threads)
        return states, best

    def sample(
        self, n: int, rng: Generator, like: Lengths | None = None
    ) -> tuple[Sequences, Integers]:
        offsets, states = self._sampled_states(n, rng, like)
        X = self.family.sample(self.parameters, states, rng)
        return Sequences(Rows(X, labels=known_if_inputs(self.family, states)), offsets), states

    def _sampled_states(self, n, rng, like):
        return self.termination.sample_states(self.start, self.transmat, n, rng, like)


def _moves_into(posterior, before, chain):
    """Return p(h_0, h_1 | v) of a sequence that continues, from the posterior of h_1, (K, K)."""
    _, first, transmat, _ = chain
    return before[:, None] * transmat * (posterior / np.maximum(first, _TINY))


def _in_logs(log_densities, first, transmat, final):
    """Return log p(v_t | v_1..t-1) of the rows of one sequence, by a recursion over logarithms."""
    rows = np.full(len(log_densities), -np.inf)
    log_predicted, log_transmat, log_final = map(log_of, (first, transmat, final))
    for t, log_density in enumerate(log_densities):
        joint = log_predicted + log_density
        rows[t] = logsumexp(joint)
        if np.isneginf(rows[t]):
            return rows
        log_filtered = joint - rows[t]
        log_predicted = logsumexp(log_filtered[:, None] + log_transmat, axis=0)
    rows[-1] += logsumexp(log_filtered + log_final)
    return rows


def _joined(parts):
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def total_log_likelihood(
    log_likelihoods: Floats, transitions: Floats, weight: Floats | None = None
) -> float:
    """Return the sum of log-likelihoods; ValueError if a sequence is impossible."""
    total = float(log_likelihoods.sum() if weight is None else weight @ log_likelihoods)
    if math.isfinite(total + transitions.sum()):
        return total
    if np.isneginf(log_likelihoods).any():
        raise ValueError(
            "Some sequences are impossible under the model, because of known states or zeros"
            " among probabilities of starts, transitions and symbols."
        )
    if not (np.isfinite(log_likelihoods).all() and np.isfinite(transitions).all()):
        raise ValueError(
            "The densities of rows are too small to tell states apart: the scales of the model"
            " and of the data are too far apart. Rescale the start values or priors."
        )
    return total
