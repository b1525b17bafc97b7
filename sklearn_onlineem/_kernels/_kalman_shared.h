/* Sequences without missing values, which share their covariances and gains.
 *
 * Means of all sequences follow from products of rows with tables of gains. Sequences of a slab
 * make batches; a long one, which is a slab of its own, is cut into the segments of one batch.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_SHARED_H
#define SKLEARN_ONLINEEM_KALMAN_SHARED_H

#include "_kalman_occupancy.h"
#include "_kalman_segments.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* Sequences whose rows one thread passes over. */
typedef struct {
    ptrdiff_t S;
    const int64_t *begins;  /* (n_sequences,) of all slabs */
    const int64_t *lengths;
    const int64_t *order;   /* (S,): which of these, by falling length */
} Slab;

/* Rows of a segment if the slab is a sequence to be cut, or 0. */
SIMD_INLINE ptrdiff_t segment_length(const Slab *slab, ptrdiff_t n_tables)
{
    ptrdiff_t length = (slab->lengths[slab->order[0]] - n_tables) / BATCH_SIZE;
    return slab->S == 1 && length >= FEWEST_STEPS ? length : 0;
}

/* Steps of all batches of a slab. */
SIMD_UNUSED static ptrdiff_t count_steps(const Slab *slab, ptrdiff_t n_tables)
{
    ptrdiff_t n = 0, length = segment_length(slab, n_tables);
    if (length) return slab->lengths[slab->order[0]] - (BATCH_SIZE - 1) * length;
    for (ptrdiff_t s = 0; s < slab->S; s += BATCH_SIZE) n += slab->lengths[slab->order[s]];
    return n;
}

/* The scratch memory of a slab. */
typedef struct {
    MeanSums batched;
    MeanSums sums;
    BatchScratch scratch;
    StepMatrices matrices;
    double *state;  /* (W, BATCH_SIZE) */
    double *means;  /* (steps, k, BATCH_SIZE): filtered */
    double *ends;   /* (S, 2, k): smoothed means of first and last rows */
    double *centre; /* (k,) */
} SlabSpace;

SIMD_UNUSED static SlabSpace lay_out_slab(const Shared *shared, const Slab *slab, Arena *arena)
{
    const ptrdiff_t k = shared->system->k, W = shared->system->W, d = shared->maps->d;
    SlabSpace space;
    space.batched = lay_out_mean_sums(k, d, BATCH_SIZE, arena);
    space.state = take_doubles(arena, W * BATCH_SIZE);
    space.scratch = lay_out_batch_scratch(W, d, arena);
    space.matrices = lay_out_step_matrices(W, arena);
    start_line(arena);
    space.means = take_doubles(arena, count_steps(slab, shared->tables->n) * k * BATCH_SIZE);
    space.ends = take_doubles(arena, 2 * slab->S * k);
    space.sums = lay_out_mean_sums(k, d, 1, arena);
    space.centre = take_doubles(arena, k);
    return space;
}

SIMD_UNUSED static void clear_mean_sums(ptrdiff_t k, ptrdiff_t d, const MeanSums *sums)
{
    set_zero(BATCH_SIZE, sums->squares);
    set_zero(k * BATCH_SIZE, sums->total);
    set_zero(d * BATCH_SIZE, sums->rows);
    set_zero(k * k * BATCH_SIZE, sums->states);
    set_zero(k * k * BATCH_SIZE, sums->lags);
    set_zero(d * k * BATCH_SIZE, sums->across);
}

SIMD_UNUSED static void add_up_segments(
    const MeanSums *batched, ptrdiff_t k, ptrdiff_t d, const MeanSums *sums)
{
    sum_segments(batched->squares, 1, sums->squares);
    sum_segments(batched->total, k, sums->total);
    sum_segments(batched->rows, d, sums->rows);
    sum_segments(batched->states, k * k, sums->states);
    sum_segments(batched->lags, k * k, sums->lags);
    sum_segments(batched->across, d * k, sums->across);
}

/* ends (n, 2, k) <- means (k, BATCH_SIZE) of first or last rows of n sequences */
SIMD_UNUSED static void put_end(
    const double *means, ptrdiff_t n, ptrdiff_t k, ptrdiff_t which, double *ends)
{
    for (ptrdiff_t s = 0; s < n; s++)
        for (ptrdiff_t i = 0; i < k; i++)
            ends[(s * 2 + which) * k + i] = means[i * BATCH_SIZE + s];
}

SIMD_UNUSED static void put_last(const Batch *batch, ptrdiff_t n, ptrdiff_t k, double *ends)
{
    for (ptrdiff_t s = 0; s < n; s++)
        put_end(batch->means + (batch->lengths[s] - 1) * k * BATCH_SIZE + s, 1, k, 1,
                ends + s * 2 * k);
}

/* The batch of sequences from the `first` of a slab on. */
SIMD_UNUSED static Batch batch_of(const Slab *slab, ptrdiff_t first, double *means)
{
    Batch batch = {0};
    for (int s = 0; s < BATCH_SIZE; s++) {
        int is_there = first + s < slab->S;
        ptrdiff_t sequence = slab->order[is_there ? first + s : first];
        batch.begins[s] = slab->begins[sequence];
        batch.lengths[s] = is_there ? slab->lengths[sequence] : 0;
    }
    batch.T = batch.lengths[0];
    batch.means = means;
    return batch;
}

/* The centre of deviations: the mean of the filtered means, which is near that of smoothed ones. */
SIMD_UNUSED static void take_centre(
    ptrdiff_t k, double n_rows, const MeanSums *batched, double *centre)
{
    sum_segments(batched->total, k, centre);
    for (ptrdiff_t i = 0; i < k; i++) centre[i] /= n_rows;
    set_zero(k * BATCH_SIZE, batched->total);
}

SIMD_UNUSED static void expect_in_batches(
    const Shared *shared, const Slab *slab, const SlabSpace *space)
{
    ptrdiff_t k = shared->system->k, n_rows = 0;
    double *means = space->means;
    for (ptrdiff_t s = 0; s < slab->S; s += BATCH_SIZE) {
        Batch batch = batch_of(slab, s, means);
        repeat(shared->start, k, space->state);
        filter_batch(shared, &batch, &space->scratch, space->state, &space->batched);
        put_last(&batch, slab->S - s < BATCH_SIZE ? slab->S - s : BATCH_SIZE, k,
                 space->ends + s * 2 * k);
        for (int i = 0; i < BATCH_SIZE; i++) n_rows += batch.lengths[i];
        means += batch.T * k * BATCH_SIZE;
    }
    take_centre(k, (double)n_rows, &space->batched, space->centre);
    means = space->means;
    for (ptrdiff_t s = 0; s < slab->S; s += BATCH_SIZE) {
        Batch batch = batch_of(slab, s, means);
        smooth_batch(shared, &batch, space->centre, &space->scratch, space->state,
                     &space->batched);
        put_end(space->state, slab->S - s < BATCH_SIZE ? slab->S - s : BATCH_SIZE, k, 0,
                space->ends + s * 2 * k);
        means += batch.T * k * BATCH_SIZE;
    }
}

/* A long sequence: a head, up to the steady state, and a body that is cut. */
SIMD_UNUSED static void expect_in_segments(
    const Shared *shared, const Slab *slab, ptrdiff_t length, const SlabSpace *space)
{
    ptrdiff_t k = shared->system->k;
    Batch head = batch_of(slab, 0, space->means), body = head;
    ptrdiff_t T = head.T;
    head.T = head.lengths[0] = T - BATCH_SIZE * length;
    head.continues[0] = 1;
    body.T = length;
    body.step = head.T;
    body.means = space->means + head.T * k * BATCH_SIZE;
    for (int s = 0; s < BATCH_SIZE; s++) {
        body.begins[s] = head.begins[0] + head.T + s * length;
        body.lengths[s] = length;
        body.continues[s] = s + 1 < BATCH_SIZE;
    }
    repeat(shared->start, k, space->state);
    filter_batch(shared, &head, &space->scratch, space->state, &space->batched);
    filter_segments(shared, &body, &space->scratch, &space->matrices, space->state,
                    &space->batched);
    put_end(body.means + (length - 1) * k * BATCH_SIZE + BATCH_SIZE - 1, 1, k, 1, space->ends);
    take_centre(k, (double)T, &space->batched, space->centre);
    smooth_segments(shared, &body, space->centre, &space->scratch, &space->matrices, space->state,
                    &space->batched);
    smooth_batch(shared, &head, space->centre, &space->scratch, space->state, &space->batched);
    put_end(space->state, 1, k, 0, space->ends);
}

/* sums <- sums - deviation; products <- products - deviation deviation' */
SIMD_UNUSED static void take_out(
    const double *mean, const double *centre, ptrdiff_t k, double *sums, double *products)
{
    double deviation[MOST_STATES];
    for (ptrdiff_t i = 0; i < k; i++) sums[i] -= deviation[i] = mean[i] - centre[i];
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < k; j++) products[i * k + j] -= deviation[i] * deviation[j];
}

/* From sums over the rows of a slab, and the smoothed means at the ends of its sequences. */
SIMD_UNUSED static void finish_slab(
    const Shared *shared, const Slab *slab, const SlabSpace *space, const Evidence *evidence)
{
    const ptrdiff_t k = shared->system->k, d = shared->maps->d;
    const MeanSums *sums = &space->sums;
    const double *ends = space->ends, *centre = space->centre;
    double *departing = space->matrices.step, *arriving = space->matrices.power, n_rows = 0;
    Moments initial = evidence->initial, moves = evidence->transitions;
    Moments emissions = evidence->emissions;
    clear_evidence(evidence);
    set_zero(k * k, departing);
    for (ptrdiff_t s = 0; s < slab->S; s++) {
        add_moments(1, ends + 2 * s * k, 0, departing, &initial);
        n_rows += (double)slab->lengths[slab->order[s]];
    }
    copy(sums->total, k, moves.mean);
    copy(sums->total, k, moves.mean + k);
    copy(sums->states, k * k, departing);
    copy(sums->states, k * k, arriving);
    for (ptrdiff_t s = 0; s < slab->S; s++) {
        take_out(ends + (2 * s + 1) * k, centre, k, moves.mean, departing);
        take_out(ends + 2 * s * k, centre, k, moves.mean + k, arriving);
    }
    add_joint(departing, sums->lags, k, arriving, k, k, k, moves.scatter);
    *moves.weight = n_rows - (double)slab->S;
    centre_moments(centre, k, centre, &moves);
    copy(sums->total, k, emissions.mean);
    copy(sums->rows, d, emissions.mean + k);
    add_joint(sums->states, sums->across, k, NULL, 0, k, d, emissions.scatter);
    *emissions.weight = n_rows;
    centre_moments(centre, k, shared->centre, &emissions);
}

/* evidence <- moments of the smoothed means of a slab, and of its rows with them; returns the sum
 * of squared innovations. */
SIMD_UNUSED static double expect_slab(
    const Shared *shared, const Slab *slab, const SlabSpace *space, const Evidence *evidence)
{
    ptrdiff_t k = shared->system->k, d = shared->maps->d;
    ptrdiff_t length = segment_length(slab, shared->tables->n);
    clear_mean_sums(k, d, &space->batched);
    if (length) expect_in_segments(shared, slab, length, space);
    else expect_in_batches(shared, slab, space);
    add_up_segments(&space->batched, k, d, &space->sums);
    finish_slab(shared, slab, space, evidence);
    return *space->sums.squares;
}

OPTIMISE_END

#endif
