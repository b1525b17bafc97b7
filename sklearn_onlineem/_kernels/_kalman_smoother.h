/* Steps of the Rauch-Tung-Striebel smoother, and of the simulation smoother, which draws states.
 *
 * States are drawn in antithetic pairs, as far above their smoothed means as below (Durbin & Koopman
 * 2002): only second moments of the deviation are left to chance. Of a state and the one after, the
 * first is averaged over, given the second (Rao-Blackwell).
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

/* out (k, W) <- out + x y' */
SIMD_UNUSED static void add_outer_product(
    const double *x, const double *y, ptrdiff_t k, ptrdiff_t W, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < W; j++) out[i * W + j] += x[i] * y[j];
}

/* mean (W,), covariance (W, W): smoothed moments of the next state, and then of this one; lag (W,
 * W) <- Cov(next, this). Where the next state was drawn its covariance is 0. */
SIMD_UNUSED static void smooth_state(
    const System *system, FilteredState now, FilteredState next, const SmootherStep *step,
    double *mean, double *covariance, double *lag)
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
}

/* deviation (W,) <- that of this state from its mean, to be expected where the next one has the
 * given one; lag (W, W) <- product of both. The gain is that of `smooth_state`. */
SIMD_UNUSED static void smooth_deviation(
    ptrdiff_t k, ptrdiff_t W, const SmootherStep *step, double *deviation, double *lag)
{
    double *expected = step->rest;
    row_product(deviation, step->gain, k, W, expected);
    set_zero(W * W, lag);
    add_outer_product(deviation, expected, k, W, lag);
    copy(expected, W, deviation);
}

/* Draws the deviation of a state, given that to be expected and the covariance about it.
 *
 * covariance <- that about the mean, over all draws; square (W, W) <- that of the draw. */
SIMD_UNUSED static void draw_deviation(
    const double *noise, ptrdiff_t k, ptrdiff_t W, const SmootherStep *step, double *deviation,
    double *covariance, double *square)
{
    double *upper = step->gain, *inverse = step->shrink;
    factorise(covariance, k, W, upper, inverse);
    add_outer_product(deviation, deviation, k, W, covariance);
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < W; j++) deviation[j] += noise[i] * upper[i * W + j];
    set_zero(W * W, square);
    add_outer_product(deviation, deviation, k, W, square);
}

OPTIMISE_END

#endif
