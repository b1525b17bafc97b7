/* Steps of the Rauch-Tung-Striebel smoother, and of the simulation smoother, which draws states.
 *
 * Smoothed covariances are sums of quadratic forms (Joseph's form), and so symmetric and positive
 * semi-definite by construction.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_SMOOTHER_H
#define SKLEARN_ONLINEEM_KALMAN_SMOOTHER_H

#include "_kalman_filter.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* Scratch matrices of a step, (W, W) each. */
typedef struct {
    double *gain;
    double *shrink;
    double *sum;
    double *rest;
} SmootherStep;

SIMD_UNUSED static SmootherStep lay_out_smoother_step(ptrdiff_t W, Arena *arena)
{
    SmootherStep step;
    step.gain = take_doubles(arena, W * W);
    step.shrink = take_doubles(arena, W * W);
    step.sum = take_doubles(arena, W * W);
    step.rest = take_doubles(arena, W * W);
    return step;
}

/* gain <- J', where J = P A' (A P A' + Q)^-1 ; shrink <- (I - J A)' */
SIMD_UNUSED static void smoother_gain(
    const System *system, const double *covariance, const double *next_upper,
    const double *next_inverse, double *gain, double *shrink)
{
    ptrdiff_t k = system->k, W = system->W;
    matrix_product(system->A, covariance, k, W, gain);
    substitute_forward(next_upper, next_inverse, k, W, W, gain);
    substitute_backward(next_upper, next_inverse, k, W, W, gain);
    matrix_product(system->At, gain, k, W, shrink);
    for (ptrdiff_t i = 0; i < W * W; i++) shrink[i] = -shrink[i];
    for (ptrdiff_t i = 0; i < k; i++) shrink[i * W + i] += 1;
}

/* mean <- mean + root(covariance) noise, covariance <- 0 */
SIMD_UNUSED static void draw_state(
    const double *noise, ptrdiff_t k, ptrdiff_t W, const SmootherStep *step, double *mean,
    double *covariance)
{
    double *upper = step->gain, *inverse = step->shrink;
    factorise(covariance, k, W, upper, inverse);
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < W; j++) mean[j] += noise[i] * upper[i * W + j];
    set_zero(W * W, covariance);
}

/* mean (W,), covariance (W, W): smoothed moments of the next state, and then of this one; lag (W,
 * W) <- Cov(next, this). States are drawn if there is noise. */
SIMD_UNUSED static void smooth_state(
    const System *system, FilteredState now, FilteredState next, const double *noise,
    const SmootherStep *step, double *mean, double *covariance, double *lag)
{
    ptrdiff_t k = system->k, W = system->W;
    double *gain = step->gain, *shrink = step->shrink, *sum = step->sum, *rest = step->rest;
    smoother_gain(system, now.covariance, next.upper, next.inverse, gain, shrink);
    for (ptrdiff_t j = 0; j < W; j++) rest[j] = mean[j] - next.predicted[j];
    row_product(rest, gain, k, W, mean);
    add(now.mean, W, mean);
    matrix_product(covariance, gain, k, W, lag);
    copy(covariance, W * W, sum);
    add(system->Q, W * W, sum);
    set_zero(W * W, covariance);
    add_quadratic(shrink, now.covariance, k, W, rest, covariance);
    add_quadratic(gain, sum, k, W, rest, covariance);
    symmetrise(covariance, k, W);
    if (noise) draw_state(noise, k, W, step, mean, covariance);
}

OPTIMISE_END

#endif
