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

# All that a sweep reads, and what it changes besides labels.
cdef struct Sweep:
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
    # Scratch memory; arrays are (P,) where nothing else is said.
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
    double* means               # (d, P) in tiles
    double* v                   # (d, P) in tiles
    double* factors             # triangles of matrices, or scatters along axes
    double* inverses            # ... of their diagonals, of scatters
    double* w                   # (d,)
    double* row                 # (d,)
    double* first               # (K, d) means of rows
    double* second              # (K or 1, ...) scatters


cdef void lay_out(Sweep* s, Arena* arena) noexcept nogil:
    cdef Py_ssize_t d = s.d, P = s.P
    cdef Py_ssize_t n_scatters = 1 if s.is_shared else P
    take_each(
        arena, P, &s.counts, &s.base, &s.power, &s.rho, &s.own_base, &s.own_power, &s.log_det,
        &s.squares, &s.spread, &s.weights,
    )
    take_each(arena, d * P, &s.means, &s.v)
    take_each(arena, n_scatters * s.n_entries, &s.factors, &s.second)
    s.inverses = take_doubles(arena, n_scatters * s.n_pivots)
    take_each(arena, d, &s.w, &s.row)
    s.first = take_doubles(arena, s.K * d)


# ----------------------------------------------------------------------- where things are

cdef inline double* mean_of(const Sweep* s, Py_ssize_t k) noexcept nogil:
    """The first coordinate of a component's mean; others are `lanes` apart."""
    return s.means + k // s.lanes * s.lanes * s.d + k % s.lanes


cdef inline Py_ssize_t stride_of(const Sweep* s) noexcept nogil:
    """How far entries of one scatter are from each other."""
    return 1 if s.is_shared else s.lanes


cdef inline Py_ssize_t place_of(const Sweep* s, Py_ssize_t k, Py_ssize_t size) noexcept nogil:
    """Where the first of `size` entries of a component's scatter is."""
    return 0 if s.is_shared else k // s.lanes * s.lanes * size + k % s.lanes


cdef inline double* factor_of(const Sweep* s, Py_ssize_t k) noexcept nogil:
    return s.factors + place_of(s, k, s.n_entries)


cdef inline double* inverses_of(const Sweep* s, Py_ssize_t k) noexcept nogil:
    return s.inverses + place_of(s, k, s.n_pivots)


cdef inline double* log_det_of(const Sweep* s, Py_ssize_t k) noexcept nogil:
    return s.log_det + (0 if s.is_shared else k)


cdef inline double weight_of(const Sweep* s, Py_ssize_t k) noexcept nogil:
    return s.weight[k] + s.counts[k]


cdef inline bint is_known(const Sweep* s, Py_ssize_t k) noexcept nogil:
    return s.is_any_known and isinf(s.degrees[k])


cdef inline double share_of(const Sweep* s, Py_ssize_t k, double n) noexcept nogil:
    return n * s.learns_shares + s.concentration[k]


cdef inline Py_ssize_t growth_of(const Sweep* s) noexcept nogil:
    """Degrees that a row adds; the power of a scatter in its determinant."""
    return s.d if s.width == 1 else 1


cdef void load_row(const Sweep* s, Py_ssize_t i, double* out) noexcept nogil:
    cdef Py_ssize_t j, at = i * s.d
    for j in range(s.d):
        out[j] = (<const float*> s.X)[at + j] if s.is_float else (<const double*> s.X)[at + j]
        out[j] -= s.origin[j]


cdef inline void deviate(const Sweep* s, Py_ssize_t k, double scale) noexcept nogil:
    """w <- scale (row - mean)."""
    cdef const double* mean = mean_of(s, k)
    cdef Py_ssize_t j
    for j in range(s.d):
        s.w[j] = scale * (s.row[j] - mean[j * s.lanes])


# ----------------------------------------------------------------- statistics, from all rows

cdef inline double* second_of(const Sweep* s, Py_ssize_t k) noexcept nogil:
    return s.second + (0 if s.is_shared else k * s.n_entries)


cdef void add_square(const Sweep* s, const double* w, double* second) noexcept nogil:
    cdef Py_ssize_t j
    if s.width == 0:
        add_outer(w, s.d, second)
        return
    for j in range(s.d):
        second[j % s.width] += w[j] * w[j]


cdef void sum_rows(
    const Sweep* s, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t without
) noexcept nogil:
    """Counts, means and scatters of the rows of one component, or of all, but for one row."""
    cdef Py_ssize_t i, j, k, d = s.d
    for i in range(s.n):
        k = s.labels[i]
        if i == without or not begin <= k < end:
            continue
        load_row(s, i, s.w)
        s.counts[k] += 1
        for j in range(d):
            s.first[k * d + j] += s.w[j]
    for k in range(begin, end):
        for j in range(d if s.counts[k] > 0 else 0):
            s.first[k * d + j] /= s.counts[k]
    if s.are_known:
        return
    for i in range(s.n):
        k = s.labels[i]
        if i == without or not begin <= k < end or is_known(s, k):
            continue
        load_row(s, i, s.w)
        for j in range(d):
            s.w[j] -= s.first[k * d + j]
        add_square(s, s.w, second_of(s, k))


cdef void add_prior(const Sweep* s, Py_ssize_t k) noexcept nogil:
    """Put the mean of rows and prior, and add what their means differ by to the scatter."""
    cdef Py_ssize_t j, d = s.d
    cdef double n = s.counts[k], w = s.weight[k], share = n / (w + n)
    cdef double root = sqrt(n / (1 + n / w))
    cdef double* mean = mean_of(s, k)
    for j in range(d):
        s.w[j] = s.first[k * d + j] - s.mean[k * d + j] if n > 0 else 0
        mean[j * s.lanes] = s.mean[k * d + j] + share * s.w[j]
        s.w[j] *= root
    if not is_known(s, k):
        add_square(s, s.w, second_of(s, k))


cdef double put_scatter(const Sweep* s, Py_ssize_t k) noexcept nogil:
    """Put the factor of rows and prior; return the log-determinant."""
    cdef Py_ssize_t i, j, d = s.d, width = s.width
    cdef double* second = second_of(s, k)
    cdef double* factor = factor_of(s, k)
    cdef double* inverses = inverses_of(s, k)
    cdef const double* matrix = s.scatter + k * d * d
    cdef double log_det = 0
    if width == 0:
        for i in range(d):
            for j in range(i + 1):
                second[entry_of(i, j, d)] += matrix[i * d + j]
        return factorise_triangle(second, d, stride_of(s), factor, inverses)
    for j in range(width):
        factor[j * s.lanes] = second[j] + s.scatter[k * width + j]
        inverses[j * s.lanes] = 1 / factor[j * s.lanes]
        log_det += growth_of(s) * log(factor[j * s.lanes])
    return log_det


cdef bint gather(const Sweep* s, Py_ssize_t only, Py_ssize_t without) noexcept nogil:
    """Make one component, or all, of the prior and of rows; return whether they are proper."""
    cdef Py_ssize_t k, d = s.d, begin = 0 if only == ALL or s.is_shared else only
    cdef Py_ssize_t n = s.K if only == ALL or s.is_shared else 1
    cdef bint proper = True, is_empty = only != ALL and not s.is_shared and s.counts[only] == 1
    memset(s.counts + begin, 0, n * sizeof(double))
    memset(s.first + begin * d, 0, n * d * sizeof(double))
    memset(second_of(s, begin), 0, (1 if s.is_shared else n) * s.n_entries * sizeof(double))
    if not is_empty:
        sum_rows(s, begin, begin + n, without)
    for k in range(begin, begin + n):
        add_prior(s, k)
        if not s.is_shared:
            s.log_det[k] = put_scatter(s, k)
            proper &= isfinite(s.log_det[k])
        refresh(s, k)
    if s.is_shared:
        s.log_det[0] = put_scatter(s, 0)
        proper = isfinite(s.log_det[0])
    return proper


cdef double log_constant(const Sweep* s, double v, double log_rho) noexcept nogil:
    """What a predictive density has that depends on neither the row nor the scatter."""
    cdef double d = s.d, p = 1 if s.width > 1 else d
    if isinf(v):
        return 0.5 * d * (log_rho - log(2 * M_PI))
    return d / p * log_rising(0.5 * v, 0.5 * p) + 0.5 * d * (log_rho - log(M_PI))


cdef void refresh(const Sweep* s, Py_ssize_t k) noexcept nogil:
    """What follows from a component's number of rows and log-determinant."""
    cdef double n = s.counts[k], w = weight_of(s, k), growth = growth_of(s)
    cdef double p = 1 if s.width > 1 else s.d
    cdef double v = s.degrees[k] + growth * (s.n - 1 if s.is_shared else n)
    cdef double own_v = v if s.is_shared else v - growth
    cdef double log_det = 0 if s.is_shared else s.log_det[k]
    s.rho[k] = 1 / (1 + 1 / w)
    s.base[k] = (log(share_of(s, k, n)) - 0.5 * log_det
                 + log_constant(s, v, log(s.rho[k])))
    s.power[k] = 0.5 if is_known(s, k) else 0.5 * (v + p)
    s.own_base[k] = s.own_power[k] = 0
    if n > 1:
        s.own_base[k] = (log(share_of(s, k, n - 1)) - 0.5 * log_det
                         + log_constant(s, own_v, log1p(-1 / w)))
        s.own_power[k] = 0.5 * (own_v + p - (0 if s.is_shared else growth))
        if is_known(s, k):
            s.own_power[k] = 0.5


cdef void pad(const Sweep* s) noexcept nogil:
    """Components that pad a tile have distance 0, and no weight."""
    cdef Py_ssize_t k, j
    cdef Py_ssize_t stride = stride_of(s)
    cdef double* factor
    for k in range(s.K, s.P):
        for j in range(s.d):
            mean_of(s, k)[j * s.lanes] = 0
        s.base[k], s.power[k], s.rho[k] = -INFINITY, 0, 0
        if s.is_shared:
            continue
        factor = factor_of(s, k)
        for j in range(s.n_pivots):
            inverses_of(s, k)[j * stride] = 1
        for j in range(s.n_entries):
            factor[j * stride] = 0


# ------------------------------------------------------------------------------- one row

cdef void measure(const Sweep* s) noexcept nogil:
    """Distances of the row from all components."""
    if s.width:
        scaled_squares(s.row, s.means, s.inverses, s.d, s.width, s.P, s.v)
        sum_features(s.v, s.d, s.P, s.squares)
    elif s.is_shared:
        solve_shared(s.factors, s.inverses, s.row, s.means, s.d, s.P, s.v, s.squares)
    else:
        solve_own(s.factors, s.inverses, s.row, s.means, s.d, s.P, s.v, s.squares)


cdef double log_left(const Sweep* s, Py_ssize_t z) noexcept nogil:
    """What the logarithm of a determinant gains without the row; -inf if too many digits go."""
    cdef double factor = 1 / (1 - 1 / weight_of(s, z)), left, result = 0
    cdef Py_ssize_t j
    if is_known(s, z):
        return -factor * s.squares[z]
    if s.width <= 1:
        left = 1 - factor * s.squares[z]
        return log1p(-factor * s.squares[z]) if left >= LEAST_LEFT else -INFINITY
    for j in range(s.d):
        left = 1 - factor * s.v[j * s.P + z]
        if not left >= LEAST_LEFT:
            return -INFINITY
        result += log1p(-factor * s.v[j * s.P + z])
    return result


cdef void weigh(const Sweep* s) noexcept nogil:
    """log (n + concentration) t(x) of all components as they are."""
    cdef Py_ssize_t k
    if not s.are_known:
        if s.width > 1:
            sum_log_spreads(s.v, s.rho, s.d, s.P, s.spread)
        else:
            sum_log_spreads(s.squares, s.rho, 1, s.P, s.spread)
    if s.is_any_known:
        for k in range(s.P):
            if k >= s.K or isinf(s.degrees[k]):
                s.spread[k] = s.rho[k] * s.squares[k]
    log_weigh(s.base, s.power, s.spread, s.P, s.weights)


cdef Py_ssize_t draw(const Sweep* s, double uniform, double* log_density) noexcept nogil:
    """A component at a share of all weights, which become numbers; NONE if they have no sum."""
    cdef Py_ssize_t k
    cdef double maximum = s.weights[0], total = 0, below = 0
    for k in range(1, s.K):
        maximum = max(maximum, s.weights[k])
    exp_below(maximum, s.P, s.weights)
    for k in range(s.K):
        total += s.weights[k]
    log_density[0] = maximum + log(total)
    if not isfinite(log_density[0]):
        return NONE
    for k in range(s.K - 1):
        below += s.weights[k]
        if below > uniform * total:
            return k
    return s.K - 1


cdef bint rescale(const Sweep* s, Py_ssize_t k, double sign) noexcept nogil:
    """Add w w' to a scatter, or take it off; return whether it stays positive."""
    cdef double* factor = factor_of(s, k)
    cdef double* inverses = inverses_of(s, k)
    cdef Py_ssize_t j, lanes = s.lanes
    if s.width == 0:
        return change_factor(factor, inverses, stride_of(s), s.d, sign, s.w)
    for j in range(s.d):
        factor[j % s.width * lanes] += sign * (s.w[j] * s.w[j])
    for j in range(s.width):
        if not factor[j * lanes] > 0:
            return False
        inverses[j * lanes] = 1 / factor[j * lanes]
    return True


cdef bint move(
    const Sweep* s, Py_ssize_t k, double sign, double gain, Py_ssize_t without
) noexcept nogil:
    """Let the row join a component, or leave it; return whether that is proper.

    Its log-determinant gains `gain`. If digits are lost, it is made of all its rows but one.
    """
    cdef double* mean = mean_of(s, k)
    cdef double w = weight_of(s, k)
    cdef Py_ssize_t j
    if not is_known(s, k):
        deviate(s, k, sqrt(1 / (1 + sign / w)))
        if not rescale(s, k, sign):
            return gather(s, k, without)
        log_det_of(s, k)[0] += growth_of(s) * gain
    deviate(s, k, sign / (w + sign))
    for j in range(s.d):
        mean[j * s.lanes] += s.w[j]
    s.counts[k] += sign
    refresh(s, k)
    return True


cdef bint leave_alone(const Sweep* s, Py_ssize_t z, Py_ssize_t row) noexcept nogil:
    """Take the only row out of a component, which becomes the prior; return whether it is proper.

    Its distance from the prior's mean is known to all digits, that from its own mean is not.
    """
    cdef Py_ssize_t j
    cdef double w = s.weight[z], before = s.log_det[0]
    cdef double* mean = mean_of(s, z)
    if not s.is_shared:
        return gather(s, z, row)
    for j in range(s.d):
        mean[j * s.lanes] = s.mean[z * s.d + j]
    s.counts[z] = 0
    refresh(s, z)
    if s.are_known:
        return True
    deviate(s, z, sqrt(1 / (1 + 1 / w)))
    if not rescale(s, z, -1):
        return gather(s, ALL, row)
    s.log_det[0] = 0
    for j in range(s.d):
        s.log_det[0] -= 2 * log(s.inverses[j])
    return s.log_det[0] - before >= log(LEAST_LEFT) or gather(s, ALL, row)


cdef bint visit(const Sweep* s, Py_ssize_t row, double uniform, double* log_density) noexcept nogil:
    """Draw the component of a row given all others; return whether there was one to draw."""
    cdef Py_ssize_t y, z = s.labels[row]
    cdef double factor, left = -INFINITY
    load_row(s, row, s.row)
    measure(s)
    if s.counts[z] > 1:
        left = log_left(s, z)
    cdef bint has_left = left == -INFINITY
    if has_left:
        if not (leave_alone(s, z, row) if s.counts[z] == 1 else gather(s, z, row)):
            return False
        measure(s)
    elif s.is_shared and not s.are_known:
        factor = 1 / (1 - 1 / weight_of(s, z))
        factor /= 1 - factor * s.squares[z]
        add_squared_products(s.v, z, factor, s.d, s.P, s.spread, s.squares)
    weigh(s)
    if not has_left:
        s.weights[z] = s.own_base[z] + s.own_power[z] * left
    y = draw(s, uniform, log_density)
    if y == NONE:
        return False
    if s.is_shared:
        log_density[0] -= 0.5 * s.log_det[0]
        if not (has_left or s.are_known):
            log_density[0] -= 0.5 * left
    if y == z and not has_left:
        return True
    if not has_left and not move(s, z, -1, left, row):
        return False
    s.labels[row] = <int> y
    return move(s, y, 1, s.spread[y], NONE)


# ----------------------------------------------------------------------------- the sweep

cdef double run(Sweep* s, const double* uniforms) except? -1:
    cdef Py_ssize_t i, k, failed = NONE
    cdef double value = 0, log_density, share = (s.n - 1) * s.learns_shares
    s.P = (s.K + LANES - 1) // LANES * LANES
    s.lanes = s.P if s.width or s.is_shared else LANES
    s.are_known = True
    for k in range(s.K):
        s.is_any_known |= isinf(s.degrees[k])
        s.are_known &= isinf(s.degrees[k])
    cdef Arena arena = counting_arena()
    lay_out(s, &arena)
    cdef void* scratch = allocate(&arena)
    lay_out(s, &arena)
    with nogil:
        pad(s)
        for k in range(s.K):
            share += s.concentration[k]
        if not gather(s, ALL, NONE):
            failed = s.n
        for i in range(s.n):
            if failed != NONE:
                break
            if not visit(s, i, uniforms[i], &log_density):
                failed = i
            value += log_density
    free(scratch)
    if failed == s.n:
        raise ValueError("the scatter of a component with its prior is not positive definite")
    if failed != NONE:
        raise ValueError(f"no component has a density at row {failed} that is a number")
    return value / s.n - log(share)


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
    cdef Sweep s
    cdef Py_ssize_t i, K = weight.shape[0], d = X.shape[1], last = extent(scatter, 1)
    cdef Py_ssize_t n_scatters = extent(scatter, 0)
    cdef bint valid = True
    memset(&s, 0, sizeof(Sweep))
    s.n, s.d, s.K = X.shape[0], d, K
    require(s.n > 0 and d > 0 and K > 0, "rows, features, components")
    require(origin.shape[0] == d and mean.shape[1] == d, "features")
    require(degrees.shape[0] == K and mean.shape[0] == K and concentration.shape[0] == K,
            "components")
    require(labels.shape[0] == s.n and uniforms.shape[0] == s.n, "rows")
    for i in range(s.n):
        valid &= 0 <= labels[i] < K
    require(valid, "labels are of components")
    if PyArray_NDIM(scatter) == 2:
        require(n_scatters == K and last in (1, d), "scatters")
        s.width = last
        s.scatter = readable(scatter, K * last)
    else:
        require(n_scatters in (1, K) and last == d, "scatters")
        s.is_shared = n_scatters < K
        s.scatter = readable(scatter, n_scatters * d * d)
    s.n_pivots = s.width if s.width else d
    s.n_entries = s.width if s.width else triangle_size(d)
    s.origin, s.weight, s.degrees = &origin[0], &weight[0], &degrees[0]
    s.mean, s.concentration = &mean[0, 0], &concentration[0]
    s.labels, s.X, s.is_float = &labels[0], &X[0, 0], floating is float
    s.learns_shares = learns_shares
    return run(&s, &uniforms[0])
