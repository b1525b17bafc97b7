"""Hidden semi-Markov models: hidden Markov models with explicit durations of their states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Self

import numpy as np
from scipy.special import rel_entr, xlogy

from sklearn_onlineem._checks import shares_as_given
from sklearn_onlineem._kernels import _forward_backward, _semi_markov
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem.data.sequences import Sequences, share_of_starts
from sklearn_onlineem.families._e_step import drawn_from, log_of
from sklearn_onlineem.families.parts import Part
from sklearn_onlineem.models._model import by_weight
from sklearn_onlineem.models.coordinates import FAMILY_NODE, Node
from sklearn_onlineem.models.hidden_markov.durations import CategoricalDurations, SegmentDurations
from sklearn_onlineem.models.hidden_markov.markov import (
    ChainCoordinates,
    HiddenMarkovModel,
    HiddenMarkovStatistics,
    total_log_likelihood,
)
from sklearn_onlineem.models.terminations import (
    HORIZON,
    OWN_SHARE,
    UNKNOWN_LENGTHS,
    GivenLength,
    Lengths,
    check_number_of_rows,
)
from sklearn_onlineem.statistics import Statistics

# Probabilities below it are as good as 0 where others are divided by them.
_TINY = 1e-280


@dataclass(frozen=True)
class HiddenSemiMarkovStatistics(HiddenMarkovStatistics):
    """Expected statistics of a hidden semi-Markov model, for each sequence.

    Parameters
    ----------
    start, transitions, emissions
        Like those of `HiddenMarkovStatistics`; transitions are those between segments.
    durations : ndarray of shape (n_states, max_duration)
        Segments by their durations. A segment that goes on after the last row counts with those
        that it may have.
    running : ndarray of shape (n_states,)
        How many of these were running when their sequence began, with left-censored durations.
    """

    durations: Floats
    running: Floats


def _directions(model, counts):
    return model.durations.tangents(model.table, counts)


def _put_durations(model, values):
    table = shares_as_given("durationprob_", values)
    fitted = replace(model.durations, learns=True, left_censored=False).m_step(
        table, np.zeros(len(table)), table
    )
    if not np.allclose(fitted, table, rtol=1e-5, atol=1e-8):
        raise ValueError(
            f"durationprob_ must be the probabilities of {type(model.durations).__name__}."
        )
    return replace(model, table=table)


def check_moves(name: str, transmat: Floats) -> Floats:
    """Return transitions between segments; ValueError if a state could follow itself.

    Rows (K, K) add up to 1. A state that is never left has 1 on the diagonal, others have 0.
    """
    diagonal = np.diagonal(transmat)
    if ((diagonal > 0.0) & (diagonal < 1.0)).any():
        raise ValueError(
            f"{name} must be 0 on its diagonal, or 1 in a state that is never left: with durations,"
            " it has the transitions from segments of one state to those of another."
        )
    return transmat


def _put_moves(model, values):
    other = HiddenMarkovModel.own_parts[1].put(model, values)
    check_moves("transmat_", other.transmat)
    return other


@dataclass(frozen=True)
class HiddenSemiMarkovModel(HiddenMarkovModel):
    r"""A chain of hidden states that last for segments of rows, and emit these.

    .. math::
        p(v, h) = \pi_{h_1} \prod_i p_{h_i}(s_i) \, a_{h_i h_{i+1}} \prod_{t \in i} p(v_t \mid h_i)

    over segments i of :math:`s_i \le D` rows. Where lengths of sequences are given the last segment
    may go on; else the sequence ends with a segment, as the termination says: absorbing states last
    for one row. With left-censored durations the first segment may have begun earlier.

    It is a hidden Markov model with states (k, r), r the rows that are left to the segment: (k, r)
    is followed by (k, r - 1), and (k, 1) by (j, s) with probability :math:`a_{kj} p_j(s)`.

    Parameters
    ----------
    family, start, transmat, parameters, termination, fixed
        Like those of `HiddenMarkovModel`; transmat has the transitions between segments, and from
        the last one to the end.
    durations : SegmentDurations
        Which distributions the durations have.
    table : ndarray of shape (n_states, max_duration)
        Probabilities of durations 1, 2, ..., D. C-ordered, float64.

    References
    ----------
    Yu, "Hidden semi-Markov models", Artificial Intelligence 2010, section 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.data.sequences import Sequences
    >>> from sklearn_onlineem.models.hidden_markov.durations import CategoricalDurations
    >>> from sklearn_onlineem.models.hidden_markov.semi_markov import HiddenSemiMarkovModel
    >>> chain = np.array([0.5, 0.5]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0], [9.0]])
    >>> twos = np.array([[0.0, 1.0], [0.0, 1.0]])
    >>> model = HiddenSemiMarkovModel(
    ...     Poisson(), *chain, durations=CategoricalDurations(), table=twos
    ... )
    >>> data = Sequences(Rows(np.array([[0.0], [8.0], [8.0], [11.0]])), np.array([0, 4]))
    >>> model.decoded(data)[0]
    array([0, 0, 1, 1])
    """

    coordinates = ChainCoordinates
    nodes = (
        *HiddenMarkovModel.nodes[:2],
        Node("table", "durations", attrgetter("durations", "running"), _directions),
        FAMILY_NODE,
    )

    durations: SegmentDurations = CategoricalDurations()
    table: Floats = None

    own_parts = (
        HiddenMarkovModel.own_parts[0],
        HiddenMarkovModel.own_parts[1]._replace(put=_put_moves),
        HiddenMarkovModel.own_parts[2],
        Part("durationprob", "probability", "kr", attrgetter("table"), _put_durations),
    )

    def n_parameters(self) -> int:
        n = self.durations.n_parameters(self.table) if self.durations.learns else 0
        return super().n_parameters() + n

    def mean_form(self, prior: HiddenSemiMarkovStatistics) -> HiddenSemiMarkovStatistics:
        if not isinstance(self.durations, CategoricalDurations) or prior.running.any():
            raise ValueError(f"{type(self.durations).__name__} have no posterior mean.")
        form = super().mean_form(prior)
        durations = prior.durations + (self.table > 0)
        return HiddenSemiMarkovStatistics(**vars(form), durations=durations, running=prior.running)

    # ---------------------------------------------------------------------------- first segments

    @cached_property
    def _at_least(self):
        """P(S >= s), (K, D + 1), up to D + 1."""
        sums = np.zeros((len(self.table), self.table.shape[1] + 1))
        np.cumsum(self.table[:, ::-1], axis=1, out=sums[:, -2::-1])
        return sums

    @cached_property
    def _first(self):
        """p(state, rows of the first segment), of a sequence that begins, (K, D + 1)."""
        first = np.zeros_like(self._at_least)
        table = self.table
        if self.durations.left_censored:
            table = self._at_least[:, :-1] / self._at_least.sum(axis=1, keepdims=True)
        first[:, 1:] = self.start[:, None] * table
        return first

    def _rests(self, before):
        """Return the elapsed durations before the first row, in units of what they survived."""
        elapsed = before.reshape(self.table.shape)
        survived = self._at_least[:, :-1]
        return np.divide(elapsed, survived, out=np.zeros_like(elapsed), where=survived > _TINY)

    def _of_before(self, before, n_rows):
        """Return p(state, rows that are left to its segment), and the same of these or more."""
        n_durations = self.table.shape[1]
        rests, n = self._rests(before), min(n_rows, n_durations) + 1
        first, going = np.zeros((len(rests), n)), np.zeros((len(rests), n))
        for r in range(min(n, n_durations)):
            kept = rests[:, : n_durations - r]
            first[:, r] = (kept * self.table[:, r:]).sum(axis=1)
            going[:, r] = (kept * self._at_least[:, r:-1]).sum(axis=1)
        return first, going

    def _firsts(self, data):
        """Return first segments of the first sequence and of others, as the kernel takes them."""
        first = self._first
        fresh = first, np.cumsum(first[:, ::-1], axis=1)[:, ::-1]
        if data.before is None:
            return fresh, fresh
        return self._of_before(data.before, int(data.offsets[1])), fresh

    # ------------------------------------------------------------------------------------ the EM

    def _is_long(self, data):
        # Recursions along a sequence keep little of it.
        return False

    def _in_kernel(self, data, firsts=None):
        """Return what kernels take: log densities, offsets, the chain and first segments."""
        firsts = firsts or self._firsts(data)
        logs = tuple(log_of(table) for pair in firsts for table in pair)
        final = self.termination.final(self.transmat) if self._ends_by_itself else None
        chain = self._moves, self.table, final, *logs
        return (self._log_densities(data), data.offsets, chain), firsts

    @property
    def _ends_by_itself(self):
        return not isinstance(self.termination, GivenLength)

    @property
    def _moves(self):
        """Probabilities of the next segments, within a sequence."""
        return self.termination.transitions(self.transmat)

    def e_step(
        self, data: Sequences, rng: Generator | None = None, log_likelihoods: Floats | None = None
    ) -> tuple[HiddenSemiMarkovStatistics, float]:
        if data.sample_weight is not None:
            return by_weight(self.e_step, data, rng, log_likelihoods)
        return super().e_step(data, rng, log_likelihoods)

    def _sums(self, data, rng, log_likelihoods):
        arguments, firsts = self._in_kernel(data)
        states = arguments[0]
        if log_likelihoods is not None:
            self._best_of_rows(data, states, log_likelihoods)
        totals, moves, counts, going_on, found = sums = self._room(data, firsts)
        if rng is None:
            _semi_markov.forward_backward(*arguments, *sums)
        else:
            path, uniforms = np.zeros(len(states), dtype=np.int64), rng.random((len(states), 2))
            _semi_markov.forward_backward(*arguments, *sums, uniforms, path)
            states[...] = np.eye(self.n_components)[path]
        log_likelihood = total_log_likelihood(totals, moves)
        emissions = self._emission_statistics(data, states, rng)
        chain = self._statistics_of(data, moves, states, data.offsets, emissions)
        durations, running = self._durations_of(data.before, firsts, counts, going_on, found)
        statistics = HiddenSemiMarkovStatistics(**vars(chain), durations=durations, running=running)
        return statistics, log_likelihood

    def _durations_of(self, before, firsts, counts, going_on, found):
        """Return expected segments by durations, with those that are not seen as a whole."""
        durations, at_least = counts.copy(), going_on.copy()
        running = np.zeros(self.n_components)
        found = found[:2], found[2:]
        fresh = found if before is None else found[1:]
        revised = np.zeros_like(counts) if before is None else self._revised(before, firsts, found)
        for left, beyond in fresh:
            if not self.durations.left_censored:
                durations += left[:, 1:]
                at_least += beyond[:, 1:]
                continue
            # Where r rows were left, durations from r on are in proportion to p. Where at least r
            # were, each had one more place to begin than the one before it.
            at_least += left[:, 1:]
            places = np.cumsum(self._at_least[:, -2::-1], axis=1)[:, ::-1]
            durations += self.table * np.cumsum(
                _ratio(beyond[:, 1:], places).cumsum(axis=1), axis=1
            )
            running += left[:, 1:].sum(axis=1) + beyond[:, 1:].sum(axis=1)
        survived = self._at_least[:, :-1]
        durations += self.table * np.cumsum(_ratio(at_least, survived), axis=1)
        return durations + revised, running

    def _revised(self, before, firsts, found):
        """Return by how much durations of a segment that goes on have become more likely.

        An earlier piece has counted the segment, with the durations that it might have.
        """
        (first, going), (left, beyond) = firsts[0], found[0]
        rests, n_durations = self._rests(before), self.table.shape[1]
        survived = rests.cumsum(axis=1)
        # Segments with r rows left have lasted for s - r rows, and others for fewer.
        new, exactly, at_least = np.zeros_like(rests), _ratio(left, first), _ratio(beyond, going)
        for r in range(min(left.shape[1], n_durations)):
            kept = slice(None, n_durations - r)
            new[:, r:] += exactly[:, r, None] * rests[:, kept]
            if at_least[:, r].any():
                new[:, r:] += at_least[:, r, None] * survived[:, kept]
        new, old = self.table * new, self.table * survived
        share = _ratio(new.sum(axis=1), old.sum(axis=1))
        return new - share[:, None] * old

    def _occupancies(self, like):
        """Return how often segments end, and rows, by states, for a sequence, (K,) each."""
        if self._ends_by_itself:
            ends, begins = self.termination.occupancies(self.start, self.transmat, like)
            rows = begins * self._means
            if self.durations.left_censored:
                s = np.arange(self._at_least.shape[1])
                rows += self.start * ((self._at_least @ (s + 1.0)) / self._means - self._means)
            return ends, rows
        if like is None:
            raise ValueError(UNKNOWN_LENGTHS)
        left, rows = np.zeros(self.n_components), np.zeros(self.n_components)
        chain, sums = (self.transmat, self.table), (left, rows)
        _semi_markov.renewals(self._first, self._first.sum(axis=1), *chain, *like.steps, *sums)
        if like.before is None:
            return sums
        n_rows, share = int(like.offsets[1]), like.share_of_first
        is_short = n_rows < HORIZON
        first, going = self._of_before(like.before, n_rows)
        weight = OWN_SHARE * share if is_short else share
        on = np.ascontiguousarray(going[:, 1])
        steps = np.array([n_rows]), np.array([weight])
        _semi_markov.renewals(first, on, *chain, *steps, *sums)
        if is_short:
            ahead, emissions = self._discounted(like.before, 1.0 - 1.0 / HORIZON)
            scale = (1.0 - OWN_SHARE) * share * n_rows / emissions.sum()
            left += scale * ahead
            rows += scale * emissions
        return sums

    def _discounted(self, before, going_on):
        """Return how often segments end, and rows, of a chain that goes on with a probability."""
        n_durations, rests = self.table.shape[1], self._rests(before)
        powers = going_on ** np.arange(n_durations + 1.0)
        # Sums over rows that are left, from each elapsed duration on.
        ends = np.cumsum((self.table * powers[1:])[:, ::-1], axis=1)[:, ::-1] / powers[1:]
        stays = np.cumsum((self._at_least * powers)[:, ::-1], axis=1)[:, ::-1] / powers
        first = (rests * ends).sum(axis=1)
        factor = self.table @ powers[1:]
        begins = np.linalg.solve(
            np.eye(self.n_components) - (factor[:, None] * self.transmat).T, first @ self.transmat
        )
        begins = np.maximum(begins, 0.0)
        rows = (rests * stays[:, 1:]).sum(axis=1) + begins * stays[:, 0]
        return first + begins * factor, rows

    def _segments(self, like, left):
        """Return expected numbers of new segments, and of those that run at first, (K,) each."""
        starts = share_of_starts(like) * self.start
        new = left @ self.transmat[:, : self.n_components]
        if self.durations.left_censored:
            return new, starts
        return new + starts, np.zeros_like(starts)

    @cached_property
    def _means(self):
        """Mean durations, (K,)."""
        return self.table @ np.arange(1.0, self.table.shape[1] + 1.0)

    @cached_property
    def _met(self):
        """Durations of the segment that is met at any time, in proportion to their lengths."""
        return self.table * np.arange(1.0, self.table.shape[1] + 1.0) / self._means[:, None]

    def own_statistics(self, like: Lengths | None = None) -> HiddenSemiMarkovStatistics:
        left, rows = self._occupancies(like)
        new, running = self._segments(like, left)
        return HiddenSemiMarkovStatistics(
            share_of_starts(like) * self.start,
            left[:, None] * self.transmat,
            self.family.own_statistics(self.parameters, rows),
            new[:, None] * self.table + running[:, None] * self._met,
            running,
        )

    def m_step(self, statistics: HiddenSemiMarkovStatistics) -> HiddenSemiMarkovModel:
        chain = super().m_step(statistics)
        table = self.durations.m_step(statistics.durations, statistics.running, self.table)
        return HiddenSemiMarkovModel(
            chain.family, chain.start, chain.transmat, chain.parameters, chain.termination,
            chain.fixed, self.durations, table,
        )  # fmt: skip

    def expected_log_likelihood(self, statistics: HiddenSemiMarkovStatistics) -> float:
        lasting = xlogy(statistics.durations, self.table).sum()
        lasting -= (statistics.running * np.log(self._means)).sum()
        return super().expected_log_likelihood(statistics) + float(lasting)

    def kl_divergence(self, other: HiddenSemiMarkovModel, like: Lengths | None = None) -> float:
        left, rows = self._occupancies(like)
        new, running = self._segments(like, left)
        emitted = self.family.kl_divergence(self.parameters, other.parameters)
        of_chain = _forward_backward.joint_divergence(
            self.start, self.transmat, other.start, other.transmat, share_of_starts(like),
            left, rows, emitted,
        )  # fmt: skip
        lasting = _weighted_divergence(new, self.table, other.table)
        return of_chain + lasting + _weighted_divergence(running, self._met, other._met)

    def renumbered(self, order: Integers) -> Self:
        renumbered = super().renumbered(order)
        return replace(renumbered, table=np.ascontiguousarray(self.table[order]))

    def chain_statistics(
        self, start: Floats, transitions: Floats, emissions: Statistics, n_segments: float = 0.0
    ) -> HiddenSemiMarkovStatistics:
        durations, running = n_segments * self.table, np.zeros(self.n_components)
        return HiddenSemiMarkovStatistics(start, transitions, emissions, durations, running)

    def has_empty(self, data: Sequences) -> bool:
        # Halves of a state would need transitions to each other.
        return False

    # --------------------------------------------------------------------------------- inference

    def _forward(self, data, only_likelihoods=False):
        """Return filtered probabilities, log-likelihoods of sequences and rows, and the end."""
        arguments, _ = self._in_kernel(data)
        totals, rows = np.empty(len(data)), np.empty(len(arguments[0]))
        elapsed, beyond = np.empty_like(self.table), np.empty(self.n_components)
        _semi_markov.filtered(*arguments, totals, rows, elapsed, beyond, only_likelihoods)
        return arguments[0], totals, rows, elapsed, beyond

    def _row_log_likelihoods(self, data):
        return self._forward(data)[2]

    def _posterior(self, data):
        arguments, firsts = self._in_kernel(data)
        _semi_markov.forward_backward(*arguments, *self._room(data, firsts))
        return arguments[0]

    def _room(self, data, firsts):
        counts, going_on = np.empty_like(self.table), np.empty_like(self.table)
        found = tuple(np.zeros_like(table) for pair in firsts for table in pair)
        moves = np.empty((self.n_components, self.n_components))
        return np.empty(len(data)), moves, counts, going_on, found

    def _decoded(self, data):
        firsts = self._firsts(data)
        if data.before is not None:
            # A path does not say whether the first segment begins with its first row.
            (first, going), fresh = firsts
            begins, n_rows = (first[:, 0] @ self._moves)[:, None], first.shape[1] - 1
            first[:, 1:] += begins * self.table[:, :n_rows]
            going[:, 1:] += begins * self._at_least[:, :n_rows]
            first[:, 0], going[:, 0] = 0.0, going[:, 1]
            firsts = (first, going), fresh
        arguments, _ = self._in_kernel(data, firsts)
        states, best = np.empty(len(arguments[0]), dtype=np.int64), np.empty(len(data))
        _semi_markov.viterbi(*arguments, best, states)
        return states, best

    def filtered_end(self, data: Sequences) -> Floats | None:
        last = data[len(data) - 1 :]
        n_rows, n_durations = last.n_rows, self.table.shape[1]
        filtered, _, _, elapsed, beyond = self._forward(last)
        if not filtered[-1].any():
            return None
        if n_rows <= n_durations:
            # The first segment has lasted for all rows, and for those before these.
            if last.before is not None:
                rests = np.zeros_like(elapsed)
                rests[:, n_rows:] = self._rests(last.before)[:, : n_durations - n_rows]
            elif self.durations.left_censored:
                rests = np.zeros_like(elapsed)
                rests[:, n_rows - 1 :] = 1.0
            else:
                rests = np.eye(1, n_durations, n_rows - 1)
            rests = rests * self._at_least[:, :-1]
            elapsed += beyond[:, None] * _ratio(rests, rests.sum(axis=1, keepdims=True))
        return elapsed.ravel() / elapsed.sum()

    def states_of_end(self, end: Floats) -> Floats:
        return end.reshape(self.table.shape).sum(axis=1)

    def _ends(self, data):
        ends = (self.filtered_end(data[i : i + 1]) for i in range(len(data)))
        nothing = np.zeros(self.table.size)
        return np.array([nothing if end is None else end for end in ends])

    @property
    def table_of_durations(self) -> Floats:
        """Probabilities of durations, `table` as forecasts ask any chain for it."""
        return self.table

    def rests_of(self, end: Floats | None) -> Floats:
        return self._first if end is None else self._of_before(end, self.table.shape[1])[0]

    def _steps_ahead(self, states):
        rests = np.stack([self.rests_of(end) for end in ([None] if states is None else states)])
        while True:
            begins = rests[:, :, 0] @ self._moves
            rests = np.concatenate(
                [rests[:, :, 1:] + begins[:, :, None] * self.table, np.zeros_like(rests[:, :, :1])],
                axis=2,
            )
            now = rests.sum(axis=2)
            yield now
            rests /= now.sum(axis=1)[:, None, None]

    def _sampled_states(self, n, rng, like):
        sampled = self._sampled_until_end if self._ends_by_itself else self._sampled_rows
        return sampled(n, rng, like)

    def _sampled_until_end(self, n, rng, like):
        offsets, segments = self.termination.sample_states(self.start, self.transmat, n, rng)
        check_number_of_rows(self._occupancies(None)[1].sum())
        firsts, rows = offsets[:-1], self._drawn_rows(self.table, segments, rng)
        if self.durations.left_censored:
            rows[firsts] = self._drawn_rows(self._first[:, 1:], segments[firsts], rng)
        return np.append(0, np.cumsum(rows))[offsets], np.repeat(segments, rows)

    def _drawn_rows(self, tables, segments, rng):
        """Return a duration of each segment, by tables of its state."""
        rows = np.empty(len(segments), dtype=np.int64)
        for k, cumulative in enumerate(np.cumsum(tables, axis=1)):
            of_state = np.flatnonzero(segments == k)
            drawn = cumulative[-1] * rng.random(len(of_state))
            rows[of_state] = 1 + cumulative[:-1].searchsorted(drawn, side="right")
        return rows

    def _sampled_rows(self, n, rng, like):
        lengths = self.termination._sample_lengths(n, rng, like)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        states, at = np.empty(offsets[-1], dtype=np.int64), offsets[:-1].copy()
        moves, table = np.cumsum(self.transmat, axis=1), np.cumsum(self.table, axis=1)
        alive, first = np.arange(n), self._first[:, 1:]
        shares = np.cumsum(first.ravel() / first.sum())
        drawn = drawn_from(np.broadcast_to(shares, (n, first.size)), rng)
        state, rows = np.divmod(drawn, first.shape[1])
        while len(alive):
            rows = np.minimum(rows + 1, offsets[alive + 1] - at[alive])
            where = np.repeat(at[alive] - np.cumsum(rows) + rows, rows) + np.arange(rows.sum())
            states[where] = np.repeat(state, rows)
            at[alive] += rows
            goes_on = at[alive] < offsets[alive + 1]
            alive, state = alive[goes_on], drawn_from(moves[state[goes_on]], rng)
            rows = drawn_from(table[state], rng)
        return offsets, states


def _ratio(a, b):
    """Return a / b, and 0 where b is 0."""
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    return np.divide(a, b, out=np.zeros(shape), where=np.broadcast_to(b, shape) > _TINY)


def _weighted_divergence(weights, p, q):
    """Return the weighted sum of KL(p_k || q_k); what never happens does not count."""
    used = weights > 0.0
    return float(weights[used] @ np.maximum(rel_entr(p[used], q[used]).sum(axis=1), 0.0))
