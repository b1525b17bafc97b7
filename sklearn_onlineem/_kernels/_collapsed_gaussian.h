/* One row among Gaussians whose parameters are integrated out: its distances from K components,
 * and what changes where it leaves one and joins another.
 *
 * Components are elements of vectors. Where each has a matrix, these are in tiles of TILE_SIZE,
 * (P / TILE_SIZE, d, TILE_SIZE), else in one tile of all, (d, P). P is K padded to whole tiles. A
 * lower triangle has its columns one after the other.
 */
#ifndef SKLEARN_ONLINEEM_COLLAPSED_GAUSSIAN_H
#define SKLEARN_ONLINEEM_COLLAPSED_GAUSSIAN_H

#include "_simd.h"

OPTIMISE_BEGIN(SELECTS)

/* Doubles of the widest vectors. */
#define TILE_SIZE 8

#define TRIANGLE_SIZE(d) ((d) * ((d) + 1) / 2)
/* Where a triangle has the entry of a row and a column. */
#define ENTRY(i, j, d) ((j) * (d) - TRIANGLE_SIZE(j) + (i))

/* v (d, TILE_SIZE) <- L_k^-1 (x - mean_k), for the triangles of a tile, squares <- |v_k|^2. What is
 * solved is taken from all that follows, as numbers there do not wait for each other. */
SIMD_INLINE void solve_tile(
    const double *RESTRICT factor, const double *RESTRICT inverses, const double *RESTRICT x,
    const double *RESTRICT means, const ptrdiff_t d, double *RESTRICT v, double *RESTRICT squares)
{
    for (ptrdiff_t j = 0; j < d; j++)
        UNROLL(1) /* or GCC puts vectors together from several rows */
        for (int m = 0; m < TILE_SIZE; m++)
            v[j * TILE_SIZE + m] = x[j] - means[j * TILE_SIZE + m];
    for (int m = 0; m < TILE_SIZE; m++) squares[m] = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        double solved[TILE_SIZE];
        for (int m = 0; m < TILE_SIZE; m++) {
            solved[m] = v[j * TILE_SIZE + m] * inverses[j * TILE_SIZE + m];
            v[j * TILE_SIZE + m] = solved[m];
            squares[m] += solved[m] * solved[m];
        }
        factor += TILE_SIZE;
        for (ptrdiff_t i = j + 1; i < d; i++, factor += TILE_SIZE)
            for (int m = 0; m < TILE_SIZE; m++) v[i * TILE_SIZE + m] -= factor[m] * solved[m];
    }
}

/* v, in tiles, and squares (P,) <- the same, for a triangle L of each component */
SIMD_CLONES SIMD_UNUSED static void solve_own(
    const double *factor, const double *inverses, const double *x, const double *means,
    ptrdiff_t d, ptrdiff_t P, double *v, double *squares)
{
    for (ptrdiff_t k = 0; k < P; k += TILE_SIZE)
        solve_tile(
            factor + k * TRIANGLE_SIZE(d), inverses + k * d, x, means + k * d, d, v + k * d,
            squares + k);
}

/* v (d, P), squares (P,) <- the same, for one triangle L of all components */
SIMD_CLONES SIMD_UNUSED static void solve_shared(
    const double *RESTRICT factor, const double *RESTRICT inverses, const double *RESTRICT x,
    const double *RESTRICT means, ptrdiff_t d, ptrdiff_t P, double *RESTRICT v,
    double *RESTRICT squares)
{
    for (ptrdiff_t start = 0; start < P; start += SIMD_STRIP) {
        const ptrdiff_t stop = P - start < SIMD_STRIP ? P : start + SIMD_STRIP;
        const double *entry = factor;
        for (ptrdiff_t j = 0; j < d; j++)
            for (ptrdiff_t k = start; k < stop; k++) v[j * P + k] = x[j] - means[j * P + k];
        for (ptrdiff_t k = start; k < stop; k++) squares[k] = 0;
        for (ptrdiff_t j = 0; j < d; j++) {
            double *RESTRICT solved = v + j * P;
            for (ptrdiff_t k = start; k < stop; k++) {
                solved[k] *= inverses[j];
                squares[k] += solved[k] * solved[k];
            }
            entry++;
            for (ptrdiff_t i = j + 1; i < d; i++, entry++)
                for (ptrdiff_t k = start; k < stop; k++) v[i * P + k] -= entry[0] * solved[k];
        }
    }
}

/* squares (P,) <- squares + factor (v_k . v_z)^2, v (d, P); products (P,) is scratch */
SIMD_CLONES SIMD_UNUSED static void add_squared_products(
    const double *RESTRICT v, ptrdiff_t z, double factor, ptrdiff_t d, ptrdiff_t P,
    double *RESTRICT products, double *RESTRICT squares)
{
    for (ptrdiff_t k = 0; k < P; k++) products[k] = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t k = 0; k < P; k++) products[k] += v[j * P + z] * v[j * P + k];
    for (ptrdiff_t k = 0; k < P; k++) squares[k] += factor * (products[k] * products[k]);
}

/* v (d, P) <- (x - mean)^2 / scatter; inverses (d, P), or (P,) where features share them */
SIMD_CLONES SIMD_UNUSED static void scaled_squares(
    const double *x, const double *RESTRICT means, const double *RESTRICT inverses, ptrdiff_t d,
    ptrdiff_t width, ptrdiff_t P, double *RESTRICT v)
{
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t k = 0; k < P; k++) {
            double deviation = x[j] - means[j * P + k];
            v[j * P + k] = deviation * deviation * inverses[(j % width) * P + k];
        }
}

/* squares (P,) <- sum of v (d, P) over features */
SIMD_CLONES SIMD_UNUSED static void sum_features(
    const double *RESTRICT v, ptrdiff_t d, ptrdiff_t P, double *RESTRICT squares)
{
    for (ptrdiff_t k = 0; k < P; k++) squares[k] = v[k];
    for (ptrdiff_t j = 1; j < d; j++)
        for (ptrdiff_t k = 0; k < P; k++) squares[k] += v[j * P + k];
}

/* out (P,) <- sum over m rows of log(1 + rho v), v (m, P) */
SIMD_CLONES SIMD_UNUSED static void sum_log_spreads(
    const double *RESTRICT v, const double *RESTRICT rho, ptrdiff_t m, ptrdiff_t P,
    double *RESTRICT out)
{
    for (ptrdiff_t k = 0; k < P; k++) out[k] = 0;
    for (ptrdiff_t j = 0; j < m; j++)
        for (ptrdiff_t k = 0; k < P; k++) out[k] += log_double(1 + rho[k] * v[j * P + k]);
}

/* out (P,) <- base - power spread */
SIMD_CLONES SIMD_UNUSED static void log_weigh(
    const double *RESTRICT base, const double *RESTRICT power, const double *RESTRICT spread,
    ptrdiff_t P, double *RESTRICT out)
{
    for (ptrdiff_t k = 0; k < P; k++) out[k] = base[k] - power[k] * spread[k];
}

/* weights (P,) <- exp(weights - maximum) */
SIMD_CLONES SIMD_UNUSED static void exp_below(double maximum, ptrdiff_t P, double *RESTRICT weights)
{
    for (ptrdiff_t k = 0; k < P; k++) weights[k] = exp_double(weights[k] - maximum);
}

/* triangle += w w', both of one matrix */
SIMD_CLONES SIMD_UNUSED static void add_outer(
    const double *RESTRICT w, ptrdiff_t d, double *RESTRICT triangle)
{
    for (ptrdiff_t j = 0; j < d; triangle += d - j++)
        for (ptrdiff_t i = j; i < d; i++) triangle[i - j] += w[j] * w[i];
}

/* The triangle L of L L' <- that of L L' + sign w w', and the inverses of its diagonal; entries are
 * `stride` apart, w (d,) is spent. Returns 0 where that is not positive definite.
 *
 * Both are hyperbolic or plane rotations of the columns of L with w, of which those that downdate
 * take the new column to rotate w, as is stable (Bojanczyk, Brent, Van Dooren & de Hoog 1987). */
SIMD_UNUSED static int change_factor(
    double *factor, double *inverses, ptrdiff_t stride, ptrdiff_t d, double sign, double *w)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        double *pivot = factor + ENTRY(j, j, d) * stride;
        double square = pivot[0] * pivot[0] + sign * (w[j] * w[j]);
        if (!(square > 0)) return 0;
        double root = sqrt(square), cosine = root / pivot[0], sine = w[j] / pivot[0];
        double inverse = pivot[0] / root;
        pivot[0] = root;
        inverses[j * stride] = 1 / root;
        for (ptrdiff_t i = j + 1; i < d; i++) {
            double *entry = pivot + (i - j) * stride;
            entry[0] = (entry[0] + sign * sine * w[i]) * inverse;
            w[i] = cosine * w[i] - sine * entry[0];
        }
    }
    return 1;
}

/* factor <- the triangle L of L L' = a matrix, of which `triangle` has the lower one and is spent;
 * entries are `stride` apart. Returns the log-determinant, or NaN if it is not positive definite. */
SIMD_UNUSED static double factorise(
    double *triangle, ptrdiff_t d, ptrdiff_t stride, double *factor, double *inverses)
{
    double log_det = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        double *column = triangle + ENTRY(j, j, d), pivot = column[0];
        if (!(pivot > 0)) return NAN;
        double inverse = 1 / sqrt(pivot);
        inverses[j * stride] = inverse;
        log_det += log(pivot);
        factor[ENTRY(j, j, d) * stride] = sqrt(pivot);
        for (ptrdiff_t i = j + 1; i < d; i++) {
            column[i - j] *= inverse;
            factor[ENTRY(i, j, d) * stride] = column[i - j];
        }
        for (ptrdiff_t l = j + 1; l < d; l++)
            for (ptrdiff_t i = l; i < d; i++)
                triangle[ENTRY(i, l, d)] -= column[i - j] * column[l - j];
    }
    return log_det;
}

OPTIMISE_END

#endif
