/* When moments of states no longer change from one step to the next. */
#ifndef SKLEARN_ONLINEEM_KALMAN_STEADY_H
#define SKLEARN_ONLINEEM_KALMAN_STEADY_H

#include "_kalman_matrices.h"

/* What moments change by in a steady state, relative to standard deviations and means. */
#define STEADY (4 * ROUNDING)

/* Whether covariances x and y (W, W) are the same. */
SIMD_UNUSED static int is_steady(const double *x, const double *y, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j <= i; j++)
            if (!(fabs(x[i * W + j] - y[i * W + j])
                  <= STEADY * sqrt(fabs(x[i * (W + 1)] * x[j * (W + 1)]))))
                return 0;
    return 1;
}

/* Likewise for a mean and its covariance, one after the other. */
SIMD_UNUSED static int state_is_steady(const double *x, const double *y, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        if (!(fabs(x[i] - y[i]) <= STEADY * (sqrt(x[W + i * (W + 1)]) + fabs(x[i])))) return 0;
    return is_steady(x + W, y + W, k, W);
}

#endif
