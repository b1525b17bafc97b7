"""Collapsed Gibbs sampling of the components of rows: Gaussians with parameters integrated out.

Component k has the weight w and the mean m of a normal distribution, whose covariance has the
scatter S and the degrees v of Student's t distribution, by which the next of its rows is
distributed (p: features that share degrees; S along axes: a product over features, with p = 1):

    log t(x) = log Gamma((v + p)/2) - log Gamma(v/2) - p log(pi)/2 + p log(rho)/2 - log|S|/2
               - (v + p)/2 log(1 + rho q),    q = (x - m)' S^-1 (x - m),    rho = w / (w + 1)

A row that joins makes w + 1, m + (x - m)/(w + 1), S + rho (x - m)(x - m)' and v + 1 of these, one
that leaves w - 1, m - (x - m)/(w - 1), S - c (x - m)(x - m)' and v - 1, c = w / (w - 1). So the
density of a row under its component without it follows from its distance to that with it,

    1 + rho q <- 1 / (1 - c q),    log|S| <- log|S| + log(1 - c q)

and nothing changes unless a row moves. Where S is of all components, others' distances become
q_k + c (v_k . v)^2 / (1 - c q), with v_k = L^-1 (x - m_k), S = L L'. Infinite weights are of known
means, infinite degrees of known covariances S, which are what all of this tends to.
"""

from cython cimport floating
from libc.math cimport INFINITY, M_PI, isfinite, isinf, log, log1p, sqrt
from libc.string cimport memset
from numpy cimport PyArray_NDIM, ndarray

from ._arena cimport Arena, allocate, counting_arena, free, take_doubles, take_each
from ._arrays cimport extent, readable, require
from ._gamma_functions cimport log_rising

from _collapsed_gaussian_h cimport (
    add_squared_products, exp_below, log_weigh, scaled_squares, sum_features, sum_log_spreads,
)
from _small_matrices_h cimport (
    LANES, add_outer, change_factor, entry_of, factorise_triangle, solve_own, solve_shared,
    triangle_size,
)

cdef enum:
    NONE = -1
    ALL = -1

# A row that leaves less than this of a determinant takes too many digits with it: the scatter is
# summed up anew. Of a component's rows no more than d have such a leverage.
cdef double LEAST_LEFT = 1e-4

cdef struct Problem:
    Py_ssize_t n                # rows
    Py_ssize_t d                # features
    Py_ssize_t K                # components
    Py_ssize_t P                # ... of whole tiles
    Py_ssize_t lanes            # components of a tile
    Py_ssize_t width            # scatters along axes: how many each has; matrices: 0
    Py_ssize_t n_entries        # of a scatter,
    Py_ssize_t n_pivots         # ... and of them on the diagonal
    bint is_shared              # a scatter of all components
    bint are_known              # scatters of all are covariances, which rows do not change,
    bint is_any_known           # ... or of some
    bint learns_shares          # else concentrations are the shares
    bint is_float
    const void* X
    const double* origin        # of all coordinates that follow
    const double* weight
    const double* degrees
    const double* mean          # (K, d)
    const double* scatter
    const double* concentration
    int* labels

# Arrays are (P,) where nothing else is said.
cdef struct Components:
    double* counts              # rows
    double* base                # what does not depend on the row: of log (n + concentration) t(x)
    double* power               # (v + p)/2
    double* rho
    double* own_base            # the same for a row of the component, once it has left
    double* own_power
    double* log_det
    double* squares             # q
    double* spread              # log(1 + rho q)
    double* weights
    double* running             # their cumulative sums
    double* means               # (d, P) in tiles
    double* v                   # (d, P) in tiles
    double* factors             # triangles of matrices, or scatters along axes
    double* inverses            # ... of their diagonals, of scatters
    double* w                   # (d,)
    double* row                 # (d,)
    double* first               # (K, d) means of rows
    double* second              # (K or 1, ...) scatters


cdef Components lay_out(const Problem* problem, Arena* arena) noexcept nogil:
    cdef Components c
    cdef Py_ssize_t d = problem.d, P = problem.P
    cdef Py_ssize_t n_scatters = 1 if problem.is_shared else P
    take_each(
        arena, P, &c.counts, &c.base, &c.power, &c.rho, &c.own_base, &c.own_power, &c.log_det,
        &c.squares, &c.spread, &c.weights, &c.running,
    )
    take_each(arena, d * P, &c.means, &c.v)
    take_each(arena, n_scatters * problem.n_entries, &c.factors, &c.second)
    c.inverses = take_doubles(arena, n_scatters * problem.n_pivots)
    take_each(arena, d, &c.w, &c.row)
    c.first = take_doubles(arena, problem.K * d)
    return c


# ----------------------------------------------------------------------- where things are

cdef inline double* mean_of(
    const Problem* problem, const Components* c, Py_ssize_t k
) noexcept nogil:
    """The first coordinate of a component's mean; others are `lanes` apart."""
    return c.means + k // problem.lanes * problem.lanes * problem.d + k % problem.lanes


cdef inline Py_ssize_t stride_of(const Problem* problem) noexcept nogil:
    """How far entries of one scatter are from each other."""
    return 1 if problem.is_shared else problem.lanes


cdef inline Py_ssize_t place_of(
    const Problem* problem, Py_ssize_t k, Py_ssize_t size
) noexcept nogil:
    """Where the first of `size` entries of a component's scatter is."""
    return 0 if problem.is_shared else k // problem.lanes * problem.lanes * size + k % problem.lanes


cdef inline double* factor_of(
    const Problem* problem, const Components* c, Py_ssize_t k
) noexcept nogil:
    return c.factors + place_of(problem, k, problem.n_entries)


cdef inline double* inverses_of(
    const Problem* problem, const Components* c, Py_ssize_t k
) noexcept nogil:
    return c.inverses + place_of(problem, k, problem.n_pivots)


cdef inline double* log_det_of(
    const Problem* problem, const Components* c, Py_ssize_t k
) noexcept nogil:
    return c.log_det + (0 if problem.is_shared else k)


cdef inline double weight_of(
    const Problem* problem, const Components* c, Py_ssize_t k
) noexcept nogil:
    return problem.weight[k] + c.counts[k]


cdef inline bint is_known(const Problem* problem, Py_ssize_t k) noexcept nogil:
    return problem.is_any_known and isinf(problem.degrees[k])


cdef inline double share_of(const Problem* problem, Py_ssize_t k, double n) noexcept nogil:
    return n * problem.learns_shares + problem.concentration[k]


cdef inline Py_ssize_t growth_of(const Problem* problem) noexcept nogil:
    """Degrees that a row adds; the power of a scatter in its determinant."""
    return problem.d if problem.width == 1 else 1


cdef void load_row(const Problem* problem, Py_ssize_t i, double* out) noexcept nogil:
    cdef Py_ssize_t j, d = problem.d
    if problem.is_float:
        for j in range(d):
            out[j] = (<const float*> problem.X)[i * d + j] - problem.origin[j]
    else:
        for j in range(d):
            out[j] = (<const double*> problem.X)[i * d + j] - problem.origin[j]


cdef inline void deviate(
    const Problem* problem, const Components* c, Py_ssize_t k, double scale
) noexcept nogil:
    """w <- scale (row - mean)."""
    cdef const double* mean = mean_of(problem, c, k)
    cdef Py_ssize_t j
    for j in range(problem.d):
        c.w[j] = scale * (c.row[j] - mean[j * problem.lanes])


# ----------------------------------------------------------------- statistics, from all rows

cdef inline double* second_of(
    const Problem* problem, const Components* c, Py_ssize_t k
) noexcept nogil:
    return c.second + (0 if problem.is_shared else k * problem.n_entries)


cdef void add_square(const Problem* problem, const double* w, double* second) noexcept nogil:
    cdef Py_ssize_t j
    if problem.width == 0:
        add_outer(w, problem.d, second)
        return
    for j in range(problem.d):
        second[j % problem.width] += w[j] * w[j]


cdef void sum_rows(
    const Problem* problem, const Components* c, Py_ssize_t only, Py_ssize_t without
) noexcept nogil:
    """Counts, means and scatters of the rows of one component, or of all, but for one row."""
    cdef Py_ssize_t i, j, k, d = problem.d
    for i in range(problem.n):
        k = problem.labels[i]
        if i == without or (only != ALL and k != only):
            continue
        load_row(problem, i, c.w)
        c.counts[k] += 1
        for j in range(d):
            c.first[k * d + j] += c.w[j]
    for k in range(problem.K):
        if (only == ALL or k == only) and c.counts[k] > 0:
            for j in range(d):
                c.first[k * d + j] /= c.counts[k]
    if problem.are_known:
        return
    for i in range(problem.n):
        k = problem.labels[i]
        if i == without or (only != ALL and k != only) or is_known(problem, k):
            continue
        load_row(problem, i, c.w)
        for j in range(d):
            c.w[j] -= c.first[k * d + j]
        add_square(problem, c.w, second_of(problem, c, k))


cdef void add_prior(const Problem* problem, const Components* c, Py_ssize_t k) noexcept nogil:
    """Put the mean of rows and prior, and add what their means differ by to the scatter."""
    cdef Py_ssize_t j, d = problem.d
    cdef double n = c.counts[k], w = problem.weight[k], share = n / (w + n)
    cdef double root = sqrt(n / (1 + n / w))
    cdef double* mean = mean_of(problem, c, k)
    for j in range(d):
        c.w[j] = c.first[k * d + j] - problem.mean[k * d + j] if n > 0 else 0
        mean[j * problem.lanes] = problem.mean[k * d + j] + share * c.w[j]
        c.w[j] *= root
    if not is_known(problem, k):
        add_square(problem, c.w, second_of(problem, c, k))


cdef double put_scatter(const Problem* problem, const Components* c, Py_ssize_t k) noexcept nogil:
    """Put the factor of rows and prior; return the log-determinant."""
    cdef Py_ssize_t i, j, d = problem.d, width = problem.width
    cdef double* second = second_of(problem, c, k)
    cdef double* factor = factor_of(problem, c, k)
    cdef double* inverses = inverses_of(problem, c, k)
    cdef const double* matrix = problem.scatter + k * d * d
    cdef double log_det = 0
    if width == 0:
        for i in range(d):
            for j in range(i + 1):
                second[entry_of(i, j, d)] += matrix[i * d + j]
        return factorise_triangle(second, d, stride_of(problem), factor, inverses)
    for j in range(width):
        factor[j * problem.lanes] = second[j] + problem.scatter[k * width + j]
        inverses[j * problem.lanes] = 1 / factor[j * problem.lanes]
        log_det += growth_of(problem) * log(factor[j * problem.lanes])
    return log_det


cdef bint gather(
    const Problem* problem, const Components* c, Py_ssize_t only, Py_ssize_t without
) noexcept nogil:
    """Make one component, or all, of the prior and of rows; return whether they are proper."""
    cdef Py_ssize_t k, d = problem.d, size = problem.n_entries
    cdef bint proper = True, is_empty = only != ALL and c.counts[only] == 1
    if problem.is_shared:
        only = ALL
        memset(c.second, 0, size * sizeof(double))
    for k in range(problem.K):
        if only == ALL or k == only:
            c.counts[k] = 0
            memset(c.first + k * d, 0, d * sizeof(double))
            if not problem.is_shared:
                memset(c.second + k * size, 0, size * sizeof(double))
    if only == ALL or not is_empty:
        sum_rows(problem, c, only, without)
    for k in range(problem.K):
        if only == ALL or k == only:
            add_prior(problem, c, k)
            if not problem.is_shared:
                c.log_det[k] = put_scatter(problem, c, k)
                proper &= isfinite(c.log_det[k])
    if problem.is_shared:
        c.log_det[0] = put_scatter(problem, c, 0)
        proper = isfinite(c.log_det[0])
    for k in range(problem.K):
        if only == ALL or k == only:
            refresh(problem, c, k)
    return proper


cdef double log_constant(const Problem* problem, double v, double log_rho) noexcept nogil:
    """What a predictive density has that depends on neither the row nor the scatter."""
    cdef double d = problem.d, p = 1 if problem.width > 1 else d
    if isinf(v):
        return 0.5 * d * (log_rho - log(2 * M_PI))
    return d / p * log_rising(0.5 * v, 0.5 * p) + 0.5 * d * (log_rho - log(M_PI))


cdef void refresh(const Problem* problem, const Components* c, Py_ssize_t k) noexcept nogil:
    """What follows from a component's number of rows and log-determinant."""
    cdef double n = c.counts[k], w = weight_of(problem, c, k), growth = growth_of(problem)
    cdef double p = 1 if problem.width > 1 else problem.d
    cdef double v = problem.degrees[k] + growth * (problem.n - 1 if problem.is_shared else n)
    cdef double own_v = v if problem.is_shared else v - growth
    cdef double log_det = 0 if problem.is_shared else c.log_det[k]
    c.rho[k] = 1 / (1 + 1 / w)
    c.base[k] = (log(share_of(problem, k, n)) - 0.5 * log_det
                 + log_constant(problem, v, log(c.rho[k])))
    c.power[k] = 0.5 if is_known(problem, k) else 0.5 * (v + p)
    c.own_base[k] = c.own_power[k] = 0
    if n > 1:
        c.own_base[k] = (log(share_of(problem, k, n - 1)) - 0.5 * log_det
                         + log_constant(problem, own_v, log1p(-1 / w)))
        c.own_power[k] = 0.5 * (own_v + p - (0 if problem.is_shared else growth))
        if is_known(problem, k):
            c.own_power[k] = 0.5


cdef void pad(const Problem* problem, const Components* c) noexcept nogil:
    """Components that pad a tile have distance 0, and no weight."""
    cdef Py_ssize_t k, j
    cdef Py_ssize_t stride = stride_of(problem)
    cdef double* factor
    for k in range(problem.K, problem.P):
        for j in range(problem.d):
            mean_of(problem, c, k)[j * problem.lanes] = 0
        c.base[k], c.power[k], c.rho[k] = -INFINITY, 0, 0
        if problem.is_shared:
            continue
        factor = factor_of(problem, c, k)
        for j in range(problem.n_pivots):
            inverses_of(problem, c, k)[j * stride] = 1
        for j in range(problem.n_entries):
            factor[j * stride] = 0


# ------------------------------------------------------------------------------- one row

cdef void measure(const Problem* problem, const Components* c) noexcept nogil:
    """Distances of the row from all components."""
    if problem.width:
        scaled_squares(c.row, c.means, c.inverses, problem.d, problem.width, problem.P, c.v)
        sum_features(c.v, problem.d, problem.P, c.squares)
    elif problem.is_shared:
        solve_shared(c.factors, c.inverses, c.row, c.means, problem.d, problem.P, c.v, c.squares)
    else:
        solve_own(c.factors, c.inverses, c.row, c.means, problem.d, problem.P, c.v, c.squares)


cdef double log_left(const Problem* problem, const Components* c, Py_ssize_t z) noexcept nogil:
    """What the logarithm of a determinant gains without the row; -inf if too many digits go."""
    cdef double factor = 1 / (1 - 1 / weight_of(problem, c, z)), left, result = 0
    cdef Py_ssize_t j
    if is_known(problem, z):
        return -factor * c.squares[z]
    if problem.width <= 1:
        left = 1 - factor * c.squares[z]
        return log1p(-factor * c.squares[z]) if left >= LEAST_LEFT else -INFINITY
    for j in range(problem.d):
        left = 1 - factor * c.v[j * problem.P + z]
        if not left >= LEAST_LEFT:
            return -INFINITY
        result += log1p(-factor * c.v[j * problem.P + z])
    return result


cdef void weigh(const Problem* problem, const Components* c) noexcept nogil:
    """log (n + concentration) t(x) of all components as they are."""
    cdef Py_ssize_t k
    if not problem.are_known:
        if problem.width > 1:
            sum_log_spreads(c.v, c.rho, problem.d, problem.P, c.spread)
        else:
            sum_log_spreads(c.squares, c.rho, 1, problem.P, c.spread)
    if problem.is_any_known:
        for k in range(problem.P):
            if k >= problem.K or isinf(problem.degrees[k]):
                c.spread[k] = c.rho[k] * c.squares[k]
    log_weigh(c.base, c.power, c.spread, problem.P, c.weights)


cdef Py_ssize_t draw(
    const Problem* problem, const Components* c, double uniform, double* log_density
) noexcept nogil:
    """A component at a share of all weights, which become numbers; NONE if they have no sum."""
    cdef Py_ssize_t k
    cdef double maximum = c.weights[0], total = 0
    for k in range(1, problem.K):
        maximum = max(maximum, c.weights[k])
    exp_below(maximum, problem.P, c.weights)
    for k in range(problem.K):
        total += c.weights[k]
        c.running[k] = total
    log_density[0] = maximum + log(total)
    if not isfinite(log_density[0]):
        return NONE
    for k in range(problem.K - 1):
        if c.running[k] > uniform * total:
            return k
    return problem.K - 1


cdef bint rescale(
    const Problem* problem, const Components* c, Py_ssize_t k, double sign
) noexcept nogil:
    """Add w w' to a scatter, or take it off; return whether it stays positive."""
    cdef double* factor = factor_of(problem, c, k)
    cdef double* inverses = inverses_of(problem, c, k)
    cdef Py_ssize_t j, lanes = problem.lanes
    if problem.width == 0:
        return change_factor(factor, inverses, stride_of(problem), problem.d, sign, c.w)
    for j in range(problem.d):
        factor[j % problem.width * lanes] += sign * (c.w[j] * c.w[j])
    for j in range(problem.width):
        if not factor[j * lanes] > 0:
            return False
        inverses[j * lanes] = 1 / factor[j * lanes]
    return True


cdef void join(const Problem* problem, const Components* c, Py_ssize_t k) noexcept nogil:
    cdef double* mean = mean_of(problem, c, k)
    cdef Py_ssize_t j
    if not is_known(problem, k):
        deviate(problem, c, k, sqrt(c.rho[k]))
        rescale(problem, c, k, 1)
        log_det_of(problem, c, k)[0] += growth_of(problem) * c.spread[k]
    c.counts[k] += 1
    deviate(problem, c, k, 1 / weight_of(problem, c, k))
    for j in range(problem.d):
        mean[j * problem.lanes] += c.w[j]
    refresh(problem, c, k)


cdef bint part(
    const Problem* problem, const Components* c, Py_ssize_t z, Py_ssize_t row, double left
) noexcept nogil:
    cdef double* mean = mean_of(problem, c, z)
    cdef double w = weight_of(problem, c, z)
    cdef Py_ssize_t j
    if not is_known(problem, z):
        deviate(problem, c, z, sqrt(1 / (1 - 1 / w)))
        if not rescale(problem, c, z, -1):
            return gather(problem, c, z, row)
        log_det_of(problem, c, z)[0] += growth_of(problem) * left
    deviate(problem, c, z, 1 / (w - 1))
    for j in range(problem.d):
        mean[j * problem.lanes] -= c.w[j]
    c.counts[z] -= 1
    refresh(problem, c, z)
    return True


cdef bint leave_alone(
    const Problem* problem, const Components* c, Py_ssize_t z, Py_ssize_t row
) noexcept nogil:
    """Take the only row out of a component, which becomes the prior; return whether it is proper.

    Its distance from the prior's mean is known to all digits, that from its own mean is not.
    """
    cdef Py_ssize_t j
    cdef double w = problem.weight[z], before = c.log_det[0]
    cdef double* mean = mean_of(problem, c, z)
    if not problem.is_shared:
        return gather(problem, c, z, row)
    for j in range(problem.d):
        mean[j * problem.lanes] = problem.mean[z * problem.d + j]
    c.counts[z] = 0
    refresh(problem, c, z)
    if problem.are_known:
        return True
    deviate(problem, c, z, sqrt(1 / (1 + 1 / w)))
    if not rescale(problem, c, z, -1):
        return gather(problem, c, ALL, row)
    c.log_det[0] = 0
    for j in range(problem.d):
        c.log_det[0] -= 2 * log(c.inverses[j])
    return c.log_det[0] - before >= log(LEAST_LEFT) or gather(problem, c, ALL, row)


cdef bint visit(
    const Problem* problem, const Components* c, Py_ssize_t row, double uniform,
    double* log_density,
) noexcept nogil:
    """Draw the component of a row given all others; return whether there was one to draw."""
    cdef Py_ssize_t y, z = problem.labels[row]
    cdef double factor, left = -INFINITY
    load_row(problem, row, c.row)
    measure(problem, c)
    if c.counts[z] > 1:
        left = log_left(problem, c, z)
    cdef bint has_left = left == -INFINITY
    if has_left:
        if not (leave_alone(problem, c, z, row) if c.counts[z] == 1
                else gather(problem, c, z, row)):
            return False
        measure(problem, c)
    elif problem.is_shared and not problem.are_known:
        factor = 1 / (1 - 1 / weight_of(problem, c, z))
        factor /= 1 - factor * c.squares[z]
        add_squared_products(c.v, z, factor, problem.d, problem.P, c.spread, c.squares)
    weigh(problem, c)
    if not has_left:
        c.weights[z] = c.own_base[z] + c.own_power[z] * left
    y = draw(problem, c, uniform, log_density)
    if y == NONE:
        return False
    if problem.is_shared:
        log_density[0] -= 0.5 * c.log_det[0]
        if not (has_left or problem.are_known):
            log_density[0] -= 0.5 * left
    if not has_left and y != z and not part(problem, c, z, row, left):
        return False
    if has_left or y != z:
        join(problem, c, y)
    problem.labels[row] = <int> y
    return True


# ----------------------------------------------------------------------------- the sweep

cdef double run(Problem* problem, const double* uniforms) except? -1:
    cdef Py_ssize_t i, k, failed = NONE
    cdef double value = 0, log_density, share = (problem.n - 1) * problem.learns_shares
    problem.P = (problem.K + LANES - 1) // LANES * LANES
    problem.lanes = problem.P if problem.width or problem.is_shared else LANES
    problem.are_known = True
    for k in range(problem.K):
        problem.is_any_known |= isinf(problem.degrees[k])
        problem.are_known &= isinf(problem.degrees[k])
    cdef Arena arena = counting_arena()
    lay_out(problem, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Components c = lay_out(problem, &arena)
    with nogil:
        pad(problem, &c)
        for k in range(problem.K):
            share += problem.concentration[k]
        if not gather(problem, &c, ALL, NONE):
            failed = problem.n
        for i in range(problem.n):
            if failed != NONE:
                break
            if not visit(problem, &c, i, uniforms[i], &log_density):
                failed = i
            value += log_density
    free(scratch)
    if failed == problem.n:
        raise ValueError("the scatter of a component with its prior is not positive definite")
    if failed != NONE:
        raise ValueError(f"no component has a density at row {failed} that is a number")
    return value / problem.n - log(share)


def sweep(
    const floating[:, ::1] X,           # IN (n, d)
    const double[::1] origin,           # IN (d,): near X; means are about it
    const double[::1] weight,           # IN (K,): of the prior, as what follows; inf: known means
    const double[::1] degrees,          # IN (K,): of Student's t; inf: known covariances
    const double[:, ::1] mean,          # IN (K, d)
    ndarray scatter,                    # IN (K, d, d), or (1, d, d) of all components; along axes
                                        #  (K, d), or (K, 1) summed over features
    const double[::1] concentration,    # IN (K,): of the prior of the shares
    const double[::1] uniforms,         # IN (n,) in [0, 1)
    int[::1] labels,                    # INOUT (n,); spent where it raises
    bint learns_shares,                 # else the shares of components are `concentration`
):
    """Draw the components of all rows; return the mean of log p(x_n | all others)."""
    cdef Problem problem
    cdef Py_ssize_t i, K = weight.shape[0], d = X.shape[1], last = extent(scatter, 1)
    cdef Py_ssize_t n_scatters = extent(scatter, 0)
    cdef bint valid = True
    memset(&problem, 0, sizeof(problem))
    problem.n, problem.d, problem.K = X.shape[0], d, K
    require(problem.n > 0 and d > 0 and K > 0, "rows, features, components")
    require(origin.shape[0] == d and mean.shape[1] == d, "features")
    require(degrees.shape[0] == K and mean.shape[0] == K and concentration.shape[0] == K,
            "components")
    require(labels.shape[0] == problem.n and uniforms.shape[0] == problem.n, "rows")
    for i in range(problem.n):
        valid &= 0 <= labels[i] < K
    require(valid, "labels are of components")
    if PyArray_NDIM(scatter) == 2:
        require(n_scatters == K and last in (1, d), "scatters")
        problem.width = last
        problem.scatter = readable(scatter, K * last)
    else:
        require(n_scatters in (1, K) and last == d, "scatters")
        problem.is_shared = n_scatters < K
        problem.scatter = readable(scatter, n_scatters * d * d)
    problem.n_pivots = problem.width if problem.width else d
    problem.n_entries = problem.width if problem.width else triangle_size(d)
    problem.origin, problem.weight, problem.degrees = &origin[0], &weight[0], &degrees[0]
    problem.mean, problem.concentration = &mean[0, 0], &concentration[0]
    problem.labels, problem.X, problem.is_float = &labels[0], &X[0, 0], floating is float
    problem.learns_shares = learns_shares
    return run(&problem, &uniforms[0])
