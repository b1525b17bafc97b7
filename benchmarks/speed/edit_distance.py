"""Speed of lattices of edit distances, in cells (source length times target length) a second.

"forward-backward" is an E-step, with expected counts, against a plain NumPy version that goes along
anti-diagonals, pair by pair, on one thread; "pairwise" is the tied Viterbi distance of all pairs
against RapidFuzz's weighted Levenshtein distance of the same pairs (``pip install rapidfuzz``),
both on as many threads. Both sides take turns; ratios are medians.

    python -m benchmarks.speed.edit_distance
"""

import argparse

import numpy as np

from benchmarks._rows import Row
from benchmarks._table import Table
from benchmarks._timing import CPU, WALL, ratio, seconds
from benchmarks.floors import Operations, measured_rates
from sklearn_onlineem.data.strings import StringPairs, Strings
from sklearn_onlineem.models.strings.operations import FullOperations, TiedOperations
from sklearn_onlineem.models.strings.transducer import EditTransducer

try:
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist
except ImportError:
    cdist = None

N_LETTERS = 26
KINDS = np.array([0.78, 0.02, 0.05, 0.06, 0.09])
# Mean length, pairs, and pairs that NumPy gets.
PAIRWISE = [(9, 1500), (30, 500), (100, 150)]
LENGTHS = [(9, 50_000, 300), (100, 1000, 30), (1000, 64, 2)]
CELLS_REQUIRED, NUMPY_REQUIRED, RAPIDFUZZ_REQUIRED = 1e8, 20.0, 0.5


def main():
    arguments = _arguments()
    rng = np.random.default_rng(0)
    columns = ("cells/s", "required", "", "a CPU second", "x NumPy", "required", "")
    table = Table(f"forward-backward, {arguments.threads} threads", *columns)
    for length, n_pairs, n_numpy in LENGTHS:
        data = draw(rng, n_pairs, length, arguments.threads)
        for operations in (TiedOperations(N_LETTERS + 1), FullOperations(N_LETTERS + 1)):
            model = EditTransducer(operations, operations.spread(KINDS))
            cells, busy, times = forward_backward(model, data, n_numpy, arguments.rounds)
            name = f"{type(operations).__name__}, {length} symbols"
            table.row(name, f"{cells:.3g}", *met(cells, CELLS_REQUIRED), f"{busy:.3g}",
                      times, *met(times, NUMPY_REQUIRED))  # fmt: skip
    print()
    table = Table("pairwise, tied Viterbi", "cells/s", "x RapidFuzz", "required", "")
    for length, n in PAIRWISE:
        sides = draw(rng, n, length, arguments.threads)
        cells, times = pairwise(sides, arguments.rounds)
        table.row(f"{length} symbols", f"{cells:.3g}", times, *met(times, RAPIDFUZZ_REQUIRED))


def rows(n_rounds, share):
    """Rows of the tables of speed, on a share of the data.

    A cell needs three sums and two minima; they are counted as so many multiply-adds.
    """
    rng = np.random.default_rng(0)
    for length, n in PAIRWISE:
        cells, faster = pairwise(draw(rng, max(20, int(share**0.5 * n)), length, 1), n_rounds)
        rates, case = measured_rates(), f"strings of {length} symbols"
        floor = rates and 1.0 / (cells * rates.floor(Operations(5)))
        yield Row("all edit distances", case, "rapidfuzz", faster if cdist else None, floor)


def met(value, required):
    return f"{required:g}", "met" if value >= required else "NOT MET"


def draw(rng, n, length, n_threads):
    """Random strings of lengths within a third of the mean."""
    return StringPairs(*(strings(rng, n, length) for _ in range(2)), n_threads)


def strings(rng, n, length):
    lengths = rng.integers(length - length // 3, length + length // 3 + 1, n)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return Strings(rng.integers(0, N_LETTERS, offsets[-1]).astype(np.intc), offsets)


def forward_backward(model, data, n_numpy, n_rounds):
    """Cells a second of the clock and of one CPU, and how many times as many as NumPy's."""
    few, cells = data[:n_numpy], n_cells(data)
    own, busy = (
        min(seconds(lambda: model.e_step(data), clock) for _ in range(n_rounds))
        for clock in (WALL, CPU)
    )
    per_cell = ratio(
        lambda: numpy_e_step(model, few), lambda: model.e_step(data), n_rounds=n_rounds
    )
    assert np.allclose(numpy_e_step(model, few), model.e_step(few)[0].counts[:-1])
    return cells / own, cells / busy, per_cell * cells / n_cells(few)


def n_cells(data):
    return float(data.sources.lengths @ data.targets.lengths)


def numpy_e_step(model, data):
    """Expected operations by anti-diagonals: scaled alphas and betas, one diagonal at a time."""
    p_sub, p_del, p_ins = model.operations.tables(model.probabilities)
    total = np.zeros(len(model.probabilities) - 1)
    for k in range(len(data)):
        x, y = data[[k]].sources.symbols, data[[k]].targets.symbols
        tied = len(p_del) == 1
        subs = np.where(x[:, None] == y, *p_sub[0]) if tied else p_sub[x[:, None], y]
        dels = np.full(len(x), p_del[0]) if tied else p_del[x]
        inss = np.full(len(y), p_ins[0]) if tied else p_ins[y]
        used = expected_moves(subs, dels, inss)
        total += tied_counts(x, y, *used) if tied else full_counts(model, x, y, *used)
    return total / len(data)


def expected_moves(subs, dels, inss):
    """Expected substitutions (n, m), deletions (n,) and insertions (m,) of one pair."""
    n, m = subs.shape
    alpha, scale = diagonals(subs, dels, inss)
    beta, scale_back = diagonals(subs[::-1, ::-1], dels[::-1], inss[::-1])
    used, deleted, inserted = np.zeros((n, m)), np.zeros(n), np.zeros(m)
    log_p = scale[n + m]
    for d in range(n + m):
        i = np.arange(max(0, d - m), min(n, d) + 1)
        j = d - i
        a = alpha[d][i]
        one = np.exp(scale[d] + scale_back[n + m - d - 1] - log_p)
        k = i[i < n]
        flow = a[i < n] * dels[k] * beta[n + m - d - 1][n - k - 1] * one
        deleted[k] += flow
        k = j < m
        inserted[j[k]] += a[k] * inss[j[k]] * beta[n + m - d - 1][n - i[k]] * one
        k = (i < n) & (j < m)
        if k.any():
            two = np.exp(scale[d] + scale_back[n + m - d - 2] - log_p)
            after = beta[n + m - d - 2][n - i[k] - 1]
            used[i[k], j[k]] = a[k] * subs[i[k], j[k]] * after * two
    return used, deleted, inserted


def diagonals(subs, dels, inss):
    """Alphas of each anti-diagonal, scaled to a largest of 1, and logarithms of their scales."""
    n, m = subs.shape
    rows, scale = [np.zeros(n + 1)], [0.0]
    rows[0][0] = 1.0
    before, ratio_before = np.zeros(n + 1), 0.0
    for d in range(1, n + m + 1):
        last, row = rows[-1], np.zeros(n + 1)
        i = np.arange(max(0, d - m), min(n, d) + 1)
        j = d - i
        k = i[i > 0]
        row[k] += last[k - 1] * dels[k - 1]
        k = i[j > 0]
        row[k] += last[k] * inss[d - k - 1]
        k = i[(i > 0) & (j > 0)]
        row[k] += before[k - 1] * subs[k - 1, d - k - 1] * ratio_before
        most = row.max()
        rows.append(row / most)
        scale.append(scale[-1] + np.log(most))
        before, ratio_before = last, 1.0 / most
    return rows, scale


def tied_counts(x, y, used, deleted, inserted):
    match = used[x[:, None] == y].sum()
    return np.array([match, used.sum() - match, deleted.sum(), inserted.sum()])


def full_counts(model, x, y, used, deleted, inserted):
    size = model.operations.n_symbols
    subs = np.zeros((size, size))
    np.add.at(subs, (x[:, None], y), used)
    alone = (np.bincount(x, deleted, size), np.bincount(y, inserted, size))
    return np.concatenate([subs.ravel(), *alone])


def pairwise(data, n_rounds):
    """Cells a second, and how many times as many as RapidFuzz's."""
    operations = TiedOperations(N_LETTERS + 1)
    model = EditTransducer(operations, KINDS)
    cells = float(data.sources.lengths.sum()) * data.targets.lengths.sum()

    def own():
        return model.pairwise(data.sources, data.targets, True, data.n_threads)

    best = min(seconds(own) for _ in range(n_rounds))
    if cdist is None:
        return cells / best, float("nan")
    sides = [texts(side) for side in (data.sources, data.targets)]

    # Insertion, deletion, substitution: three weights, so that RapidFuzz has to be general.
    def rival():
        return cdist(*sides, scorer=Levenshtein.distance, scorer_kwargs={"weights": (3, 4, 5)},
                     workers=data.n_threads, dtype=np.int32)  # fmt: skip

    return cells / best, ratio(rival, own, n_rounds=n_rounds)


def texts(strings):
    parts = np.split(strings.symbols, strings.offsets[1:-1])
    return ["".join(chr(ord("a") + code) for code in part) for part in parts]


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
