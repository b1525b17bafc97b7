/* The states of a linear dynamical system under the model itself, summed over steps. */
#ifndef SKLEARN_ONLINEEM_KALMAN_USAGE_H
#define SKLEARN_ONLINEEM_KALMAN_USAGE_H

#include "_kalman.h"

/* What moments change by, relative to standard deviations and means, when they are at rest. */
#define AT_REST (4 * ROUNDING)
/* An unstable system is taken to stop growing at so many times its start: any usage keeps the
 * promise that a step lowers the objective of its batch, but not one that overflows. */
#define LARGEST_GROWTH 1e10

SIMD_UNUSED static int is_at_rest(const double *x, const double *y, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j <= i; j++)
            if (!(fabs(x[i * W + j] - y[i * W + j])
                  <= AT_REST * sqrt(fabs(x[i * (W + 1)] * x[j * (W + 1)]))))
                return 0;
    return 1;
}

/* The same for a mean and its covariance, one after the other. */
SIMD_UNUSED static int state_is_at_rest(
    const double *x, const double *y, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        if (!(fabs(x[i] - y[i]) <= AT_REST * (sqrt(x[W + i * (W + 1)]) + fabs(x[i])))) return 0;
    return is_at_rest(x + W, y + W, k, W);
}

/* Mean of the squared length. */
SIMD_UNUSED static double size_of(const double *state, ptrdiff_t k, ptrdiff_t W)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < k; i++) sum += state[i] * state[i] + state[W + i * (W + 1)];
    return sum;
}

SIMD_UNUSED static double sum_from(const double *weights, ptrdiff_t t, ptrdiff_t T)
{
    double sum = 0;
    for (; t < T; t++) sum += weights[t];
    return sum;
}

/* Adds the moments of T states, from that in `state` on, to n totals of W variables, each with its
 * own weights (n, T). `state` and `next` are a mean and a covariance each; `moved`: W W. */
SIMD_UNUSED static void add_usage(
    const System *system, const double *weights, ptrdiff_t T, ptrdiff_t n, double *state,
    double *next, double *moved, Moments *totals)
{
    const ptrdiff_t k = system->k, W = system->W;
    double largest = size_of(state, k, W);
    for (ptrdiff_t i = 0; i < k; i++) largest += system->Q[i * (W + 1)];
    largest *= LARGEST_GROWTH;
    for (ptrdiff_t t = 0; t < T; t++) {
        weigh(state, system->At, k, W, next);
        add(system->b, W, next);
        predict_covariance(system, W, state + W, moved, next + W);
        int stays = state_is_at_rest(state, next, k, W) || !(size_of(next, k, W) <= largest);
        for (ptrdiff_t i = 0; i < n; i++) {
            const double *own = weights + i * T;
            double weight = stays ? sum_from(own, t, T) : own[t];
            add_moments(totals + i, weight, state, weight, state + W);
        }
        if (stays) return;
        double *swap = state;
        state = next;
        next = swap;
    }
}

#endif
