"""Lattices of memoryless transducers: likelihoods of pairs of strings, expected operations.

    alpha(i, j) = alpha(i-1, j) p(x_i ->) + alpha(i, j-1) p(-> y_j)
                  + alpha(i-1, j-1) p(x_i -> y_j)

`_edit_lattice.h` says in which form this is computed. Pairs come sorted by length, as those that
follow each other share a lattice, one pair a lane. Of long sources only every so many rows are
kept, and what lies between is done again on the way back.
"""

from libc.math cimport INFINITY, log, sqrt
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from ._arena cimport (
    Arena, allocate, allocate_doubles, counting_arena, free, take, take_doubles, take_each,
)
from ._arrays cimport require
from ._openmp cimport Slabs, busy_threads, count_slabs, lay_out_slabs, slabs_of, walk_blocks

from _edit_lattice_h cimport (
    EDIT_PAIRS, EditFlows, EditLattice, best_rows, flow_row, keep_shares, scatter_row, share_rows,
)

# Pairs that share a lattice.
PAIRS_PER_LATTICE = EDIT_PAIRS
# Pairs with a target from here on get a lattice of their own, as those of many fill the memory.
LONG = 2000

cdef enum:
    # Rows of a block: 32 that stay in an L2 cache, or more of long sources, lest there are many.
    MOST_SHARES = 1 << 15
    MOST_ROWS = 32
    # How operations are ordered where there is one probability for each kind.
    MATCH = 0
    MISMATCH = 1
    DELETE = 2
    INSERT = 3
    N_KINDS = 4

cdef double LOG_2 = 0.6931471805599453


cdef struct Call:
    const int* sources
    const int64_t* source_offsets
    const int* targets
    const int64_t* target_offsets
    const int64_t* pairs            # (n_pairs, 2)
    Py_ssize_t n_pairs, n_groups
    Py_ssize_t n, m                 # the longest source and target
    Py_ssize_t R, n_blocks          # rows of a block, and blocks of the longest source
    Py_ssize_t n_sums               # of a slab
    const double* log_deletions     # (1,) or (stride,)
    const double* log_insertions
    const double* uniforms          # to draw paths from, or NULL
    const int64_t* first_uniforms   # (n_pairs,)
    EditLattice lattice
    bint is_best
    bint posterior                  # operations are wanted
    double* log_weights             # OUT (n_pairs,)
    double* kinds                   # OUT (n_pairs, 4), or NULL


# The scratch memory of a thread, and the group of pairs in it.
cdef struct Group:
    EditLattice lattice
    EditFlows flows
    Py_ssize_t first, count         # pairs
    int* column_padding             # (W,)
    int64_t* exponent               # (W,)
    double* product                 # (W,)
    double* base                    # (W,): log p of all symbols alone
    double* deleted                 # (W,), over all rows
    double* flow                    # (m + 1, W)
    double* kept                    # (n_blocks, m + 1, W): the first rows of blocks
    double* H                       # (R + 1, m + 1, W)
    double* V                       # (R, m + 1, W)


def lattice_pass(
    const int[::1] sources,                 # IN: symbols of all sources
    const int64_t[::1] source_offsets,      # IN
    const int[::1] targets,                 # IN
    const int64_t[::1] target_offsets,      # IN
    const int64_t[:, ::1] pairs,            # IN (n, 2): indices of a source and a target
    const double[:, ::1] weights,           # IN (B, B), or (1, 2): match and mismatch; logarithms
                                            #  if best
    const double[::1] log_deletions,        # IN (B,) or (1,)
    const double[::1] log_insertions,       # IN (B,) or (1,)
    bint best,                              # of the best path alone, instead of all
    bint wide,                              # whether pairs share lattices
    double[::1] log_weights,                # OUT (n,): log p, but for the end
    double[:, ::1] kinds,                   # OUT (n, 4), or empty: operations; None: not wanted
    double[::1] sums,                       # OUT (B * B + 2 B,): ... of all pairs; empty, or None
    const double[::1] uniforms,             # IN: to draw paths; None: expected operations
    const int64_t[::1] first_uniforms,      # IN (n,), or None
    int n_threads,
):
    """Log-probabilities of pairs by all paths, or the best one; expected or drawn operations.

    With two weights, operations are by pair and kind, else by symbols. Without any, only a row of a
    lattice is kept.
    """
    cdef Call call = call_of(sources, source_offsets, targets, target_offsets, pairs, weights,
                             log_deletions, log_insertions, wide)
    cdef Py_ssize_t B = weights.shape[0], n = pairs.shape[0], n_slabs = call.n_groups
    require(log_weights.shape[0] == n and n_threads > 0, "a result for each pair; threads")
    call.log_weights, call.is_best = &log_weights[0], best
    if kinds is not None:
        if call.lattice.tied:
            require(kinds.shape[0] == n and kinds.shape[1] == N_KINDS and sums.shape[0] == 0,
                    "with two weights, results are by kind")
            call.kinds = &kinds[0, 0]
        else:
            require(kinds.shape[0] == 0 and sums.shape[0] == B * B + 2 * B,
                    "with a table of weights, results are by symbols")
        call.posterior, call.n_sums = True, sums.shape[0]
        n_slabs = count_slabs(n_slabs, call.n_sums)
    if uniforms is not None:
        require(uniforms.shape[0] > 0 and first_uniforms.shape[0] == n,
                "a place among the uniform numbers for each pair")
        call.uniforms, call.first_uniforms = &uniforms[0], &first_uniforms[0]
    cdef Slabs slabs = slabs_of(call.n_groups, 1, n_slabs, busy_threads(n_threads, call.n_groups))
    cdef Arena counted = counting_arena(), arena = counting_arena()
    lay_out_group(&call, &counted)
    lay_out_slabs(&slabs, &counted, call.n_sums, &arena)
    cdef void* scratch = allocate(&arena)
    slabs = lay_out_slabs(&slabs, &counted, call.n_sums, &arena)
    with nogil:
        walk_blocks(&slabs, expect_group if call.posterior else weigh_group, &call)
        if call.n_sums > 0:
            memcpy(&sums[0], slabs.sums, call.n_sums * sizeof(double))
        free(scratch)


# Whether symbols are below B is up to the caller: `Strings` knows the largest.
cdef int check_offsets(Py_ssize_t n, const int64_t[::1] offsets) except -1:
    cdef Py_ssize_t last = offsets.shape[0] - 1
    return require(last >= 0 and offsets[0] == 0 and offsets[last] == n, "offsets of all symbols")


cdef Call call_of(
    const int[::1] sources, const int64_t[::1] source_offsets, const int[::1] targets,
    const int64_t[::1] target_offsets, const int64_t[:, ::1] pairs, const double[:, ::1] weights,
    const double[::1] log_deletions, const double[::1] log_insertions, bint wide,
) except *:
    cdef Call call
    cdef Py_ssize_t B = weights.shape[0], n_alone = log_deletions.shape[0], p
    require(pairs.shape[0] > 0 and pairs.shape[1] == 2, "pairs are (n, 2), and not none")
    require(B == 1 and weights.shape[1] == 2 and n_alone == 1
            or B > 1 and weights.shape[1] == B == n_alone,
            "weights are (B, B) and (B,), or (1, 2) and (1,)")
    require(log_insertions.shape[0] == n_alone, "there are as many insertions as deletions")
    require(B * B <= INT_MAX, "places in the table of weights are C ints")
    check_offsets(sources.shape[0], source_offsets)
    check_offsets(targets.shape[0], target_offsets)
    memset(&call, 0, sizeof(Call))
    call.sources = &sources[0] if sources.shape[0] > 0 else NULL
    call.targets = &targets[0] if targets.shape[0] > 0 else NULL
    call.source_offsets, call.target_offsets = &source_offsets[0], &target_offsets[0]
    call.pairs, call.n_pairs = &pairs[0, 0], pairs.shape[0]
    call.log_deletions, call.log_insertions = &log_deletions[0], &log_insertions[0]
    call.lattice.W = EDIT_PAIRS if wide else 1
    call.lattice.tied = weights.shape[0] == 1
    call.lattice.match, call.lattice.mismatch = weights[0, 0], weights[0, 1]
    call.lattice.table, call.lattice.stride = &weights[0, 0], <int> weights.shape[0]
    call.n_groups = (call.n_pairs + call.lattice.W - 1) // call.lattice.W
    for p in range(call.n_pairs):
        require(0 <= pairs[p, 0] < source_offsets.shape[0] - 1
                and 0 <= pairs[p, 1] < target_offsets.shape[0] - 1, "pairs of strings")
        require(length(call.source_offsets, pairs[p, 0]) >= 0
                and length(call.target_offsets, pairs[p, 1]) >= 0, "offsets do not fall")
        call.n = max(call.n, length(call.source_offsets, call.pairs[2 * p]))
        call.m = max(call.m, length(call.target_offsets, call.pairs[2 * p + 1]))
    call.R = min(MOST_ROWS, MOST_SHARES // ((call.m + 1) * call.lattice.W))
    call.R = max(1, min(call.n, max(call.R, <Py_ssize_t> sqrt(call.n / 16.0))))
    call.n_blocks = max(1, (call.n + call.R - 1) // call.R)
    return call


cdef Py_ssize_t length(const int64_t* offsets, int64_t i) noexcept nogil:
    return offsets[i + 1] - offsets[i]


cdef Group lay_out_group(const Call* call, Arena* arena) noexcept nogil:
    """For the longest strings of all groups."""
    cdef Group group
    cdef Py_ssize_t W = call.lattice.W, row = (call.m + 1) * W
    memset(&group, 0, sizeof(Group))
    group.lattice = call.lattice
    group.lattice.looked_up = take_doubles(arena, (call.R if call.posterior else 1) * row)
    group.H = take_doubles(arena, (call.R + 1 if call.posterior else 1) * row)
    if call.posterior:
        group.V = take_doubles(arena, call.R * row)
        group.kept = take_doubles(arena, call.n_blocks * row)
        take_each(arena, row, &group.flow, &group.flows.insertions, &group.flows.substitutions)
    take_each(
        arena, W, &group.product, &group.base, &group.deleted, &group.flows.deletions,
        &group.flows.match, &group.flows.mismatch,
    )
    group.exponent = <int64_t*> take(arena, W, sizeof(int64_t))
    group.lattice.row_padding = <int*> take(arena, W, sizeof(int))
    group.column_padding = <int*> take(arena, W, sizeof(int))
    group.lattice.x = <int*> take(arena, call.n * W, sizeof(int))
    group.lattice.y = <int*> take(arena, call.m * W, sizeof(int))
    return group


cdef Group group_of(const Call* call, Py_ssize_t g, Arena* arena) noexcept nogil:
    """The g-th group of pairs, with their strings side by side, aligned at their ends."""
    cdef Group group = lay_out_group(call, arena)
    cdef Py_ssize_t W = call.lattice.W, n = 0, m = 0, lane
    cdef const int64_t* pair = call.pairs + 2 * g * W
    group.first, group.count = g * W, min(W, call.n_pairs - g * W)
    for lane in range(group.count):
        n = max(n, length(call.source_offsets, pair[2 * lane]))
        m = max(m, length(call.target_offsets, pair[2 * lane + 1]))
    group.lattice.n, group.lattice.m = n, m
    memset(group.lattice.x, 0, n * W * sizeof(int))
    memset(group.lattice.y, 0, m * W * sizeof(int))
    for lane in range(W):
        group.lattice.row_padding[lane], group.column_padding[lane] = <int> n, <int> m
        group.product[lane], group.exponent[lane], group.base[lane] = 1, 0, 0
        if lane < group.count:
            group.lattice.row_padding[lane] = <int> load_lane(
                call.sources, call.source_offsets, pair[2 * lane], call.log_deletions,
                call.lattice.tied, n, W, group.lattice.x + lane, group.base + lane)
            group.column_padding[lane] = <int> load_lane(
                call.targets, call.target_offsets, pair[2 * lane + 1], call.log_insertions,
                call.lattice.tied, m, W, group.lattice.y + lane, group.base + lane)
    return group


cdef Py_ssize_t load_lane(
    const int* symbols, const int64_t* offsets, int64_t which, const double* log_alone, bint tied,
    Py_ssize_t n, Py_ssize_t W, int* out, double* base,
) noexcept nogil:
    """Write a string to the end of a lane of n; add what its symbols weigh; return the padding."""
    cdef const int* string = symbols + offsets[which]
    cdef Py_ssize_t padding = n - length(offsets, which), i
    cdef double total = 0
    for i in range(n - padding):
        out[(padding + i) * W] = string[i]
        total += log_alone[0 if tied else string[i]]
    base[0] += total
    return padding


cdef void first_row(const Group* group, double* H) noexcept nogil:
    """Shares of the first row, which comes from the left where a lane has begun."""
    cdef Py_ssize_t W = group.lattice.W, j, lane
    for j in range(group.lattice.m + 1):
        for lane in range(W):
            H[j * W + lane] = j > group.column_padding[lane]


cdef double log_probability(const Group* group, Py_ssize_t lane) noexcept nogil:
    return group.base[lane] - log(group.product[lane]) - LOG_2 * group.exponent[lane]


cdef double weigh_group(
    const void* of, Arena arena, Py_ssize_t g, Py_ssize_t _n, double* _sums
) noexcept nogil:
    cdef const Call* call = <const Call*> of
    cdef double* out = call.log_weights
    cdef Group group = group_of(call, g, &arena)
    cdef Py_ssize_t W = group.lattice.W, m = group.lattice.m, j, lane
    if call.is_best:
        for j in range(m + 1):
            for lane in range(W):
                group.H[j * W + lane] = 0 if j >= group.column_padding[lane] else -INFINITY
        best_rows(&group.lattice, group.H)
        for lane in range(group.count):
            out[group.first + lane] = group.base[lane] + group.H[m * W + lane]
    else:
        first_row(&group, group.H)
        share_rows(&group.lattice, group.H, group.product, group.exponent)
        for lane in range(group.count):
            out[group.first + lane] = log_probability(&group, lane)
    return 0


cdef double expect_group(
    const void* of, Arena arena, Py_ssize_t g, Py_ssize_t _n, double* sums
) noexcept nogil:
    cdef const Call* call = <const Call*> of
    cdef Group group = group_of(call, g, &arena)
    cdef Py_ssize_t lane
    keep_first_rows(call, &group)
    for lane in range(group.count):
        call.log_weights[group.first + lane] = log_probability(&group, lane)
    if call.uniforms == NULL:
        add_expected(call, &group, sums)
    else:
        add_drawn(call, &group, sums)
    return 0


cdef Py_ssize_t last_block(const Call* call, const Group* group) noexcept nogil:
    return max(0, (group.lattice.n - 1) // call.R)


cdef void keep_first_rows(const Call* call, Group* group) noexcept nogil:
    """The way forward; the last block is present at its end, of others the first row."""
    cdef Py_ssize_t row = (group.lattice.m + 1) * group.lattice.W, block
    cdef Py_ssize_t last = last_block(call, group)
    first_row(group, group.kept)
    for block in range(last + 1):
        keep_block(call, group, block)
        if block < last:
            memcpy(group.kept + (block + 1) * row, group.H + call.R * row, row * sizeof(double))


cdef void keep_block(const Call* call, Group* group, Py_ssize_t block) noexcept nogil:
    """H, V <- the shares of a block, from its first row"""
    cdef Py_ssize_t row = (group.lattice.m + 1) * group.lattice.W
    cdef Py_ssize_t begin = block * call.R
    memcpy(group.H, group.kept + block * row, row * sizeof(double))
    keep_shares(&group.lattice, begin, min(group.lattice.n, begin + call.R), group.H, group.V,
                group.product, group.exponent)


cdef void add_expected(const Call* call, Group* group, double* sums) noexcept nogil:
    """The way back, block by block, of probability that flows from the last cell to the first."""
    cdef Py_ssize_t W = group.lattice.W, row = (group.lattice.m + 1) * W, lane, i
    cdef Py_ssize_t last = last_block(call, group), block, begin, done
    memset(group.flow, 0, (call.m + 1) * W * sizeof(double))
    memset(group.flows.insertions, 0, (call.m + 1) * W * sizeof(double))
    for lane in range(W):
        group.deleted[lane] = group.flows.match[lane] = group.flows.mismatch[lane] = 0
        group.flow[row - W + lane] = lane < group.count
    for block in range(last, -1, -1):
        if block < last:
            keep_block(call, group, block)
        begin = block * call.R
        for i in range(min(group.lattice.n, begin + call.R) - 1, begin - 1, -1):
            done = (i - begin) * row
            flow_row(&group.lattice, i, group.lattice.looked_up + done, group.H + done,
                     group.H + done + row, group.V + done, group.flow, &group.flows)
            add_row(call, group, i, sums)
    flow_along_first_row(group)
    add_group(call, group, sums)


cdef void add_row(const Call* call, Group* group, Py_ssize_t i, double* sums) noexcept nogil:
    """Move what row i consumed to sums by symbol, or by lane."""
    cdef Py_ssize_t W = group.lattice.W, B = call.lattice.stride, lane
    cdef const int* x = group.lattice.x + i * W
    for lane in range(W):
        group.deleted[lane] += group.flows.deletions[lane]
    if call.lattice.tied:
        return
    for lane in range(group.count):
        sums[B * B + x[lane]] += group.flows.deletions[lane]
    scatter_row(&group.lattice, i, group.flows.substitutions + W, sums)


cdef void flow_along_first_row(Group* group) noexcept nogil:
    """What arrives in the first row has nothing left but insertions."""
    cdef Py_ssize_t W = group.lattice.W, j, lane
    cdef double flow
    for lane in range(group.count):
        flow = 0
        for j in range(group.lattice.m, 0, -1):
            flow = (flow + group.flow[j * W + lane]) * group.kept[j * W + lane]
            group.flows.insertions[j * W + lane] += flow


cdef void add_group(const Call* call, const Group* group, double* sums) noexcept nogil:
    cdef Py_ssize_t W = group.lattice.W, B = call.lattice.stride, j, lane
    cdef double inserted, share
    cdef double* own
    for lane in range(group.count):
        inserted = 0
        for j in range(1, group.lattice.m + 1):
            share = group.flows.insertions[j * W + lane]
            inserted += share
            if not call.lattice.tied:
                sums[B * B + B + group.lattice.y[(j - 1) * W + lane]] += share
        if call.kinds != NULL:
            own = call.kinds + (group.first + lane) * N_KINDS
            own[MATCH], own[MISMATCH] = group.flows.match[lane], group.flows.mismatch[lane]
            own[DELETE], own[INSERT] = group.deleted[lane], inserted


cdef void add_drawn(const Call* call, Group* group, double* sums) noexcept nogil:
    """Walk back along a drawn path of each pair; `deletions` and `flow` hold positions."""
    cdef Py_ssize_t last = last_block(call, group), block, lane
    for lane in range(group.count):
        group.flows.deletions[lane], group.flow[lane] = group.lattice.n, group.lattice.m
    if call.kinds != NULL:
        memset(call.kinds + group.first * N_KINDS, 0, group.count * N_KINDS * sizeof(double))
    for block in range(last, -1, -1):
        if block < last:
            keep_block(call, group, block)
        for lane in range(group.count):
            walk(call, group, lane, block * call.R, sums)


cdef void walk(
    const Call* call, const Group* group, Py_ssize_t lane, Py_ssize_t begin, double* sums
) noexcept nogil:
    """Walk from a cell to the first row of a block, or of the lane, and there to its first cell."""
    cdef double* row = group.flows.deletions + lane
    cdef double* column = group.flow + lane
    cdef const double* uniforms = call.uniforms + call.first_uniforms[group.first + lane]
    cdef Py_ssize_t W = group.lattice.W, i = <Py_ssize_t> row[0], j = <Py_ssize_t> column[0], cell
    cdef Py_ssize_t top = max(begin, <Py_ssize_t> group.lattice.row_padding[lane])
    cdef Py_ssize_t padding = group.lattice.row_padding[lane] + group.column_padding[lane]
    cdef double u, above, left
    while i > top:
        u, cell = uniforms[i + j - padding - 1], j * W + lane
        left = group.H[(i - begin) * (group.lattice.m + 1) * W + cell]
        above = group.V[(i - begin - 1) * (group.lattice.m + 1) * W + cell]
        if u < above:
            count_move(call, group, lane, i, -1, sums)
            i -= 1
        elif u < above + left:
            count_move(call, group, lane, -1, j, sums)
            j -= 1
        else:
            count_move(call, group, lane, i, j, sums)
            i, j = i - 1, j - 1
    while i == group.lattice.row_padding[lane] and j > group.column_padding[lane]:
        count_move(call, group, lane, -1, j, sums)
        j -= 1
    row[0], column[0] = i, j


cdef void count_move(
    const Call* call, const Group* group, Py_ssize_t lane, Py_ssize_t i, Py_ssize_t j,
    double* sums,
) noexcept nogil:
    """Count the operation that consumes x_i or y_j or both; -1 stands for none."""
    cdef Py_ssize_t W = group.lattice.W, B = call.lattice.stride
    cdef double* kinds
    cdef int x = group.lattice.x[(i - 1) * W + lane] if i > 0 else -1
    cdef int y = group.lattice.y[(j - 1) * W + lane] if j > 0 else -1
    if call.kinds != NULL:
        kinds = call.kinds + (group.first + lane) * N_KINDS
        kinds[DELETE if j < 0 else INSERT if i < 0 else MATCH if x == y else MISMATCH] += 1
    else:
        sums[B * B + x if j < 0 else B * B + B + y if i < 0 else x * B + y] += 1


def best_path(
    const int[::1] source,      # IN (n,), not empty
    const int[::1] target,      # IN (m,), not empty
    const double[:, ::1] log_weights,   # IN (B, B), or (1, 2): match and mismatch
    signed char[:, ::1] moves,  # OUT (n, m): the best last move to each cell
):
    """Moves of the best path: 0 substitution, 1 deletion, 2 insertion, the first where equal."""
    cdef Py_ssize_t n = source.shape[0], m = target.shape[0], i, j
    cdef bint tied = log_weights.shape[0] == 1
    cdef double weight, left, corner, up, most
    require(n > 0 and m > 0 and moves.shape[0] == n and moves.shape[1] == m, "moves are (n, m)")
    require(log_weights.shape[1] == (2 if tied else log_weights.shape[0]),
            "weights are (B, B), or (1, 2)")
    cdef double* best = allocate_doubles(m + 1)
    with nogil:
        memset(best, 0, (m + 1) * sizeof(double))
        for i in range(n):
            left, corner = 0, 0
            for j in range(m):
                if tied:
                    weight = log_weights[0, source[i] != target[j]]
                else:
                    weight = log_weights[source[i], target[j]]
                up, most = best[j + 1], corner + weight
                moves[i, j] = 0
                if up > most:
                    most, moves[i, j] = up, 1
                if left > most:
                    most, moves[i, j] = left, 2
                left, corner = most, up
                best[j + 1] = most
    free(best)
