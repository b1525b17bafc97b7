r"""Collapsed Gibbs sampling of the components of rows, where priors are gamma, beta or Dirichlet.

The posterior predictive density of a row x, given the rows that a component has, is in each case

    log p(x | component k) = constant_k(L) + slope_k sum_j log f(x_j; a_jk),     f(0; a) = 1

with hyper-parameters a_jk that are those of the prior plus sums over the component's rows, and with
L = sum_j x_j:

    form         f(x; a)                            slope   constant
    MULTINOMIAL  rising(a, x)                       1       -sum over groups of log rising(A_k, L)
    POISSON      rising(a, x)                       1       -A_k log(1 + 1/b_k) - L log(1 + b_k)
    CATEGORICAL  a, of one-hot rows                 1       -sum over columns of log(sum of a)
    BERNOULLI    rising(a, x) rising(b, 1 - x) / b  1       sum_j log b_jk - log(a_jk + b_jk)
    DURATIONS    1 + x / a                          -(b+s)  d log rising(b_k, s) - s sum_j log a_jk

Here A_k = sum_j a_jk, rising(a, x) = Gamma(a + x) / Gamma(a), and b_k grows by s, `step`, a row.
Columns of MULTINOMIAL are in groups, such as the transitions from one symbol, which have an A and
an L each; all others are one group. Base measures, which are those of the row alone, are left to
the caller.

Components are innermost, so that factors of all of them are multiplied at once; logarithms are
taken of products, as many factors at a time as cannot leave the range of a double. Rows take
their turns one after the other, so that there is but one thread. Sums over rows are kept together
with their rounding errors, as what a row has added has to be gone when it leaves.
"""

from cython cimport floating
from libc.math cimport fabs, fmax, fmin, isfinite, log, log1p
from libc.stdint cimport int32_t, int64_t

from ._arena cimport Arena, allocate, counting_arena, free, take, take_each
from ._arrays cimport require
from ._gamma_functions cimport log_rising
from ._simd cimport restricted, simd_void

from _simd_h cimport add_log, exp_columns

cpdef enum:
    MULTINOMIAL
    POISSON
    CATEGORICAL
    BERNOULLI
    DURATIONS

cdef enum:
    MOST_FACTORS = 64   # of a whole count, or of a product whose logarithm is taken
    LANES = 8           # products side by side

# How far logarithms of products stay from those of the least and the largest double.
cdef double LARGEST_LOG = 600
cdef double LEAST = 1e-300


# What the density of any row under a component has in common.
cdef struct Prepared:
    double log_share        # log(rows + concentration)
    double constant
    double per_length       # what the constant has of L
    double slope


# All that a sweep changes besides labels, and what it reads of rows and of the prior.
cdef struct Sweep:
    int form
    const int32_t* indices
    const int64_t* indptr
    bint is_dense
    Py_ssize_t d                # columns of rows
    Py_ssize_t K                # components
    Py_ssize_t group            # columns of a group
    Py_ssize_t n_second         # rows of `second_prior`
    double step                 # what a row adds to a weight
    const double* prior         # (d, K)
    const double* second_prior  # (n_second, K): b of BERNOULLI, sums of a of CATEGORICAL
    const double* weight        # (K,): b of POISSON and DURATIONS, a + b of BERNOULLI
    const double* concentration
    bint learns_shares          # else concentrations are the shares
    Py_ssize_t n_known          # components whose parameters rows do not change,
    const Py_ssize_t* known     # ... and which
    double* totals              # (d, K): sums over rows,
    double* errors              # (d, K): ... and what they have lost
    double* first               # (d, K): a
    double* ones                # (K, d): totals of BERNOULLI, where they are summed over,
    double* noughts             # (K, d): ... and b of their prior
    double* lengths             # (d / group, K): sums of L, with errors
    double* length_errors
    double* prior_mass          # (d / group, K): sum_j prior_jk
    double* mass                # (d / group, K): A
    double* rows                # (K,): numbers of rows
    Prepared* of                # (K,)
    double* logs                # (K,): sums of log f of a row
    double* product             # (K,): factors whose logarithm is still to be taken,
    int n_factors               # ... so many of them
    int most_factors
    double* joint               # (K,)


# A row: its values, from `begin` on, the columns of these, and their sum.
cdef struct Row:
    Py_ssize_t begin
    Py_ssize_t end
    const int32_t* columns
    double length


# Entries of a row in a group of columns, and where those in other groups begin.
cdef struct Visits:
    Py_ssize_t group
    Py_ssize_t end
    double length


cdef void lay_out(Sweep* s, Arena* arena) noexcept nogil:
    cdef Py_ssize_t K = s.K, size = s.d * s.K, n_masses = s.d // s.group * s.K
    take_each(arena, size, &s.totals, &s.errors, &s.first)
    take_each(arena, size if s.form == BERNOULLI else 0, &s.ones, &s.noughts)
    take_each(arena, K, &s.rows, &s.logs, &s.product, &s.joint)
    s.of = <Prepared*> take(arena, K, sizeof(Prepared))
    take_each(arena, n_masses, &s.lengths, &s.length_errors, &s.prior_mass, &s.mass)


# Components
# ----------

cdef inline void add(double x, double* total, double* error) noexcept nogil:
    """total + error <- itself + x, without rounding the sum (Knuth)."""
    cdef double before = total[0], after = before + x
    cdef double added = after - before
    error[0] += (before - (after - added)) + (x - added)
    total[0] = after


cdef inline double above_0(double x) noexcept nogil:
    return x if x > 0 else 0


cdef inline double grown(double prior, double total, double error) noexcept nogil:
    """What is left of a total after rows have come and gone is not below 0."""
    return prior + above_0(total + error)


cdef double log_sum(const double* x, Py_ssize_t n, Py_ssize_t stride, double more) noexcept nogil:
    """Sum of log(x + more): few logarithms, of products."""
    cdef double product = 1, result = 0, y
    cdef Py_ssize_t i
    for i in range(n):
        y = x[i * stride] + more
        if not 1e-100 < y < 1e100:
            result += log(y)
            continue
        product *= y
        if not 1e-200 < product < 1e200:
            result += log(product)
            product = 1
    return result + log(product)


cdef simd_void add_log_noughts(
    const double* prior, const double* ones, double rows, Py_ssize_t d, Py_ssize_t most_factors,
    restricted logs,
) noexcept nogil:
    """logs (LANES,) <- sums of the logarithms of prior + (rows - ones), every LANES-th in one"""
    cdef double products[LANES]
    cdef Py_ssize_t j = 0, lane, end
    for lane in range(LANES):
        logs[lane] = 0
    while j + LANES <= d:
        for lane in range(LANES):
            products[lane] = 1
        end = min(j + most_factors * LANES, d - LANES + 1)
        while j < end:
            for lane in range(LANES):
                products[lane] *= prior[j + lane] + above_0(rows - ones[j + lane])
            j += LANES
        add_log(logs, <const double*> products, LANES)
    for lane in range(d - j):
        logs[lane] += log(prior[j + lane] + above_0(rows - ones[j + lane]))


cdef inline double sum_of_lanes(const double* x) noexcept nogil:
    cdef double result = 0
    cdef int lane
    for lane in range(LANES):
        result += x[lane]
    return result


cdef inline Visits visits_from(
    const Sweep* s, const floating* data, const Row* row, Py_ssize_t e
) noexcept nogil:
    """The sum of the values from e on that are in one group."""
    cdef Visits visits
    cdef Py_ssize_t first
    visits.group, visits.length = row.columns[e - row.begin] // s.group, 0
    first = visits.group * s.group
    while e < row.end and first <= row.columns[e - row.begin] < first + s.group:
        visits.length += data[e]
        e += 1
    visits.end = e
    return visits


cdef void count(
    Sweep* s, const floating* data, const Row* row, Py_ssize_t k, double sign
) noexcept nogil:
    """Let a row join component k, or leave it."""
    cdef Py_ssize_t e, j, at
    cdef Visits visits
    for e in range(row.begin, row.end):
        if data[e] != 0:
            j = row.columns[e - row.begin]
            at = j * s.K + k
            add(sign * data[e], s.totals + at, s.errors + at)
            s.first[at] = grown(s.prior[at], s.totals[at], s.errors[at])
            if s.form == BERNOULLI:
                s.ones[k * s.d + j] = s.totals[at] + s.errors[at]
    e = row.begin
    while e < row.end:
        visits = visits_from(s, data, row, e)
        at, e = visits.group * s.K + k, visits.end
        add(sign * visits.length, s.lengths + at, s.length_errors + at)
        s.mass[at] = grown(s.prior_mass[at], s.lengths[at], s.length_errors[at])
    s.rows[k] += sign


cdef void prepare(Sweep* s, Py_ssize_t k) noexcept nogil:
    """What the density of any row under component k has in common."""
    cdef double rows = s.rows[k], b = s.weight[k] + s.step * rows
    cdef double logs[LANES]
    cdef Py_ssize_t K = s.K
    cdef Prepared* of = s.of + k
    of.log_share = log(rows * s.learns_shares + s.concentration[k])
    of.constant, of.per_length, of.slope = 0, 0, 1
    if s.form == POISSON:
        of.constant = -s.mass[k] * log1p(1 / b)
        of.per_length = -log1p(b)
    elif s.form == CATEGORICAL:
        of.constant = -log_sum(s.second_prior + k, s.n_second, K, rows)
    elif s.form == BERNOULLI:
        add_log_noughts(s.noughts + k * s.d, s.ones + k * s.d, rows, s.d, s.most_factors, logs)
        of.constant = sum_of_lanes(logs) - s.d * log(b)
    elif s.form == DURATIONS:
        of.constant = s.d * log_rising(b, s.step) - s.step * log_sum(s.first + k, s.d, K, 0)
        of.slope = -(b + s.step)


# Rows
# ----

cdef simd_void multiply_rising(
    restricted product, const double* a, double begin, double end, Py_ssize_t K
) noexcept nogil:
    """product <- product (a + begin) ... (a + end - 1)"""
    cdef Py_ssize_t k
    while begin < end:
        for k in range(K):
            product[k] *= a[k] + begin
        begin += 1


cdef simd_void multiply_ratio(
    restricted product, const double* a, const double* prior, const double* totals,
    const double* errors, const double* rows, Py_ssize_t K,
) noexcept nogil:
    """product <- product a / b"""
    cdef Py_ssize_t k
    for k in range(K):
        product[k] *= a[k] / (prior[k] + above_0(rows[k] - (totals[k] + errors[k])))


cdef simd_void multiply_growth(
    restricted product, const double* a, double x, Py_ssize_t K
) noexcept nogil:
    """product <- product (1 + x / a)"""
    cdef Py_ssize_t k
    for k in range(K):
        product[k] *= 1 + x / a[k]


cdef void take_logs(Sweep* s) noexcept nogil:
    cdef Py_ssize_t k
    add_log(s.logs, <const double*> s.product, s.K)
    for k in range(s.K):
        s.product[k] = 1
    s.n_factors = 0


cdef inline void factor_is_in(Sweep* s, int n) noexcept nogil:
    s.n_factors += n
    if s.n_factors == s.most_factors:
        take_logs(s)


cdef void add_rising(Sweep* s, const double* a, double x) noexcept nogil:
    """logs <- logs + log Gamma(a + x) - log Gamma(a)"""
    cdef Py_ssize_t k
    cdef int i = 0, n
    if x <= MOST_FACTORS and x == <int> x:
        while i < x:
            n = min(<int> x - i, s.most_factors - s.n_factors)
            multiply_rising(s.product, a, i, i + n, s.K)
            factor_is_in(s, n)
            i += n
    else:
        for k in range(s.K):
            s.logs[k] += log_rising(a[k], x)


cdef void add_bit(Sweep* s, Py_ssize_t at, double x) noexcept nogil:
    cdef Py_ssize_t k
    cdef double b
    if x == 1:
        multiply_ratio(s.product, s.first + at, s.second_prior + at, s.totals + at, s.errors + at,
                       s.rows, s.K)
        factor_is_in(s, 1)
        return
    for k in range(s.K):
        b = s.second_prior[at + k] + above_0(s.rows[k] - (s.totals[at + k] + s.errors[at + k]))
        s.logs[k] += log_rising(s.first[at + k], x) + log_rising(b, 1 - x) - log(b)


cdef void weigh(Sweep* s, const floating* data, const Row* row) noexcept nogil:
    """joint <- log of the share of each component and of the row's density under it"""
    cdef Py_ssize_t e, k, at
    cdef Visits visits
    for k in range(s.K):
        s.logs[k] = 0
    for e in range(row.begin, row.end):
        if data[e] == 0:
            continue
        at = row.columns[e - row.begin] * s.K
        if s.form == DURATIONS:
            multiply_growth(s.product, s.first + at, data[e], s.K)
            factor_is_in(s, 1)
        elif s.form == BERNOULLI:
            add_bit(s, at, data[e])
        else:
            add_rising(s, s.first + at, data[e])
    if s.n_factors > 0:
        take_logs(s)
    for k in range(s.K):
        s.joint[k] = s.of[k].log_share + (s.of[k].constant + row.length * s.of[k].per_length) + (
            s.of[k].slope * s.logs[k])
    if s.form != MULTINOMIAL:
        return
    for k in range(s.K):
        s.logs[k] = 0
    e = row.begin
    while e < row.end:
        visits = visits_from(s, data, row, e)
        add_rising(s, s.mass + visits.group * s.K, visits.length)
        e = visits.end
    if s.n_factors > 0:
        take_logs(s)
    for k in range(s.K):
        s.joint[k] -= s.logs[k]


cdef inline int choose(const double* weights, Py_ssize_t K, double point) noexcept nogil:
    """The first component up to which weights add up to more, of those that have any."""
    cdef double sum = 0
    cdef int k, last = 0
    for k in range(<int> K):
        if weights[k] > 0:
            sum += weights[k]
            last = k
            if sum > point:
                break
    return last


# Sweep
# -----

cdef inline Row row_of(const Sweep* s, const floating* data, Py_ssize_t i) noexcept nogil:
    cdef Row row
    cdef Py_ssize_t e
    row.begin, row.end, row.length = s.indptr[i], s.indptr[i + 1], 0
    row.columns = s.indices if s.is_dense else s.indices + row.begin
    for e in range(row.begin, row.end):
        row.length += data[e]
    return row


cdef int factors_per_log(const Sweep* s, const floating* data, Py_ssize_t n_values,
                         Py_ssize_t n) noexcept nogil:
    """How many factors never leave the range of a double."""
    cdef double least = s.prior[0], most = s.prior[0], total = 0, largest = 0, log_range
    cdef Py_ssize_t i
    for i in range(s.d * s.K):
        least, most = fmin(least, s.prior[i]), fmax(most, s.prior[i])
    for i in range(n_values):
        total += data[i]
        largest = fmax(largest, data[i])
    if s.form == DURATIONS:
        least, most = 1, 1 + largest / least
    elif s.form == BERNOULLI:
        log_range = most + n
        most = least
        for i in range(s.d * s.K):
            most = fmin(most, s.second_prior[i])
        most = log_range / most
        for i in range(s.d * s.K):
            log_range = fmax(log_range, s.second_prior[i] + n)
        least /= log_range
    else:
        most = most * s.group + total + MOST_FACTORS
    if not (least >= LEAST and isfinite(most)):
        return 1
    log_range = fmax(fabs(log(least)), fabs(log(most)))
    return <int> fmin(MOST_FACTORS, fmax(1, LARGEST_LOG / fmax(log_range, 1)))


cdef void begin(Sweep* s, const floating* data, const int* labels, Py_ssize_t n) noexcept nogil:
    """Count all rows where they are."""
    cdef Py_ssize_t i, k, at, size = s.d * s.K
    cdef Row row
    for i in range(size):
        s.totals[i] = s.errors[i] = 0
        s.first[i] = s.prior[i]
    for k in range(s.K):
        s.rows[k], s.product[k] = 0, 1
    for i in range(s.d // s.group * s.K):
        s.lengths[i] = s.length_errors[i] = s.prior_mass[i] = s.mass[i] = 0
    for i in range(size):
        at = i // s.K // s.group * s.K + i % s.K
        s.prior_mass[at] += s.prior[i]
        s.mass[at] = s.prior_mass[at]
        if s.form == BERNOULLI:
            s.ones[i] = 0
            s.noughts[i % s.K * s.d + i // s.K] = s.second_prior[i]
    for i in range(n):
        row = row_of(s, data, i)
        count(s, data, &row, labels[i], 1)
    for k in range(s.K):
        prepare(s, k)


cdef double take_turns(
    Sweep* s, const floating* data, const double* log_density, const double* uniforms, int* labels,
    Py_ssize_t n,
) noexcept nogil:
    """Let each row leave, be drawn anew and join; the sum of log(weights)."""
    cdef double result = 0, maximum, total
    cdef Py_ssize_t i, k
    cdef int old
    cdef Row row
    cdef Prepared before
    for i in range(n):
        row, old = row_of(s, data, i), labels[i]
        before = s.of[old]
        count(s, data, &row, old, -1)
        prepare(s, old)
        weigh(s, data, &row)
        for k in range(s.n_known):
            s.joint[s.known[k]] = s.of[s.known[k]].log_share + log_density[i * s.n_known + k]
        exp_columns(s.joint, s.K, 1, 1, &maximum, &total)
        result += maximum + log(total)
        # Where no component has the row it stays.
        if total > 0:
            labels[i] = choose(s.joint, s.K, uniforms[i] * total)
        count(s, data, &row, labels[i], 1)
        if labels[i] == old:
            s.of[old] = before
        else:
            prepare(s, labels[i])
    return result


def collapsed_sweep(
    const floating[::1] data,               # IN (n_non_zeros,)
    const int32_t[::1] indices,             # IN (n_non_zeros,), or (d,) if they are those of all
    const int64_t[::1] indptr,              # IN (n + 1,)
    bint is_dense,                          # every row has a value for each column
    int form,
    Py_ssize_t group,                       # columns of a group: d, unless form is MULTINOMIAL
    const double[:, ::1] prior_T,           # IN (d, K)
    const double[:, ::1] second_prior_T,    # IN (d or fewer, K): of BERNOULLI and CATEGORICAL
    const double[::1] weight,               # IN (K,)
    double step,                            # what a row adds to a weight
    const double[::1] concentration,        # IN (K,): of the prior of the shares
    const double[::1] uniforms,             # IN (n,), in [0, 1)
    int[::1] labels,                        # INOUT (n,)
    bint learns_shares,                     # else the shares of components are `concentration`
    const Py_ssize_t[::1] known,            # IN (n_known,): components with known parameters,
    const double[:, ::1] log_density,       # IN (n, n_known): ... of rows under these
):
    """Draw the component of each row anew, given all others; the mean of log p(row | others).

    The shares of components have a Dirichlet prior. Base measures are left out.
    """
    cdef Py_ssize_t n = labels.shape[0], d = prior_T.shape[0], K = prior_T.shape[1], i
    cdef Sweep s
    cdef double result, prior_rows = 0, most = 1 if form == BERNOULLI else 1e300
    cdef bint valid = True
    require(n > 0 and d > 0 and K > 0 and MULTINOMIAL <= form <= DURATIONS, "rows, forms")
    require(0 < group <= d and d % group == 0 and (form == MULTINOMIAL or group == d),
            "columns are whole groups")
    require(indptr.shape[0] == n + 1 and uniforms.shape[0] == n, "a value for each row")
    require(indptr[0] == 0 and indptr[n] == data.shape[0], "pointers of all values")
    if is_dense:
        require(indices.shape[0] == d and data.shape[0] == n * d, "each row has all columns")
    else:
        require(indices.shape[0] == data.shape[0], "data and indices are of the same values")
    require(weight.shape[0] == K == concentration.shape[0], "a number for each component")
    require(second_prior_T.shape[1] == K, "second parameters of each component")
    require(form != BERNOULLI or second_prior_T.shape[0] == d, "... and of each column")
    for i in range(data.shape[0]):
        valid &= 0 <= data[i] <= most
    require(valid, "values are finite and not below 0; bits are not above 1")
    for i in range(n):
        require(0 <= labels[i] < K, "labels are components")
    require(log_density.shape[0] == n and log_density.shape[1] == known.shape[0], "known densities")
    for i in range(known.shape[0]):
        require(0 <= known[i] < K, "known components")
    for i in range(K):
        prior_rows += concentration[i]
    s.form, s.d, s.K, s.group, s.step, s.n_factors = form, d, K, group, step, 0
    s.n_second = second_prior_T.shape[0]
    s.prior, s.weight, s.concentration = &prior_T[0, 0], &weight[0], &concentration[0]
    s.second_prior = &second_prior_T[0, 0] if s.n_second > 0 else NULL
    s.learns_shares, s.n_known = learns_shares, known.shape[0]
    s.known = &known[0] if s.n_known > 0 else NULL
    cdef const double* densities = &log_density[0, 0] if s.n_known > 0 else NULL
    cdef const floating* values = &data[0] if data.shape[0] > 0 else NULL
    s.indices, s.indptr = &indices[0] if indices.shape[0] > 0 else NULL, &indptr[0]
    s.is_dense = is_dense
    cdef Arena arena = counting_arena()
    lay_out(&s, &arena)
    cdef void* scratch = allocate(&arena)
    lay_out(&s, &arena)
    with nogil:
        s.most_factors = factors_per_log(&s, values, data.shape[0], n)
        begin(&s, values, &labels[0], n)
        result = take_turns(&s, values, densities, &uniforms[0], &labels[0], n)
    free(scratch)
    return result / n - log((n - 1) * learns_shares + prior_rows)
