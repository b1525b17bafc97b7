/* The Kalman filter and smoother along several sequences side by side, any of whose values may be
 * missing: numbers of LANES sequences are elements of a vector.
 *
 * There are two of the widest vectors of them, as the operations of a step wait for each other.
 *
 * The steps are those of `_kalman_steps.h`. As each sequence has gaps of its own, each has its own
 * covariances; what depends on the gaps of a row alone is remembered for each pattern of them.
 */
#pragma once

#include "_kalman.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* Algebra of matrices side by side
 * --------------------------------
 *
 * Of a matrix in an argument, elements (i, j) are at i * rows + j * columns, so that transposes need
 * no copies.
 */

typedef struct {
    const double *elements;
    ptrdiff_t rows, columns;
} Table;

SIMD_INLINE Table rows_of(const double *x, ptrdiff_t stride) { return (Table){x, stride, 1}; }

SIMD_INLINE Table columns_of(const double *x, ptrdiff_t stride) { return (Table){x, 1, stride}; }

/* out (m, n, LANES) <- out + sign a b, or a b with sign 0, or its upper triangle; a (m, l) of
 * numbers that all share or, with `is_shared` 0, side by side, b (l, n) side by side. Two vectors at
 * a time: sums of more would not stay in registers. */
SIMD_INLINE void lanes_form(
    const Table a, const int is_shared, const Table b, const ptrdiff_t m, const ptrdiff_t l,
    const ptrdiff_t n, const double sign, const int is_upper, double *RESTRICT out)
{
    const ptrdiff_t width = is_shared ? 1 : LANES;
    for (ptrdiff_t i = 0; i < m; i++) {
        ptrdiff_t j = is_upper ? i : 0;
        for (out += j * LANES; j < n; j++, out += LANES) {
            double sum[LANES] = {0};
            for (ptrdiff_t h = 0; h < l; h++) {
                const double *x = a.elements + (i * a.rows + h * a.columns) * width;
                const double *y = b.elements + (h * b.rows + j * b.columns) * LANES;
                EACH_SEGMENT sum[s] += x[is_shared ? 0 : s] * y[s];
            }
            EACH_SEGMENT out[s] = sign == 0 ? sum[s] : out[s] + sign * sum[s];
        }
    }
}

SIMD_INLINE void lanes_product(
    const Table a, const int is_shared, const Table b, const ptrdiff_t m, const ptrdiff_t l,
    const ptrdiff_t n, const double sign, double *RESTRICT out)
{
    lanes_form(a, is_shared, b, m, l, n, sign, 0, out);
}

/* x (k, k, LANES) <- with its upper triangle below */
SIMD_INLINE void mirror_lanes(const ptrdiff_t k, double *x)
{
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < i; j++)
            EACH_SEGMENT x[(i * k + j) * LANES + s] = x[(j * k + i) * LANES + s];
}

/* upper (k, k, LANES), inverse (k, LANES): as `factorise` */
SIMD_INLINE void factorise_lanes(
    const double *x, const ptrdiff_t k, double *RESTRICT upper, double *RESTRICT inverse)
{
    copy(x, k * k * LANES, upper);
    for (ptrdiff_t j = 0; j < k; j++) {
        double *row = upper + j * k * LANES, *own = inverse + j * LANES;
        const double *variance = x + j * (k + 1) * LANES;
        EACH_SEGMENT {
            const double pivot = row[j * LANES + s];
            const double least = (double)k * ROUNDING * variance[s];
            own[s] = pivot > least && pivot > 0 ? 1 / sqrt(pivot) : 0;
        }
        for (ptrdiff_t i = 0; i < j * LANES; i++) row[i] = 0;
        for (ptrdiff_t i = j; i < k; i++) EACH_SEGMENT row[i * LANES + s] *= own[s];
        for (ptrdiff_t i = j + 1; i < k; i++) {
            double *later = upper + i * k * LANES;
            for (ptrdiff_t l = i; l < k; l++)
                EACH_SEGMENT
                    later[l * LANES + s] -= row[i * LANES + s] * row[l * LANES + s];
        }
    }
}

/* x (k, n, LANES) <- U'^-1 x */
SIMD_INLINE void substitute_lanes_forward(
    const double *upper, const double *inverse, const ptrdiff_t k, const ptrdiff_t n,
    double *RESTRICT x)
{
    for (ptrdiff_t i = 0; i < k; i++) {
        double *row = x + i * n * LANES;
        for (ptrdiff_t j = 0; j < n; j++)
            EACH_SEGMENT row[j * LANES + s] *= inverse[i * LANES + s];
        for (ptrdiff_t l = i + 1; l < k; l++) {
            const double *factor = upper + (i * k + l) * LANES;
            double *later = x + l * n * LANES;
            for (ptrdiff_t j = 0; j < n; j++)
                EACH_SEGMENT later[j * LANES + s] -= factor[s] * row[j * LANES + s];
        }
    }
}

/* x (k, n, LANES) <- U^-1 x */
SIMD_INLINE void substitute_lanes_backward(
    const double *upper, const double *inverse, const ptrdiff_t k, const ptrdiff_t n,
    double *RESTRICT x)
{
    for (ptrdiff_t i = k - 1; i >= 0; i--) {
        double *row = x + i * n * LANES;
        for (ptrdiff_t l = i + 1; l < k; l++) {
            const double *factor = upper + (i * k + l) * LANES, *later = x + l * n * LANES;
            for (ptrdiff_t j = 0; j < n; j++)
                EACH_SEGMENT row[j * LANES + s] -= factor[s] * later[j * LANES + s];
        }
        for (ptrdiff_t j = 0; j < n; j++)
            EACH_SEGMENT row[j * LANES + s] *= inverse[i * LANES + s];
    }
}

/* Patterns of gaps that are remembered, powers of two above LANES, and their memory. */
#define FEWEST_GAP_PATTERNS (2 * LANES)
#define MOST_GAP_PATTERNS 1024
#define MOST_GAP_BYTES (1 << 23)

/* Steps
 * -----
 */

/* Moments of the states of a row, before and after it was seen. */
typedef struct {
    double *predicted; /* (k, LANES) */
    double *mean;      /* (k, LANES), filtered */
    double *inverse;   /* (k, LANES) */
    double *upper;     /* (k, k, LANES), U'U = predicted covariance */
    double *filtered;  /* (k, k, LANES), covariance */
    double *moved;     /* (k, k, LANES), A times it */
} BatchedState;

/* Bytes of the states of a batch, above which sequences are taken one by one. */
#define MOST_BATCH_BYTES (1 << 25)

SIMD_INLINE ptrdiff_t batched_state_size(ptrdiff_t k) { return (3 * k + 3 * k * k) * LANES; }

SIMD_INLINE BatchedState batched_state_at(double *states, ptrdiff_t t, ptrdiff_t k)
{
    double *memory = states + t * batched_state_size(k);
    const ptrdiff_t row = k * LANES, square = k * row;
    return (BatchedState){
        memory, memory + row, memory + 2 * row, memory + 3 * row, memory + 3 * row + square,
        memory + 3 * row + 2 * square};
}

/* States of all lanes that depart, arrive and emit. */
enum { INNER = N_SUMS };

/* Sequences side by side, and what a thread needs for them. */
typedef struct {
    ptrdiff_t T;                  /* rows of the longest */
    const double *rows[LANES];    /* first rows */
    ptrdiff_t lengths[LANES];     /* 0: there is none */
    ptrdiff_t since[LANES];       /* first row that counts */
    ptrdiff_t until[LANES];       /* and the row after the last that does */
    double *borders[LANES];       /* of each: moments of these two rows, or NULL */
    Pattern *present[LANES];      /* patterns of the rows of a step */
    ptrdiff_t gapped[LANES];      /* those of them that have gaps */
    ptrdiff_t n_gapped;
    Patterns patterns;
    double *states;               /* (longest, ...) */
    double *mean, *covariance;    /* (k, LANES), (k, k, LANES): predicted, or smoothed */
    uint64_t *codes;              /* (longest, LANES): patterns of rows */
    double *values;               /* (longest, d, LANES): rows less offsets, 0 where missing */
    double *v;                    /* (d, LANES): those of a step */
    double *residual, *weighed, *filled; /* (d, LANES) */
    double *log_det;              /* (LANES,): of the patterns of a step */
    double *a, *b;                /* (k, LANES) */
    double *G, *M, *M_upper, *M_inverse, *x, *y; /* (k, k, LANES) */
    double *sums;                 /* (N_SUMS + 1, k, k, LANES); the last is that of INNER states */
    double *after;                /* (k, LANES): smoothed means of the rows after */
    Sums total;
    Watch watch;
} BatchSpace;

/* Rows of the longest sequences that are taken side by side; 0: none are. */
SIMD_INLINE ptrdiff_t most_batched(ptrdiff_t k, ptrdiff_t d)
{
    const ptrdiff_t row_bytes =
        (batched_state_size(k) + (d + 1) * LANES) * (ptrdiff_t)sizeof(double);
    return d <= MOST_GAP_COLUMNS ? MOST_BATCH_BYTES / row_bytes : 0;
}

/* For sequences of at most `longest` rows, of n in all. */
SIMD_UNUSED static BatchSpace *lay_out_batch(
    const System *system, ptrdiff_t longest, ptrdiff_t n, Arena *arena)
{
    const ptrdiff_t k = system->k, W = system->W, d = system->d, size = k * k * LANES;
    BatchSpace *where = (BatchSpace *)take(arena, 1, sizeof(BatchSpace));
    BatchSpace unused, *space = where ? where : &unused;
    space->states = take_doubles(arena, longest * batched_state_size(k));
    space->mean = take_doubles(arena, k * LANES);
    space->covariance = take_doubles(arena, size);
    space->codes = (uint64_t *)take(arena, longest * LANES, sizeof(uint64_t));
    space->values = take_doubles(arena, longest * d * LANES);
    take_each(arena, d * LANES, &space->residual, &space->weighed, &space->filled);
    take_each(arena, k * LANES, &space->a, &space->b, &space->M_inverse, &space->after);
    take_each(arena, size, &space->G, &space->M, &space->M_upper, &space->x, &space->y);
    space->log_det = take_doubles(arena, LANES);
    space->sums = take_doubles(arena, (N_SUMS + 1) * size);
    space->total = lay_out_sums(k, W, d, arena);
    space->patterns = lay_out_patterns(
        W, d, 1, n, FEWEST_GAP_PATTERNS, MOST_GAP_PATTERNS, MOST_GAP_BYTES, arena);
    return where;
}

SIMD_UNUSED static void clear_batch(const System *system, BatchSpace *space)
{
    clear_patterns(system->d, &space->patterns);
    make_pattern(system, space->patterns.complete, NULL, space->patterns.all);
}

/* v (d, LANES) and patterns <- those of step t */
SIMD_INLINE void recall_step(const System *system, ptrdiff_t t, BatchSpace *space)
{
    const uint64_t *codes = space->codes + t * LANES;
    ptrdiff_t n = 0;
    space->v = space->values + t * system->d * LANES;
    for (int s = 0; s < LANES; s++) {
        space->present[s] = space->patterns.all;
        space->gapped[n] = s;
        n += codes[s] != space->patterns.complete;
    }
    space->n_gapped = n;
    for (ptrdiff_t r = 0; r < n; r++) {
        const int s = (int)space->gapped[r];
        space->present[s] = pattern_of(
            system, codes[s], NULL, space->present, s, &space->patterns, &space->total);
    }
}

/* values, codes <- rows less offsets, 0 where they are missing, and gaps; nothing is observed after
 * the end of a sequence */
SIMD_CLONES SIMD_UNUSED static void read_batch(const System *system, BatchSpace *space)
{
    const ptrdiff_t d = system->d;
    double *v = space->values;
    for (int s = 0; s < LANES; s++) {
        const ptrdiff_t n = space->lengths[s] * d;
        for (ptrdiff_t i = 0; i < n; i++) v[i * LANES + s] = space->rows[s][i];
        for (ptrdiff_t i = n; i < space->T * d; i++) v[i * LANES + s] = NAN;
    }
    for (ptrdiff_t t = 0; t < space->T; t++) {
        uint64_t *codes = space->codes + t * LANES;
        EACH_SEGMENT codes[s] = (uint64_t)1 << d;
        for (ptrdiff_t i = 0; i < d; i++, v += LANES) {
            const uint64_t bit = (uint64_t)1 << (d - 1 - i);
            const double offset = system->offset[i];
            EACH_SEGMENT {
                const double value = v[s] - offset;
                codes[s] |= value != value ? bit : 0;
                v[s] = value != value ? 0 : value;
            }
        }
    }
}

/* out (d, LANES) <- precision of each x (d, LANES): first as if no row had gaps */
SIMD_INLINE void weigh(const BatchSpace *space, const ptrdiff_t d, const double *x, double *out)
{
    const ptrdiff_t D = gap_stride(d);
    lanes_product(columns_of(space->patterns.all->precision, D), 1, rows_of(x, 1), d, d, 1, 0, out);
    for (ptrdiff_t r = 0; r < space->n_gapped; r++) {
        const ptrdiff_t s = space->gapped[r];
        const double *precision = space->present[s]->precision;
        for (ptrdiff_t start = 0; start < d; start += WIDEST_TILE) {
            double sum[WIDEST_TILE] = {0};
            for (ptrdiff_t i = 0; i < d; i++)
                for (int j = 0; j < WIDEST_TILE; j++)
                    sum[j] += x[i * LANES + s] * precision[i * D + start + j];
            for (ptrdiff_t j = start; j < start + WIDEST_TILE && j < d; j++)
                out[j * LANES + s] = sum[j - start];
        }
    }
}

/* state <- moments given the rows of a step and the past, from space->mean and ->covariance, which
 * move on; log_densities (LANES,) <- those of the rows */
SIMD_CLONES SIMD_UNUSED static void filter_lanes(
    const System *system, ptrdiff_t t, BatchSpace *space, double *log_densities)
{
    const ptrdiff_t k = system->k, W = system->W, d = system->d, size = k * k * LANES;
    const BatchedState state = batched_state_at(space->states, t, k);
    const Table C = rows_of(system->C, W), Ct = columns_of(system->C, W), A = rows_of(system->A, W);
    double *residual = space->residual, *M = space->M, *x = space->x, *y = space->y;
    double *information = space->a, *root = space->b, *weighed = space->weighed;
    double squares[LANES] = {0}, log_det[LANES] = {0};
    recall_step(system, t, space);
    for (ptrdiff_t i = 0; i < k; i++)
        repeat(space->patterns.all->G + i * W, k, space->G + i * k * LANES);
    repeat(&space->patterns.all->log_det, 1, space->log_det);
    for (ptrdiff_t r = 0; r < space->n_gapped; r++) {
        const ptrdiff_t s = space->gapped[r];
        for (ptrdiff_t i = 0; i < k; i++)
            for (ptrdiff_t j = 0; j < k; j++)
                space->G[(i * k + j) * LANES + s] = space->present[s]->G[i * W + j];
        space->log_det[s] = space->present[s]->log_det;
    }
    copy(space->mean, k * LANES, state.predicted);
    factorise_lanes(space->covariance, k, state.upper, state.inverse);
    copy(space->v, d * LANES, residual);
    lanes_product(C, 1, rows_of(state.predicted, 1), d, k, 1, -1, residual);
    weigh(space, d, residual, weighed);
    lanes_product(Ct, 1, rows_of(weighed, 1), k, d, 1, 0, information);
    /* M = I + U G U', X = M^-1/2 U; the filtered covariance is X'X. */
    lanes_product(rows_of(space->G, k), 0, columns_of(state.upper, k), k, k, k, 0, y);
    lanes_form(rows_of(state.upper, k), 0, rows_of(y, k), k, k, k, 0, 1, M);
    for (ptrdiff_t i = 0; i < k; i++) EACH_SEGMENT M[i * (k + 1) * LANES + s] += 1;
    factorise_lanes(M, k, space->M_upper, space->M_inverse);
    copy(state.upper, size, x);
    substitute_lanes_forward(space->M_upper, space->M_inverse, k, k, x);
    lanes_form(columns_of(x, k), 0, rows_of(x, k), k, k, k, 0, 1, state.filtered);
    mirror_lanes(k, state.filtered);
    /* The mean moves by X'X information, which is U'r. */
    lanes_product(rows_of(x, k), 0, rows_of(information, 1), k, k, 1, 0, root);
    lanes_product(columns_of(x, k), 0, rows_of(root, 1), k, k, 1, 0, state.mean);
    substitute_lanes_backward(space->M_upper, space->M_inverse, k, 1, root);
    lanes_product(C, 1, rows_of(state.mean, 1), d, k, 1, -1, residual);
    weigh(space, d, residual, weighed);
    for (ptrdiff_t i = 0; i < d * LANES; i += LANES)
        EACH_SEGMENT squares[s] += weighed[i + s] * residual[i + s];
    add(state.predicted, k * LANES, state.mean);
    for (ptrdiff_t i = 0; i < k; i++)
        EACH_SEGMENT {
            squares[s] += root[i * LANES + s] * root[i * LANES + s];
            log_det[s] -= 2 * log_double(space->M_inverse[i * LANES + s]);
        }
    EACH_SEGMENT log_densities[s] = -0.5 * (space->log_det[s] + log_det[s] + squares[s]);
    for (ptrdiff_t i = 0; i < k; i++) EACH_SEGMENT space->mean[i * LANES + s] = system->b[i];
    lanes_product(A, 1, rows_of(state.mean, 1), k, k, 1, 1, space->mean);
    lanes_product(A, 1, rows_of(state.filtered, k), k, k, k, 0, state.moved);
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < k; j++)
            EACH_SEGMENT space->covariance[(i * k + j) * LANES + s] = system->Q[i * W + j];
    /* A P A' = A (A P)', as P is symmetric. */
    lanes_form(A, 1, columns_of(state.moved, k), k, k, k, 1, 1, space->covariance);
}

/* Moments of a row: predicted mean and root of the covariance, smoothed mean and covariance. */
SIMD_INLINE ptrdiff_t border_size(ptrdiff_t k) { return 2 * (k + k * k); }

/* borders <- moments of step t where it is the first one that counts, or the one after the last;
 * what is predicted (`which` 0) or smoothed (1) */
SIMD_UNUSED static void put_borders(
    const double *mean, const double *matrix, ptrdiff_t t, ptrdiff_t k, ptrdiff_t which,
    const BatchSpace *space)
{
    for (int s = 0; s < LANES; s++) {
        if (!space->borders[s] || t >= space->lengths[s]) continue;
        if (t != space->since[s] && t != space->until[s]) continue;
        double *out = space->borders[s] + (t == space->until[s] ? border_size(k) : 0);
        out += which * (k + k * k);
        for (ptrdiff_t i = 0; i < k; i++) out[i] = mean[i * LANES + s];
        for (ptrdiff_t i = 0; i < k * k; i++) out[k + i] = matrix[i * LANES + s];
    }
}

/* out (n, LANES) <- x where it is kept */
SIMD_INLINE void put_kept(
    const int64_t *keeps, const double *x, const ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n * LANES; i += LANES)
        EACH_SEGMENT out[i + s] = keeps[s] ? x[i + s] : out[i + s];
}

/* space->mean and ->covariance <- smoothed moments of step t, from those of the step after; sums of
 * covariances with these */
SIMD_CLONES SIMD_UNUSED static void smooth_lanes(
    const System *system, ptrdiff_t t, BatchSpace *space)
{
    const ptrdiff_t k = system->k, W = system->W, size = k * k * LANES;
    const BatchedState now = batched_state_at(space->states, t, k);
    const Table At = columns_of(system->A, W);
    double *gain = space->M, *shrink = space->M_upper, *lag = space->x, *inner = space->y;
    double *mean = space->mean, *covariance = space->covariance, *rest = space->a;
    const uint64_t nothing = ((uint64_t)2 << system->d) - 1, *codes = space->codes + t * LANES;
    int64_t arrives[LANES], departs[LANES], ends[LANES], is_seen[LANES], is_first[LANES];
    ptrdiff_t n_inner = 0;
    for (int s = 0; s < LANES; s++) {
        const int64_t counts = t >= space->since[s] && t < space->until[s];
        ends[s] = t + 1 >= space->lengths[s];
        departs[s] = counts && !ends[s];
        is_first[s] = counts && t == 0;
        arrives[s] = t > space->since[s] && t <= space->until[s] && t < space->lengths[s];
        is_seen[s] = counts && codes[s] != nothing;
        n_inner += departs[s] && arrives[s] && is_seen[s];
    }
    if (t + 1 < space->T) {
        const BatchedState next = batched_state_at(space->states, t + 1, k);
        /* gain is J', where J = P A' (A P A' + Q)^-1, and shrink (I - J A)'. */
        copy(now.moved, size, gain);
        substitute_lanes_forward(next.upper, next.inverse, k, k, gain);
        substitute_lanes_backward(next.upper, next.inverse, k, k, gain);
        set_zero(size, shrink);
        for (ptrdiff_t i = 0; i < k; i++) EACH_SEGMENT shrink[i * (k + 1) * LANES + s] = 1;
        lanes_product(At, 1, rows_of(gain, k), k, k, k, -1, shrink);
        for (ptrdiff_t i = 0; i < k * LANES; i++) rest[i] = mean[i] - next.predicted[i];
        copy(now.mean, k * LANES, mean);
        lanes_product(columns_of(gain, k), 0, rows_of(rest, 1), k, k, 1, 1, mean);
        lanes_product(rows_of(covariance, k), 0, rows_of(gain, k), k, k, k, 0, lag);
        copy(lag, size, inner);
        lanes_product(rows_of(system->Q, W), 1, rows_of(gain, k), k, k, k, 1, inner);
        lanes_form(columns_of(gain, k), 0, rows_of(inner, k), k, k, k, 0, 1, covariance);
        lanes_product(rows_of(now.filtered, k), 0, rows_of(shrink, k), k, k, k, 0, inner);
        lanes_form(columns_of(shrink, k), 0, rows_of(inner, k), k, k, k, 1, 1, covariance);
        mirror_lanes(k, covariance);
        if (n_inner == LANES) {
            add(lag, size, space->sums + LAGGED * size);
            add(covariance, size, space->sums + INNER * size);
            return;
        }
        add_kept(departs, lag, k * k, space->sums + LAGGED * size);
        put_kept(ends, now.mean, k, mean);
        put_kept(ends, now.filtered, k * k, covariance);
    } else {
        copy(now.mean, k * LANES, mean);
        copy(now.filtered, size, covariance);
    }
    add_kept(departs, covariance, k * k, space->sums + DEPARTING * size);
    add_kept(arrives, covariance, k * k, space->sums + ARRIVING * size);
    if (t == 0) add_kept(is_first, covariance, k * k, space->sums + FIRST * size);
    add_kept(is_seen, covariance, k * k, space->sums + EMITTING * size);
}

/* out (n, BUFFER_STRIDE) <- x (n, LANES) of the given lanes alone */
SIMD_INLINE void put_lanes(
    const ptrdiff_t *lanes, const ptrdiff_t n_lanes, const double *x, const ptrdiff_t n,
    double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++, x += LANES, out += BUFFER_STRIDE)
        if (n_lanes == LANES) copy(x, LANES, out);
        else for (ptrdiff_t r = 0; r < n_lanes; r++) out[r] = x[lanes[r]];
}

/* Adds the means of step t, and its rows with their missing values imputed, which are those of
 * `recall_step`. */
SIMD_CLONES SIMD_UNUSED static void sum_lanes(const System *system, ptrdiff_t t, BatchSpace *space)
{
    const ptrdiff_t k = system->k, W = system->W, d = system->d;
    const uint64_t nothing = ((uint64_t)2 << d) - 1;
    ptrdiff_t departing[LANES], emitting[LANES], n_departing = 0, n_emitting = 0;
    double *residual = space->residual, *first = space->patterns.product;
    Sums *sums = &space->total;
    for (int s = 0; s < LANES; s++) {
        const int counts = t >= space->since[s] && t < space->until[s];
        departing[n_departing] = emitting[n_emitting] = s;
        n_departing += counts && t + 1 < space->lengths[s];
        n_emitting += counts && space->codes[t * LANES + s] != nothing;
        if (t > 0 || !counts) continue;
        for (ptrdiff_t i = 0; i < k; i++) first[i] = space->mean[i * LANES + s];
        add_moments(1, first, 0, sums->zeros, &sums->initial);
    }
    for (ptrdiff_t i = 0; i < d; i++)
        EACH_SEGMENT
            space->filled[i * LANES + s] = system->offset[i] + space->v[i * LANES + s];
    copy(space->v, d * LANES, residual);
    lanes_product(rows_of(system->C, W), 1, rows_of(space->mean, 1), d, k, 1, -1, residual);
    for (ptrdiff_t r = 0; r < space->n_gapped; r++) {
        const ptrdiff_t s = space->gapped[r];
        Pattern *pattern = space->present[s];
        if (t < space->since[s] || t >= space->until[s] || pattern->n_observed == 0) continue;
        impute(system, pattern, residual + s, LANES, space->filled + s);
        pattern->n_rows++;
        for (ptrdiff_t i = 0; i < k; i++)
            for (ptrdiff_t j = 0; j < k; j++)
                pattern->covariances[i * W + j] += space->covariance[(i * k + j) * LANES + s];
    }
    double *pairs = next_rows(n_departing, &sums->transitions);
    put_lanes(departing, n_departing, space->mean, k, pairs);
    put_lanes(departing, n_departing, space->after, k, pairs + k * BUFFER_STRIDE);
    pairs = next_rows(n_emitting, &sums->emissions);
    put_lanes(emitting, n_emitting, space->mean, k, pairs);
    put_lanes(emitting, n_emitting, space->filled, d, pairs + k * BUFFER_STRIDE);
    copy(space->mean, k * LANES, space->after);
}

/* The sequences of a batch, from `start` (W + W W), which are smoothed and summed if that is wanted;
 * log_likelihoods (LANES,) <- theirs. Those of rows are written from `log_densities` of each on,
 * unless it is NULL. */
SIMD_UNUSED static void expect_batch(
    const System *system, const double *start, int smooths, BatchSpace *space,
    double *const *log_densities, double *log_likelihoods)
{
    const ptrdiff_t k = system->k, W = system->W;
    double row[LANES];
    repeat(start, k, space->mean);
    for (ptrdiff_t i = 0; i < k; i++)
        repeat(start + W + i * W, k, space->covariance + i * k * LANES);
    for (int s = 0; s < LANES; s++) log_likelihoods[s] = 0;
    read_batch(system, space);
    for (ptrdiff_t t = 0; t < space->T && goes_on(&space->watch); t++) {
        filter_lanes(system, t, space, row);
        const BatchedState state = batched_state_at(space->states, t, k);
        put_borders(state.predicted, state.upper, t, k, 0, space);
        for (int s = 0; s < LANES; s++) {
            if (t < space->since[s] || t >= space->until[s]) continue;
            log_likelihoods[s] += row[s];
            if (log_densities) log_densities[s][t] = row[s];
        }
    }
    for (ptrdiff_t t = space->T - 1; smooths && t >= 0 && goes_on(&space->watch); t--) {
        recall_step(system, t, space);
        smooth_lanes(system, t, space);
        put_borders(space->mean, space->covariance, t, k, 1, space);
        sum_lanes(system, t, space);
    }
}

SIMD_UNUSED static void start_batches(
    const System *system, const Evidence *total, BatchSpace *space)
{
    space->watch.left = space->watch.usual = rows_until_look(system) / LANES;
    set_zero((N_SUMS + 1) * system->k * system->k * LANES, space->sums);
    start_sums(system->k, system->W, system->d, total, &space->total);
}

SIMD_UNUSED static void finish_batches(const System *system, BatchSpace *space)
{
    const ptrdiff_t k = system->k, W = system->W, size = k * k;
    take_all_gap_sums(system, &space->patterns, &space->total);
    for (ptrdiff_t n = DEPARTING; n <= EMITTING; n++)
        add(space->sums + INNER * size * LANES, size * LANES, space->sums + n * size * LANES);
    for (ptrdiff_t n = 0; n < N_SUMS; n++)
        for (ptrdiff_t i = 0; i < k; i++)
            sum_segments(space->sums + (n * size + i * k) * LANES, k,
                         space->total.states + (n * W + i) * W);
    finish_sums(k, W, system->d, &space->total);
}

OPTIMISE_END
