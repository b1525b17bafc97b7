/* The Kalman filter and smoother along one sequence, any of whose values may be missing. */
#pragma once

#include "_kalman_steps.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* Patterns of missing values that are remembered, and their memory. */
#define MOST_PATTERNS 128
#define MOST_PATTERN_BYTES (1 << 20)

/* Rows of a block, and their memory. */
#define FEWEST_BLOCK_ROWS 16
#define MOST_BLOCK_ROWS (1 << 15)
#define MOST_BLOCK_BYTES (1 << 19)

/* What to write of rows, T of them; NULL is not wanted. */
typedef struct {
    double *predicted;             /* (T, k) */
    double *predicted_covariances; /* (T, k, k) */
    double *filtered;              /* (T, k) */
    double *filtered_covariances;  /* (T, k, k) */
    double *log_densities;         /* (T,) */
    double *smoothed;              /* (T, k) */
    double *covariances;           /* (T, k, k) */
    double *lags;                  /* (T, k, k) */
    double *filled;                /* (T, d): missing values are imputed by their expectations */
    const double *noise;           /* (T, k): states are drawn with these */
    Sums *sums;
    ptrdiff_t first;               /* row of all these that is the sequence's first */
} Outputs;

/* The scratch memory of a thread. */
typedef struct {
    ptrdiff_t B;              /* rows of a block */
    Patterns patterns;
    Update update;
    Pattern *pattern;         /* of the row before; NULL at the first of a block */
    double *before;           /* (W, W): covariance that was predicted of it */
    int is_at_rest;           /* whether covariances are those of the row before */
    char *rests;              /* (B,): whether those of each filtered state are */
    SmootherStep step;
    double *states;           /* B + 1 filtered ones; the last is the first of the block after */
    double *starts;           /* (most blocks, W + W W): predicted moments of their first rows */
    double *predicted;        /* (W + W W): of the next row, or of the first one of a sequence */
    double *smoothed;         /* (W + W W): of the row after */
    double *deviation;        /* (W,): of the row after, as drawn */
    double *square;           /* (W, W): its product with itself */
    double *lag;              /* (W, W) */
    double *product;          /* (W, W) */
    double *vector;           /* (d + 3 W) */
    Sums sums;
    Watch watch;
} Workspace;

SIMD_INLINE ptrdiff_t within(ptrdiff_t lowest, ptrdiff_t x, ptrdiff_t highest)
{
    ptrdiff_t capped = x < highest ? x : highest;
    return capped > lowest ? capped : lowest;
}

/* For sequences of at most `longest` rows, of n in all. */
SIMD_UNUSED static Workspace *lay_out_workspace(
    const System *system, ptrdiff_t longest, ptrdiff_t n, Arena *arena)
{
    const ptrdiff_t k = system->k, W = system->W, d = system->d;
    const ptrdiff_t row_bytes = filtered_size(W) * (ptrdiff_t)sizeof(double);
    Workspace *where = (Workspace *)take(arena, 1, sizeof(Workspace)), space;
    space.watch.left = space.watch.usual = rows_until_look(system);
    space.B = within(FEWEST_BLOCK_ROWS, MOST_BLOCK_BYTES / row_bytes, MOST_BLOCK_ROWS);
    if (space.B > longest) space.B = longest;
    space.states = take_doubles(arena, (space.B + 1) * filtered_size(W));
    space.rests = (char *)take(arena, space.B, 1);
    take_each(arena, W * W, &space.before, &space.step.gain, &space.step.shrink, &space.step.sum,
              &space.step.rest, &space.step.before, &space.product, &space.lag, &space.square);
    space.starts = take_doubles(arena, (longest / space.B + 1) * state_size(W));
    take_each(arena, state_size(W), &space.predicted, &space.smoothed);
    space.deviation = take_doubles(arena, W);
    space.update = lay_out_update(W, arena);
    space.vector = take_doubles(arena, d + 3 * W);
    space.sums = lay_out_sums(k, W, d, arena);
    space.patterns = lay_out_patterns(W, d, 0, n, 1, MOST_PATTERNS, MOST_PATTERN_BYTES, arena);
    if (where) *where = space;
    return where;
}

/* What is padding stays 0. */
SIMD_UNUSED static void clear_workspace(const System *system, Workspace *space)
{
    set_zero((space->B + 1) * filtered_size(system->W), space->states);
    clear_update(system->W, &space->update);
    clear_patterns(system->d, &space->patterns);
}

/* out, row t of those of n x k <- x (n, W), if it is wanted */
SIMD_UNUSED static void write_row(
    const double *x, ptrdiff_t t, ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, double *out)
{
    if (out) unpad(x, n, k, W, out + t * n * k);
}

/* space->pattern <- that of v; returns whether it is another one */
SIMD_INLINE int take_pattern(const System *system, const double *v, Workspace *space)
{
    const uint64_t code = gap_code(v, system->d);
    if (system->C_step) { /* no row has what another one has; sums are not wanted */
        make_pattern(system, code, v, space->pattern = space->patterns.all);
        return 1;
    }
    if (space->pattern && has_gaps(space->pattern, code, v, system->d)) return 0;
    space->pattern = pattern_of(system, code, v, NULL, 0, &space->patterns, &space->sums);
    return 1;
}

/* State i of a block <- moments given v and the past, from space->predicted, which moves on;
 * returns log p(v | past).
 *
 * While rows have the same gaps, covariances converge, and are no longer computed then. */
SIMD_UNUSED static double filter_row(
    const System *system, const double *v, ptrdiff_t i, Workspace *space)
{
    const ptrdiff_t k = system->k, W = system->W;
    const FilteredState state = filtered_at(space->states, i, W);
    double *mean = space->predicted, *covariance = space->predicted + W, log_density = 0;
    if (take_pattern(system, v, space) || system->A_step) space->is_at_rest = 0;
    else if (!space->is_at_rest) space->is_at_rest = is_steady(space->before, covariance, k, W);
    const Pattern *pattern = space->pattern;
    space->rests[i] = (char)space->is_at_rest;
    copy(mean, W, state.predicted);
    if (space->is_at_rest) {
        copy(filtered_at(space->states, i - 1, W).inverse, W + 2 * W * W, state.inverse);
    } else {
        copy(covariance, W * W, space->before);
        factorise(covariance, k, W, state.upper, state.inverse);
        if (pattern->n_observed > 0) filter_covariance(pattern->G, k, W, &space->update, &state);
        else copy(covariance, W * W, state.covariance);
        predict_covariance(system, state.covariance, space->product, covariance);
    }
    if (pattern->n_observed > 0)
        log_density = filter_mean(system, pattern, v, &space->update, space->vector, &state);
    else copy(mean, W, state.mean);
    predict_mean(system, state.mean, mean);
    return log_density;
}

/* Rows begin .. begin + n of a sequence; returns their log-likelihood. */
SIMD_UNUSED static double filter_block(
    const System *system, const double *X, ptrdiff_t begin, ptrdiff_t n, Workspace *space,
    const Outputs *outputs)
{
    const ptrdiff_t k = system->k, W = system->W;
    double log_likelihood = 0;
    System own;
    /* So that a block is the same when it is filtered again. */
    space->pattern = NULL;
    for (ptrdiff_t i = 0; i < n && goes_on(&space->watch); i++) {
        ptrdiff_t t = begin + i, row = outputs->first + t;
        FilteredState state = filtered_at(space->states, i, W);
        write_row(space->predicted, row, 1, k, W, outputs->predicted);
        write_row(space->predicted + W, row, k, k, W, outputs->predicted_covariances);
        const System *here = system_at(system, row, &own);
        double log_density = filter_row(here, X + t * system->d, i, space);
        write_row(state.mean, row, 1, k, W, outputs->filtered);
        write_row(state.covariance, row, k, k, W, outputs->filtered_covariances);
        if (outputs->log_densities) outputs->log_densities[row] = log_density;
        log_likelihood += log_density;
    }
    return log_likelihood;
}

/* Writes row t of T, whose smoothed moments are in `space`, and adds it to the sums. */
SIMD_UNUSED static void write_smoothed(
    const System *system, const double *v, ptrdiff_t t, ptrdiff_t T, Workspace *space,
    const Outputs *outputs)
{
    const ptrdiff_t k = system->k, W = system->W, d = system->d, row = outputs->first + t;
    const double *mean = space->smoothed, *covariance = space->smoothed + W;
    const double *arriving = outputs->noise ? space->square : covariance;
    Sums *sums = outputs->sums;
    write_row(mean, row, 1, k, W, outputs->smoothed);
    write_row(covariance, row, k, k, W, outputs->covariances);
    if (sums) sum_state(mean, covariance, arriving, t, T, k, W, sums);
    if (!sums && !outputs->filled) return;
    take_pattern(system, v, space);
    Pattern *pattern = space->pattern;
    double *filled = sums ? sums->filled : outputs->filled + row * d, *residual = space->vector;
    copy(v, d, filled);
    if (sums && pattern->n_observed == 0) return;
    if (pattern->n_observed < d) {
        for (ptrdiff_t i = 0; i < d; i++)
            residual[i] = (isnan(v[i]) ? 0 : v[i] - system->offset[i])
                          - dot(system->C + i * W, mean, W);
        impute(system, pattern, residual, 1, filled);
        if (sums) {
            pattern->n_rows++;
            add(covariance, W * W, pattern->covariances);
        }
    }
    if (sums) sum_row(mean, covariance, k, W, d, sums);
}

/* Rows begin .. begin + n, the last of which may be the last of all T. */
SIMD_UNUSED static void smooth_block(
    const System *system, const double *X, ptrdiff_t begin, ptrdiff_t n, ptrdiff_t T,
    Workspace *space, const Outputs *outputs)
{
    const ptrdiff_t k = system->k, W = system->W;
    double *mean = space->smoothed, *covariance = space->smoothed + W;
    int is_at_rest = 0;
    System own;
    for (ptrdiff_t i = n - 1; i >= 0 && goes_on(&space->watch); i--) {
        ptrdiff_t t = begin + i, row = outputs->first + t;
        const System *here = system_at(system, row, &own);
        FilteredState now = filtered_at(space->states, i, W);
        const double *noise = outputs->noise ? outputs->noise + row * k : NULL;
        if (t == T - 1) {
            copy(now.mean, W, mean);
            copy(now.covariance, W * W, covariance);
            set_zero(W, space->deviation);
        } else {
            FilteredState next = filtered_at(space->states, i + 1 < n ? i + 1 : space->B, W);
            /* Draws leave no gain behind. */
            const int repeats = !noise && i + 2 < n && space->rests[i + 1] && space->rests[i + 2];
            smooth_state(here, now, next, &space->step, repeats, &is_at_rest, mean, covariance,
                         space->lag);
            if (noise) smooth_deviation(k, W, &space->step, space->deviation, space->lag);
            write_row(space->lag, row + 1, k, k, W, outputs->lags);
            if (outputs->sums) add(space->lag, W * W, outputs->sums->states + LAGGED * W * W);
        }
        if (noise)
            draw_deviation(noise, k, W, &space->step, space->deviation, covariance, space->square);
        write_smoothed(here, X + t * system->d, t, T, space, outputs);
        if (noise) set_zero(W * W, covariance);
    }
    copy(space->states, filtered_size(W), space->states + space->B * filtered_size(W));
}

/* Filters a sequence from the moments in space->predicted, and smooths it if that is wanted;
 * returns its log-likelihood.
 *
 * Of a sequence longer than a block, only the moments before each block are kept, and the forward
 * pass of all blocks but the last is done again on the way back. */
SIMD_UNUSED static double kalman_sequence(
    const System *system, const double *X, ptrdiff_t T, Workspace *space, const Outputs *outputs)
{
    const Outputs nothing = {0};
    const ptrdiff_t n_state = state_size(system->W);
    ptrdiff_t begin = 0, n = 0;
    double log_likelihood = 0;
    for (ptrdiff_t block = 0; begin < T; block++, begin += n) {
        n = T - begin < space->B ? T - begin : space->B;
        copy(space->predicted, n_state, space->starts + block * n_state);
        log_likelihood += filter_block(system, X, begin, n, space, outputs);
    }
    if (!outputs->smoothed && !outputs->sums) return log_likelihood;
    while (1) {
        begin -= n;
        smooth_block(system, X, begin, n, T, space, outputs);
        if (begin == 0) return log_likelihood;
        n = space->B;
        copy(space->starts + (begin / n - 1) * n_state, n_state, space->predicted);
        filter_block(system, X, begin - n, n, space, &nothing);
    }
}

OPTIMISE_END
