"""Markov chains of symbols, over counts of their transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sklearn_onlineem._checks import above, shares_as_given
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._e_step import drawn_from
from sklearn_onlineem.families._family import normalised
from sklearn_onlineem.families.multinomial import CountTangents, GroupedCounts
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.statistics import Sums

_LONGEST = float(1 << 62)
# So many columns are counted faster than sorted.
_FEW_COLUMNS = 1 << 12


def n_symbols_of(n_columns):
    """Return the number of symbols of rows with `n_columns` counts."""
    n_symbols = isqrt(n_columns)
    if n_columns not in (n_symbols**2, n_symbols * (n_symbols + 1)) or n_symbols == 0:
        raise ValueError(
            f"X has {n_columns} columns (n_features={n_columns}), but counts of the transitions"
            " between S symbols have S * S, or S + S * S with the first symbol before them;"
            " sequences of symbols have one, and are arrays of shape (length, 1)."
        )
    return n_symbols


def has_starts(n_columns):
    """Return whether rows of `n_columns` begin with those of the first symbol."""
    return n_columns > n_symbols_of(n_columns) ** 2


def transition_counts(symbols, offsets, n_symbols, dtype=np.float64):
    """Return counts of the first symbol, one-hot, and of transitions, flattened, by sequence."""
    n_columns = n_symbols * (n_symbols + 1)
    index = np.int32 if max(n_columns, len(symbols)) < 1 << 31 else np.int64
    symbols = symbols.astype(index)
    columns = symbols + index(n_symbols)
    columns[1:] += symbols[:-1] * index(n_symbols)
    columns[offsets[:-1]] = symbols[offsets[:-1]]
    shape = len(offsets) - 1, n_columns
    if len(offsets) == 2 and n_columns <= _FEW_COLUMNS:
        # For a single sequence, as in streams of them, this takes half the time.
        counts = np.bincount(columns, minlength=n_columns)
        columns = counts.nonzero()[0].astype(index)
        parts = counts[columns].astype(dtype), columns, np.array([0, len(columns)], dtype=index)
        counts = sparse.csr_array(parts, shape=shape)
        counts.has_canonical_format = True
        return counts
    parts = (np.ones(len(symbols), dtype), columns, offsets.astype(index))
    counts = sparse.csr_array(parts, shape=shape)
    counts.sum_duplicates()
    return counts


class MarkovChainTangents(CountTangents):
    """Tangents of first symbols and transitions, given the visits of each symbol in the data."""

    @property
    def parts(self):
        n = n_symbols_of(self.mean.shape[1])
        moves = {"transitions": slice(-n * n, None)}
        return {"first symbols": slice(0, n), **moves} if has_starts(self.mean.shape[1]) else moves


def _kind_of_start(parameters):
    return "probability" if has_starts(parameters.shape[1]) else None


def _put_start(family, parameters, start):
    start, n_symbols = shares_as_given("startprob_", start), start.shape[1]
    groups = parameters.reshape(len(parameters), -1, n_symbols).copy()
    if has_starts(parameters.shape[1]):
        groups[:, 0] = start * groups[:, 0].sum(axis=1, keepdims=True)
    else:
        visits = groups.sum(axis=2)
        groups *= (start * visits.sum(axis=1, keepdims=True) / visits)[:, :, None]
    return family.regularise(groups.reshape(parameters.shape))


def _put_transitions(family, parameters, transitions):
    transitions, n_symbols = shares_as_given("transmat_", transitions), transitions.shape[1]
    groups = parameters.reshape(len(parameters), -1, n_symbols).copy()
    groups[:, -n_symbols:] = transitions * groups[:, -n_symbols:].sum(axis=2, keepdims=True)
    return family.regularise(groups.reshape(parameters.shape))


@dataclass(frozen=True)
class MarkovChain(GroupedCounts):
    r"""Sequences of S symbols, each a row of counts: the first symbol, then the transitions.

    .. math::
        p(x_1, \dots, x_T \mid T) = \pi_{x_1} \prod_{t > 1} A_{x_{t-1} x_t}
        = \prod_i \pi_i^{s_i} \prod_{ij} A_{ij}^{n_{ij}}

    A row is :math:`(s, n)`, S + S * S numbers: s is one-hot, and the flattened matrix n counts the
    pairs that follow each other. Rows of S * S numbers are n alone, given the first symbol. The
    density is that of one sequence with these counts, without a coefficient for others. Lengths
    are not modelled. Dense and CSR data; counts need not be whole, and may be of several sequences.

    Parameters are *unnormalised* means :math:`\mu = (E s, E n)` of shape (K, n_features), S + 1
    groups of S numbers. Normalised, groups are the probabilities, :math:`\theta = \log (\pi, A)`,
    at which the log-partition is 0; their sums are the expected visits of each symbol, as estimated
    from the data. The own statistics and the KL divergence :math:`\sum_{ij} \mu_{ij} \log (A_{ij} /
    A'_{ij})`, and likewise of the start, take these visits, so that each row of the matrix learns
    at a rate that fits its use, and merged models are those of one M-step on all data.

    Parameters
    ----------
    min_probability : float, default=1e-12
        Floor of the probabilities, from 1e-100 to 1: the value for a transition that a component
        never saw. Transitions from a symbol that it never left are equally likely.
    mean_total : ndarray of shape (1,), default=None
        Mean sum of the first rows, from `bind`: pseudo-counts of priors are in so long rows.

    References
    ----------
    Cadez, Heckerman, Meek, Smyth & White, "Model-based clustering and visualization of navigation
    patterns on a web site", Data Mining and Knowledge Discovery 7, 2003; Amid & Warmuth, UAI 2020,
    section 4.

    Examples
    --------
    The sequence 0, 0, 1, 1 has the probability one half, times 3/4, 1/4 and 1/2:

    >>> import numpy as np
    >>> from sklearn_onlineem.families import MarkovChain
    >>> chain = np.array([[0.5, 0.5, 3.0, 1.0, 1.0, 1.0]])
    >>> np.exp(MarkovChain().log_density(chain, np.array([[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]])))
    array([[0.046875]])
    """

    tangents = MarkovChainTangents

    def _groups(self, flat):
        # The start, if any, and the transitions from each symbol.
        return flat.reshape(len(flat), -1, n_symbols_of(flat.shape[1]))

    def check(self, X: FloatsOrSparse) -> None:
        super().check(X)
        n_symbols_of(X.shape[1])

    def probabilities(self, parameters: Floats) -> Floats:
        return normalised(parameters, n_symbols_of(parameters.shape[1]))

    def start_probabilities(self, parameters: Floats) -> Floats:
        """Return probabilities of the first symbol, (K, S).

        Without starts they are the shares among the symbols that transitions leave.
        """
        if has_starts(parameters.shape[1]):
            return self._groups(self.probabilities(parameters))[:, 0]
        visits = self._groups(parameters).sum(axis=2)
        return visits / visits.sum(axis=1, keepdims=True)

    def transition_probabilities(self, parameters: Floats) -> Floats:
        """Return probabilities of the transitions from row to column, (K, S, S)."""
        n_symbols = n_symbols_of(parameters.shape[1])
        return self._groups(self.probabilities(parameters))[:, -n_symbols:]

    parts = (
        means_part(),
        Part("startprob", _kind_of_start, "ks", start_probabilities, _put_start),
        Part("transmat", "probability", "kss", transition_probabilities, _put_transitions),
        Part("probabilities", "probability", "kd", probabilities),
    )

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        # Counts of sequences of the component's mean length, rounded.
        n_columns = parameters.shape[1]
        n_symbols = n_symbols_of(n_columns)
        sequences = self.sample_sequences(parameters, components, rng)
        return transition_counts(*sequences, n_symbols).toarray()[:, -n_columns:]

    def sample_sequences(
        self,
        parameters: Floats,
        components: Integers,
        rng: Generator,
        lengths: Integers | None = None,
    ) -> tuple[Integers, Integers]:
        """Draw n sequences; return their symbols, one after the other, and their offsets (n + 1,).

        Lengths, (n,), are from 1 up; None: the `mean_lengths` of their components.

        Parameters
        ----------
        parameters, components, rng
            As in `sample`.
        lengths : ndarray of int of shape (n,), default=None
            From 1 up. None: the `mean_lengths` of their components.
        """
        lengths = self.mean_lengths(parameters)[components] if lengths is None else lengths
        start = np.cumsum(self.start_probabilities(parameters), axis=1)
        moves = np.cumsum(self.transition_probabilities(parameters), axis=2)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        symbols = np.empty(offsets[-1], dtype=np.int64)
        # The longest first, so that sequences that continue are always the first ones.
        order = np.argsort(-lengths, kind="stable")
        components, places, ends = components[order], offsets[:-1][order], -lengths[order]
        latest = drawn_from(start[components], rng)
        symbols[places] = latest
        for t in range(1, lengths.max(initial=0)):
            n = np.searchsorted(ends, -t)
            latest = drawn_from(moves[components[:n], latest[:n]], rng)
            symbols[places[:n] + t] = latest
        return symbols, offsets

    def mean_lengths(self, parameters: Floats) -> Integers:
        """Return expected lengths of sequences, rounded, an ndarray of int of shape (K,)."""
        n_symbols = n_symbols_of(parameters.shape[1])
        n_transitions = self._groups(parameters)[:, -n_symbols:].sum(axis=(1, 2))
        return 1 + np.rint(np.minimum(n_transitions, _LONGEST)).astype(np.int64)

    def n_values(self, rows: Rows) -> float:
        # The mean number of counts, as most columns of short sequences are 0.
        lengths = np.asarray(rows.X.sum(axis=1, dtype=np.float64)).ravel()
        mean = np.average(lengths, weights=rows.sample_weight)
        return min(max(1.0, mean), rows.n_features)

    def smoothing(self, n_features: int) -> Mapping[str, float]:
        of_start = {"start_concentration": 1.5} if has_starts(n_features) else {}
        return {"concentration": 1.5, **of_start}

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        concentration: ArrayLike = 1.0,
        start_concentration: ArrayLike = 1.0,
    ) -> Sums:
        """Return Dirichlet priors on the rows of the transition matrix and on the start.

        Parameters
        ----------
        n_components, n_features : int
            K, and S (S + 1), or S * S for data without starts.
        concentration : array broadcasting to (n_components, S, S), default=1.0
            Above 0; pseudo-counts of the transitions are one less.
        start_concentration : array broadcasting to (n_components, S), default=1.0
            Above 0; pseudo-counts of first symbols are one less. 1 for data without starts.
        """
        n_symbols = n_symbols_of(n_features)
        shape = (n_components, n_symbols, n_symbols)
        moves = above("concentration", concentration, 0.0, shape) - 1.0
        start = above("start_concentration", start_concentration, 0.0, shape[:2]) - 1.0
        groups = moves
        if has_starts(n_features):
            groups = np.concatenate([start[:, None], moves], axis=1)
        elif start.any():
            raise ValueError(
                f"start_concentration must be 1, got {start_concentration!r}: the data have no"
                " first symbols."
            )
        return self._pseudo_counts(groups.reshape(n_components, n_features))

    def draw_from_posterior(self, statistics: Sums, rng: Generator) -> Floats:
        # Visits of symbols have no prior: they are those of the rows.
        groups = self._groups(_collapsed.concentration_of(self, statistics))
        weight = self.mean_form(statistics).weight
        weight = np.where(weight > 0.0, weight, 1.0)
        visits = groups.sum(axis=2, keepdims=True) / weight[:, None, None]
        drawn = visits * _collapsed.drawn_proportions(groups, rng)
        return self.regularise(drawn.reshape(statistics.total.shape))
