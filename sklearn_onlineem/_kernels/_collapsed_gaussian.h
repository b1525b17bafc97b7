/* One row among K Gaussians whose parameters are integrated out: its distances and weights.
 *
 * Components are elements of vectors, P of them: K padded to whole vectors. */
#pragma once

#include "_small_matrices.h"

OPTIMISE_BEGIN(SELECTS)

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

OPTIMISE_END
