"""Hidden chains: posteriors and expected transitions (Baum-Welch), filtering, drawn paths.

Rows of all sequences lie one after the other; `offsets` says where each begins. Log densities
log p(v_t | h) come in, and posteriors p(h_t | v) take their place:

    alpha_t(j) = sum_i alpha_t-1(i) a_ij p(v_t | j) / scale_t
    beta_t-1(i) = sum_j a_ij  p(v_t | j) beta_t(j) / scale_t
    xi_t(i, j) = alpha_t-1(i) a_ij p(v_t | j) beta_t(j) / scale_t

The scaled recursions never underflow, as each row's densities are divided by the largest. They may
lose a state for good only where transitions are 0 (or nearly). Where later rows, by beta, turn out
to need such a state, a sequence is done again with logarithms, in `_log_chains`.

Sequences are grouped in slabs, which threads take as they come. What is summed over sequences is
summed over each slab first, and slabs depend on the shapes alone. Where there are many states, a
few sequences of a slab go on side by side, so that they share what is read of the transitions.
"""

import numpy as np

from cython cimport floating
from cython.parallel cimport prange
from libc.math cimport INFINITY, NAN, isnan, log, log1p
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from numpy cimport NPY_DOUBLE, PyArray_DATA, PyArray_STRIDE, PyArray_TYPE, ndarray
from scipy.linalg.cython_lapack cimport dgesv

from ._arena cimport (
    Arena, allocate, allocate_doubles, arena_of, counting_arena, free, take, take_arenas,
    take_doubles,
)
from ._arrays cimport (
    extent, longest_of, readable, readable_integers, readable_reals, real_type, require, writable,
)
from ._blas cimport gemm
from ._openmp cimport MOST_SLABS, busy_threads, first_block, omp_get_thread_num

from _chains_h cimport (
    CHAIN_ROWS, IS_LOST, MOST_RUNS, SLICE, ChainBlock, ChainRun, ChainTable, add_sparse_transitions,
    add_transitions, advance_runs, draw, is_read_once, lay_out_chain_block, occupy,
    scaled_densities,
)
from _simd_h cimport add_log, padded_width, sum_of

from . import _log_chains

cdef enum:
    WIDEST_UNROLLED = 8
    # Wider tables are walked without zeros where at most one entry in so many is not 0.
    WIDEST_DENSE = 32
    MOST_DENSE = 10
    # The backward pass of a sequence goes along with the forward pass of the next one of its slab.
    FEWEST_SEQUENCES = 4

# A transition above this brings back what the scaled recursions lose.
cdef double SMALLEST_TRANSITION = 1e-100
cdef double SMALLEST_SHARE = 1e-150


cdef struct Chain:
    Py_ssize_t K, W
    bint has_zeros
    ChainTable ahead    # transitions, for the forward pass
    ChainTable back     # ... transposed, for the backward pass
    double* final       # (W,)
    double* beta        # (3, W), the recursions' states: of the last row of the present block,
    double* predicted   # ... and then of the first row of the next block
    double* counts      # of the entries of `back`
    double* sums        # (W, W), of the present slab
    double* filtered    # (CHAIN_ROWS, W)
    double* starts      # (most blocks of a sequence, W): p(h_t | v_1..t-1), t their first rows
    ChainBlock now           # whose forward pass is done
    ChainBlock next
    ChainBlock none          # without rows
    # The present sequence:
    Py_ssize_t row, T        # its first row among all, its number of rows
    Py_ssize_t begin         # its rows in front of the present block; -1 once all are done
    Py_ssize_t n_pairs       # pairs of a row of the present block and the one after it
    double log_likelihood    # NAN where logarithms have to be taken
    double weight            # of its transitions in the sums
    bint is_reversed         # whether it goes with transposed transitions
    bint is_certain          # whether states without a share cannot be reached
    bint goes_back           # whether the present block does while the next one goes ahead
    bint is_ready            # whether the first block of the next sequence is the present one
    int status               # of the forward pass: 0, in doubt or lost
    int lost                 # whether the backward pass needs a state that is in doubt


# Sequences, and what is wanted of them.
cdef struct Sequences:
    const int64_t* offsets
    const double* start         # (K,)
    const double* first         # (K,), of the first one
    const double* weights       # of their transitions, or NULL
    const double* uniforms      # of rows, to draw paths, or NULL
    double* log_likelihoods
    int wanted

cdef enum:
    POSTERIORS
    PATHS
    FILTERED
    LOG_LIKELIHOODS


cdef class Chains:
    """A chain, and for each thread scratch memory of sequences that go on side by side."""

    cdef Chain* all
    cdef int n_runs
    cdef void* memory
    cdef list held

    # Not `__cinit__`, which takes objects: memoryviews of them take longer than short sequences do.
    cdef Chains of(
        self, const double[:, ::1] transmat, const double[::1] final, Py_ssize_t most_rows,
        int n_threads, int n_runs=0,
    ):
        cdef Py_ssize_t K = transmat.shape[0], W = padded_width(K), i, j
        cdef Py_ssize_t n_counts = 0, most_blocks = n_blocks_of(most_rows)
        cdef ChainTable ahead, back
        cdef Arena arena
        cdef double* tables
        cdef bint has_zeros = False
        self.held = []
        memset(&ahead, 0, sizeof(ChainTable))
        memset(&back, 0, sizeof(ChainTable))
        if W > WIDEST_DENSE and is_sparse(transmat):
            ahead = self.entries_of(np.asarray(transmat), W)
            back = self.entries_of(np.asarray(transmat).T, W)
            n_counts = back.begin[W // SLICE] * SLICE
            if max(ahead.begin[W // SLICE] * SLICE, n_counts) * MOST_DENSE > W * W:
                n_counts, ahead.begin, back.begin = 0, NULL, NULL
        self.n_runs = n_runs or (MOST_RUNS if is_read_once(&ahead, W) else 1)
        for i in range(2):
            arena = counting_arena() if i == 0 else arena
            if i == 1:
                self.memory = allocate(&arena)
            tables = take_doubles(&arena, 2 * W * W)
            self.all = lay_out(W, most_blocks, n_counts, n_threads * self.n_runs, &arena)
        memset(tables, 0, 2 * W * W * sizeof(double))
        for i in range(K):
            for j in range(K):
                tables[i * W + j] = transmat[i, j]
                tables[W * W + j * W + i] = transmat[i, j]
                has_zeros |= transmat[i, j] < SMALLEST_TRANSITION
        ahead.dense, back.dense = tables, tables + W * W
        for i in range(n_threads * self.n_runs):
            self.all[i].K, self.all[i].has_zeros = K, has_zeros
            self.all[i].ahead, self.all[i].back = ahead, back
            fill_chain(final, self.all + i)
        return self

    cdef ChainTable entries_of(self, table, Py_ssize_t W) except *:
        """The entries that are not 0, by slices of columns."""
        columns, rows = np.nonzero(table.T)
        degrees = np.bincount(columns, minlength=W)
        begin = np.concatenate(([0], np.cumsum(degrees.reshape(-1, SLICE).max(axis=1))))
        among_column = np.arange(len(columns)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
        places = begin[columns // SLICE] + among_column, columns % SLICE
        cdef Py_ssize_t[::1] begins = begin.astype(np.intp)
        cdef int[:, ::1] index = np.zeros((begins[W // SLICE], SLICE), dtype=np.intc)
        cdef double[:, ::1] value = np.zeros((begins[W // SLICE], SLICE))
        index.base[places], value.base[places] = rows, table[rows, columns]
        self.held.append((begins, index, value))
        cdef ChainTable found
        found.begin, found.index, found.value = &begins[0], &index[0, 0], &value[0, 0]
        return found

    cdef void set_middle(self, const int64_t[::1] offsets, bint is_reversed) noexcept nogil:
        """The chains go along runs of rows, the last one with transposed transitions if told."""
        cdef int r
        for r in range(self.n_runs):
            self.all[r].row, self.all[r].T = offsets[r], offsets[r + 1] - offsets[r]
        self.all[self.n_runs - 1].is_reversed = is_reversed

    cdef Chain* of_thread(self, int thread) noexcept nogil:
        """The chains of a thread, one for each sequence of a group."""
        return self.all + thread * self.n_runs

    def __dealloc__(self):
        free(self.memory)


cdef bint is_sparse(const double[:, ::1] transmat) noexcept nogil:
    cdef Py_ssize_t K = transmat.shape[0], n = 0, i, j
    for i in range(K):
        for j in range(K):
            n += transmat[i, j] != 0
    return 0 < n * MOST_DENSE <= K * K


cdef Chain* lay_out(
    Py_ssize_t W, Py_ssize_t most_blocks, Py_ssize_t n_counts, int n_chains, Arena* arena
) noexcept nogil:
    cdef Arena counted = counting_arena(), own
    cdef int i
    lay_out_chain(W, most_blocks, n_counts, &counted)
    cdef char* arenas = take_arenas(arena, n_chains, &counted)
    cdef Chain* chains = <Chain*> take(arena, n_chains, sizeof(Chain))
    if chains != NULL:
        for i in range(n_chains):
            own = arena_of(arenas, i, &counted)
            chains[i] = lay_out_chain(W, most_blocks, n_counts, &own)
    return chains


cdef Chain lay_out_chain(
    Py_ssize_t W, Py_ssize_t most_blocks, Py_ssize_t n_counts, Arena* arena
) noexcept nogil:
    cdef Chain chain
    chain.W = W
    chain.counts = take_doubles(arena, n_counts)
    chain.final = take_doubles(arena, W)
    chain.beta = take_doubles(arena, 3 * W)
    chain.predicted = chain.beta + W if chain.beta != NULL else NULL
    chain.filtered = take_doubles(arena, CHAIN_ROWS * W)
    chain.starts = take_doubles(arena, most_blocks * W)
    chain.now = lay_out_chain_block(W, arena)
    chain.next = lay_out_chain_block(W, arena)
    chain.none = chain.now
    return chain


cdef void fill_chain(const double[::1] final, Chain* chain) noexcept nogil:
    cdef Py_ssize_t W = chain.W, i
    chain.is_reversed = chain.is_ready = False
    chain.is_certain = True
    chain.weight = 1
    memset(chain.final, 0, W * sizeof(double))
    memset(chain.beta, 0, 3 * W * sizeof(double))
    memset(chain.starts, 0, W * sizeof(double))
    for i in range(chain.K):
        chain.final[i] = final[i]


cdef Py_ssize_t n_blocks_of(Py_ssize_t T) noexcept nogil:
    return (T + CHAIN_ROWS - 1) // CHAIN_ROWS


# `x` are the rows of all sequences. Functions of chains (n,) let n sequences go on side by side.

cdef void load(const floating* x, Py_ssize_t row, Py_ssize_t B, Chain* chain) noexcept nogil:
    """next <- the densities of B rows"""
    chain.next.B = B
    scaled_densities(x + row * chain.K, B, chain.K, chain.W, chain.next.density, chain.next.largest)


cdef void load_first(
    const floating* x, Py_ssize_t row, Py_ssize_t T, const double* start, Chain* chain
) noexcept nogil:
    """next <- the first block of a sequence of T rows, whose starts replace those of another"""
    load(x, row, min(CHAIN_ROWS, T), chain)
    chain.status = 0
    memcpy(chain.starts, start, chain.K * sizeof(double))
    memcpy(chain.predicted, chain.starts, chain.W * sizeof(double))


cdef void load_sequence(
    const floating* x, const Sequences* all, Py_ssize_t s, Chain* chain
) noexcept nogil:
    load_first(x, all.offsets[s], all.offsets[s + 1] - all.offsets[s],
               all.first if s == 0 else all.start, chain)


cdef void load_again(const floating* x, Py_ssize_t begin, Chain* chain) noexcept nogil:
    """next <- the block from row `begin` on of the present sequence, whose start is known"""
    load(x, chain.row + begin, min(CHAIN_ROWS, chain.T - begin), chain)
    memcpy(chain.predicted, chain.starts + begin // CHAIN_ROWS * chain.W, chain.W * sizeof(double))


cdef void advance(Chain* chains, int n) noexcept nogil:
    """The forward passes of the next blocks, and the backward passes of present ones.

    What was the next block becomes the present one, unless nothing was done.
    """
    cdef ChainRun[MOST_RUNS] runs
    cdef Chain* chain
    cdef int r
    for r in range(n):
        chain = chains + r
        runs[r].back = &chain.now if chain.goes_back else &chain.none
        runs[r].ahead, runs[r].is_reversed = &chain.next, chain.is_reversed
        runs[r].is_certain = chain.is_certain
        runs[r].states, runs[r].filtered = chain.beta, chain.filtered
    advance_runs(runs, n, &chains.ahead, &chains.back, chains.has_zeros, chains.W)
    for r in range(n):
        chain = chains + r
        chain.status |= runs[r].status
        chain.lost |= runs[r].lost
        if chain.goes_back or chain.next.B > 0:
            chain.now, chain.next = chain.next, chain.now


cdef void forward_of_next(Chain* chains, int n) noexcept nogil:
    """The forward passes of the next blocks that have rows; they become the present ones."""
    cdef int r
    cdef bint is_needed = False
    for r in range(n):
        chains[r].goes_back = False
        is_needed |= chains[r].next.B > 0
    if is_needed:
        advance(chains, n)


cdef void forward_again(const floating* x, Py_ssize_t begin, Chain* chain) noexcept nogil:
    """The forward pass of this block, which becomes the present one."""
    load_again(x, begin, chain)
    forward_of_next(chain, 1)


cdef double log_likelihood_of(ChainBlock* block) noexcept nogil:
    """log p(v_t of a block | past)"""
    add_log(block.largest, block.scale, block.B)
    return sum_of(block.largest, block.B)


cdef double ending_of(Chain* chain) noexcept nogil:
    """p(the sequence ends after the present block | its rows); beta <- that of the last row."""
    cdef const double* last = chain.now.alpha + (chain.now.B - 1) * chain.W
    cdef double ending = 0
    cdef Py_ssize_t j
    for j in range(chain.W):
        ending += last[j] / chain.now.total[chain.now.B - 1] * chain.final[j]
    for j in range(chain.W):
        chain.beta[j] = chain.final[j] / ending
    return ending


cdef void forward_blocks(const floating* x, Chain* chains, int n) noexcept nogil:
    """The forward passes of all blocks but the first, which is present, and log-likelihoods."""
    cdef Chain* chain
    cdef double* start
    cdef Py_ssize_t begin = 0, j
    cdef bint is_going = True
    cdef int r
    for r in range(n):
        chains[r].log_likelihood = 0
    while is_going:
        is_going = False
        for r in range(n):
            chain = chains + r
            chain.next.B = 0
            if begin >= chain.T or isnan(chain.log_likelihood):
                continue
            if chain.status >= IS_LOST:
                chain.log_likelihood = NAN
                continue
            chain.log_likelihood += log_likelihood_of(&chain.now)
            if begin + CHAIN_ROWS >= chain.T:
                continue
            start = chain.starts + (begin // CHAIN_ROWS + 1) * chain.W
            for j in range(chain.W):
                chain.predicted[j] /= chain.now.total[chain.now.B - 1]
                start[j] = chain.predicted[j]
            load_again(x, begin + CHAIN_ROWS, chain)
            is_going = True
        begin += CHAIN_ROWS
        forward_of_next(chains, n)


cdef void forward_rest(const floating* x, Chain* chains, int n) noexcept nogil:
    """The same, of sequences that end."""
    cdef double ending
    cdef int r
    forward_blocks(x, chains, n)
    for r in range(n):
        if not isnan(chains[r].log_likelihood):
            ending = ending_of(chains + r)
            chains[r].log_likelihood += log(ending) if ending >= SMALLEST_SHARE else NAN


cdef bint needs_logs(floating* x, Chain* chain) noexcept nogil:
    """Whether states in doubt are needed, by a backward pass that changes nothing."""
    if chain.status == 0:
        return False
    chain.lost, chain.is_certain = 0, False
    chain.begin = chain.T - chain.now.B
    backward_blocks(x, chain, 1, NULL, 0, 0, False)
    chain.is_certain = True
    forward_again(x, (n_blocks_of(chain.T) - 1) * CHAIN_ROWS, chain)
    ending_of(chain)
    return chain.lost != 0


cdef void backward_blocks(
    floating* x, Chain* chains, int n, const Sequences* all, Py_ssize_t next, Py_ssize_t stop,
    bint writes,
) noexcept nogil:
    """x <- posteriors; sums += sum_t filtered_t-1 w_t', block by block from the end.

    With each block, the forward pass of the one before it is done again, and with the first, that
    of the first block of one of the next sequences, if there are any up to `stop`.
    """
    cdef Py_ssize_t W = chains.W
    cdef Chain* chain
    cdef bint is_going
    cdef int r
    while True:
        is_going = False
        for r in range(n):
            chain = chains + r
            chain.goes_back, chain.next.B = chain.begin >= 0, 0
            is_going |= chain.goes_back
            if chain.begin > 0:
                load_again(x, chain.begin - CHAIN_ROWS, chain)
            elif chain.begin == 0 and next + r < stop:
                load_sequence(x, all, next + r, chain)
        if not is_going:
            return
        advance(chains, n)
        for r in range(n):
            chain = chains + r
            if not chain.goes_back:
                continue
            if writes:
                add_pairs(chain)
                write(chain.next.alpha, chain.next.B, x + (chain.row + chain.begin) * chain.K,
                      chain)
            # The last row of the block before it is followed by the first row of this one.
            memcpy(chain.now.density + CHAIN_ROWS * W, chain.next.density, W * sizeof(double))
            chain.begin = chain.begin - CHAIN_ROWS if chain.begin > 0 else -1
            chain.n_pairs = CHAIN_ROWS


cdef void write(const double* rows, Py_ssize_t B, floating* x, Chain* chain) noexcept nogil:
    """x (B, K) <- rows (B, W)"""
    cdef Py_ssize_t t, k
    for t in range(B):
        for k in range(chain.K):
            x[t * chain.K + k] = <floating> rows[t * chain.W + k]


cdef void add_pairs(Chain* chain) noexcept nogil:
    """sums += those of the block that has just been gone back"""
    cdef const double* later = chain.next.density + chain.W
    cdef const ChainTable* back = &chain.ahead if chain.is_reversed else &chain.back
    cdef int W = <int> chain.W, n_pairs = <int> chain.n_pairs, i
    if chain.weight != 1:
        for i in range(n_pairs * W):
            chain.filtered[i] *= chain.weight
    if W <= WIDEST_UNROLLED:
        add_transitions(chain.filtered, later, n_pairs, W, chain.sums)
    elif back.begin != NULL:
        add_sparse_transitions(chain.filtered, later, n_pairs, W, back, chain.counts, chain.sums)
    elif n_pairs > 0:
        gemm(c"N", c"T", W, W, n_pairs, 1.0, later, W, chain.filtered, W, 1.0, chain.sums, W)


cdef Py_ssize_t group_of(Py_ssize_t n, int n_runs) noexcept nogil:
    """How many of n sequences go on side by side, n_runs at most, so that groups are alike."""
    cdef Py_ssize_t n_groups = (n + n_runs - 1) // n_runs
    return (n + n_groups - 1) // n_groups


cdef Py_ssize_t n_slabs_of(Py_ssize_t S) noexcept nogil:
    return max(1, min(MOST_SLABS, S // FEWEST_SEQUENCES))


def forward_backward(
    floating[:, ::1] log_densities,     # INOUT (n, K): log p(v_t | h) -> p(h_t | v), or one-hot
    #                                     drawn states
    const int64_t[::1] offsets,         # IN (S + 1,)
    const double[::1] start,            # IN (K,)
    const double[::1] first,            # IN (K,), the start of the first sequence
    const double[:, ::1] transmat,      # IN (K, K)
    const double[::1] final,            # IN (K,): p(end after h); 1 where lengths are given
    double[::1] log_likelihoods,        # OUT (S,)
    double[:, ::1] transitions,         # OUT (K, K): expected or drawn numbers, of all sequences
    int n_threads,
    const double[::1] weights=None,     # IN (S,), of sequences in both sums; None: 1
    const double[::1] uniforms=None,    # IN (n,), to draw paths with; None: expectations
):
    """Posteriors of all rows, expected transitions, and returned, the sum of log-likelihoods.

    With uniform numbers a path of each sequence is drawn from its posterior instead, from the last
    row to the first. Sequences that are impossible have log-likelihood -inf, posteriors of 0 and no
    transitions. The sum is NaN if transitions are not finite.
    """
    cdef Py_ssize_t S = log_likelihoods.shape[0], s, i, j, begin, end
    cdef double total = 0, weight
    cdef bint draws = uniforms is not None
    require(transitions.shape[0] == log_densities.shape[1] == transitions.shape[1],
            "transitions are (K, K)")
    cdef double[:, :, ::1] sums = _no_sums(n_slabs_of(S), log_densities.shape[1])
    pass_over(log_densities, offsets, start, first, transmat, final, log_likelihoods,
              PATHS if draws else POSTERIORS, weights, uniforms, sums, n_threads)
    add_up(sums, transitions)
    for i in range(0 if draws else start.shape[0]):
        for j in range(start.shape[0]):
            transitions[i, j] *= transmat[i, j]
    for s in range(S):
        weight = 1.0 if weights is None else weights[s]
        if isnan(log_likelihoods[s]):
            begin, end = offsets[s], offsets[s + 1]
            chain = log_densities[begin:end], start if s else first, transmat, final
            if draws:
                log_likelihoods[s] = _log_chains.draw_path(
                    *chain, uniforms[begin:end], transitions, weight)
            else:
                log_likelihoods[s] = _log_chains.forward_backward(*chain, transitions, weight)
        total += log_likelihoods[s] * weight
    for i in range(start.shape[0]):
        for j in range(start.shape[0]):
            total += transitions[i, j] - transitions[i, j]
    return total


cdef int pass_over(
    floating[:, ::1] log_densities, const int64_t[::1] offsets, const double[::1] start,
    const double[::1] first, const double[:, ::1] transmat, const double[::1] final,
    double[::1] log_likelihoods, int wanted, const double[::1] weights,
    const double[::1] uniforms, double[:, :, ::1] sums, int n_threads,
) except -1:
    """log_likelihoods <- NaN where logarithms have to be taken; sums, of slabs, are of transitions.
    """
    cdef Py_ssize_t S = log_likelihoods.shape[0], n_slabs = n_slabs_of(S), slab
    cdef Py_ssize_t n = log_densities.shape[0], K = log_densities.shape[1], size = 0
    cdef Py_ssize_t most = longest_of(&offsets[0], offsets.shape[0], S, n)
    cdef double* totals = NULL
    cdef Sequences all
    require(K > 0 and n_threads > 0, "states, threads")
    require(start.shape[0] == K and first.shape[0] == K and final.shape[0] == K
            and transmat.shape[0] == K and transmat.shape[1] == K, "probabilities of K states")
    require(weights is None or weights.shape[0] == S, "a weight of each sequence")
    require(uniforms is None or uniforms.shape[0] == n, "a uniform number for each row")
    all.offsets, all.start, all.first = &offsets[0], &start[0], &first[0]
    all.weights = all.uniforms = NULL
    if weights is not None:
        all.weights = &weights[0]
    if uniforms is not None:
        all.uniforms = &uniforms[0]
    all.log_likelihoods, all.wanted = &log_likelihoods[0], wanted
    if sums is not None:
        totals, size = &sums[0, 0, 0], sums.shape[1] * sums.shape[2]
    n_threads = busy_threads(n_threads, n_slabs)
    cdef Chains chains = Chains().of(transmat, final, most, n_threads)
    for slab in prange(n_slabs, nogil=True, schedule="dynamic", num_threads=n_threads,
                       use_threads_if=n_threads > 1):
        pass_over_slab(
            &log_densities[0, 0], &all, first_block(slab, n_slabs, S),
            first_block(slab + 1, n_slabs, S), totals + slab * size if totals != NULL else NULL,
            chains.of_thread(omp_get_thread_num()), chains.n_runs,
        )
    return 0


cdef void pass_over_slab(
    floating* x, const Sequences* all, Py_ssize_t begin, Py_ssize_t stop, double* sums,
    Chain* chains, int n_runs,
) noexcept nogil:
    """The sequences from begin to stop; those that need logarithms are left as they are."""
    cdef Py_ssize_t group = group_of(stop - begin, n_runs), s, r
    cdef Chain* chain
    cdef bint is_lost
    cdef int n
    for r in range(group):
        chains[r].sums, chains[r].is_ready = sums, False
    while begin < stop:
        n = <int> min(group, stop - begin)
        for r in range(n):
            chain, s = chains + r, begin + r
            chain.row, chain.T = all.offsets[s], all.offsets[s + 1] - all.offsets[s]
            chain.weight = 1 if all.weights == NULL else all.weights[s]
            chain.next.B = 0
            if not chain.is_ready:
                load_sequence(x, all, s, chain)
        forward_of_next(chains, n)
        forward_rest(x, chains, n)
        for r in range(n):
            chain = chains + r
            is_lost = isnan(chain.log_likelihood)
            # A filtered state may be in doubt even if no later row needs it.
            if not is_lost:
                is_lost = chain.status != 0 if all.wanted == FILTERED else needs_logs(x, chain)
            all.log_likelihoods[begin + r] = NAN if is_lost else chain.log_likelihood
            if all.wanted == POSTERIORS:
                chain.is_ready, chain.n_pairs = not is_lost, chain.now.B - 1
                chain.begin = -1 if is_lost else chain.T - chain.now.B
            elif all.wanted == PATHS and not is_lost:
                draw_path(x, all.uniforms, chain)
            elif all.wanted == FILTERED and not is_lost:
                write_filtered(x, chain)
        if all.wanted == POSTERIORS:
            backward_blocks(x, chains, n, all, begin + group, stop, True)
        begin += n


def _no_sums(n_slabs, n_states):
    return np.zeros((n_slabs, padded_width(n_states), padded_width(n_states)))


cdef void add_up(const double[:, :, ::1] sums, double[:, ::1] transitions) noexcept nogil:
    """transitions (K, K) <- the slabs' sums, added in order, without their padding"""
    cdef Py_ssize_t slab, i, j
    transitions[:, :] = 0
    for slab in range(sums.shape[0]):
        for i in range(transitions.shape[0]):
            for j in range(transitions.shape[1]):
                transitions[i, j] += sums[slab, i, j]


def filtered(
    floating[:, ::1] log_densities,     # INOUT (n, K): log p(v_t | h) -> p(h_t | v_1..t)
    const int64_t[::1] offsets,         # IN (S + 1,)
    const double[::1] start,            # IN (K,)
    const double[::1] first,            # IN (K,), the start of the first sequence
    const double[:, ::1] transmat,      # IN (K, K)
    const double[::1] final,            # IN (K,): p(end after h); 1 where lengths are given
    double[::1] log_likelihoods,        # OUT (S,)
    int n_threads,
    bint writes=True,
):
    """Filtered state probabilities and the log-likelihood of each sequence.

    Without `writes`, the log-likelihood only, which is faster; log_densities are undefined then.
    """
    cdef const double[::1] none = None
    cdef double[:, :, ::1] no_sums = None
    cdef Py_ssize_t s
    pass_over(log_densities, offsets, start, first, transmat, final, log_likelihoods,
              FILTERED if writes else LOG_LIKELIHOODS, none, none, no_sums, n_threads)
    for s in range(log_likelihoods.shape[0]):
        if isnan(log_likelihoods[s]):
            log_likelihoods[s] = _log_chains.filtered(
                log_densities[offsets[s]:offsets[s + 1]], start if s else first, transmat, final,
            )


cdef void write_filtered(floating* x, Chain* chain) noexcept nogil:
    """x <- filtered states, block by block from the end, as the last is at hand."""
    cdef Py_ssize_t W = chain.W, begin = chain.T - chain.now.B, t, k
    cdef double share
    while True:
        for t in range(chain.now.B):
            share = 1.0 / chain.now.total[t]
            for k in range(W):
                chain.now.alpha[t * W + k] *= share
        write(chain.now.alpha, chain.now.B, x + (chain.row + begin) * chain.K, chain)
        if begin == 0:
            return
        begin -= CHAIN_ROWS
        forward_again(x, begin, chain)


cdef void draw_path(floating* x, const double* uniforms, Chain* chain) noexcept nogil:
    """x <- one-hot states: the last from its posterior, others given what follows them.

    sums += moves
    """
    cdef Py_ssize_t W = chain.W, K = chain.K, begin = chain.T - chain.now.B, state = -1, later, t, k
    cdef double* shares
    while True:
        for t in range(chain.now.B - 1, -1, -1):
            shares, later = chain.now.alpha + t * W, state
            for k in range(K):
                shares[k] *= chain.final[k] if later < 0 else chain.ahead.dense[k * W + later]
            state = draw(shares, K, uniforms[chain.row + begin + t])
            for k in range(K):
                x[(chain.row + begin + t) * K + k] = k == state
            if later >= 0:
                chain.sums[state * W + later] += chain.weight
        if begin == 0:
            return
        begin -= CHAIN_ROWS
        forward_again(x, begin, chain)


# States under the model itself
# ----------------------------

def occupancies(
    ndarray start,      # IN (K,)
    ndarray transmat,   # IN (K, K)
    ndarray ends,       # IN (R,), increasing from above 0 to T: rows in runs of equal weights
    ndarray weights,    # IN (R,): w_t of the rows of each run
    ndarray left,       # INOUT (K,) += sum_t w_t+1 p_t, t = 0..T-2
    ndarray emitted,    # INOUT (K,) += sum_t w_t p_t, t = 0..T-1
):
    """Weighted sums of p_t = start transmat^t, the distribution of the state of row t."""
    cdef Py_ssize_t K = extent(start, 0), R = extent(weights, 0), W = padded_width(K), i
    cdef const double* first = readable(start, K)
    cdef const double* table = readable(transmat, K * K)
    cdef const int64_t* end = readable_integers(ends, R)
    cdef const double* weight = readable(weights, R)
    cdef double* of_transitions = writable(left, K)
    cdef double* of_emissions = writable(emitted, K)
    # Padded states have probability 0.
    cdef double* padded = allocate_doubles(W * (W + 4))
    cdef double* states = padded + W * W
    cdef double* sums = states + 2 * W
    with nogil:
        memset(padded, 0, W * (W + 4) * sizeof(double))
        for i in range(K):
            memcpy(padded + i * W, table + i * K, K * sizeof(double))
        memcpy(states, first, K * sizeof(double))
        if R > 0:
            occupy(padded, end, weight, R, W, states, sums, sums + W)
        for i in range(K):
            of_transitions[i] += sums[i]
            of_emissions[i] += sums[W + i]
        free(padded)


def visits(
    ndarray start,      # IN (K,)
    ndarray inner,      # IN (K, K)
    double going_on,    # p(the chain goes on) after each row
    ndarray out,        # OUT (K,)
):
    """How often a chain that ends is in its states: u = start + going_on u inner."""
    cdef Py_ssize_t K = extent(start, 0), i
    cdef const double* first = readable(start, K)
    cdef const double* table = readable(inner, K * K)
    cdef double* u = writable(out, K)
    cdef double* left = allocate_doubles(K * (K + 1))
    cdef int* pivots = <int*> (left + K * K)
    cdef int n = <int> K, one = 1, info = 0
    with nogil:
        for i in range(K * K):
            left[i] = -going_on * table[i]
        for i in range(K):
            left[i * (K + 1)] += 1
        memcpy(u, first, K * sizeof(double))
        # LAPACK counts by columns, so that it sees the transpose.
        dgesv(&n, &one, left, &n, pivots, u, &n, &info)
        for i in range(K):
            u[i] = max(u[i], 0.0)
        free(left)
    if info != 0:
        raise np.linalg.LinAlgError("Singular matrix")


def forward(
    const floating[:, ::1] log_densities,   # IN (n, K): log p(v_t | h)
    const int64_t[::1] offsets,             # IN (R + 1,), rows of each run
    const double[:, ::1] transmat,          # IN (K, K)
    double[:, ::1] predicted,               # INOUT (R + blocks of CHAIN_ROWS, K): of each run, that
    #                                         of the first row of each block, and of the row after
    double[:, ::1] filtered,                # OUT (R, K), of the last rows
    double[::1] log_likelihoods,            # OUT (R,)
    bint is_reversed,                       # whether the last run goes with transposed transitions
):
    """The forward passes of runs of rows, each in the middle of a sequence, side by side.

    The first of `predicted` comes in. Log-likelihoods are NaN where logarithms have to be taken.
    Returned is, of each run, whether they have to if `backward` says so.
    """
    cdef Py_ssize_t K = transmat.shape[0], b, k, r
    cdef int R = <int> log_likelihoods.shape[0]
    cdef Py_ssize_t most = _log_chains._check_middle(
        log_densities.shape[0], log_densities.shape[1], offsets, transmat, predicted)
    require(R == offsets.shape[0] - 1 and R <= MOST_RUNS and filtered.shape[0] == R
            and filtered.shape[1] == K, "filtered states")
    cdef Chains chains = Chains().of(transmat, predicted[0], most, 1, R)
    cdef Chain* chain
    cdef const floating* x = &log_densities[0, 0]
    cdef double total
    cdef Py_ssize_t i = 0
    with nogil:
        chains.set_middle(offsets, is_reversed)
        for r in range(R):
            chain = chains.all + r
            load_first(x, chain.row, chain.T, &predicted[i, 0], chain)
            i += n_blocks_of(chain.T) + 1
        forward_of_next(chains.all, R)
        forward_blocks(x, chains.all, R)
        i = 0
        for r in range(R):
            chain = chains.all + r
            log_likelihoods[r] = chain.log_likelihood
            if not isnan(chain.log_likelihood):
                total = chain.now.total[chain.now.B - 1]
                for b in range(1, n_blocks_of(chain.T)):
                    memcpy(&predicted[i + b, 0], chain.starts + b * chain.W, K * sizeof(double))
                for k in range(K):
                    predicted[i + n_blocks_of(chain.T), k] = chain.predicted[k] / total
                    filtered[r, k] = chain.now.alpha[(chain.now.B - 1) * chain.W + k] / total
            i += n_blocks_of(chain.T) + 1
    return [chains.all[r].status != 0 for r in range(R)]


def backward(
    floating[:, ::1] log_densities,     # INOUT (n, K): log p(v_t | h) -> p(h_t | v)
    const int64_t[::1] offsets,         # IN (R + 1,), rows of each run
    const double[:, ::1] transmat,      # IN (K, K)
    const double[:, ::1] predicted,     # IN (R + blocks of CHAIN_ROWS, K), as `forward` leaves them
    double[:, :, ::1] later,            # INOUT (R, 2, K): beta of the last row and w of the row
    #                                     after -> beta of the row before the first, w of the first
    double[:, :, ::1] transitions,      # INOUT (R, K, K), in the order of time of each run
    bint is_reversed,                   # whether the last run goes with transposed transitions
    bint is_certain=False,              # whether no forward pass is in doubt
):
    """The backward passes of runs of rows, each in the middle of a sequence, side by side.

    Adds expected transitions within, and to the row after if its w is not 0. Returned is, of each
    run, whether states that are in doubt would be needed.
    """
    cdef Py_ssize_t K = transmat.shape[0], last, b, r, i = 0, j
    cdef int R = <int> transitions.shape[0]
    cdef Py_ssize_t most = _log_chains._check_middle(
        log_densities.shape[0], log_densities.shape[1], offsets, transmat, predicted)
    require(R == offsets.shape[0] - 1 and R <= MOST_RUNS and transitions.shape[1] == K
            and transitions.shape[2] == K, "transitions are (R, K, K)")
    require(later.shape[0] == R and later.shape[1] == 2 and later.shape[2] == K, "beta and w")
    cdef Chains chains = Chains().of(transmat, later[0, 0], most, 1, R)
    cdef Chain* chain
    cdef double[:, :, ::1] sums = _no_sums(R, K)
    cdef floating* x = &log_densities[0, 0]
    with nogil:
        chains.set_middle(offsets, is_reversed)
        for r in range(R):
            chain = chains.all + r
            last = n_blocks_of(chain.T) - 1
            chain.sums, chain.status, chain.is_certain = &sums[r, 0, 0], 0, is_certain
            memset(chain.starts, 0, (last + 1) * chain.W * sizeof(double))
            for b in range(last + 1):
                memcpy(chain.starts + b * chain.W, &predicted[i + b, 0], K * sizeof(double))
            i += last + 2
            load_again(x, last * CHAIN_ROWS, chain)
        forward_of_next(chains.all, R)
        for r in range(R):
            chain = chains.all + r
            chain.begin, chain.n_pairs, chain.lost = chain.T - chain.now.B, chain.now.B, 0
            memcpy(chain.beta, &later[r, 0, 0], K * sizeof(double))
            memset(chain.now.density + chain.now.B * chain.W, 0, chain.W * sizeof(double))
            memcpy(chain.now.density + chain.now.B * chain.W, &later[r, 1, 0], K * sizeof(double))
        backward_blocks(x, chains.all, R, NULL, 0, 0, True)
        for r in range(R):
            chain = chains.all + r
            memcpy(&later[r, 0, 0], chain.beta, K * sizeof(double))
            memcpy(&later[r, 1, 0], chain.now.density + CHAIN_ROWS * chain.W, K * sizeof(double))
            for i in range(K):
                for j in range(K):
                    transitions[r, i, j] += sums[r, i, j] * (
                        transmat[j, i] if chain.is_reversed else transmat[i, j])
    return [chains.all[r].lost != 0 for r in range(R)]


def largest_of_rows(
    ndarray values,     # IN (n, K), float or double
    ndarray out,        # OUT (n,), of any stride
):
    """The largest value of each row, or NaN, in a tenth of the time of NumPy."""
    cdef Py_ssize_t n = extent(values, 0), K = extent(values, 1), t, k
    cdef int type = real_type(values)
    cdef const void* x = readable_reals(values, n * K, type)
    cdef double best, value
    require(K > 0 and extent(out, 0) == n and PyArray_TYPE(out) == NPY_DOUBLE, "rows and places")
    cdef char* place = <char*> PyArray_DATA(out)
    for t in range(n):
        best = -INFINITY
        for k in range(t * K, t * K + K):
            value = (<double*> x)[k] if type == NPY_DOUBLE else (<float*> x)[k]
            if value > best or isnan(value):
                best = value
        (<double*> (place + t * PyArray_STRIDE(out, 0)))[0] = best


# Chains as parameters
# --------------------

def normalise_rows(
    ndarray rows,       # IN (R, C)
    ndarray previous,   # IN (R, C)
    ndarray out,        # OUT (R, C)
):
    """Rows divided by their sums; those without any weight keep their previous values."""
    cdef Py_ssize_t R = extent(rows, 0), C = extent(rows, 1), _row, j
    cdef const double* count = readable(rows, R * C)
    cdef const double* kept = readable(previous, R * C)
    cdef double* share = writable(out, R * C)
    cdef double total
    for _row in range(R):
        total = 0.0
        for j in range(C):
            # A Dirichlet prior below 1 may subtract more than there is.
            share[j] = 0.0 if count[j] < 0.0 else count[j]
            total += share[j]
        if total > 0.0:
            for j in range(C):
                share[j] /= total
        else:
            memcpy(share, kept, C * sizeof(double))
        count, kept, share = count + C, kept + C, share + C


cdef double relative_entropy(const double* p, const double* q, Py_ssize_t n) noexcept nogil:
    """sum_i p_i log(p_i / q_i), with the digits of small differences"""
    cdef double total = 0.0, ratio
    cdef Py_ssize_t i
    for i in range(n):
        if p[i] > 0.0:
            ratio = p[i] / q[i] if q[i] > 0.0 else INFINITY
            total += p[i] * (log1p((p[i] - q[i]) / q[i]) if 0.5 < ratio < 2.0 else log(ratio))
    return total


def joint_divergence(
    ndarray start,          # IN (K,)
    ndarray transmat,       # IN (K, C)
    ndarray other_start,    # IN (K,)
    ndarray other_transmat,     # IN (K, C)
    double n_starts,        # sequences that begin
    ndarray transitions,    # IN (K,), expected numbers out of each state
    ndarray emissions,      # IN (K,), expected numbers of rows
    ndarray divergences,    # IN (K,), KL(p_k || q_k) of these; below 0 by rounding only
):
    """KL of two chains jointly over states and rows; what never happens does not count."""
    cdef Py_ssize_t K = extent(start, 0), C = extent(transmat, 1), k
    cdef const double* first = readable(start, K)
    cdef const double* other_first = readable(other_start, K)
    cdef const double* table = readable(transmat, K * C)
    cdef const double* other_table = readable(other_transmat, K * C)
    cdef const double* left = readable(transitions, K)
    cdef const double* emitted = readable(emissions, K)
    cdef const double* divergence = readable(divergences, K)
    cdef double total = 0.0
    with nogil:
        if n_starts > 0.0:
            total += n_starts * relative_entropy(first, other_first, K)
        for k in range(K):
            if left[k] > 0.0:
                total += left[k] * relative_entropy(table + k * C, other_table + k * C, C)
            if emitted[k] > 0.0 and not divergence[k] <= 0.0:
                total += emitted[k] * divergence[k]
    return 0.0 if total < 0.0 else total
