"""Memoryless transducers: pairs of strings made by independent edit operations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from scipy.special import xlogy

from sklearn_onlineem._kernels import _edit_lattice
from sklearn_onlineem._typing import Floats, Generator
from sklearn_onlineem.data.strings import StringPairs, Strings, length_order
from sklearn_onlineem.families._e_step import log_of
from sklearn_onlineem.families.parts import Part
from sklearn_onlineem.families.tangents import Shares
from sklearn_onlineem.models._model import Model, by_weight
from sklearn_onlineem.models.coordinates import Coordinates, Node
from sklearn_onlineem.models.strings.operations import KINDS, FullOperations, Operations
from sklearn_onlineem.statistics import Statistics

# Cells of a lattice that a chunk has; Python looks for Ctrl-C between chunks.
_CHUNK_CELLS = float(1 << 26)


@dataclass(frozen=True)
class EditStatistics(Statistics):
    """Expected numbers of operations in the script of a pair.

    Parameters
    ----------
    counts : ndarray of shape (n_probabilities,)
        In the order of the parametrisation; the last element counts ends, 1 for each pair.
    """

    counts: Floats


class TransducerCoordinates(Coordinates):
    """Coordinates of transducers: a single row, of the probabilities of operations and the end."""

    what = "transducer"
    remedy = "with tied operations"

    @property
    def parts(self):
        spread = self.model.operations.spread
        return {kind: spread(unit) > 0.0 for kind, unit in zip(KINDS, np.eye(5), strict=True)}


def _directions(model, counts):
    return Shares(model.probabilities[None])


def _by_kind(model):
    return model.operations.by_kind(model.probabilities)


def _table(kind, place, axes):
    def get(model):
        return model.operations.tables(model.probabilities)[place]

    def put(model, values):
        if (values < 0.0).any():
            raise ValueError("probabilities must not be negative.")
        # The end gets the rest.
        probabilities = model.probabilities.copy()
        model.operations.tables(probabilities)[place][...] = values
        probabilities[-1] = 1.0 - probabilities[:-1].sum()
        if not probabilities[-1] > 0.0:
            raise ValueError(
                "probabilities of all substitutions, deletions and insertions must add up to less"
                f" than 1, which leaves the rest to the end, got {1.0 - probabilities[-1]:.6g}."
            )
        return replace(model, probabilities=probabilities)

    return Part(f"{kind}_probabilities", "probability", axes, get, put)


@dataclass(frozen=True)
class EditTransducer(Model[StringPairs, EditStatistics]):
    r"""Scripts of independent edit operations, which make a source and a target.

    .. math:: p(x, y) = \delta_\# \sum_{\text{scripts}} \prod_{\text{operations}} p(o)

    `sample` returns pairs of strings and their scripts, operations as `Strings`.

    Parameters
    ----------
    operations : Operations
        The parametrisation.
    probabilities : ndarray of shape (n_probabilities,)
        Of the operations and, last, of the end of the script; they add up to 1. Likelihoods replace
        those of operations below 1e-50 by 1e-50.

    References
    ----------
    Ristad & Yianilos, "Learning string-edit distance", IEEE PAMI 1998; Amid & Warmuth,
    arXiv:1902.04107, appendix D, where expected counts are divided by their sum over a pair, which
    does not minimise the bound plus inertia.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.models.strings.operations import TiedOperations
    >>> from sklearn_onlineem.models.strings.transducer import EditTransducer
    >>> model = EditTransducer(TiedOperations(3), np.array([0.6, 0.1, 0.1, 0.1, 0.1]))
    >>> pairs, scripts = model.sample(10_000, np.random.default_rng(0))
    >>> bool(abs(len(scripts.symbols) / 10_000 - 9.0) < 0.2)  # the end has a tenth
    True
    """

    coordinates = TransducerCoordinates
    nodes = (Node("probabilities", "operations", attrgetter("counts"), _directions),)

    operations: Operations
    probabilities: Floats

    has_components = False

    own_parts = (
        Part("operations", "probability", "o", _by_kind),
        _table("substitution", 0, "bb"),
        _table("deletion", 1, "b"),
        _table("insertion", 2, "b"),
    )

    @property
    def parts(self) -> tuple[Part, ...]:
        has_tables = isinstance(self.operations, FullOperations)
        return self.own_parts if has_tables else self.own_parts[:1]

    def e_step(
        self, data: StringPairs, rng: Generator | None = None
    ) -> tuple[EditStatistics, float]:
        if data.sample_weight is not None:
            return by_weight(self.e_step, data, rng)
        weights = self.operations.weights(self.probabilities)
        total, log_likelihood = np.zeros(len(self.probabilities)), 0.0
        for chunk, wide in _chunks(data.sources.lengths, data.targets.lengths):
            counts, log_likelihoods = self._expected(weights, data, chunk, wide, rng)
            total[:-1] += counts
            log_likelihood += log_likelihoods.sum()
        total[-1] = len(data)
        log_end = np.log(self.probabilities[-1])
        return EditStatistics(total / len(data)), log_likelihood / len(data) + log_end

    def _expected(self, weights, data, chunk, wide, rng):
        kinds, sums = self.operations.results(len(chunk))
        log_likelihoods = np.empty(len(chunk))
        uniforms = None, None
        if rng is not None:
            # For all backward steps of scripts, with offsets of pairs.
            ends = np.cumsum(data.sources.lengths[chunk] + data.targets.lengths[chunk])
            uniforms = rng.random(ends[-1] + 1), np.concatenate(([0], ends[:-1]))
        _edit_lattice.lattice_pass(
            *self._coded(data.sources), *self._coded(data.targets), _same(chunk), *weights,
            False, wide, log_likelihoods, kinds, sums, *uniforms, data.n_threads,
        )  # fmt: skip
        return sums if len(sums) else kinds.sum(axis=0), log_likelihoods

    def own_statistics(self, like: StringPairs | None = None) -> EditStatistics:
        return EditStatistics(self.probabilities / self.probabilities[-1])

    def m_step(self, statistics: EditStatistics) -> EditTransducer:
        return EditTransducer(self.operations, statistics.counts / statistics.counts.sum())

    def expected_log_likelihood(self, statistics: EditStatistics) -> float:
        return float(xlogy(statistics.counts, self.probabilities).sum())

    def n_parameters(self) -> int:
        return len(self.probabilities) - 1

    def observations_needed(self, data: StringPairs) -> float:
        n_operations = 1.0 / self.probabilities[-1]
        return max(1.0, (self.operations.n_probabilities - 1) / n_operations)

    def log_likelihood(self, data: StringPairs) -> Floats:
        return self._log_probabilities(data, best=False)

    def best_log_probability(self, data: StringPairs) -> Floats:
        """Return the log-probability of the best script of each pair, an ndarray of shape (n,).

        Parameters
        ----------
        data : StringPairs
            Pairs of strings.
        """
        return self._log_probabilities(data, best=True)

    def _log_probabilities(self, data, best):
        out = np.empty(len(data))
        weigh = self._weigher(data.sources, data.targets, best, data.n_threads)
        for chunk, wide in _chunks(data.sources.lengths, data.targets.lengths):
            out[chunk] = weigh(_same(chunk), wide)
        return out

    def _weigher(self, sources, targets, best, n_threads):
        """Return a function from pairs of indices to log-probabilities."""
        strings = *self._coded(sources), *self._coded(targets)
        weights = self.operations.weights(self.probabilities, log=best)
        log_end = np.log(self.probabilities[-1])

        def weigh(pairs, wide):
            out = np.empty(len(pairs))
            nothing = 4 * (None,)
            _edit_lattice.lattice_pass(
                *strings, pairs, *weights, best, wide, out, *nothing, n_threads
            )
            return out + log_end

        return weigh

    def target_log_probability(self, targets: Strings) -> Floats:
        """Return log p(y) = log sum_x p(x, y), an ndarray of shape (n_targets,).

        Parameters
        ----------
        targets : Strings
            The strings y.
        """
        appears, log_passed = self.operations.target_weights(self.probabilities)
        symbols = self.operations.known(targets.symbols)
        owner = np.repeat(np.arange(len(targets)), targets.lengths)
        # If operations are tied, all symbols have one number.
        logs = appears.take(symbols, mode="clip") - log_passed
        total = np.bincount(owner, logs, minlength=len(targets))
        return total + np.log(self.probabilities[-1]) - log_passed

    def _coded(self, strings):
        return self.operations.known(strings.symbols), strings.offsets

    def pairwise(
        self, sources: Strings, targets: Strings, best: bool = False, n_threads: int = 1
    ) -> Floats:
        """Return log-probabilities of all pairs, an ndarray of shape (n_sources, n_targets).

        Parameters
        ----------
        sources, targets : Strings
            Each source is paired with each target.
        best : bool, default=False
            Whether to take the best script, instead of all.
        n_threads : int, default=1
            How many threads share the pairs.
        """
        out = np.empty((len(sources), len(targets)))
        weigh = self._weigher(sources, targets, best, n_threads)
        rows = np.argsort(sources.lengths, kind="stable")
        # Short targets, and long ones, each in the order of their lengths.
        groups = _chunks(np.zeros(len(targets), dtype=np.int64), targets.lengths, np.inf)
        for columns, wide in groups:
            n_cells = (sources.lengths[rows] + 1.0) * (targets.lengths[columns] + 1.0).sum()
            cuts = np.flatnonzero(np.diff(np.cumsum(n_cells) // _CHUNK_CELLS)) + 1
            for chunk in np.split(rows, cuts):
                pairs = np.column_stack(
                    [np.repeat(chunk, len(columns)), np.tile(columns, len(chunk))]
                )
                out[np.ix_(chunk, columns)] = weigh(pairs, wide).reshape(len(chunk), -1)
        return out

    def kl_divergence(self, other: EditTransducer, like: StringPairs | None = None) -> float:
        p, q = self.probabilities, other.probabilities
        used = p > 0
        logs = np.log(p[used]) - log_of(q[used])
        return max(0.0, float(p[used] @ logs / p[-1]))

    def aligned_to(
        self, reference: EditTransducer, like: StringPairs | None = None
    ) -> EditTransducer:
        # Operations have names.
        return self

    def sample(
        self, n: int, rng: Generator, like: StringPairs | None = None
    ) -> tuple[StringPairs, Strings]:
        p = self.probabilities
        n_operations = rng.geometric(p[-1], size=n) - 1
        shares = p[:-1] / p[:-1].sum() if n_operations.any() else None
        drawn = rng.choice(len(p) - 1, size=n_operations.sum(), p=shares)
        owner = np.repeat(np.arange(n), n_operations)
        sides = self.operations.symbols_of(drawn, rng)
        return StringPairs(*(_gathered(x, owner, n) for x in sides)), _gathered(drawn, owner, n)


def _chunks(n, m, n_cells=_CHUNK_CELLS):
    return length_order(n, m, _edit_lattice.LONG, n_cells, _edit_lattice.PAIRS_PER_LATTICE)


def _same(chunk):
    return np.column_stack([chunk, chunk])


def _gathered(symbols, owner, n):
    """Return strings of the symbols that are not -1."""
    kept = symbols >= 0
    lengths = np.bincount(owner[kept], minlength=n)
    return Strings(symbols[kept].astype(np.intc), np.concatenate(([0], np.cumsum(lengths))))
