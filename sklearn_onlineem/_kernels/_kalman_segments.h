/* A long sequence, cut into segments of equal lengths.
 *
 * In the steady state all steps are the same affine map, so what a pass over a segment ends with is
 * a linear map of what it starts from, plus what it ends with from zero. A first pass over all
 * segments from zero says what the true start of each is, once that of the one before is known.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_SEGMENTS_H
#define SKLEARN_ONLINEEM_KALMAN_SEGMENTS_H

#include "_kalman_batch.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* States of which means have room on the stack. */
#define MOST_STATES 512

/* A sequence is cut if its rows in the steady state fill so many steps of all segments. */
#define FEWEST_STEPS 32

/* Scratch matrices, (W, W) each. */
typedef struct {
    double *step;
    double *power;
    double *product;
} StepMatrices;

SIMD_UNUSED static StepMatrices lay_out_step_matrices(ptrdiff_t W, Arena *arena)
{
    StepMatrices matrices;
    matrices.step = take_doubles(arena, W * W);
    matrices.power = take_doubles(arena, W * W);
    matrices.product = take_doubles(arena, W * W);
    return matrices;
}

/* power <- step^n; overwrites step. */
SIMD_UNUSED static void raise_step(
    ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, const StepMatrices *matrices)
{
    double *step = matrices->step, *power = matrices->power, *product = matrices->product;
    set_zero(W * W, power);
    for (ptrdiff_t i = 0; i < k; i++) power[i * W + i] = 1;
    for (; n > 0; n /= 2) {
        if (n % 2) {
            matrix_product(power, step, k, W, product);
            copy(product, W * W, power);
        }
        matrix_product(step, step, k, W, product);
        copy(product, W * W, step);
    }
}

/* ends (k, BATCH_SIZE) <- true starts of segments, in turn from the `first`, where it is `now` and
 * where the pass did begin there. */
SIMD_UNUSED static void join_segments(
    const double *power, ptrdiff_t k, ptrdiff_t W, int first, double *now, double *ends)
{
    double next[MOST_STATES];
    for (int i = 0; i < BATCH_SIZE; i++) {
        int s = first == 0 ? i : first - i;
        for (ptrdiff_t j = 0; j < k; j++) next[j] = ends[j * BATCH_SIZE + s];
        if (i > 0)
            for (ptrdiff_t j = 0; j < k; j++)
                for (ptrdiff_t h = 0; h < k; h++) next[j] += power[h * W + j] * now[h];
        for (ptrdiff_t j = 0; j < k; j++) ends[j * BATCH_SIZE + s] = now[j];
        copy(next, k, now);
    }
}

/* Forward through segments that follow each other, from `state` of the first. */
SIMD_UNUSED static void filter_segments(
    const Shared *shared, const Batch *body, const BatchScratch *scratch,
    const StepMatrices *matrices, double *state, const MeanSums *sums)
{
    const System *system = shared->system;
    ptrdiff_t k = system->k, W = system->W;
    double start[MOST_STATES], *rest = matrices->product;
    const double *filtered = shared->tables->filtered + (shared->tables->n - 1) * W * W;
    for (ptrdiff_t i = 0; i < k; i++) {
        start[i] = state[i * BATCH_SIZE];
        for (int s = 1; s < BATCH_SIZE; s++) state[i * BATCH_SIZE + s] = 0;
    }
    filter_batch(shared, body, scratch, state, NULL);
    matrix_product(shared->maps->G, filtered, k, W, rest);
    for (ptrdiff_t i = 0; i < W * W; i++) rest[i] = -rest[i];
    for (ptrdiff_t i = 0; i < k; i++) rest[i * W + i] += 1;
    matrix_product(rest, system->At, k, W, matrices->step);
    raise_step(body->T, k, W, matrices);
    join_segments(matrices->power, k, W, 0, start, state);
    filter_batch(shared, body, scratch, state, sums);
}

/* And backward, from nothing after the last. */
SIMD_UNUSED static void smooth_segments(
    const Shared *shared, const Batch *body, const double *centre, const BatchScratch *scratch,
    const StepMatrices *matrices, double *state, const MeanSums *sums)
{
    ptrdiff_t k = shared->system->k, W = shared->system->W;
    double unknown[MOST_STATES] = {0};
    set_zero(k * BATCH_SIZE, state);
    smooth_batch(shared, body, centre, scratch, state, NULL);
    copy(shared->tables->gain + (shared->tables->n - 1) * W * W, W * W, matrices->step);
    raise_step(body->T, k, W, matrices);
    join_segments(matrices->power, k, W, BATCH_SIZE - 1, unknown, state);
    smooth_batch(shared, body, centre, scratch, state, sums);
}

OPTIMISE_END

#endif
