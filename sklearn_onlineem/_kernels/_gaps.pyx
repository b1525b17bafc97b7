"""Gaussians of dense rows with missing values: marginal log densities and expected moments.

    log p(k, x_o) = log weight_k + log N(x_o; mean_k on o, S_k on o, o),   o observed, NaN elsewhere

Sums are those of `_gaussian.pyx`, in expectation over what is missing: deviations from mean_k are
filled by their conditional means, and second moments take the conditional covariances besides.

Components are side by side in the vectors (`_gaps.h`), as all of them have the gaps of a row. A
block of rows is sorted by what they lack, as rows of one pattern share the factors of components. A
panel of sorted rows passes three stages:

    factors, log joint and filled deviations  ->  responsibilities  ->  sums

Independent features have no factors, and their rows stay as they are. All arithmetic is in double.
"""

from cython cimport floating
from libc.math cimport log
from libc.string cimport memset
from numpy cimport NPY_DOUBLE, PyArray_NDIM, ndarray

from ._arena cimport Arena, allocate, counting_arena, free, take, take_doubles, take_each
from ._arrays cimport (
    extent, optional_readable, readable, readable_reals, real_size, real_type, require, writable,
)
from ._openmp cimport Slabs, count_slabs, lay_out_slabs, slabs_of, walk_blocks
from ._responsibilities cimport Task, finish_block, task_of

from _gaps_h cimport (
    LOG_2_PI, QUAD, Pattern, add_gap_covariance, add_gap_shares, add_lane_squares,
    add_outer_products, centre_rows, factorise_pattern, in_quads, missing_bits, n_entries_of,
    row_of_variances, rows_of_pattern, stride_of, weigh_panel, whiten_rows,
)
from _simd_h cimport transpose

cdef enum:
    MOST_SORTED = 2048
    MOST_ROWS = 16
    FEWEST_ROWS = 4
    PANEL_BYTES = 1 << 20

# Above this, S_ii (S^-1)_ii, by how much the other features shrink the variance of one, the
# precision has lost too many digits, which cancel in marginals. Covariances lose none.
cdef double LARGEST_INFLATION = 1e5

cdef struct Shape:
    Slabs slabs
    Py_ssize_t d            # columns
    Py_ssize_t K            # components
    Py_ssize_t n_covariances    # K, or 1 of all
    bint is_diagonal
    bint has_digits         # whether the precisions have them
    Py_ssize_t W            # components of a group: 8 or 16
    Py_ssize_t G            # groups
    Py_ssize_t padded_d, stride     # see `_gaps.h`
    Py_ssize_t n_second     # second moments of a component, or entries of its covariance
    Py_ssize_t n_sums       # elements of the sums of a slab
    Py_ssize_t T            # rows of a panel
    Py_ssize_t n_entries    # most entries of a factor

# Gaussians of K components, as `mixture_pass` describes them.
cdef struct Parameters:
    const double* means
    const double* covariances
    const double* precisions
    const double* factors
    const double* log_dets

# The same, with components innermost.
cdef struct Tables:
    double* means           # (G, d, W)
    double* log_weights     # (G, W)
    double* log_dets        # (G, W)
    double* covariances     # (G, d, d, W); or (G, d, 2, W), see `row_of_variances`
    double* precisions      # (G, d, d, W)
    double* factors         # (G, d, d, W), of the precisions, on both sides of the diagonal

# The scratch memory of a thread.
cdef struct Workspace:
    unsigned char* bits     # ((d + 7) / 8, B): which values are missing
    int* order              # (B,)
    int* other_order        # (B,)
    Pattern* patterns       # (T,)
    Py_ssize_t* by_precision    # (T,)
    Py_ssize_t* features    # (T, 2, padded_d), W times
    double* x               # (T, d)
    double* factors         # (G, T, n_entries, W)
    double* deviations      # (G, T, stride, W)
    double* log_joint       # (T, W)
    double* joint           # (K, T)
    double* softmax         # (2, T)
    double* roots           # (T, W)
    double* y               # (padded_d, W)
    double* white           # (T, stride, W)
    double* work            # (d, d, W)
    double* constants       # (W,)
    double* sample_weight   # (T,)
    double* uniforms        # (T,)
    double* log_likelihoods     # (T,)
    int* labels             # (T,)

# A pass, with its scratch memory.
cdef struct Pass:
    const Shape* shape
    const Task* task
    const void* X           # (n, d), floats or doubles
    bint is_double
    double* completed       # OUT (n, d), or NULL
    Tables tables
    Slabs slabs


cdef Shape shape_of(ndarray X, tuple parameters, int n_threads) except *:
    cdef Shape shape
    cdef ndarray means, covariances
    means, covariances, _, _, _ = parameters
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1), K = extent(means, 0)
    require(n > 0 and d > 0 and K > 0 and n_threads > 0, "rows, columns, components, threads")
    shape.d, shape.K, shape.n_covariances = d, K, extent(covariances, 0)
    shape.is_diagonal = PyArray_NDIM(covariances) == 2
    require(extent(means, 1) == d and extent(covariances, 1) == d
            and (shape.n_covariances == K or not shape.is_diagonal and shape.n_covariances == 1),
            "means are (K, d), covariances (K, d, d), (1, d, d) or (K, d)")
    shape.has_digits = True
    # Twice as many at a time are faster, but not where half of the last group is empty.
    shape.W = 16 if (K + 7) // 8 % 2 == 0 else 8
    shape.G = (K + shape.W - 1) // shape.W
    shape.padded_d, shape.stride = in_quads(d), stride_of(d)
    shape.n_second = d if shape.is_diagonal else shape.padded_d * shape.stride
    # Counts, first and second moments, shares of gaps.
    shape.n_sums = shape.G * shape.W * (1 + d + shape.n_second + d)
    # Blocks are large, as more rows then have a pattern in common; so one is enough for a slab.
    cdef Py_ssize_t B = min(n, MOST_SORTED)
    shape.slabs = slabs_of(n, B, count_slabs(2 * ((n + B - 1) // B), shape.n_sums), n_threads)
    shape.n_entries = 0 if shape.is_diagonal else d * (d + 1) // 2 + (QUAD - 1) * d
    # Most patterns need a fraction of the entries.
    cdef Py_ssize_t row_bytes = shape.G * shape.W * sizeof(double) * (d + shape.n_entries // 4)
    shape.T = min(n, max(FEWEST_ROWS, min(MOST_ROWS, PANEL_BYTES // row_bytes)))
    return shape


cdef Workspace lay_out_workspace(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Workspace space
    cdef Py_ssize_t T = shape.T, G = shape.G
    space.bits = <unsigned char*> take(arena, (shape.d + 7) // 8 * shape.slabs.B, 1)
    space.order = <int*> take(arena, shape.slabs.B, sizeof(int))
    space.other_order = <int*> take(arena, shape.slabs.B, sizeof(int))
    space.patterns = <Pattern*> take(arena, T, sizeof(Pattern))
    space.by_precision = <Py_ssize_t*> take(arena, T, sizeof(Py_ssize_t))
    space.features = <Py_ssize_t*> take(arena, T * 2 * shape.padded_d, sizeof(Py_ssize_t))
    space.x = take_doubles(arena, T * shape.d)
    space.factors = take_doubles(arena, G * T * shape.n_entries * shape.W)
    space.deviations = take_doubles(arena, G * T * shape.stride * shape.W)
    take_each(arena, T * shape.W, &space.log_joint, &space.roots)
    space.y = take_doubles(arena, shape.padded_d * shape.W)
    space.white = take_doubles(arena, 0 if shape.is_diagonal else T * shape.stride * shape.W)
    space.constants = take_doubles(arena, shape.W)
    space.work = take_doubles(arena, 0 if shape.is_diagonal else shape.d * shape.d * shape.W)
    space.joint = take_doubles(arena, shape.K * T)
    space.softmax = take_doubles(arena, 2 * T)
    take_each(arena, T, &space.sample_weight, &space.uniforms, &space.log_likelihoods)
    space.labels = <int*> take(arena, T, sizeof(int))
    return space


cdef Pass lay_out(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Pass all
    cdef Py_ssize_t d = shape.d, size = shape.G * shape.W
    cdef Arena counted = counting_arena()
    lay_out_workspace(shape, &counted)
    all.shape = shape
    all.tables.means = take_doubles(arena, size * d)
    all.tables.log_weights = take_doubles(arena, size)
    all.tables.log_dets = take_doubles(arena, size)
    all.tables.covariances = take_doubles(arena, size * d * (2 if shape.is_diagonal else d))
    all.tables.precisions = take_doubles(arena, 0 if shape.is_diagonal else size * d * d)
    all.tables.factors = take_doubles(arena, 0 if shape.is_diagonal else size * d * d)
    all.slabs = lay_out_slabs(&shape.slabs, &counted, shape.n_sums, arena)
    return all


# Parameters, component by component
# ----------------------------------

cdef void interleave(
    const Shape* shape, const double* x, Py_ssize_t size, bint is_shared, double* out
) noexcept nogil:
    """out (G, size, W) <- x (K, size), or a single row for all; padded with zeros."""
    cdef Py_ssize_t k, i
    cdef double* entry
    for k in range(shape.G * shape.W):
        entry = out + k // shape.W * shape.W * size + k % shape.W
        for i in range(size):
            entry[i * shape.W] = x[(0 if is_shared else k * size) + i] if k < shape.K else 0.0


cdef void fill_tables(
    Shape* shape, const Parameters* parameters, const double* log_weights, Tables* tables
) noexcept nogil:
    cdef Py_ssize_t d = shape.d, K = shape.K, W = shape.W, k, i, j
    cdef Py_ssize_t size = d * (1 if shape.is_diagonal else d)
    cdef bint is_shared = shape.n_covariances < K
    cdef const double* covariances = parameters.covariances
    cdef const double* precisions = parameters.precisions
    cdef double* entry
    interleave(shape, parameters.means, d, False, tables.means)
    if log_weights == NULL:
        memset(tables.log_weights, 0, shape.G * W * sizeof(double))
    else:
        interleave(shape, log_weights, 1, False, tables.log_weights)
    if shape.is_diagonal:
        memset(tables.covariances, 0, shape.G * d * 2 * W * sizeof(double))
        for k in range(K):
            entry = tables.covariances + k // W * W * 2 * d + k % W
            for i in range(d):
                entry[2 * i * W] = parameters.factors[k * d + i]
                entry[(2 * i + 1) * W] = -0.5 * (LOG_2_PI + log(covariances[k * d + i]))
        return
    interleave(shape, parameters.log_dets, 1, is_shared, tables.log_dets)
    interleave(shape, covariances, size, is_shared, tables.covariances)
    interleave(shape, precisions, size, is_shared, tables.precisions)
    interleave(shape, parameters.factors, size, is_shared, tables.factors)
    for k in range(shape.G * W):
        entry = tables.factors + k // W * W * size + k % W
        for i in range(d):
            for j in range(i):
                entry[(i * d + j) * W] = entry[(j * d + i) * W]
    for k in range(K, shape.G * W):
        for i in range(d):
            tables.covariances[(k // W * size + i * (d + 1)) * W + k % W] = 1.0
            tables.precisions[(k // W * size + i * (d + 1)) * W + k % W] = 1.0
    for k in range(shape.n_covariances):
        for i in range(d):
            j = k * size + i * (d + 1)
            if not covariances[j] * precisions[j] < LARGEST_INFLATION:
                shape.has_digits = False


# Rows, pattern by pattern
# ------------------------

cdef void sort_block(
    const Shape* shape, const floating* X, Py_ssize_t B, Workspace* space
) noexcept nogil:
    """order <- rows X (B, d), by which values they lack; bits."""
    cdef Py_ssize_t d = shape.d, b, j, byte, total, count
    cdef Py_ssize_t counts[256]
    cdef unsigned char* bits
    cdef int* spare
    for b in range(B):
        space.order[b] = <int> b
    for byte in range((d + 7) // 8):
        bits = space.bits + byte * shape.slabs.B
        memset(counts, 0, sizeof(counts))
        missing_bits(X + 8 * byte, B, d, min(8, d - 8 * byte), bits)
        for b in range(B):
            counts[bits[b]] += 1
        if shape.is_diagonal or counts[bits[0]] == B:
            continue
        # One pass of a radix sort: it keeps the order of the bytes before.
        total = 0
        for j in range(256):
            count = counts[j]
            counts[j] = total
            total += count
        for b in range(B):
            j = bits[space.order[b]]
            space.other_order[counts[j]] = space.order[b]
            counts[j] += 1
        spare = space.order
        space.order, space.other_order = space.other_order, spare


cdef inline bint lack_the_same(
    const Shape* shape, const unsigned char* bits, Py_ssize_t a, Py_ssize_t b
) noexcept nogil:
    cdef Py_ssize_t byte
    for byte in range((shape.d + 7) // 8):
        if bits[byte * shape.slabs.B + a] != bits[byte * shape.slabs.B + b]:
            return False
    return True


cdef Py_ssize_t find_patterns(
    const Shape* shape, const int* order, Py_ssize_t T, Workspace* space
) noexcept nogil:
    """patterns <- those of T rows in order, each a run of them; returns their number."""
    cdef Py_ssize_t d = shape.d, W = shape.W, n_patterns = 0, at = 0, t, j, o, m, byte
    cdef Py_ssize_t bits, is_missing
    cdef Py_ssize_t* observed
    cdef Py_ssize_t* missing
    cdef Pattern* pattern = space.patterns
    for t in range(T):
        if t > 0 and lack_the_same(shape, space.bits, order[t], order[t - 1]):
            pattern.n_rows += 1
            continue
        pattern = space.patterns + n_patterns
        n_patterns += 1
        observed = space.features + 2 * t * shape.padded_d
        missing = observed + shape.padded_d
        o = m = 0
        # Both are written, and one is kept: a branch would be predicted wrong half the time.
        for byte in range((d + 7) // 8):
            bits = space.bits[byte * shape.slabs.B + order[t]]
            for j in range(8 * byte, min(8 * byte + 8, d)):
                observed[o] = missing[m] = j * W
                is_missing = bits & 1
                m += is_missing
                o += 1 - is_missing
                bits >>= 1
        pattern.observed, pattern.missing = observed, missing
        pattern.n_observed, pattern.n_missing = o, m
        pattern.by_precision = shape.has_digits and 2 * m <= 3 * o
        pattern.first, pattern.n_rows, pattern.at = t, 1, at
        at += n_entries_of(pattern)
    return n_patterns


cdef void read_panel(
    const Shape* shape, const floating* X, const int* order, Py_ssize_t T, double* x
) noexcept nogil:
    cdef Py_ssize_t d = shape.d, t, j
    for t in range(T):
        for j in range(d):
            x[t * d + j] = X[order[t] * d + j]


# The pass
# --------

cdef void log_joint_of_panel(
    const Shape* shape, const Tables* tables, Py_ssize_t n_patterns, Py_ssize_t T, bint fills,
    Workspace* space,
) noexcept nogil:
    """joint (K, T), deviations; factors are kept if deviations are wanted."""
    cdef Py_ssize_t d = shape.d, g, p, k, t, stride = shape.stride * shape.W
    cdef Py_ssize_t size = d * (2 if shape.is_diagonal else d) * shape.W
    cdef Py_ssize_t n_by_precision = 0
    cdef const double* means
    cdef const double* covariances
    cdef const double* precisions
    cdef double* factor
    cdef double* deviations
    cdef Pattern* pattern
    for p in range(n_patterns):
        pattern = space.patterns + p
        if pattern.by_precision:
            for t in range(pattern.first, pattern.first + pattern.n_rows):
                space.by_precision[n_by_precision] = t
                n_by_precision += 1
    for g in range(shape.G):
        means = tables.means + g * d * shape.W
        covariances, precisions = tables.covariances + g * size, tables.precisions + g * size
        deviations = space.deviations + g * shape.T * stride
        if shape.is_diagonal:
            for p in range(n_patterns):
                pattern = space.patterns + p
                for t in range(pattern.first, pattern.first + pattern.n_rows):
                    row_of_variances(
                        shape.W, pattern, space.x + t * d, means, covariances,
                        tables.log_weights + g * shape.W, deviations + t * stride,
                        space.log_joint + t * shape.W,
                    )
        else:
            for p in range(n_patterns):
                pattern = space.patterns + p
                t = pattern.first
                centre_rows(shape.W, pattern, d, space.x + t * d, means, deviations + t * stride)
            whiten_rows(shape.W, tables.factors + g * size, d, deviations, space.by_precision,
                        n_by_precision, space.white)
            for p in range(n_patterns):
                pattern = space.patterns + p
                t = pattern.first
                factor = space.factors
                if fills:
                    factor += (g * shape.T * shape.n_entries + pattern.at) * shape.W
                factorise_pattern(
                    shape.W, pattern, d, covariances, precisions, tables.log_dets + g * shape.W,
                    tables.log_weights + g * shape.W, fills, factor, space.constants,
                )
                rows_of_pattern(
                    shape.W, pattern, d, tables.factors + g * size, factor, space.constants,
                    space.white + t * stride, fills, space.y, deviations + t * stride,
                    space.log_joint + t * shape.W,
                )
        k = g * shape.W
        transpose(space.log_joint, T, min(shape.W, shape.K - k), shape.W, space.joint + k * T, T)


cdef void complete_panel(
    const Shape* shape, const Tables* tables, Py_ssize_t n_patterns, Py_ssize_t T,
    const int* order, const Workspace* space, double* out,
) noexcept nogil:
    """out (B, d) <- what is expected where a value is missing, by responsibilities `joint`."""
    cdef Py_ssize_t d = shape.d, W = shape.W, p, t, c, k, at, group
    cdef double sum
    cdef const Pattern* pattern
    for p in range(n_patterns):
        pattern = space.patterns + p
        for t in range(pattern.first, pattern.first + pattern.n_rows):
            for c in range(pattern.n_missing):
                at, sum = pattern.missing[c], 0.0
                for k in range(shape.K):
                    group = k // W
                    sum += space.joint[k * T + t] * (
                        tables.means[group * d * W + at + k % W]
                        + space.deviations[(group * shape.T + t) * shape.stride * W + at + k % W]
                    )
                out[order[t] * d + at // W] = sum


cdef void add_panel(
    const Shape* shape, const Tables* tables, Py_ssize_t n_patterns, Py_ssize_t T,
    Workspace* space, double* sums,
) noexcept nogil:
    """Add what a panel says, by its responsibilities `joint` (K, T), to the sums of a slab."""
    cdef Py_ssize_t d = shape.d, g, p, k, t, size = shape.n_second * shape.W
    cdef double* shares = space.log_joint
    cdef double* counts = sums
    cdef double* first = counts + shape.G * shape.W
    cdef double* second = first + shape.G * d * shape.W
    cdef double* gaps = second + shape.G * size
    cdef double* deviations
    cdef Pattern* pattern
    for g in range(shape.G):
        k = g * shape.W
        memset(shares, 0, T * shape.W * sizeof(double))
        transpose(space.joint + k * T, min(shape.W, shape.K - k), T, T, shares, shape.W)
        deviations = space.deviations + g * shape.T * shape.stride * shape.W
        weigh_panel(shape.W, shares, T, d, space.roots, deviations, counts + g * shape.W,
                    first + g * d * shape.W)
        if shape.is_diagonal:
            add_lane_squares(shape.W, deviations, T, d, second + g * size)
        else:
            add_outer_products(shape.W, deviations, T, d, second + g * size)
        for p in range(n_patterns):
            pattern = space.patterns + p
            t = pattern.first
            if not shape.is_diagonal:
                add_gap_covariance(
                    shape.W, pattern, d, tables.covariances + g * d * d * shape.W,
                    shares + t * shape.W,
                    space.factors + (g * shape.T * shape.n_entries + pattern.at) * shape.W,
                    space.work, shape.stride * shape.W, second + g * size,
                )
            for t in range(t, t + pattern.n_rows):
                add_gap_shares(shape.W, pattern, shares + t * shape.W, gaps + g * d * shape.W)


cdef Task panel_of(const Task* task, const Workspace* space) noexcept nogil:
    """What is given of all rows, in scratch memory."""
    cdef Task panel = task[0]
    panel.sample_weight = space.sample_weight if task.sample_weight != NULL else NULL
    panel.labels = space.labels if task.labels != NULL else NULL
    panel.uniforms = space.uniforms if task.uniforms != NULL else NULL
    panel.log_likelihoods = space.log_likelihoods
    return panel


cdef double pass_over_rows(
    const Pass* all, Arena* scratch, const floating* x, Py_ssize_t start, Py_ssize_t B,
    double* sums,
) noexcept nogil:
    """Log joint or given responsibilities; then normalise, sum and write out, as wanted."""
    cdef const Shape* shape = all.shape
    cdef const Task* task = all.task
    cdef const Tables* tables = &all.tables
    cdef Workspace space = lay_out_workspace(shape, scratch)
    cdef Task of_panel = panel_of(task, &space)
    cdef const double* given = <const double*> task.given
    cdef double* out = <double*> task.out
    cdef Py_ssize_t panel, at, T, t, k, row, n_patterns, K = shape.K
    cdef const int* order
    cdef double log_likelihood = 0.0
    # Padding of deviations is read, and never written.
    memset(space.deviations, 0, shape.G * shape.T * shape.stride * shape.W * sizeof(double))
    sort_block(shape, x, B, &space)
    for panel in range((B + shape.T - 1) // shape.T):
        at = panel * shape.T
        T = min(shape.T, B - at)
        order = space.order + at
        n_patterns = find_patterns(shape, order, T, &space)
        read_panel(shape, x, order, T, space.x)
        log_joint_of_panel(
            shape, tables, n_patterns, T, sums != NULL or all.completed != NULL, &space)
        for t in range(T):
            row = start + order[t]
            if given != NULL:
                for k in range(K):
                    space.joint[k * T + t] = given[row * K + k]
            if task.sample_weight != NULL:
                space.sample_weight[t] = task.sample_weight[row]
            if task.labels != NULL:
                space.labels[t] = task.labels[row]
            if task.uniforms != NULL:
                space.uniforms[t] = task.uniforms[row]
        if task.normalised:
            log_likelihood += finish_block(space.joint, K, T, T, &of_panel, 0, space.softmax)
        if all.completed != NULL:
            complete_panel(shape, tables, n_patterns, T, order, &space,
                           all.completed + start * shape.d)
        if sums != NULL:
            add_panel(shape, tables, n_patterns, T, &space, sums)
        for t in range(T):
            row = start + order[t]
            if task.log_likelihoods != NULL:
                task.log_likelihoods[row] = space.log_likelihoods[t]
            if out != NULL:
                for k in range(K):
                    out[row * K + k] = space.joint[k * T + t]
    return log_likelihood


cdef double pass_over_block(
    const void* of, Arena scratch, Py_ssize_t start, Py_ssize_t B, double* sums
) noexcept nogil:
    cdef const Pass* all = <const Pass*> of
    cdef Py_ssize_t first = start * all.shape.d
    if all.is_double:
        return pass_over_rows(all, &scratch, <const double*> all.X + first, start, B, sums)
    return pass_over_rows(all, &scratch, <const float*> all.X + first, start, B, sums)


cdef void finish_sums(
    const Shape* shape, const double* covariances, const double* floor, const double* sums,
    double* counts, double* first, double* second,
) noexcept nogil:
    """Counts, first and second as `mixture_pass` has them."""
    cdef Py_ssize_t d = shape.d, K = shape.K, G = shape.G, k, i, j
    cdef Py_ssize_t width = shape.stride, size = shape.n_second, at
    cdef const double* firsts = sums + G * shape.W
    cdef const double* seconds = firsts + G * d * shape.W
    cdef const double* gaps = seconds + G * size * shape.W
    cdef const double* here
    cdef double* matrix
    memset(second, 0, shape.n_covariances * d * (1 if shape.is_diagonal else d) * sizeof(double))
    for k in range(K):
        counts[k] = sums[k]
        for i in range(d):
            first[k * d + i] = firsts[(k // shape.W * d + i) * shape.W + k % shape.W]
        here = seconds + k // shape.W * size * shape.W + k % shape.W
        matrix = second + (k if shape.n_covariances == K else 0) * d * d
        for i in range(d):
            at = (k // shape.W * d + i) * shape.W + k % shape.W
            if shape.is_diagonal:
                second[k * d + i] = (
                    here[i * shape.W] + (covariances[k * d + i] - floor[i]) * gaps[at]
                )
                continue
            for j in range(i + 1):
                matrix[i * d + j] += here[(i * width + j) * shape.W]
                matrix[j * d + i] = matrix[i * d + j]
            matrix[i * (d + 1)] -= floor[i] * gaps[at]


cdef Parameters parameters_of(const Shape* shape, tuple arrays) except *:
    cdef Parameters parameters
    means, covariances, precisions, factors, log_dets = arrays
    cdef Py_ssize_t d = shape.d, M = shape.n_covariances
    cdef Py_ssize_t size = M * d * (1 if shape.is_diagonal else d)
    parameters.means = readable(means, shape.K * d)
    parameters.covariances = readable(covariances, size)
    parameters.precisions = readable(precisions, 0 if shape.is_diagonal else size)
    parameters.factors = readable(factors, size)
    parameters.log_dets = readable(log_dets, M)
    return parameters


def mixture_pass(
    ndarray X,              # IN   (n, d), float or double; NaN is missing
    tuple parameters,       # IN   means (K, d); covariances (K, d, d), (1, d, d) shared, or (K, d)
                            #      variances; their inverses, or (0,) for variances; upper
                            #      triangles P, P P' a precision, or 1 / sqrt(variances);
                            #      log-determinants of the covariances (K,), or (1,) shared
    ndarray log_weights,    # IN   (K,), or None: 0
    tuple task,             # IN, OUT: see `_responsibilities.Task`, for rows of doubles
    ndarray floor,          # IN   (d,), what the M-step adds to variances; None: no sums
    ndarray counts,         # OUT  (K,)
    ndarray first,          # OUT  (K, d)
    ndarray second,         # OUT  shape of covariances
    ndarray completed,      # INOUT (n, d), or None: what X lacks, by given responsibilities
    int n_threads,
):
    """Expected moments about the means, as wanted; return sum_n s_n log p(x_n, observed).

    counts_k = sum_n r_nk, first_k = sum_n r_nk E[x_n - mean_k] and
    second_k = sum_n r_nk E[(x_n - mean_k)(x_n - mean_k)'], summed over k if the covariance is
    shared, or its diagonal; expectations are given k and what is observed. The responsibilities
    r_nk include the sample weights s_n. Variances of what is missing are less the floor, as they
    have it already. Log joint densities are log weight_k + log p(x_n | k), and what is missing is
    completed by sum_k r_nk E[x_n | k].
    """
    cdef Shape shape = shape_of(X, parameters, n_threads)
    cdef Parameters given = parameters_of(&shape, parameters)
    cdef Py_ssize_t n = shape.slabs.n, d = shape.d, K = shape.K
    cdef Task wanted = task_of(task, n, K, NPY_DOUBLE)
    cdef const void* rows = readable_reals(X, n * d, real_type(X))
    cdef const double* log_weight = optional_readable(log_weights, K)
    cdef const double* added = NULL if floor is None else readable(floor, d)
    cdef double* count = NULL if floor is None else writable(counts, K)
    cdef double* sums = NULL if floor is None else writable(first, K * d)
    cdef double* products = NULL if floor is None else writable(
        second, shape.n_covariances * d * (1 if shape.is_diagonal else d))
    cdef double* complete = NULL if completed is None else writable(completed, n * d)
    cdef Arena arena = counting_arena()
    cdef double log_likelihood
    require(complete == NULL or wanted.given != NULL, "responsibilities are given to complete rows")
    shape.n_sums = 0 if floor is None else shape.n_sums
    lay_out(&shape, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Pass all = lay_out(&shape, &arena)
    all.task, all.X, all.is_double = &wanted, rows, real_size(X) == sizeof(double)
    all.completed = complete
    with nogil:
        fill_tables(&shape, &given, log_weight, &all.tables)
        log_likelihood = walk_blocks(&all.slabs, pass_over_block, &all)
        if added != NULL:
            finish_sums(&shape, given.covariances, added, all.slabs.sums, count, sums, products)
        free(scratch)
    return log_likelihood
