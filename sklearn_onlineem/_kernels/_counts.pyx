"""Mixtures over sparse rows of counts, and the terms of their densities that no component changes.

    log p(k, x) = offset_k + eta_k . x + base(x),   totals_k = sum_n r_nk x_n

for rows x in CSR form. eta and totals have the components innermost, (d, K): each non-zero then
meets K contiguous numbers.
"""

from cython cimport floating
from cython.parallel cimport prange
from libc.math cimport lgamma
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from ._memory cimport aligned, allocate, padded
from ._openmp cimport count_slabs, first_block, omp_get_thread_num
from ._responsibilities cimport normalise_block
from ._simd cimport transpose

ctypedef fused index:
    int32_t
    int64_t

cdef extern from "_counts.h" nogil:
    int COUNTS_TILE
    void gather_rows_float_32(
        const float*, const int32_t*, const int32_t*, Py_ssize_t B, const float*,
        Py_ssize_t width, float*)
    void gather_rows_float_64(
        const float*, const int64_t*, const int64_t*, Py_ssize_t B, const float*,
        Py_ssize_t width, float*)
    void gather_rows_double_32(
        const double*, const int32_t*, const int32_t*, Py_ssize_t B, const double*,
        Py_ssize_t width, double*)
    void gather_rows_double_64(
        const double*, const int64_t*, const int64_t*, Py_ssize_t B, const double*,
        Py_ssize_t width, double*)
    void scatter_rows_single_32(
        const float*, const int32_t*, const int32_t*, Py_ssize_t B, const float*,
        Py_ssize_t width, float*)
    void scatter_rows_single_64(
        const float*, const int64_t*, const int64_t*, Py_ssize_t B, const float*,
        Py_ssize_t width, float*)
    void scatter_rows_float_32(
        const float*, const int32_t*, const int32_t*, Py_ssize_t B, const float*,
        Py_ssize_t width, double*)
    void scatter_rows_float_64(
        const float*, const int64_t*, const int64_t*, Py_ssize_t B, const float*,
        Py_ssize_t width, double*)
    void scatter_rows_double_32(
        const double*, const int32_t*, const int32_t*, Py_ssize_t B, const double*,
        Py_ssize_t width, double*)
    void scatter_rows_double_64(
        const double*, const int64_t*, const int64_t*, Py_ssize_t B, const double*,
        Py_ssize_t width, double*)
    void spill(float* partial, Py_ssize_t n, double* sums)
    int small_counts_float(const float* x, Py_ssize_t n, int32_t largest, int32_t* out)
    int small_counts_double(const double* x, Py_ssize_t n, int32_t largest, int32_t* out)

cdef enum:
    ROWS = 512                  # of a block
    NON_ZEROS_PER_SUM = 96      # that a slab must have, lest adding up slabs be the main work
    MOST_ROWS_PER_SPILL = 4096  # that may be summed in single precision,
    NON_ZEROS_PER_SPILL = 8     # ... and what they must have, lest spilling be the main work

cdef struct Shape:
    Py_ssize_t n            # rows
    Py_ssize_t d            # columns
    Py_ssize_t K            # components
    Py_ssize_t width        # components of a row of a table, with padding
    Py_ssize_t n_sums       # elements of a table: a row for the constant, d for the columns
    Py_ssize_t B            # rows of a block
    Py_ssize_t n_blocks
    Py_ssize_t n_slabs
    Py_ssize_t partial      # where scratch memory has a table in single precision,
    Py_ssize_t spill        # ... and blocks after which it spills; 0: there is none
    Py_ssize_t workspace    # elements of scratch memory that one thread needs
    Py_ssize_t memory       # ... and all threads, and a table
    int n_threads


cdef Shape shape_of(Py_ssize_t n, Py_ssize_t d, Py_ssize_t K, Py_ssize_t n_non_zeros,
                    Py_ssize_t itemsize, int n_threads):
    cdef Shape shape
    shape.n, shape.d, shape.K = n, d, K
    shape.width = (K + COUNTS_TILE - 1) // COUNTS_TILE * COUNTS_TILE
    shape.n_sums = (1 + d) * shape.width
    shape.B = min(n, ROWS)
    shape.n_blocks = (n + shape.B - 1) // shape.B
    shape.n_slabs = max(1, min(count_slabs(shape.n_blocks, d * shape.width),
                               n_non_zeros // (NON_ZEROS_PER_SUM * d)))
    shape.n_threads = <int> min(n_threads, shape.n_slabs)
    cdef Py_ssize_t rows = min(n, MOST_ROWS_PER_SPILL)
    cdef bint singly = itemsize == sizeof(float) and (
        <double> n_non_zeros * rows >= <double> NON_ZEROS_PER_SPILL * d * n)
    shape.spill = MOST_ROWS_PER_SPILL // ROWS if singly else 0
    shape.partial = padded((shape.width + K + 2) * shape.B, itemsize)
    shape.workspace = shape.partial + (padded(shape.n_sums, itemsize) if singly else 0)
    shape.memory = padded(shape.n_sums, itemsize) + shape.n_threads * shape.workspace
    return shape


cdef inline void gather_rows(
    const floating* data, const index* indices, const index* indptr, Py_ssize_t B,
    const floating* table, Py_ssize_t width, floating* out,
) noexcept nogil:
    if floating is float and index is int32_t:
        gather_rows_float_32(data, indices, indptr, B, table, width, out)
    elif floating is float:
        gather_rows_float_64(data, indices, indptr, B, table, width, out)
    elif index is int32_t:
        gather_rows_double_32(data, indices, indptr, B, table, width, out)
    else:
        gather_rows_double_64(data, indices, indptr, B, table, width, out)


cdef inline void scatter_rows(
    const floating* data, const index* indices, const index* indptr, Py_ssize_t B,
    const floating* shares, Py_ssize_t width, double* table,
) noexcept nogil:
    if floating is float and index is int32_t:
        scatter_rows_float_32(data, indices, indptr, B, shares, width, table)
    elif floating is float:
        scatter_rows_float_64(data, indices, indptr, B, shares, width, table)
    elif index is int32_t:
        scatter_rows_double_32(data, indices, indptr, B, shares, width, table)
    else:
        scatter_rows_double_64(data, indices, indptr, B, shares, width, table)


cdef inline void scatter_rows_single(
    const float* data, const index* indices, const index* indptr, Py_ssize_t B,
    const float* shares, Py_ssize_t width, float* table,
) noexcept nogil:
    if index is int32_t:
        scatter_rows_single_32(data, indices, indptr, B, shares, width, table)
    else:
        scatter_rows_single_64(data, indices, indptr, B, shares, width, table)


cdef void pad(
    const double* offset, const double* natural, Shape* shape, floating* table
) noexcept nogil:
    """table (1 + d, width) <- [offset; natural], with zeros in the padding."""
    cdef Py_ssize_t j, k, K = shape.K, width = shape.width
    memset(table, 0, shape.n_sums * sizeof(floating))
    for k in range(K):
        table[k] = <floating> offset[k]
    for j in range(shape.d):
        for k in range(K):
            table[(1 + j) * width + k] = <floating> natural[j * K + k]


cdef void add_slabs(
    const double* sums, Shape* shape, Py_ssize_t row, double* out
) noexcept nogil:
    """out (K,) <- a row of the slabs' tables, added up in order."""
    cdef Py_ssize_t slab, k
    for k in range(shape.K):
        out[k] = sums[row * shape.width + k]
    for slab in range(1, shape.n_slabs):
        for k in range(shape.K):
            out[k] += sums[slab * shape.n_sums + row * shape.width + k]


cdef inline void clear_sums(Shape* shape, floating* workspace, double* sums) noexcept nogil:
    memset(sums, 0, shape.n_sums * sizeof(double))
    if shape.spill > 0:
        memset(workspace + shape.partial, 0, shape.n_sums * sizeof(floating))


cdef inline void add_block(
    const floating* data, const index* indices, const index* indptr, const floating* shares,
    Shape* shape, Py_ssize_t block, bint is_last, floating* workspace, double* sums,
) noexcept nogil:
    """Add the block's outer products to the slab's sums, or to a table that spills into them."""
    cdef Py_ssize_t start = block * shape.B, B = min(shape.B, shape.n - start)
    cdef floating* partial = workspace + shape.partial
    if floating is float:
        if shape.spill > 0:
            scatter_rows_single(data, indices, indptr + start, B, shares, shape.width, partial)
            if is_last or (block + 1) % shape.spill == 0:
                spill(partial, shape.n_sums, sums)
            return
    scatter_rows(data, indices, indptr + start, B, shares, shape.width, sums)


cdef double e_step_slab(
    const floating* data, const index* indices, const index* indptr, const floating* table,
    const double* base, const double* sample_weight, const int* labels, const double* uniforms,
    double* sums, double* log_likelihoods, floating* responsibilities, Shape* shape,
    Py_ssize_t slab, floating* workspace,
) noexcept nogil:
    cdef Py_ssize_t K = shape.K, width = shape.width
    cdef floating* rows = workspace
    cdef floating* joint = rows + width * shape.B
    cdef floating* scratch = joint + K * shape.B
    cdef Py_ssize_t block, start, B
    cdef Py_ssize_t stop = first_block(slab + 1, shape.n_slabs, shape.n_blocks)
    cdef double log_likelihood = 0
    if sums != NULL:
        clear_sums(shape, workspace, sums)
    for block in range(first_block(slab, shape.n_slabs, shape.n_blocks), stop):
        start = block * shape.B
        B = min(shape.B, shape.n - start)
        gather_rows(data, indices, indptr + start, B, table, width, rows)
        transpose(rows, B, K, width, joint, B)
        log_likelihood += normalise_block(
            joint, K, B, B,
            base + start if base != NULL else NULL,
            sample_weight + start if sample_weight != NULL else NULL,
            labels + start if labels != NULL else NULL,
            uniforms + start if uniforms != NULL else NULL,
            log_likelihoods + start if log_likelihoods != NULL else NULL,
            scratch,
        )
        if sums != NULL:
            # The padding still holds the zeros that `gather_rows` put there.
            transpose(joint, K, B, B, rows, width)
            add_block(data, indices, indptr, rows, shape, block, block + 1 == stop, workspace, sums)
        if responsibilities != NULL:
            transpose(joint, K, B, B, responsibilities + start * K, K)
    return log_likelihood


cdef void log_density_slab(
    const floating* data, const index* indices, const index* indptr, const floating* table,
    const double* base, floating* out, Shape* shape, Py_ssize_t slab, floating* workspace,
) noexcept nogil:
    cdef Py_ssize_t block, start, B, b, k, width = shape.width
    for block in range(first_block(slab, shape.n_slabs, shape.n_blocks),
                       first_block(slab + 1, shape.n_slabs, shape.n_blocks)):
        start = block * shape.B
        B = min(shape.B, shape.n - start)
        gather_rows(data, indices, indptr + start, B, table, width, workspace)
        for b in range(B):
            for k in range(shape.K):
                out[(start + b) * shape.K + k] = workspace[b * width + k] + <floating> (
                    base[start + b] if base != NULL else 0)


cdef void statistics_slab(
    const floating* data, const index* indices, const index* indptr,
    const floating* responsibilities, double* sums, Shape* shape, Py_ssize_t slab,
    floating* workspace,
) noexcept nogil:
    cdef Py_ssize_t block, start, B, b, k, width = shape.width
    cdef Py_ssize_t stop = first_block(slab + 1, shape.n_slabs, shape.n_blocks)
    clear_sums(shape, workspace, sums)
    memset(workspace, 0, shape.B * width * sizeof(floating))
    for block in range(first_block(slab, shape.n_slabs, shape.n_blocks), stop):
        start = block * shape.B
        B = min(shape.B, shape.n - start)
        for b in range(B):
            for k in range(shape.K):
                workspace[b * width + k] = responsibilities[(start + b) * shape.K + k]
        add_block(data, indices, indptr, workspace, shape, block, block + 1 == stop, workspace,
                  sums)


cdef inline const double* optional(const double[::1] values) noexcept nogil:
    return &values[0] if values.shape[0] > 0 else NULL


def e_step(
    const floating[::1] data,           # IN (n_non_zeros,)
    const index[::1] indices,           # IN (n_non_zeros,)
    const index[::1] indptr,            # IN (n + 1,)
    const double[:, ::1] natural_T,     # IN (d, K)
    const double[::1] offset,           # IN (K,)
    const double[::1] base,             # IN (n,) or (0,)
    const double[::1] sample_weight,    # IN (n,) or (0,)
    const int[::1] labels,              # IN (n,) or (0,); -1 = unlabelled
    const double[::1] uniforms,         # IN (n,) or (0,); to sample the assignments
    double[::1] counts,                 # OUT (K,) or (0,)
    double[:, ::1] totals_T,            # OUT (d, K) or (0, 0)
    double[::1] log_likelihoods,        # OUT (n,) or (0,)
    floating[:, ::1] responsibilities,  # OUT (n, K) or (0, 0)
    int n_threads,
):
    """Expected statistics of CSR rows; return sum_n s_n log p(x_n).

    counts_k = sum_n r_nk and totals_k = sum_n r_nk x_n, where r_nk, the responsibilities, include
    the sample weights s_n.
    """
    cdef Shape shape = shape_of(indptr.shape[0] - 1, natural_T.shape[0], natural_T.shape[1],
                                data.shape[0], sizeof(floating), n_threads)
    cdef Py_ssize_t slab, j, n_sums = shape.n_sums if counts.shape[0] > 0 else 0
    # A matrix without any non-zero has nothing to point at.
    cdef const floating* data_or_null = &data[0] if data.shape[0] > 0 else NULL
    cdef const index* indices_or_null = &indices[0] if data.shape[0] > 0 else NULL
    cdef const double* base_or_null = optional(base)
    cdef const double* weight_or_null = optional(sample_weight)
    cdef const double* uniforms_or_null = optional(uniforms)
    cdef const int* labels_or_null = &labels[0] if labels.shape[0] > 0 else NULL
    cdef double* log_likelihoods_or_null = <double*> optional(log_likelihoods)
    cdef floating* out = &responsibilities[0, 0] if responsibilities.shape[0] > 0 else NULL
    cdef double log_likelihood = 0
    cdef void* memory = allocate(shape.memory, sizeof(floating))
    cdef floating* table = <floating*> aligned(memory)
    cdef floating* workspaces = table + padded(shape.n_sums, sizeof(floating))
    cdef void* sums_memory = NULL
    cdef double* sums
    cdef double* slab_log_likelihoods
    try:
        sums_memory = allocate(shape.n_slabs * (n_sums + 1), sizeof(double))
        sums = <double*> aligned(sums_memory)
        slab_log_likelihoods = sums + shape.n_slabs * n_sums
        with nogil:
            pad(&offset[0], &natural_T[0, 0], &shape, table)
            for slab in prange(shape.n_slabs, schedule="dynamic", num_threads=shape.n_threads,
                               use_threads_if=shape.n_threads > 1):
                slab_log_likelihoods[slab] = e_step_slab(
                    data_or_null, indices_or_null, &indptr[0], table, base_or_null, weight_or_null,
                    labels_or_null, uniforms_or_null,
                    sums + slab * n_sums if n_sums > 0 else NULL,
                    log_likelihoods_or_null, out, &shape, slab,
                    workspaces + omp_get_thread_num() * shape.workspace,
                )
            for slab in range(shape.n_slabs):
                log_likelihood += slab_log_likelihoods[slab]
            if n_sums > 0:
                add_slabs(sums, &shape, 0, &counts[0])
                for j in prange(shape.d, schedule="static", num_threads=shape.n_threads,
                                use_threads_if=shape.n_threads > 1):
                    add_slabs(sums, &shape, 1 + j, &totals_T[j, 0])
    finally:
        free(sums_memory)
        free(memory)
    return log_likelihood


def log_density(
    const floating[::1] data,           # IN (n_non_zeros,)
    const index[::1] indices,           # IN (n_non_zeros,)
    const index[::1] indptr,            # IN (n + 1,)
    const double[:, ::1] natural_T,     # IN (d, K)
    const double[::1] offset,           # IN (K,)
    const double[::1] base,             # IN (n,) or (0,)
    floating[:, ::1] out,               # OUT (n, K)
    int n_threads,
):
    """offset_k + natural_k . x_n + base_n, for every row and component."""
    cdef Shape shape = shape_of(indptr.shape[0] - 1, natural_T.shape[0], natural_T.shape[1],
                                data.shape[0], sizeof(floating), n_threads)
    cdef Py_ssize_t slab
    cdef const floating* data_or_null = &data[0] if data.shape[0] > 0 else NULL
    cdef const index* indices_or_null = &indices[0] if data.shape[0] > 0 else NULL
    cdef const double* base_or_null = optional(base)
    cdef void* memory = allocate(shape.memory, sizeof(floating))
    cdef floating* table = <floating*> aligned(memory)
    cdef floating* workspaces = table + padded(shape.n_sums, sizeof(floating))
    with nogil:
        pad(&offset[0], &natural_T[0, 0], &shape, table)
        for slab in prange(shape.n_slabs, schedule="dynamic", num_threads=shape.n_threads,
                           use_threads_if=shape.n_threads > 1):
            log_density_slab(
                data_or_null, indices_or_null, &indptr[0], table, base_or_null, &out[0, 0], &shape,
                slab, workspaces + omp_get_thread_num() * shape.workspace,
            )
    free(memory)


def statistics(
    const floating[::1] data,                   # IN (n_non_zeros,)
    const index[::1] indices,                   # IN (n_non_zeros,)
    const index[::1] indptr,                    # IN (n + 1,)
    const floating[:, ::1] responsibilities,    # IN (n, K)
    double[::1] counts,                         # OUT (K,)
    double[:, ::1] totals_T,                    # OUT (d, K)
    int n_threads,
):
    """counts_k = sum_n r_nk and totals_k = sum_n r_nk x_n, for given r."""
    cdef Shape shape = shape_of(indptr.shape[0] - 1, totals_T.shape[0], totals_T.shape[1],
                                data.shape[0], sizeof(floating), n_threads)
    cdef Py_ssize_t slab, j
    cdef const floating* data_or_null = &data[0] if data.shape[0] > 0 else NULL
    cdef const index* indices_or_null = &indices[0] if data.shape[0] > 0 else NULL
    cdef void* memory = allocate(shape.memory, sizeof(floating))
    cdef floating* workspaces = <floating*> aligned(memory)
    cdef void* sums_memory = NULL
    cdef double* sums
    try:
        sums_memory = allocate(shape.n_slabs * shape.n_sums, sizeof(double))
        sums = <double*> aligned(sums_memory)
        with nogil:
            for slab in prange(shape.n_slabs, schedule="dynamic", num_threads=shape.n_threads,
                               use_threads_if=shape.n_threads > 1):
                statistics_slab(
                    data_or_null, indices_or_null, &indptr[0], &responsibilities[0, 0],
                    sums + slab * shape.n_sums, &shape, slab,
                    workspaces + omp_get_thread_num() * shape.workspace,
                )
            add_slabs(sums, &shape, 0, &counts[0])
            for j in prange(shape.d, schedule="static", num_threads=shape.n_threads,
                            use_threads_if=shape.n_threads > 1):
                add_slabs(sums, &shape, 1 + j, &totals_T[j, 0])
    finally:
        free(sums_memory)
        free(memory)


# Most counts are small integers, and a table spares them the logarithm of the gamma function. The
# rows of a block are looked up together if all their counts are in it.
cdef enum:
    TABLE_SIZE = 1024
    LOOKED_UP = 4096        # counts of a block

cdef double[TABLE_SIZE] LOG_FACTORIALS

cdef int _count
for _count in range(TABLE_SIZE):
    LOG_FACTORIALS[_count] = lgamma(_count + 1.0)


cdef inline double log_factorial(double x) noexcept nogil:
    if 0 <= x < TABLE_SIZE and x == <int> x:
        return LOG_FACTORIALS[<int> x]
    return lgamma(x + 1)


cdef inline bint as_small_counts(const floating* x, Py_ssize_t n, int32_t* out) noexcept nogil:
    if floating is float:
        return small_counts_float(x, n, TABLE_SIZE - 1, out)
    else:
        return small_counts_double(x, n, TABLE_SIZE - 1, out)


cdef void sum_log_factorials(
    const floating* counts, const index* indptr, Py_ssize_t d, Py_ssize_t first, Py_ssize_t last,
    bint minus_that_of_the_sum, double* out,
) noexcept nogil:
    """Of some CSR rows, or of rows of `d` counts where `indptr` is NULL."""
    cdef Py_ssize_t start = indptr[first] if indptr != NULL else first * d
    cdef Py_ssize_t stop = indptr[last] if indptr != NULL else last * d
    cdef Py_ssize_t i, j
    cdef int32_t[LOOKED_UP] small
    cdef bint are_small = stop - start <= LOOKED_UP and as_small_counts(
        counts + start, stop - start, small)
    cdef double result, total
    cdef int32_t small_total
    counts += start
    stop = 0
    for i in range(first, last):
        j, stop = stop, stop + (indptr[i + 1] - indptr[i] if indptr != NULL else d)
        result, total, small_total = 0, 0, 0
        if are_small:
            while j < stop:
                result += LOG_FACTORIALS[small[j]]
                small_total += small[j]
                j += 1
            total = small_total
        else:
            while j < stop:
                result += log_factorial(counts[j])
                total += counts[j]
                j += 1
        out[i] = log_factorial(total) - result if minus_that_of_the_sum else result


cdef void log_factorials(
    const floating* counts, const index* indptr, Py_ssize_t d, Py_ssize_t n,
    Py_ssize_t n_counts, bint minus_that_of_the_sum, double* out, int n_threads,
) noexcept nogil:
    # Blocks half full on average, so that few with uneven rows are too full.
    cdef Py_ssize_t B = max(1, min(n, LOOKED_UP // 2 * n // max(1, n_counts)))
    cdef Py_ssize_t block
    for block in prange((n + B - 1) // B, schedule="static", num_threads=n_threads,
                        use_threads_if=n_threads > 1):
        sum_log_factorials(counts, indptr, d, block * B, min(n, (block + 1) * B),
                           minus_that_of_the_sum, out)


def log_factorial_sums(
    const floating[:, ::1] X,   # IN (n, d)
    double[::1] out,            # OUT (n,)
    int n_threads,
):
    """sum_j log Gamma(x_nj + 1) for every row."""
    with nogil:
        log_factorials(&X[0, 0], <const int64_t*> NULL, X.shape[1], X.shape[0],
                       X.shape[0] * X.shape[1], False, &out[0], n_threads)


def multinomial_log_coefficients(
    const floating[:, ::1] X,   # IN (n, d)
    double[::1] out,            # OUT (n,)
    int n_threads,
):
    """log Gamma(sum_j x_nj + 1) - sum_j log Gamma(x_nj + 1) for every row."""
    with nogil:
        log_factorials(&X[0, 0], <const int64_t*> NULL, X.shape[1], X.shape[0],
                       X.shape[0] * X.shape[1], True, &out[0], n_threads)


def log_factorial_sums_csr(
    const floating[::1] data,   # IN (n_non_zeros,)
    const index[::1] indptr,    # IN (n + 1,)
    double[::1] out,            # OUT (n,)
    int n_threads,
):
    """sum_j log Gamma(x_nj + 1) for every CSR row; zeros add nothing."""
    cdef const floating* data_or_null = &data[0] if data.shape[0] > 0 else NULL
    with nogil:
        log_factorials(data_or_null, &indptr[0], 0, out.shape[0], data.shape[0], False, &out[0],
                       n_threads)


def multinomial_log_coefficients_csr(
    const floating[::1] data,   # IN (n_non_zeros,)
    const index[::1] indptr,    # IN (n + 1,)
    double[::1] out,            # OUT (n,)
    int n_threads,
):
    """log Gamma(sum_j x_nj + 1) - sum_j log Gamma(x_nj + 1) for every CSR row."""
    cdef const floating* data_or_null = &data[0] if data.shape[0] > 0 else NULL
    with nogil:
        log_factorials(data_or_null, &indptr[0], 0, out.shape[0], data.shape[0], True, &out[0],
                       n_threads)
