/* Sequences without missing values, which share their covariances and gains.
 *
 * Means of all sequences follow from products of rows with tables of gains. Sequences of a slab
 * make batches; a long one, which is a slab of its own, is cut into the segments of one batch.
 */
#pragma once

#include "_kalman_gains.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* Batches
 * -------
 *
 * Means of many segments of rows at once, from tabulated gains: a batch has one segment in each
 * element of the vectors, so that products of one row become products of LANES rows.
 */

/* What all sequences without missing values share. Whitened rows are rotated so that only the first
 * of their values, as many as there are states, depend on these. */
typedef struct {
    System system;           /* only its transitions */
    GainTables tables;
    ptrdiff_t d;
    const double *offset;    /* (d,) */
    ptrdiff_t n_whitened;    /* the first values that count: k, or all where d is less, or d */
    const double *whitening; /* (d, n_whitened), L'^-1 O with R = L L', O orthogonal */
    const double *Ht;        /* (W, W), transpose of H, the first k rows of O' L^-1 C */
    const double *G;         /* (W, W), H' H */
    const double *start;  /* (W,): mean of the first states; or (n_sequences, W), that of each */
    ptrdiff_t start_step; /* from one sequence to the next: W, or 0 */
    double *firsts;       /* (n_sequences, k): smoothed means of these states; NULL: not wanted */
    const void *X;        /* (n_rows, d), floats or doubles */
    int is_float;
    const double *centre; /* (d,): what rows are less, where they are at hand */
    int smooths;          /* or only the rows' log densities are wanted */
    double log_det;       /* of 2 pi R */
    double *log_densities; /* (n_rows,): log p(row | past); NULL: they are not wanted */
} Shared;

/* Steps whose products are added to sums in one go. */
#define MOST_STEPS 16

typedef struct {
    ptrdiff_t T;                    /* rows of the longest segment */
    ptrdiff_t since, until;         /* those that count */
    ptrdiff_t step;                 /* rows of their sequences before them */
    int64_t begins[LANES];     /* first rows */
    int64_t lengths[LANES];
    int64_t continues[LANES];  /* whether the row after the last one is known, too */
    double *means;  /* (T + 1, 2, k, LANES): predicted, and, but for the last ones, filtered */
    double *rows;   /* (T, d, LANES), or the last MOST_STEPS of them; less a centre */
    int keeps_rows;
} Batch;

/* Sums over rows, of deviations of states from a centre and of rows from theirs; `width` of them
 * side by side, LANES or 1. */
typedef struct {
    double *squares; /* (1, width), of innovations */
    double *states;  /* (k, k, width), on and below the diagonal */
    double *total;   /* (k, width), one more row of these: of deviations alone */
    double *lags;    /* (k, k, width) */
    double *across;  /* (d, k, width) */
    double *rows;    /* (d, width) */
} MeanSums;

SIMD_INLINE ptrdiff_t mean_sums_size(ptrdiff_t k, ptrdiff_t d)
{ return 1 + k + d + 2 * k * k + d * k; }

/* One array after the other. */
SIMD_UNUSED static MeanSums mean_sums_at(double *memory, ptrdiff_t k, ptrdiff_t d, ptrdiff_t width)
{
    MeanSums sums = {memory};
    if (!memory) return sums;
    sums.states = sums.squares + width;
    sums.total = sums.states + k * k * width;
    sums.lags = sums.total + k * width;
    sums.across = sums.lags + k * k * width;
    sums.rows = sums.across + d * k * width;
    return sums;
}

/* The scratch memory of a slab. */
typedef struct {
    MeanSums batched, sums;
    double *whitened, *origin; /* (d, LANES) */
    double *zeros;             /* (d + W, LANES) */
    double *offset, *centres, *rest; /* (W, LANES) */
    double *deviations; /* (MOST_STEPS + 1, k + 1, LANES): of states, and 1 for those that count */
    double *step, *power, *product; /* (W, W) */
    double *state;      /* (W, LANES): means that a pass begins with, and then ends with */
    double *after;      /* (k, LANES): smoothed means of the rows after those that count */
    double *means;      /* (steps + 1, 2, k, LANES): of batches */
    double *rows;       /* (steps, d, LANES), or of a few steps */
    int keeps_rows;
    double *ends;       /* (S, 2, k): smoothed means of first and last rows */
    double *centre;     /* (k,), of deviations */
} SlabSpace;

/* Column by column, each in one go: what is stored element by element cannot be loaded as a vector
 * before all of it is in the cache. */
#define GATHER_ROWS(x) \
    for (ptrdiff_t j = 0; j < d; j++) { \
        const double shift = from[j]; \
        UNROLL(8) for (int s = 0; s < LANES; s++) \
            out[j * LANES + s] = (double)(x)[rows[s] + j] - shift; \
    }

/* Segments are many places in memory to read from: each is fetched ahead. */
#define STEPS_AHEAD 8

/* out (d, LANES) <- row t of each segment (its last one if that is earlier), less the centre */
SIMD_INLINE void gather_rows(
    const Shared *shared, const Batch *batch, ptrdiff_t t, double *RESTRICT out)
{
    const ptrdiff_t d = shared->d;
    const double *from = shared->centre;
    ptrdiff_t rows[LANES];
    for (int s = 0; s < LANES; s++) {
        ptrdiff_t last = batch->lengths[s] > 0 ? batch->lengths[s] - 1 : 0;
        rows[s] = (batch->begins[s] + (t < last ? t : last)) * d;
    }
    if (shared->is_float) {
        const float *x = (const float *)shared->X;
        GATHER_ROWS(x)
    } else {
        const double *x = (const double *)shared->X;
        for (int s = 0; s < LANES; s++) FETCH(x + rows[s] + STEPS_AHEAD * d);
        GATHER_ROWS(x)
    }
}

/* 1 where t is below the length (and one more where the segment continues), else 0 */
SIMD_INLINE void find_below(
    const int64_t *lengths, const int64_t *continues, ptrdiff_t t, int64_t *keeps)
{
    EACH_SEGMENT keeps[s] = t < lengths[s] + (continues ? continues[s] : 0);
}

SIMD_INLINE double *predicted_means(const Batch *batch, ptrdiff_t t, ptrdiff_t k)
{ return batch->means + 2 * t * k * LANES; }

SIMD_INLINE double *filtered_means(const Batch *batch, ptrdiff_t t, ptrdiff_t k)
{ return batch->means + (2 * t + 1) * k * LANES; }

SIMD_INLINE double *rows_at(const Batch *batch, ptrdiff_t t, ptrdiff_t d)
{ return batch->rows + (batch->keeps_rows ? t : t % MOST_STEPS) * d * LANES; }

/* batch->means <- those of all rows; space->state: predicted ones of the first rows, and then of the
 * rows after the last ones. With `adds`, squares of innovations are added. */
SIMD_CLONES SIMD_UNUSED static void filter_batch(
    const Shared *shared, const Batch *batch, int adds, const SlabSpace *space)
{
    const System *system = &shared->system;
    const GainTables *tables = &shared->tables;
    const ptrdiff_t k = system->k, W = system->W, d = shared->d, last = tables->n - 1;
    const ptrdiff_t n_rotated = k < d ? k : d, n_whitened = shared->n_whitened;
    double *e = space->whitened, *r = space->rest, *origin = space->origin;
    double *zeros = space->zeros, *offset = space->offset;
    int64_t keeps[LANES];
    set_zero((d + W) * LANES, zeros);
    repeat(system->b, k, offset);
    for (ptrdiff_t i = 0; i < d; i++)
        EACH_SEGMENT e[i * LANES + s] = shared->centre[i] - shared->offset[i];
    batched_product(shared->whitening, n_whitened, d, n_whitened, e, zeros, origin);
    copy(space->state, k * LANES, batch->means);
    for (ptrdiff_t t = 0; t < batch->T; t++) {
        const ptrdiff_t step = (batch->step + t < last ? batch->step + t : last) * W * W;
        double *predicted = predicted_means(batch, t, k), *mean = filtered_means(batch, t, k);
        double *v = rows_at(batch, t, d);
        gather_rows(shared, batch, t, v);
        batched_product(shared->whitening, n_whitened, d, n_whitened, v, origin, e);
        batched_product(shared->Ht, W, k, n_rotated, predicted, zeros, r);
        for (ptrdiff_t i = 0; i < n_rotated * LANES; i += LANES)
            EACH_SEGMENT e[i + s] -= r[i + s];
        batched_product(tables->move + step, W, n_rotated, k, e, predicted, mean);
        batched_product(system->At, W, k, k, mean, offset, predicted_means(batch, t + 1, k));
        if (!adds || t < batch->since || t >= batch->until) continue;
        batched_product(tables->root + step, W, n_rotated, n_rotated, e, zeros, r);
        double squares[LANES] = {0};
        for (ptrdiff_t i = 0; i < n_rotated * LANES; i += LANES)
            EACH_SEGMENT squares[s] += r[i + s] * r[i + s];
        for (ptrdiff_t i = n_rotated * LANES; i < n_whitened * LANES; i += LANES)
            EACH_SEGMENT squares[s] += e[i + s] * e[i + s];
        find_below(batch->lengths, NULL, t, keeps);
        add_kept(keeps, squares, 1, space->batched.squares);
        if (!shared->log_densities) continue;
        const double log_det = shared->log_det + tables->log_det[step / (W * W)];
        double *out = shared->log_densities + t;
        for (int s = 0; s < LANES; s++)
            if (keeps[s]) out[batch->begins[s]] = -0.5 * (log_det + squares[s]);
    }
    copy(predicted_means(batch, batch->T, k), k * LANES, space->state);
}

/* space->state: smoothed means of the rows after the last ones where these are known, and then of
 * the first ones that count. With `adds`, other sums over rows are added. */
SIMD_CLONES SIMD_UNUSED static void smooth_batch(
    const Shared *shared, const Batch *batch, int adds, const SlabSpace *space)
{
    const GainTables *tables = &shared->tables;
    const MeanSums *total = &space->batched;
    const ptrdiff_t k = shared->system.k, W = shared->system.W, d = shared->d;
    const ptrdiff_t last = tables->n - 1;
    const ptrdiff_t stride = (k + 1) * LANES, first = batch->until - 1;
    double *later = space->state, *centres = space->centres, *rest = space->rest;
    double *before = space->deviations, *now = before + stride;
    ptrdiff_t n_steps = 0;
    int64_t keeps[LANES];
    if (adds) repeat(space->centre, k, centres);
    for (ptrdiff_t t = batch->T - 1; t >= batch->since; t--) {
        const ptrdiff_t step = (batch->step + t < last ? batch->step + t : last) * W * W;
        if (t == first) copy(later, k * LANES, space->after);
        find_below(batch->lengths, batch->continues, t + 1, keeps);
        subtract_kept(keeps, later, predicted_means(batch, t + 1, k), k, rest);
        if (adds && t == first) subtract_kept(keeps, later, centres, k, before);
        batched_product(tables->gain + step, W, k, k, rest, filtered_means(batch, t, k), later);
        if (!adds || t > first) continue;
        n_steps++;
        find_below(batch->lengths, NULL, t, keeps);
        subtract_kept(keeps, later, centres, k, before + n_steps * stride);
        EACH_SEGMENT before[n_steps * stride + k * LANES + s] = (double)keeps[s];
        if (!batch->keeps_rows) gather_rows(shared, batch, t, rows_at(batch, t, d));
        if (t % MOST_STEPS > 0 && t > batch->since) continue;
        const double *v = rows_at(batch, t + n_steps - 1, d);
        for (ptrdiff_t j = 0; j <= k; j++) {
            const double *own = now + j * LANES;
            const int is_state = j < k;
            add_batched_outer(v, -d * LANES, d, own, stride, n_steps, is_state ? k : 1,
                              is_state ? total->across + j * LANES : total->rows);
            if (!is_state) break;
            add_batched_outer(own, stride, k + 1 - j, own, stride, n_steps, k,
                              total->states + (j * k + j) * LANES);
            add_batched_outer(before, stride, k, own, stride, n_steps, k, total->lags + j * LANES);
        }
        copy(before + n_steps * stride, k * LANES, before);
        n_steps = 0;
    }
}

/* Segments
 * --------
 *
 * A long sequence is cut into segments of equal lengths.
 *
 * In the steady state all steps are the same affine map, so what a pass over a segment ends with is
 * a linear map of what it starts from, plus what it ends with from zero. A first pass over all
 * segments from zero says what the true start of each is, once that of the one before is known.
 */

/* States of which means have room on the stack. */
#define MOST_STATES 512

/* A sequence is cut if its rows in the steady state fill so many steps of all segments. */
#define FEWEST_STEPS 16

/* space->power <- step^n; overwrites step. */
SIMD_UNUSED static void raise_step(
    ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, const SlabSpace *space)
{
    double *step = space->step, *power = space->power, *product = space->product;
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

/* ends (k, LANES) <- true starts of segments, in turn from the `first`, where it is `now` and
 * where the pass did begin there. */
SIMD_UNUSED static void join_segments(
    const double *power, ptrdiff_t k, ptrdiff_t W, int first, double *now, double *ends)
{
    double next[MOST_STATES];
    for (int i = 0; i < LANES; i++) {
        int s = first == 0 ? i : first - i;
        for (ptrdiff_t j = 0; j < k; j++) next[j] = ends[j * LANES + s];
        if (i > 0)
            for (ptrdiff_t j = 0; j < k; j++)
                for (ptrdiff_t h = 0; h < k; h++) next[j] += power[h * W + j] * now[h];
        for (ptrdiff_t j = 0; j < k; j++) ends[j * LANES + s] = now[j];
        copy(next, k, now);
    }
}

/* Forward through segments that follow each other, from the state of the first. */
SIMD_UNUSED static void filter_segments(
    const Shared *shared, const Batch *body, const SlabSpace *space)
{
    const ptrdiff_t k = shared->system.k, W = shared->system.W;
    double start[MOST_STATES], *rest = space->product;
    const double *filtered = shared->tables.filtered + (shared->tables.n - 1) * W * W;
    for (ptrdiff_t i = 0; i < k; i++) {
        start[i] = space->state[i * LANES];
        for (int s = 1; s < LANES; s++) space->state[i * LANES + s] = 0;
    }
    filter_batch(shared, body, 0, space);
    matrix_product(shared->G, filtered, k, W, rest);
    for (ptrdiff_t i = 0; i < W * W; i++) rest[i] = -rest[i];
    for (ptrdiff_t i = 0; i < k; i++) rest[i * W + i] += 1;
    matrix_product(rest, shared->system.At, k, W, space->step);
    raise_step(body->T, k, W, space);
    join_segments(space->power, k, W, 0, start, space->state);
    filter_batch(shared, body, 1, space);
}

/* And backward, from nothing after the last. */
SIMD_UNUSED static void smooth_segments(
    const Shared *shared, const Batch *body, const SlabSpace *space)
{
    const ptrdiff_t k = shared->system.k, W = shared->system.W;
    double unknown[MOST_STATES] = {0};
    set_zero(k * LANES, space->state);
    smooth_batch(shared, body, 0, space);
    copy(shared->tables.gain + (shared->tables.n - 1) * W * W, W * W, space->step);
    raise_step(body->T, k, W, space);
    join_segments(space->power, k, W, LANES - 1, unknown, space->state);
    smooth_batch(shared, body, 1, space);
}

/* Slabs
 * -----
 */

/* Sequences whose rows one thread passes over. */
typedef struct {
    ptrdiff_t S;
    const int64_t *begins;  /* (n_sequences,) of all slabs */
    const int64_t *lengths;
    const int64_t *order;   /* (S,): which of these, by falling length */
    /* Of a stretch of one sequence: */
    ptrdiff_t first;        /* its first row */
    ptrdiff_t rows;         /* those of each of its segments; 0: these are whole sequences */
    int n_segments;         /* LANES, or 1 */
    ptrdiff_t reach;        /* rows before and after a segment that are walked over with it */
} Slab;

/* Rows of a segment if the slab is a sequence to be cut in one go, or 0. */
SIMD_INLINE ptrdiff_t segment_length(const Slab *slab, ptrdiff_t n_tables)
{
    ptrdiff_t length = (slab->lengths[slab->order[0]] - n_tables) / LANES;
    return slab->S == 1 && slab->rows == 0 && length >= FEWEST_STEPS ? length : 0;
}

/* A long sequence is cut into stretches that know nothing of each other, where passes forget within
 * `reach` rows of the steady state where they started. Each is a slab. */
#define FEWEST_SEGMENT_ROWS 512
#define LEAST_SHARE 4  /* rows of a segment, times the reach */
#define USUAL_SHARE 16

/* Number of stretches of LANES segments of a sequence of T rows. */
SIMD_INLINE ptrdiff_t count_stretches(ptrdiff_t T, ptrdiff_t n_tables, ptrdiff_t reach)
{
    const ptrdiff_t length = (T - n_tables - reach) / LANES;
    const ptrdiff_t usual = USUAL_SHARE * reach > FEWEST_SEGMENT_ROWS ? USUAL_SHARE * reach
                                                                      : FEWEST_SEGMENT_ROWS;
    if (reach == 0 || length < LEAST_SHARE * reach || length < FEWEST_STEPS) return 0;
    return length > usual ? length / usual : 1;
}

/* Stretch number i of n, after the one that leads to the steady state, which is number 0. */
SIMD_UNUSED static Slab cut_stretch(
    Slab whole, ptrdiff_t i, ptrdiff_t n, ptrdiff_t n_tables, ptrdiff_t reach)
{
    const ptrdiff_t T = whole.lengths[whole.order[0]];
    const ptrdiff_t rows = (T - n_tables - reach) / (LANES * n), head = T - LANES * n * rows;
    whole.first = i > 0 ? head + (i - 1) * LANES * rows : 0;
    whole.rows = i > 0 ? rows : head;
    whole.n_segments = i > 0 ? LANES : 1;
    whole.reach = reach;
    return whole;
}

/* Steps of all batches of a slab. */
SIMD_UNUSED static ptrdiff_t count_steps(const Slab *slab, ptrdiff_t n_tables)
{
    ptrdiff_t n = 0, length = segment_length(slab, n_tables);
    if (slab->rows) return slab->rows + 2 * slab->reach;
    if (length) return slab->lengths[slab->order[0]] - (LANES - 1) * length;
    for (ptrdiff_t s = 0; s < slab->S; s += LANES) n += slab->lengths[slab->order[s]];
    return n;
}

/* Values of rows that are kept from the way forward for the way back, at most. */
#define MOST_KEPT (1 << 18)

SIMD_UNUSED static SlabSpace lay_out_slab(const Shared *shared, const Slab *slab, Arena *arena)
{
    const ptrdiff_t k = shared->system.k, W = shared->system.W, d = shared->d;
    SlabSpace space;
    space.batched = mean_sums_at(take_doubles(arena, mean_sums_size(k, d) * LANES), k, d, LANES);
    take_each(arena, W * LANES, &space.state, &space.after, &space.offset, &space.centres,
              &space.rest);
    take_each(arena, d * LANES, &space.whitened, &space.origin);
    space.zeros = take_doubles(arena, (d + W) * LANES);
    space.deviations = take_doubles(arena, (MOST_STEPS + 1) * (W + 1) * LANES);
    take_each(arena, W * W, &space.step, &space.power, &space.product);
    const ptrdiff_t n = count_steps(slab, shared->tables.n);
    space.keeps_rows = n * d * LANES <= MOST_KEPT;
    space.means = take_doubles(arena, (2 * n + 1) * k * LANES);
    space.rows = take_doubles(arena, (space.keeps_rows ? n : MOST_STEPS) * d * LANES);
    space.ends = take_doubles(arena, 2 * slab->S * k);
    space.sums = mean_sums_at(take_doubles(arena, mean_sums_size(k, d)), k, d, 1);
    space.centre = take_doubles(arena, k);
    return space;
}

/* ends (n, 2, k) <- means (k, LANES) of first or last rows of n sequences */
SIMD_UNUSED static void put_end(
    const double *means, ptrdiff_t n, ptrdiff_t k, ptrdiff_t which, double *ends)
{
    for (ptrdiff_t s = 0; s < n; s++)
        for (ptrdiff_t i = 0; i < k; i++)
            ends[(s * 2 + which) * k + i] = means[i * LANES + s];
}

/* The batch of sequences from the `first` of a slab on, after so many steps of others. */
SIMD_UNUSED static Batch batch_of(
    const Shared *shared, const Slab *slab, const SlabSpace *space, ptrdiff_t first,
    ptrdiff_t n_before)
{
    Batch batch = {0};
    for (int s = 0; s < LANES; s++) {
        int is_there = first + s < slab->S;
        ptrdiff_t sequence = slab->order[is_there ? first + s : first];
        batch.begins[s] = slab->begins[sequence];
        batch.lengths[s] = is_there ? slab->lengths[sequence] : 0;
    }
    batch.T = batch.until = batch.lengths[0];
    batch.means = space->means + 2 * n_before * shared->system.k * LANES;
    batch.keeps_rows = space->keeps_rows;
    batch.rows = space->rows + (batch.keeps_rows ? n_before * shared->d * LANES : 0);
    return batch;
}

/* centre (k,), of deviations, <- the mean of n filtered means, one here and there. */
SIMD_UNUSED static void take_centre(
    const double *means, ptrdiff_t n, ptrdiff_t next, ptrdiff_t stride, ptrdiff_t k, double *centre)
{
    set_zero(k, centre);
    for (ptrdiff_t s = 0; s < n; s++)
        for (ptrdiff_t i = 0; i < k; i++) centre[i] += means[s * next + i * stride] / (double)n;
}

SIMD_INLINE const double *start_of(const Shared *shared, int64_t sequence)
{ return shared->start + sequence * shared->start_step; }

SIMD_UNUSED static void expect_in_batches(
    const Shared *shared, const Slab *slab, const SlabSpace *space)
{
    ptrdiff_t k = shared->system.k, n = 0;
    for (ptrdiff_t s = 0; s < slab->S; s += LANES) {
        Batch batch = batch_of(shared, slab, space, s, n);
        for (int i = 0; i < LANES; i++) {
            const double *start = start_of(shared, slab->order[s + i < slab->S ? s + i : s]);
            for (ptrdiff_t j = 0; j < k; j++) space->state[j * LANES + i] = start[j];
        }
        filter_batch(shared, &batch, 1, space);
        for (int i = 0; i < LANES && s + i < slab->S; i++)
            put_end(filtered_means(&batch, batch.lengths[i] - 1, k) + i, 1, k, 1,
                    space->ends + (s + i) * 2 * k);
        n += batch.T;
    }
    if (!shared->smooths) return;
    take_centre(space->ends + k, slab->S, 2 * k, 1, k, space->centre);
    n = 0;
    for (ptrdiff_t s = 0; s < slab->S; s += LANES) {
        Batch batch = batch_of(shared, slab, space, s, n);
        smooth_batch(shared, &batch, 1, space);
        put_end(space->state, slab->S - s < LANES ? slab->S - s : LANES, k, 0,
                space->ends + s * 2 * k);
        n += batch.T;
    }
}

/* A long sequence: a head, up to the steady state, and a body that is cut. */
SIMD_UNUSED static void expect_in_segments(
    const Shared *shared, const Slab *slab, ptrdiff_t length, const SlabSpace *space)
{
    ptrdiff_t k = shared->system.k;
    Batch head = batch_of(shared, slab, space, 0, 0);
    const ptrdiff_t n_head = head.T - LANES * length;
    Batch body = batch_of(shared, slab, space, 0, n_head);
    head.T = head.until = head.lengths[0] = n_head;
    head.continues[0] = 1;
    body.T = body.until = length;
    body.step = head.T;
    for (int s = 0; s < LANES; s++) {
        body.begins[s] = head.begins[0] + head.T + s * length;
        body.lengths[s] = length;
        body.continues[s] = s + 1 < LANES;
    }
    repeat(start_of(shared, slab->order[0]), k, space->state);
    filter_batch(shared, &head, 1, space);
    filter_segments(shared, &body, space);
    put_end(filtered_means(&body, length - 1, k) + LANES - 1, 1, k, 1, space->ends);
    if (!shared->smooths) return;
    take_centre(filtered_means(&body, length - 1, k), LANES, 1, LANES, k, space->centre);
    smooth_segments(shared, &body, space);
    smooth_batch(shared, &head, 1, space);
    put_end(space->state, 1, k, 0, space->ends);
}

/* A stretch of a long sequence, with rows before and after it. */
SIMD_UNUSED static void expect_in_stretch(
    const Shared *shared, const Slab *slab, const SlabSpace *space)
{
    const ptrdiff_t k = shared->system.k, last = slab->n_segments - 1;
    Batch batch = batch_of(shared, slab, space, 0, 0);
    const ptrdiff_t T = batch.T, before = slab->first > 0 ? slab->reach : 0;
    const int64_t begin = batch.begins[0];
    batch.T = 0;
    batch.since = before;
    batch.until = before + slab->rows;
    batch.step = slab->first - before;
    for (int s = 0; s < LANES; s++) {
        ptrdiff_t first = slab->first + (s <= last ? s : 0) * slab->rows;
        ptrdiff_t rest = T - first - slab->rows, after = rest < slab->reach ? rest : slab->reach;
        batch.begins[s] = begin + first - before;
        batch.lengths[s] = s <= last ? batch.until + after : 0;
        if (batch.lengths[s] > batch.T) batch.T = batch.lengths[s];
    }
    repeat(start_of(shared, slab->order[0]), k, space->state);
    filter_batch(shared, &batch, 1, space);
    if (!shared->smooths) return;
    const double *latest = filtered_means(&batch, batch.until - 1, k);
    take_centre(latest, slab->n_segments, 1, LANES, k, space->centre);
    smooth_batch(shared, &batch, 1, space);
    put_end(space->state, 1, k, 0, space->ends);
    put_end((batch.lengths[last] > batch.until ? space->after : latest) + last, 1, k, 1,
            space->ends);
}

/* sums <- sums + sign deviation; products <- products + sign deviation deviation' */
SIMD_UNUSED static void add_end(
    const double *mean, const double *centre, ptrdiff_t k, double sign, double *sums,
    double *products)
{
    double deviation[MOST_STATES];
    for (ptrdiff_t i = 0; i < k; i++) sums[i] += sign * (deviation[i] = mean[i] - centre[i]);
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < k; j++)
            products[i * k + j] += sign * (deviation[i] * deviation[j]);
}

/* From sums over the rows of a slab, and the smoothed means at the ends of its sequences. */
SIMD_UNUSED static void finish_slab(
    const Shared *shared, const Slab *slab, const SlabSpace *space, const Evidence *evidence)
{
    const ptrdiff_t k = shared->system.k, d = shared->d;
    const MeanSums *sums = &space->sums;
    const double *ends = space->ends, *centre = space->centre;
    double *departing = space->step, *arriving = space->power, n_rows = 0;
    Moments initial = evidence->initial, moves = evidence->transitions;
    Moments emissions = evidence->emissions;
    clear_evidence(evidence);
    set_zero(k * k, departing);
    for (ptrdiff_t s = 0; s < slab->S && slab->first == 0 && shared->firsts; s++)
        copy(ends + 2 * s * k, k, shared->firsts + slab->order[s] * k);
    const ptrdiff_t T = slab->lengths[slab->order[0]], n_stretch = slab->n_segments * slab->rows;
    const int goes_on = n_stretch && slab->first + n_stretch < T;
    for (ptrdiff_t s = 0; s < slab->S; s++) {
        if (slab->first == 0) add_moments(1, ends + 2 * s * k, 0, departing, &initial);
        n_rows += (double)(n_stretch ? n_stretch : slab->lengths[slab->order[s]]);
    }
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < i; j++) sums->states[j * k + i] = sums->states[i * k + j];
    copy(sums->total, k, moves.mean);
    copy(sums->total, k, moves.mean + k);
    copy(sums->states, k * k, departing);
    copy(sums->states, k * k, arriving);
    for (ptrdiff_t s = 0; s < slab->S; s++) {
        /* The end of a stretch that goes on is the row after it. */
        const double *end = ends + (2 * s + 1) * k;
        if (goes_on) add_end(end, centre, k, 1, moves.mean + k, arriving);
        else add_end(end, centre, k, -1, moves.mean, departing);
        add_end(ends + 2 * s * k, centre, k, -1, moves.mean + k, arriving);
    }
    add_joint(departing, sums->lags, k, arriving, k, k, k, moves.scatter);
    *moves.weight = n_rows - (goes_on ? 0 : (double)slab->S);
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
    ptrdiff_t k = shared->system.k, d = shared->d;
    ptrdiff_t length = segment_length(slab, shared->tables.n);
    set_zero(mean_sums_size(k, d) * LANES, space->batched.squares);
    if (slab->rows) expect_in_stretch(shared, slab, space);
    else if (length) expect_in_segments(shared, slab, length, space);
    else expect_in_batches(shared, slab, space);
    sum_segments(space->batched.squares, mean_sums_size(k, d), space->sums.squares);
    if (shared->smooths) finish_slab(shared, slab, space, evidence);
    return *space->sums.squares;
}

OPTIMISE_END
