/* Means of many segments of rows at once, from tabulated gains: a batch has one segment in each
 * element of the vectors, so that products of one row become products of BATCH_SIZE rows. */
#ifndef SKLEARN_ONLINEEM_KALMAN_BATCH_H
#define SKLEARN_ONLINEEM_KALMAN_BATCH_H

#include "_batched.h"
#include "_kalman_gains.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* What turns rows into information about states, and states into residuals. */
typedef struct {
    ptrdiff_t d;
    const double *offset;    /* (d,) */
    const double *whitening; /* (d, d), L'^-1 with R = L L' */
    const double *H;         /* (d, W), L^-1 C, and its transpose */
    const double *Ht;        /* (W, d) */
    const double *G;         /* (W, W), H' H */
} ObservationMaps;

/* What all sequences without missing values share. */
typedef struct {
    const System *system;
    const GainTables *tables;
    const ObservationMaps *maps;
    const double *start;  /* (W,): mean of the first states */
    const void *X;        /* (n_rows, d), floats or doubles */
    int is_float;
    const double *centre; /* (d,): of rows */
} Shared;

typedef struct {
    ptrdiff_t T;                    /* rows of the longest segment */
    ptrdiff_t step;                 /* rows of their sequences before them */
    int64_t begins[BATCH_SIZE];     /* first rows */
    int64_t lengths[BATCH_SIZE];
    int64_t continues[BATCH_SIZE];  /* whether the row after the last one is known, too */
    double *means;                  /* (T, k, BATCH_SIZE): filtered */
} Batch;

/* Sums over rows, of deviations of states from a centre and of rows from theirs; `width` of them
 * side by side, BATCH_SIZE or 1. */
typedef struct {
    double *squares; /* (1, width), of innovations */
    double *total;   /* (k, width): of filtered means, then of deviations of smoothed ones */
    double *rows;    /* (d, width) */
    double *states;  /* (k, k, width) */
    double *lags;    /* (k, k, width) */
    double *across;  /* (d, k, width) */
} MeanSums;

SIMD_UNUSED static MeanSums lay_out_mean_sums(
    ptrdiff_t k, ptrdiff_t d, ptrdiff_t width, Arena *arena)
{
    MeanSums sums;
    sums.squares = take_doubles(arena, width);
    sums.total = take_doubles(arena, k * width);
    sums.rows = take_doubles(arena, d * width);
    sums.states = take_doubles(arena, k * k * width);
    sums.lags = take_doubles(arena, k * k * width);
    sums.across = take_doubles(arena, d * k * width);
    return sums;
}

/* Scratch memory of passes over a batch: arrays (d, BATCH_SIZE) and (W, BATCH_SIZE). */
typedef struct {
    double *rows, *whitened, *residual;
    double *offset, *centre, *a, *b, *c;
    double *zeros; /* (d + W, BATCH_SIZE) */
} BatchScratch;

SIMD_UNUSED static BatchScratch lay_out_batch_scratch(ptrdiff_t W, ptrdiff_t d, Arena *arena)
{
    BatchScratch scratch;
    scratch.rows = take_doubles(arena, d * BATCH_SIZE);
    scratch.whitened = take_doubles(arena, d * BATCH_SIZE);
    scratch.residual = take_doubles(arena, d * BATCH_SIZE);
    scratch.zeros = take_doubles(arena, (d + W) * BATCH_SIZE);
    scratch.offset = take_doubles(arena, W * BATCH_SIZE);
    scratch.centre = take_doubles(arena, W * BATCH_SIZE);
    scratch.a = take_doubles(arena, W * BATCH_SIZE);
    scratch.b = take_doubles(arena, W * BATCH_SIZE);
    scratch.c = take_doubles(arena, W * BATCH_SIZE);
    return scratch;
}

/* out (d, BATCH_SIZE) <- row t of each segment (its last one if that is earlier), less `from` */
SIMD_INLINE void gather_rows(
    const Shared *shared, const Batch *batch, ptrdiff_t t, const double *from, double *out)
{
    const ptrdiff_t d = shared->maps->d;
    for (int s = 0; s < BATCH_SIZE; s++) {
        ptrdiff_t last = batch->lengths[s] > 0 ? batch->lengths[s] - 1 : 0;
        ptrdiff_t row = (batch->begins[s] + (t < last ? t : last)) * d;
        if (shared->is_float)
            for (ptrdiff_t j = 0; j < d; j++)
                out[j * BATCH_SIZE + s] = ((const float *)shared->X)[row + j] - from[j];
        else
            for (ptrdiff_t j = 0; j < d; j++)
                out[j * BATCH_SIZE + s] = ((const double *)shared->X)[row + j] - from[j];
    }
}

/* -1 where t is below the length (and one more where the segment continues), else 0 */
SIMD_INLINE void mask_below(
    const int64_t *lengths, const int64_t *continues, ptrdiff_t t, int64_t *mask)
{
    for (int s = 0; s < BATCH_SIZE; s++)
        mask[s] = -(t < lengths[s] + (continues ? continues[s] : 0));
}

/* batch->means <- filtered means; predicted (k, BATCH_SIZE): those of the first rows, and then of
 * the rows after the last ones. `sums` may be NULL. */
SIMD_CLONES SIMD_UNUSED static void filter_batch(
    const Shared *shared, const Batch *batch, const BatchScratch *scratch, double *predicted,
    const MeanSums *sums)
{
    const System *system = shared->system;
    const GainTables *tables = shared->tables;
    const ObservationMaps *maps = shared->maps;
    const ptrdiff_t k = system->k, W = system->W, d = maps->d, last = tables->n - 1;
    double *v = scratch->rows, *e = scratch->whitened, *rest = scratch->residual;
    double *zeros = scratch->zeros, *offset = scratch->offset;
    double *u = scratch->a, *move = scratch->b, *r = scratch->c;
    int64_t mask[BATCH_SIZE];
    set_zero((d + W) * BATCH_SIZE, zeros);
    repeat(system->b, k, offset);
    for (ptrdiff_t t = 0; t < batch->T; t++) {
        const ptrdiff_t step = (batch->step + t < last ? batch->step + t : last) * W * W;
        double *mean = batch->means + t * k * BATCH_SIZE;
        gather_rows(shared, batch, t, maps->offset, v);
        batched_product(maps->whitening, d, d, d, v, zeros, 1, e);
        batched_product(maps->Ht, d, k, d, predicted, e, -1, e);
        batched_product(maps->H, W, d, k, e, zeros, 1, u);
        batched_product(tables->filtered + step, W, k, k, u, zeros, 1, move);
        for (ptrdiff_t i = 0; i < k * BATCH_SIZE; i += BATCH_SIZE)
            ELEMENTWISE(Batched, predicted + i, +, move + i, mean + i);
        batched_product(system->At, W, k, k, mean, offset, 1, predicted);
        if (!sums) continue;
        batched_product(tables->root + step, W, k, k, u, zeros, 1, r);
        batched_product(maps->Ht, d, k, d, move, e, -1, rest);
        Batched squares = {0};
        for (ptrdiff_t i = 0; i < k * BATCH_SIZE; i += BATCH_SIZE)
            ADD_PRODUCT(r + i, r + i, &squares);
        for (ptrdiff_t i = 0; i < d * BATCH_SIZE; i += BATCH_SIZE)
            ADD_PRODUCT(rest + i, rest + i, &squares);
        mask_below(batch->lengths, NULL, t, mask);
        add_kept(mask, (const double *)&squares, 1, sums->squares);
        add_kept(mask, mean, k, sums->total);
    }
}

/* later (k, BATCH_SIZE): smoothed means of the rows after the last ones where these are known, and
 * then of the first ones. `sums` may be NULL; if not, states are less `centre` (k,) in them. */
SIMD_CLONES SIMD_UNUSED static void smooth_batch(
    const Shared *shared, const Batch *batch, const double *centre, const BatchScratch *scratch,
    double *later, const MeanSums *sums)
{
    const System *system = shared->system;
    const GainTables *tables = shared->tables;
    const ptrdiff_t k = system->k, W = system->W, d = shared->maps->d, last = tables->n - 1;
    double *v = scratch->rows, *offset = scratch->offset, *centres = scratch->centre;
    double *rest = scratch->a, *now = scratch->b, *next = scratch->c;
    int64_t mask[BATCH_SIZE];
    repeat(system->b, k, offset);
    if (sums) repeat(centre, k, centres);
    for (ptrdiff_t t = batch->T - 1; t >= 0; t--) {
        const ptrdiff_t step = (batch->step + t < last ? batch->step + t : last) * W * W;
        const double *mean = batch->means + t * k * BATCH_SIZE;
        mask_below(batch->lengths, batch->continues, t + 1, mask);
        batched_product(system->At, W, k, k, mean, offset, 1, rest);
        subtract_kept(mask, later, rest, k, rest);
        if (sums) subtract_kept(mask, later, centres, k, next);
        batched_product(tables->gain + step, W, k, k, rest, mean, 1, later);
        if (!sums) continue;
        mask_below(batch->lengths, NULL, t, mask);
        subtract_kept(mask, later, centres, k, now);
        gather_rows(shared, batch, t, shared->centre, v);
        add_kept(mask, now, k, sums->total);
        add_kept(mask, v, d, sums->rows);
        add_batched_outer(now, now, k, k, sums->states);
        add_batched_outer(next, now, k, k, sums->lags);
        add_batched_outer(v, now, d, k, sums->across);
    }
}

OPTIMISE_END

#endif
