"""Mixtures over sparse rows of counts.

    log p(k, x) = offset_k + eta_k . x + base(x),   totals_k = sum_n r_nk x_n

for rows x in CSR form. eta and totals have the components innermost, (d, K): each non-zero then
meets K contiguous numbers.
"""

from cython cimport floating
from cython.parallel cimport parallel, prange
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset
from numpy cimport NPY_DOUBLE, NPY_FLOAT, ndarray

from ._arena cimport (
    Arena, allocate, arena_of, counting_arena, free, padded, take, take_arenas, take_doubles,
)
from ._arrays cimport extent, readable, require, writable
from ._gamma_functions cimport log_gamma
from ._openmp cimport add_up, busy_threads, count_slabs, first_block, omp_get_thread_num
from ._responsibilities cimport Task, finish_block, task_of

from _counts_h cimport COUNTS_TILE, gather_rows, scatter_rows
from _simd_h cimport small_counts, transpose


cdef enum:
    ROWS = 512              # that are normalised at once
    MOST_ROWS = 4096        # of a block, and of a slab with sums in single precision
    NON_ZEROS_PER_SUM = 96  # that a slab has, lest adding up slabs be the main work,
    LEAST_PER_SUM = 8       # ... and one of MOST_ROWS with sums in single precision
    SLABS_PER_THREAD = 4    # of a round, lest threads wait for the last one

cdef struct Shape:
    Py_ssize_t n            # rows
    Py_ssize_t d            # columns
    Py_ssize_t K            # components
    Py_ssize_t width        # components of a row of a table, with padding
    Py_ssize_t n_sums       # elements of a table: a row for the constant, d for the columns
    Py_ssize_t B            # rows of a block
    Py_ssize_t n_blocks
    Py_ssize_t n_slabs
    Py_ssize_t n_at_once    # slabs whose sums are in memory at a time
    Py_ssize_t n_rounds
    bint single             # whether slabs have sums in single precision
    Py_ssize_t sums_size    # bytes of a slab's sums
    size_t itemsize
    int n_threads

# The scratch memory of a thread; floats or doubles.
cdef struct Workspace:
    void* rows          # (B, width)
    void* joint         # (K, ROWS): those to normalise, with components outermost
    void* softmax       # (2 * ROWS,)

# The scratch memory of a pass.
cdef struct Memory:
    Arena counted               # what a thread needs
    char* threads
    void* table                 # (n_sums,), floats or doubles
    char* sums                  # (n_at_once, sums_size) bytes
    double* log_likelihoods     # (n_slabs,)


cdef inline Py_ssize_t n_parts(Py_ssize_t n, Py_ssize_t most) noexcept nogil:
    return (n + most - 1) // most


# A block fetches the whole table anew for its products, and that of the sums for its outer
# products, so it has as many rows as these; the blocks of a slab are of one size.
cdef Shape shape_of(Py_ssize_t n, Py_ssize_t d, Py_ssize_t K, Py_ssize_t n_non_zeros,
                    Py_ssize_t itemsize, int n_threads) except *:
    cdef Shape shape
    require(n > 0 and d > 0 and K > 0 and n_threads > 0, "rows, columns, components, threads")
    shape.n, shape.d, shape.K, shape.itemsize = n, d, K, itemsize
    shape.width = n_parts(K, COUNTS_TILE) * COUNTS_TILE
    shape.n_sums = (1 + d) * shape.width
    shape.single = itemsize == sizeof(float) and (
        <double> n_non_zeros * MOST_ROWS >= <double> LEAST_PER_SUM * d * n)
    cdef Py_ssize_t sum_itemsize = sizeof(float) if shape.single else sizeof(double)
    shape.sums_size = padded(shape.n_sums, sum_itemsize) * sum_itemsize
    shape.n_slabs = max(1, min(count_slabs(n_parts(n, ROWS), shape.n_sums),
                               n_non_zeros // (NON_ZEROS_PER_SUM * d)))
    if shape.single:
        shape.n_slabs = max(shape.n_slabs, n_parts(n, MOST_ROWS))
    # Slabs are added up in order, however many of them a round has.
    shape.n_at_once = min(count_slabs(2 * shape.n_slabs, shape.n_sums),
                          SLABS_PER_THREAD * <Py_ssize_t> n_threads)
    shape.n_rounds = n_parts(shape.n_slabs, shape.n_at_once)
    cdef Py_ssize_t slab_rows = n_parts(n, shape.n_slabs)
    shape.B = n_parts(slab_rows, n_parts(slab_rows, max(ROWS, min(d, MOST_ROWS))))
    shape.n_blocks = n_parts(n, shape.B)
    shape.n_threads = <int> min(n_threads, shape.n_at_once)
    return shape


cdef Workspace lay_out_workspace(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Workspace space
    cdef Py_ssize_t rows = min(shape.B, ROWS)
    space.rows = take(arena, shape.B * shape.width, shape.itemsize)
    space.joint = take(arena, shape.K * rows, shape.itemsize)
    space.softmax = take(arena, 2 * rows, shape.itemsize)
    return space


cdef Memory lay_out(const Shape* shape, bint wants_sums, Arena* arena) noexcept nogil:
    cdef Memory memory
    memory.counted = counting_arena()
    lay_out_workspace(shape, &memory.counted)
    memory.table = take(arena, shape.n_sums, shape.itemsize)
    memory.threads = take_arenas(arena, shape.n_threads, &memory.counted)
    memory.log_likelihoods = take_doubles(arena, shape.n_slabs)
    memory.sums = <char*> take(arena, shape.n_at_once if wants_sums else 0, shape.sums_size)
    return memory


cdef void pad(
    Shape* shape, const double* offset, const double* natural, floating* table,
) noexcept nogil:
    """table (1 + d, width) <- [offset; natural], with zeros in the padding."""
    cdef Py_ssize_t j, k, K = shape.K, width = shape.width
    memset(table, 0, shape.n_sums * sizeof(floating))
    for k in range(K):
        table[k] = <floating> offset[k]
    for j in range(shape.d):
        for k in range(K):
            table[(1 + j) * width + k] = <floating> natural[j * K + k]


cdef inline void add_block(
    Shape* shape, const floating* data, const int32_t* indices, const int64_t* indptr, Py_ssize_t B,
    const floating* shares, void* sums,
) noexcept nogil:
    """Add the outer products of a block's rows and shares to a slab's sums."""
    if floating is float:
        if shape.single:
            scatter_rows(data, indices, indptr, B, shares, shape.width, <float*> sums)
            return
    scatter_rows(data, indices, indptr, B, shares, shape.width, <double*> sums)


cdef inline void add_row(
    const floating* row, Py_ssize_t n_slabs, Py_ssize_t stride, Py_ssize_t K, double* out
) noexcept nogil:
    """out (K,) <- itself and a row of the tables of some slabs, added up in order."""
    cdef Py_ssize_t slab, k
    for slab in range(n_slabs):
        for k in range(K):
            out[k] += row[slab * stride + k]


cdef inline void add_row_of_round(
    Shape* shape, const char* sums, Py_ssize_t n_slabs, Py_ssize_t i, double* counts,
    double* totals_T,
) noexcept nogil:
    """Add row i of the sums of a round of slabs to counts (K,), the first, or to totals (d, K)."""
    cdef double* out = counts if i == 0 else totals_T + (i - 1) * shape.K
    if shape.single:
        add_row(<const float*> sums + i * shape.width, n_slabs,
                shape.sums_size // <Py_ssize_t> sizeof(float), shape.K, out)
    else:
        add_row(<const double*> sums + i * shape.width, n_slabs,
                shape.sums_size // <Py_ssize_t> sizeof(double), shape.K, out)


cdef double normalise_rows(
    Shape* shape, const Workspace* space, const Task* task, floating* rows, Py_ssize_t start,
    Py_ssize_t B,
) noexcept nogil:
    """rows (B, width), those from `start` on: log joint densities -> shares, 0 in the padding."""
    cdef Py_ssize_t K = shape.K
    cdef floating* joint = <floating*> space.joint
    cdef double log_likelihood
    transpose(rows, B, K, shape.width, joint, B)
    log_likelihood = finish_block(joint, K, B, B, task, start, <floating*> space.softmax)
    # The padding still holds the zeros that `gather_rows` put there.
    transpose(joint, K, B, B, rows, shape.width)
    return log_likelihood


cdef double pass_over_slab(
    Shape* shape, const Task* task, const Memory* memory, Py_ssize_t slab, const floating* data,
    const int32_t* indices, const int64_t* indptr, void* sums,
) noexcept nogil:
    """Log joint, or `given` responsibilities; then normalise, sum and write out, as wanted."""
    cdef Arena arena = arena_of(memory.threads, omp_get_thread_num(), &memory.counted)
    cdef Workspace space = lay_out_workspace(shape, &arena)
    cdef floating* rows = <floating*> space.rows
    cdef const floating* given = <const floating*> task.given
    cdef floating* out = <floating*> task.out
    cdef Py_ssize_t block, start, i, B, b, k, width = shape.width
    cdef double log_likelihood = 0
    if sums != NULL:
        memset(sums, 0, shape.sums_size)
    if given != NULL:
        memset(rows, 0, shape.B * width * sizeof(floating))
    for block in range(first_block(slab, shape.n_slabs, shape.n_blocks),
                       first_block(slab + 1, shape.n_slabs, shape.n_blocks)):
        start = block * shape.B
        B = min(shape.B, shape.n - start)
        if given != NULL:
            for b in range(B):
                for k in range(shape.K):
                    rows[b * width + k] = given[(start + b) * shape.K + k]
        else:
            gather_rows(
                data, indices, indptr + start, B, <const floating*> memory.table, width, rows)
        if task.normalised:
            for i in range(n_parts(B, ROWS)):
                log_likelihood += normalise_rows(
                    shape, &space, task, rows + i * ROWS * width, start + i * ROWS,
                    min(ROWS, B - i * ROWS),
                )
        elif out != NULL:
            for b in range(B):
                for k in range(shape.K):
                    out[(start + b) * shape.K + k] = rows[b * width + k] + <floating> (
                        task.base[start + b] if task.base != NULL else 0)
        if sums != NULL:
            add_block(shape, data, indices, indptr + start, B, rows, sums)
    return log_likelihood


# Whether indices lie in the table is up to the caller: `_rows.csr_form` looks at them once.
cdef int check_rows(
    const floating[::1] data, const int32_t[::1] indices, const int64_t[::1] indptr
) except -1:
    cdef Py_ssize_t n = indptr.shape[0] - 1
    require(indices.shape[0] == data.shape[0], "data and indices are of the same non-zeros")
    require(n > 0 and indptr[0] == 0 and indptr[n] == data.shape[0], "pointers of all non-zeros")
    return 0


def mixture_pass(
    const floating[::1] data,       # IN (n_non_zeros,)
    const int32_t[::1] indices,     # IN (n_non_zeros,)
    const int64_t[::1] indptr,      # IN (n + 1,)
    ndarray natural_T,              # IN (d, K); None: responsibilities are given
    ndarray offset,                 # IN (K,), or None
    tuple task,                     # IN, OUT: see `_responsibilities.Task`
    ndarray counts,                 # OUT (K,), or None: no sums
    ndarray totals_T,               # OUT (d, K)
    int n_threads,
):
    """Expected statistics of CSR rows, as wanted; return sum_n s_n log p(x_n).

    counts_k = sum_n r_nk and totals_k = sum_n r_nk x_n, where r_nk, the responsibilities, include
    the sample weights s_n. Log joint densities are offset_k + natural_k . x_n + base_n.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, round = 0, first = 0, last = 0, slab, row
    cdef Py_ssize_t d = extent(totals_T if natural_T is None else natural_T, 0)
    cdef Py_ssize_t K = extent(totals_T if natural_T is None else natural_T, 1)
    cdef Shape shape = shape_of(n, d, K, data.shape[0], sizeof(floating), n_threads)
    check_rows(data, indices, indptr)
    cdef Task wanted = task_of(task, n, K, NPY_FLOAT if floating is float else NPY_DOUBLE)
    require((wanted.given != NULL) == (natural_T is None),
            "there are parameters or responsibilities")
    cdef const double* natural = NULL if natural_T is None else readable(natural_T, d * K)
    cdef const double* constant = NULL if natural_T is None else readable(offset, K)
    cdef bint wants_sums = counts is not None
    cdef double* count = writable(counts, K) if wants_sums else NULL
    cdef double* totals = writable(totals_T, d * K) if wants_sums else NULL
    # A matrix without any non-zero has nothing to point at.
    cdef const floating* values = &data[0] if data.shape[0] > 0 else NULL
    cdef const int32_t* columns = &indices[0] if data.shape[0] > 0 else NULL
    cdef double log_likelihood
    cdef Py_ssize_t n_rows = 1 + d if wants_sums else 0
    cdef Arena arena = counting_arena()
    lay_out(&shape, wants_sums, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(&shape, wants_sums, &arena)
    with nogil:
        if natural != NULL:
            pad(&shape, constant, natural, <floating*> memory.table)
        if wants_sums:
            memset(count, 0, K * sizeof(double))
            memset(totals, 0, d * K * sizeof(double))
        with parallel(num_threads=shape.n_threads, use_threads_if=shape.n_threads > 1):
            for round in range(shape.n_rounds):
                first = round * shape.n_at_once
                last = min(shape.n_slabs, first + shape.n_at_once)
                for slab in prange(first, last, schedule="dynamic"):
                    memory.log_likelihoods[slab] = pass_over_slab(
                        &shape, &wanted, &memory, slab, values, columns, &indptr[0],
                        memory.sums + (slab - first) * shape.sums_size if wants_sums else NULL,
                    )
                for row in prange(n_rows, schedule="static"):
                    add_row_of_round(&shape, memory.sums, last - first, row, count, totals)
        log_likelihood = add_up(memory.log_likelihoods, shape.n_slabs, 1)
        free(scratch)
    return log_likelihood


# Log factorials, which are base measures of counts
# -------------------------------------------------

# Most counts are small integers, and a table spares them the logarithm of the gamma function. The
# rows of a block are looked up together if all their counts are in it.
cdef enum:
    TABLE_SIZE = 1024
    LOOKED_UP = 4096        # counts of a block

cdef double[TABLE_SIZE] LOG_FACTORIALS

cdef int _count
for _count in range(TABLE_SIZE):
    LOG_FACTORIALS[_count] = log_gamma(_count + 1.0)


cdef inline double log_factorial(double x) noexcept nogil:
    if 0 <= x < TABLE_SIZE and x == <int> x:
        return LOG_FACTORIALS[<int> x]
    return log_gamma(x + 1)


cdef inline double sum_looked_up(const int32_t* counts, Py_ssize_t n, double* total) noexcept nogil:
    """sum_j log Gamma(x_j + 1) of small counts; total <- sum_j x_j"""
    cdef double result = 0
    cdef int32_t small_total = 0
    cdef Py_ssize_t j
    for j in range(n):
        result += LOG_FACTORIALS[counts[j]]
        small_total += counts[j]
    total[0] = small_total
    return result


cdef double sum_computed(const floating* counts, Py_ssize_t n, double* total) noexcept nogil:
    """sum_j log Gamma(x_j + 1) of any counts; total <- sum_j x_j"""
    cdef double result = 0
    cdef Py_ssize_t j
    total[0] = 0
    for j in range(n):
        result += log_factorial(counts[j])
        total[0] += counts[j]
    return result


cdef void sum_log_factorials(
    const floating* counts, const int64_t* indptr, Py_ssize_t first, Py_ssize_t last,
    bint minus_that_of_the_sum, double* out,
) noexcept nogil:
    """Of some rows."""
    cdef Py_ssize_t start = indptr[first], stop = indptr[last]
    cdef int32_t[LOOKED_UP] small
    cdef bint are_small = stop - start <= LOOKED_UP and small_counts(
        counts + start, stop - start, TABLE_SIZE - 1, small)
    cdef double result, total
    cdef Py_ssize_t i, n
    for i in range(first, last):
        n = indptr[i + 1] - indptr[i]
        if are_small:
            result = sum_looked_up(small + (indptr[i] - start), n, &total)
        else:
            result = sum_computed(counts + indptr[i], n, &total)
        out[i] = log_factorial(total) - result if minus_that_of_the_sum else result


def log_factorial_sums(
    const floating[::1] counts,     # IN (n_counts,)
    const int64_t[::1] indptr,      # IN (n + 1,): where rows begin and end
    bint minus_that_of_the_sum,
    double[::1] out,                # OUT (n,)
    int n_threads,
):
    """sum_j log Gamma(x_nj + 1) for every row; or log Gamma(sum_j x_nj + 1) less that."""
    cdef Py_ssize_t n = indptr.shape[0] - 1, n_counts = counts.shape[0], block
    cdef const floating* counts_or_null = &counts[0] if n_counts > 0 else NULL
    require(n > 0 and n_threads > 0, "rows, threads")
    require(out.shape[0] == n, "there is a sum for each row")
    require(indptr[0] == 0 and indptr[n] == n_counts, "pointers of all counts")
    # Blocks half full on average, so that few with uneven rows are too full.
    cdef Py_ssize_t B = max(1, min(n, LOOKED_UP // 2 * n // max(1, n_counts)))
    cdef Py_ssize_t n_blocks = (n + B - 1) // B
    n_threads = busy_threads(n_threads, n_blocks)
    for block in prange(n_blocks, nogil=True, schedule="static", num_threads=n_threads,
                        use_threads_if=n_threads > 1):
        sum_log_factorials(counts_or_null, &indptr[0], block * B, min(n, (block + 1) * B),
                           minus_that_of_the_sum, &out[0])
