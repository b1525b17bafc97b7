/* Scaled forward and backward recursions along one sequence, and its expected transitions.
 *
 * A step is the product of a row of W states with a W x W table, W being the number of states
 * padded to whole vectors; padded states have probability 0. The usual widths are constants, so
 * that the compiler keeps the sums of a step in registers.
 */
#ifndef SKLEARN_ONLINEEM_CHAINS_H
#define SKLEARN_ONLINEEM_CHAINS_H

#include "_simd.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math") /* as in _simd.h */
#endif

/* Densities that are not 0 are at least exp(-460) = 1e-200 of the row's largest; a state whose
 * share falls below LOST may have lost what a later row needs, see `forward_of`. */
#define LOWEST_LOG (-460.0)
#define LOST 1e-150
#define WIDEST_TILE 32
#define ROWS_PER_DIVISION 4

/* out (W,) <- x (W,) table (W, W), four rows of the table at a time, by tiles of columns */
SIMD_INLINE void product(
    const double *x, const double *table, const ptrdiff_t W, const ptrdiff_t tile, double *out)
{
    for (ptrdiff_t start = 0; start < W; start += tile) {
        double sum[WIDEST_TILE];
        for (ptrdiff_t j = 0; j < tile; j++) sum[j] = 0;
        for (ptrdiff_t i = 0; i < W; i += 4) {
            const double *row = table + i * W + start;
            for (ptrdiff_t j = 0; j < tile; j++)
                sum[j] += (x[i] * row[j] + x[i + 1] * row[W + j])
                          + (x[i + 2] * row[2 * W + j] + x[i + 3] * row[3 * W + j]);
        }
        for (ptrdiff_t j = 0; j < tile; j++) out[start + j] = sum[j];
    }
}

SIMD_INLINE double sum_of(const double *x, ptrdiff_t n)
{
    double lanes[4] = {0, 0, 0, 0};
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++) lanes[l] += x[i + l];
    for (; i < n; i++) lanes[0] += x[i];
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/* alpha_t = alpha_t-1 table * density_t, (T, W), divided by its sum every few rows only, as the
 * division is what the recursion would wait for. total_t is the sum of alpha_t, and scale_t is
 * p(v_t | past), which is total_t / total_t-1 but for that division.
 *
 * Returns 1 if digits may be lost: a sum is tiny, or, where the table has zeros, the share of a
 * state that can be reached is. (A state that is entered from all others comes back by itself;
 * others would stay lost.) */
SIMD_INLINE int forward_of(
    const double *RESTRICT density, ptrdiff_t T, const double *start, const double *table,
    int has_zeros, const ptrdiff_t W, const ptrdiff_t tile, double *RESTRICT alpha,
    double *RESTRICT total, double *RESTRICT scale)
{
    double before = 1;
    for (ptrdiff_t j = 0; j < W; j++) alpha[j] = start[j];
    for (ptrdiff_t t = 0;;) {
        double inverse = 1 / before;
        if (t % ROWS_PER_DIVISION == 0)
            for (ptrdiff_t j = 0; j < W; j++) alpha[j] *= inverse;
        if (has_zeros) {
            int lost = 0;
            for (ptrdiff_t j = 0; j < W; j++)
                lost |= (alpha[j] > 0) & (density[j] > 0) & (alpha[j] * density[j] < LOST);
            if (lost) return 1;
        }
        for (ptrdiff_t j = 0; j < W; j++) alpha[j] *= density[j];
        total[t] = sum_of(alpha, W);
        if (!(total[t] >= LOST)) return 1;
        scale[t] = t % ROWS_PER_DIVISION == 0 ? total[t] : total[t] * inverse;
        before = total[t];
        if (++t == T) return 0;
        product(alpha, table, W, tile, alpha + W);
        alpha += W;
        density += W;
    }
}

/* alpha <- posterior p(h_t | v); filtered (T, W) <- alpha / total; density <- w_t = density_t
 * * beta_t / scale_t, so that the expected transitions are the table times sum_t filtered_t-1 w_t'.
 *
 * `beta` (2, W) holds beta of the last row, and then that of the row before the first. */
SIMD_INLINE void backward_of(
    double *RESTRICT density, ptrdiff_t T, const double *table, const ptrdiff_t W,
    const ptrdiff_t tile, const double *RESTRICT total, const double *RESTRICT scale,
    double *RESTRICT beta, double *RESTRICT alpha, double *RESTRICT filtered)
{
    double local[2 * WIDEST_TILE];
    double *current = W <= WIDEST_TILE ? local : beta, *next = current + W;
    for (ptrdiff_t j = 0; j < W; j++) current[j] = beta[j];
    for (ptrdiff_t t = T - 1; t >= 0; t--) {
        double inverse = 1 / scale[t], share = 1 / total[t];
        double *RESTRICT w = density + t * W, *RESTRICT a = alpha + t * W;
        double *RESTRICT f = filtered + t * W;
        for (ptrdiff_t j = 0; j < W; j++) f[j] = a[j] * share;
        for (ptrdiff_t j = 0; j < W; j++) a[j] = f[j] * current[j];
        for (ptrdiff_t j = 0; j < W; j++) w[j] = (w[j] * inverse) * current[j];
        product(w, table, W, tile, next);
        for (ptrdiff_t j = 0; j < W; j++) current[j] = next[j];
    }
    for (ptrdiff_t j = 0; j < W; j++) beta[j] = current[j];
}

#define FOR_WIDTH(W, call) \
    switch (W) { \
    case 4: call(4, 4); break; \
    case 8: call(8, 8); break; \
    case 16: call(16, 16); break; \
    case 24: call(24, 24); break; \
    case 32: call(32, 32); break; \
    default: call(W, 8); \
    }

SIMD_CLONES SIMD_UNUSED static int forward_recursion(
    const double *density, ptrdiff_t T, const double *start, const double *table, int has_zeros,
    ptrdiff_t W, double *alpha, double *total, double *scale)
{
    int lost = 0;
#define CALL(width, tile) \
    lost = forward_of(density, T, start, table, has_zeros, width, tile, alpha, total, scale)
    FOR_WIDTH(W, CALL)
#undef CALL
    return lost;
}

SIMD_CLONES SIMD_UNUSED static void backward_recursion(
    double *density, ptrdiff_t T, const double *table, ptrdiff_t W, const double *total,
    const double *scale, double *beta, double *alpha, double *filtered)
{
#define CALL(width, tile) \
    backward_of(density, T, table, width, tile, total, scale, beta, alpha, filtered)
    FOR_WIDTH(W, CALL)
#undef CALL
}

/* sums (W, W) <- sums + filtered (T, W)' later (T, W), for narrow W */
SIMD_INLINE void add_transitions_of(
    const double *RESTRICT filtered, const double *RESTRICT later, ptrdiff_t T, const ptrdiff_t W,
    double *RESTRICT sums)
{
    double tile[64];
    for (ptrdiff_t i = 0; i < W * W; i++) tile[i] = sums[i];
    for (ptrdiff_t t = 0; t < T; t++)
        for (ptrdiff_t i = 0; i < W; i++)
            for (ptrdiff_t j = 0; j < W; j++) tile[i * W + j] += filtered[t * W + i] * later[t * W + j];
    for (ptrdiff_t i = 0; i < W * W; i++) sums[i] = tile[i];
}

SIMD_CLONES SIMD_UNUSED static void add_transitions(
    const double *filtered, const double *later, ptrdiff_t T, ptrdiff_t W, double *sums)
{
    if (W == 4) add_transitions_of(filtered, later, T, 4, sums);
    else add_transitions_of(filtered, later, T, 8, sums);
}

/* density (T, W) <- exp(x - largest_t), at least exp(LOWEST_LOG) unless x = -inf; largest_t, the
 * row's maximum, is 0 where all are -inf. */
#define EMISSIONS(REAL, name) \
SIMD_INLINE REAL name##_largest(const REAL *x, ptrdiff_t K) \
{ \
    REAL lanes[8], most = x[0]; \
    ptrdiff_t k = 0; \
    if (K >= 8) { \
        for (int l = 0; l < 8; l++) lanes[l] = x[l]; \
        for (k = 8; k + 8 <= K; k += 8) \
            for (int l = 0; l < 8; l++) lanes[l] = x[k + l] > lanes[l] ? x[k + l] : lanes[l]; \
        for (int l = 0; l < 8; l++) most = lanes[l] > most ? lanes[l] : most; \
    } \
    for (; k < K; k++) most = x[k] > most ? x[k] : most; \
    return most; \
} \
SIMD_CLONES SIMD_UNUSED static void name( \
    const REAL *RESTRICT x, ptrdiff_t T, ptrdiff_t K, ptrdiff_t W, double *RESTRICT density, \
    double *RESTRICT largest) \
{ \
    for (ptrdiff_t t = 0; t < T; t++) { \
        REAL most = name##_largest(x + t * K, K); \
        largest[t] = most == -INFINITY ? 0 : most; \
        for (ptrdiff_t k = 0; k < K; k++) { \
            double below = x[t * K + k] - largest[t]; \
            density[t * W + k] = below > LOWEST_LOG || below == -INFINITY ? below : LOWEST_LOG; \
        } \
        for (ptrdiff_t k = K; k < W; k++) density[t * W + k] = -INFINITY; \
    } \
    for (ptrdiff_t i = 0; i < T * W; i++) density[i] = exp_double(density[i]); \
}
EMISSIONS(float, emissions_float)
EMISSIONS(double, emissions_double)
#undef EMISSIONS

/* best_t (j) = max_i best_t-1 (i) + table (i, j), the lowest i where two are equal, and which. */
SIMD_CLONES SIMD_UNUSED static void best_moves(
    const double *RESTRICT best, const double *RESTRICT table, ptrdiff_t K, double *RESTRICT next,
    double *RESTRICT who, int *RESTRICT origin)
{
    for (ptrdiff_t j = 0; j < K; j++) {
        next[j] = best[0] + table[j];
        who[j] = 0;
    }
    for (ptrdiff_t i = 1; i < K; i++) {
        const double *RESTRICT row = table + i * K;
        double from = best[i], number = (double)i;
        for (ptrdiff_t j = 0; j < K; j++) {
            double through = from + row[j];
            who[j] = through > next[j] ? number : who[j];
            next[j] = through > next[j] ? through : next[j];
        }
    }
    for (ptrdiff_t j = 0; j < K; j++) origin[j] = (int)who[j];
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
