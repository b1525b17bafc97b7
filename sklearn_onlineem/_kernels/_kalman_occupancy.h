/* The expected occupancy of states by a linear dynamical system under the model itself: their
 * moments, summed over steps. */
#ifndef SKLEARN_ONLINEEM_KALMAN_OCCUPANCY_H
#define SKLEARN_ONLINEEM_KALMAN_OCCUPANCY_H

#include "_kalman_filter.h"
#include "_kalman_steady.h"
#include "_moments.h"

/* An unstable system is taken to stop growing at so many times its start: any occupancy keeps the
 * promise that a step lowers the objective of its batch, but not one that overflows. */
#define LARGEST_GROWTH 1e10

/* Mean of the squared length. */
SIMD_UNUSED static double mean_square(const double *state, ptrdiff_t k, ptrdiff_t W)
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

typedef struct {
    double *state;   /* (W + W W): a mean and its covariance */
    double *next;    /* (W + W W) */
    double *product; /* (W, W) */
    Moments *totals; /* (n,) */
} Occupancy;

SIMD_UNUSED static Occupancy lay_out_occupancy(ptrdiff_t n, ptrdiff_t W, Arena *arena)
{
    Occupancy occupancy;
    occupancy.state = take_doubles(arena, state_size(W));
    occupancy.next = take_doubles(arena, state_size(W));
    occupancy.product = take_doubles(arena, W * W);
    occupancy.totals = (Moments *)take(arena, n, sizeof(Moments));
    return occupancy;
}

/* Adds the moments of T states, from that in `state` on, to n totals of W variables, each with its
 * own weights (n, T). */
SIMD_UNUSED static void add_occupancy(
    const System *system, const double *weights, ptrdiff_t n, ptrdiff_t T,
    const Occupancy *occupancy)
{
    const ptrdiff_t k = system->k, W = system->W;
    double *state = occupancy->state, *next = occupancy->next;
    double largest = mean_square(state, k, W);
    for (ptrdiff_t i = 0; i < k; i++) largest += system->Q[i * (W + 1)];
    largest *= LARGEST_GROWTH;
    for (ptrdiff_t t = 0; t < T; t++) {
        predict_mean(system, state, next);
        predict_covariance(system, state + W, occupancy->product, next + W);
        int stays = state_is_steady(state, next, k, W) || !(mean_square(next, k, W) <= largest);
        for (ptrdiff_t i = 0; i < n; i++) {
            const double *own = weights + i * T;
            double weight = stays ? sum_from(own, t, T) : own[t];
            add_moments(weight, state, weight, state + W, occupancy->totals + i);
        }
        if (stays) return;
        double *swap = state;
        state = next;
        next = swap;
    }
}

#endif
