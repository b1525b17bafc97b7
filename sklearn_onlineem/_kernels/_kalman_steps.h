/* One row of a linear dynamical system,
 *
 *     h_t = A h_t-1 + b + N(0, Q),    v_t = C h_t + offset + N(0, R):
 *
 * which of its values are observed, the update by them, the prediction of the next state, and the
 * step back.
 */
#pragma once

#include "_kalman_sums.h"

OPTIMISE_BEGIN(WHOLE_TILES)

typedef struct {
    ptrdiff_t k, W, d;    /* states; what they are padded to; values of a row */
    const double *A;      /* (W, W), and its transpose */
    const double *At;
    const double *b;      /* (W,) */
    const double *Q;      /* (W, W) */
    const double *C;      /* (d, W) */
    const double *offset; /* (d,) */
    const double *R;      /* (d, d) */
    /* Between what belongs to a row and to the next one; 0 where all rows share it. */
    ptrdiff_t A_step, b_step, C_step, offset_step;
} System;

/* The system of a row, and of the step to the next one. Rows may have their own. */
SIMD_INLINE const System *system_at(const System *system, ptrdiff_t row, System *own)
{
    if (!(system->A_step | system->b_step | system->C_step | system->offset_step)) return system;
    *own = *system;
    own->A += row * system->A_step;
    own->At += row * system->A_step;
    own->b += row * system->b_step;
    own->C += row * system->C_step;
    own->offset += row * system->offset_step;
    return own;
}

/* Doubles of a mean and its covariance, one after the other. */
SIMD_INLINE ptrdiff_t state_size(ptrdiff_t W) { return W + W * W; }

/* What moments change by in a steady state, relative to standard deviations and means. */
#define STEADY (4 * ROUNDING)

/* Whether covariances x and y (W, W) are the same; products of variances may overflow. */
SIMD_UNUSED static int is_steady(const double *x, const double *y, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j <= i; j++)
            if (!(fabs(x[i * W + j] - y[i * W + j])
                  <= STEADY * sqrt(fabs(x[i * (W + 1)])) * sqrt(fabs(x[j * (W + 1)]))))
                return 0;
    return 1;
}

/* Between two looks for Ctrl-C: rows, times what a row costs about. */
#define MOST_WORK (1 << 22)

SIMD_INLINE ptrdiff_t rows_until_look(const System *system)
{
    const ptrdiff_t W = system->W, d = system->d;
    return MOST_WORK / (W * W * (W + d) + d * d * d / 64);
}

typedef struct {
    ptrdiff_t left, usual;  /* steps until the next look for Ctrl-C */
    int (*look)(void);      /* whether it has come */
    volatile int *is_over;  /* whether it has for any thread, so that nothing matters any more */
} Watch;

SIMD_INLINE int goes_on(Watch *watch)
{
    if (RARELY(watch->left-- <= 0)) {
        watch->left = watch->usual;
        if (watch->look()) *watch->is_over = 1;
    }
    return !*watch->is_over;
}

/* Missing values
 * --------------
 *
 * Observed values of a row are whitened, and missing ones are imputed. What that takes depends on
 * the row's pattern of gaps alone, and is remembered.
 */

#define LOG_2_PI 1.8378770664093453

/* Columns of rows whose patterns have different codes. */
#define MOST_GAP_COLUMNS 63
#define FIBONACCI 0x9e3779b97f4a7c15u

/* What rows have in common whose observed values are the same ones. */
typedef struct {
    uint64_t code;        /* 0: no pattern yet */
    ptrdiff_t n_observed;
    ptrdiff_t *indices;   /* (d,): of observed values, and then of missing ones */
    double *upper;        /* (n_observed, n_observed): U'U = R of the observed values */
    double *inverse;      /* (n_observed,) */
    double *H;            /* (n_observed, W): whitened rows of C; in a batch, scratch memory */
    double *G;            /* (W, W): H'H */
    double *precision;    /* (d, D): inverse of R of the observed values, 0 for missing ones; D is
                             whole vectors; NULL: it is not needed */
    double log_det;       /* of 2 pi R of the observed values */
    int imputes;          /* whether there is what follows, of missing values: */
    double *weights;      /* (n_observed, n_missing): of observed values in their expectations; and,
                             in all (d, n_missing): their covariance given these and the state */
    double *slope;        /* (n_missing, W): by which they follow the state */
    double n_rows;        /* since the sums were last taken: of such rows, if some are missing */
    double *covariances;  /* (W, W): sum of those of their states */
} Pattern;

/* Those that are remembered. */
typedef struct {
    ptrdiff_t n;          /* places for rows with gaps, a power of two */
    Pattern *all;         /* (1 + n,); the first is for rows without gaps */
    uint64_t complete;    /* code of these */
    double *product;      /* (W,): scratch */
} Patterns;

SIMD_INLINE ptrdiff_t gap_stride(ptrdiff_t d)
{ return (d + WIDEST_TILE - 1) / WIDEST_TILE * WIDEST_TILE; }

SIMD_UNUSED static Pattern lay_out_pattern(ptrdiff_t W, ptrdiff_t d, int is_batched, Arena *arena)
{
    Pattern pattern = {0};
    pattern.indices = (ptrdiff_t *)take(arena, d, sizeof(ptrdiff_t));
    take_each(arena, d * d, &pattern.upper, &pattern.weights);
    pattern.inverse = take_doubles(arena, d);
    take_each(arena, W * W, &pattern.G, &pattern.covariances);
    pattern.slope = take_doubles(arena, d * W);
    pattern.precision = is_batched ? take_doubles(arena, d * gap_stride(d)) : NULL;
    pattern.H = is_batched ? pattern.slope : take_doubles(arena, d * W);
    return pattern;
}

/* For n_rows, with at least `fewest` places. */
SIMD_UNUSED static Patterns lay_out_patterns(
    ptrdiff_t W, ptrdiff_t d, int is_batched, ptrdiff_t n_rows, ptrdiff_t fewest, ptrdiff_t most,
    ptrdiff_t most_bytes, Arena *arena)
{
    Patterns patterns = {most, NULL, 0, NULL};
    Arena one = counting_arena();
    lay_out_pattern(W, d, is_batched, &one);
    while (patterns.n > fewest
           && (patterns.n > 2 * n_rows || patterns.n * (ptrdiff_t)one.used > most_bytes
               || patterns.n >> (d < 32 ? d : 32) > 1))
        patterns.n /= 2;
    patterns.product = take_doubles(arena, W);
    patterns.all = (Pattern *)take(arena, 1 + patterns.n, sizeof(Pattern));
    char *memory = take_arenas(arena, 1 + patterns.n, &one);
    for (ptrdiff_t i = 0; memory && i <= patterns.n; i++) {
        Arena own = arena_of(memory, i, &one);
        patterns.all[i] = lay_out_pattern(W, d, is_batched, &own);
    }
    return patterns;
}

/* A bit for each missing value below one more, or, of more columns, a number made of these. */
SIMD_INLINE uint64_t gap_code(const double *v, const ptrdiff_t d)
{
    uint64_t code = 1;
    if (d <= MOST_GAP_COLUMNS) for (ptrdiff_t i = 0; i < d; i++) code = 2 * code + !!isnan(v[i]);
    else for (ptrdiff_t i = 0; i < d; i++) code = code * FIBONACCI + !!isnan(v[i]);
    return code | (d > MOST_GAP_COLUMNS); /* never 0 */
}

/* No pattern is remembered yet. */
SIMD_UNUSED static void clear_patterns(ptrdiff_t d, Patterns *patterns)
{
    patterns->complete = 1;
    for (ptrdiff_t i = 0; i < d; i++) patterns->complete *= d <= MOST_GAP_COLUMNS ? 2 : FIBONACCI;
    for (ptrdiff_t i = 0; i <= patterns->n; i++)
        patterns->all[i].code = 0, patterns->all[i].n_rows = 0;
}

/* pattern <- that of v (d,), whose code it has; a NULL stands for what the code says */
SIMD_UNUSED static void make_pattern(
    const System *system, uint64_t code, const double *v, Pattern *pattern)
{
    const ptrdiff_t k = system->k, W = system->W, d = system->d, D = gap_stride(d);
    ptrdiff_t n = 0, n_missing = 0, *indices = pattern->indices;
    double *square = pattern->weights;
    for (ptrdiff_t i = 0; i < d; i++)
        if (v ? isnan(v[i]) : (int)(code >> (d - 1 - i) & 1)) indices[d - ++n_missing] = i;
        else indices[n++] = i;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            square[i * n + j] = system->R[indices[i] * d + indices[j]];
    factorise(square, n, n, pattern->upper, pattern->inverse);
    for (ptrdiff_t i = 0; i < n; i++) copy(system->C + indices[i] * W, W, pattern->H + i * W);
    substitute_forward(pattern->upper, pattern->inverse, n, n, W, pattern->H);
    set_zero(W * W, pattern->G);
    add_transposed_product(pattern->H, pattern->H, n, k, W, pattern->G);
    pattern->code = code;
    pattern->n_observed = n;
    pattern->log_det = (double)n * LOG_2_PI + log_det_from(pattern->inverse, n);
    pattern->imputes = 0;
    pattern->n_rows = 0;
    set_zero(W * W, pattern->covariances);
    if (!pattern->precision) return;
    set_zero(n * n, square);
    for (ptrdiff_t i = 0; i < n; i++) square[i * n + i] = 1;
    substitute_forward(pattern->upper, pattern->inverse, n, n, n, square);
    substitute_backward(pattern->upper, pattern->inverse, n, n, n, square);
    set_zero(d * D, pattern->precision);
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            pattern->precision[indices[i] * D + indices[j]] = square[i * n + j];
}

/* What missing values follow from, of a pattern that has some. */
SIMD_UNUSED static void regress_missing(const System *system, Pattern *pattern)
{
    const ptrdiff_t d = system->d, W = system->W, n = pattern->n_observed, n_missing = d - n;
    const ptrdiff_t *observed = pattern->indices, *missing = pattern->indices + n;
    double *weights = pattern->weights, *rest = weights + n * n_missing;
    pattern->imputes = 1;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n_missing; j++)
            weights[i * n_missing + j] = system->R[observed[i] * d + missing[j]];
    substitute_forward(pattern->upper, pattern->inverse, n, n, n_missing, weights);
    for (ptrdiff_t i = 0; i < n_missing; i++)
        for (ptrdiff_t j = 0; j < n_missing; j++) {
            rest[i * n_missing + j] = system->R[missing[i] * d + missing[j]];
            for (ptrdiff_t l = 0; l < n; l++)
                rest[i * n_missing + j] -= weights[l * n_missing + i] * weights[l * n_missing + j];
        }
    substitute_backward(pattern->upper, pattern->inverse, n, n, n_missing, weights);
    for (ptrdiff_t j = 0; j < n_missing; j++) {
        double *slope = pattern->slope + j * W;
        copy(system->C + missing[j] * W, W, slope);
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t l = 0; l < W; l++)
                slope[l] -= weights[i * n_missing + j] * system->C[observed[i] * W + l];
    }
}

/* Missing values of `filled` <- their expectations, from a row less what the state says of it, 0
 * less that where it is missing; both have their elements a stride apart. */
SIMD_INLINE void impute(
    const System *system, Pattern *pattern, const double *residual, const ptrdiff_t stride,
    double *filled)
{
    const ptrdiff_t n = pattern->n_observed, n_missing = system->d - n;
    const ptrdiff_t *missing = pattern->indices + n;
    if (!pattern->imputes) regress_missing(system, pattern);
    for (ptrdiff_t j = 0; j < n_missing; j++) {
        double value = system->offset[missing[j]] - residual[missing[j] * stride];
        for (ptrdiff_t i = 0; i < n; i++)
            value += pattern->weights[i * n_missing + j] * residual[pattern->indices[i] * stride];
        filled[missing[j] * stride] = value;
    }
}

/* across (d, W), within (d, d) <- with the covariances of missing values of a pattern's rows, of
 * which nothing is left */
SIMD_UNUSED static void take_gap_sums(
    const System *system, Pattern *pattern, double *product, Sums *sums)
{
    const ptrdiff_t W = system->W, d = system->d, n = pattern->n_observed, n_missing = d - n;
    const ptrdiff_t *missing = pattern->indices + n;
    const double *rest = pattern->weights + n * n_missing;
    if (pattern->n_rows == 0) return;
    for (ptrdiff_t a = 0; a < n_missing; a++) {
        row_product(pattern->slope + a * W, pattern->covariances, system->k, W, product);
        add(product, W, sums->across + missing[a] * W);
        for (ptrdiff_t b = 0; b < n_missing; b++)
            sums->within[missing[a] * d + missing[b]] +=
                dot(product, pattern->slope + b * W, W)
                + pattern->n_rows * rest[a * n_missing + b];
    }
    pattern->n_rows = 0;
    set_zero(W * W, pattern->covariances);
}

/* Returns whether a pattern is that of a code, and of v. */
SIMD_INLINE int has_gaps(const Pattern *pattern, uint64_t code, const double *v, ptrdiff_t d)
{
    if (pattern->code != code) return 0;
    for (ptrdiff_t i = 0; d > MOST_GAP_COLUMNS && i < d; i++)
        if (isnan(v[pattern->indices[i]]) != (i >= pattern->n_observed)) return 0;
    return 1;
}

/* The pattern of a code, of v as in `make_pattern`. Sums of a pattern are taken before its place is
 * another's; n others keep their places. */
SIMD_INLINE Pattern *pattern_of(
    const System *system, uint64_t code, const double *v, Pattern *const *others, ptrdiff_t n,
    const Patterns *patterns, Sums *sums)
{
    const int is_complete = code == patterns->complete;
    /* Where all patterns have places, these are their codes. */
    for (uint64_t place = code >> 1 < (uint64_t)patterns->n ? code : code * FIBONACCI >> 40;;
         place++) {
        Pattern *pattern =
            patterns->all + (is_complete ? 0 : 1 + (place & (uint64_t)(patterns->n - 1)));
        int is_taken = 0;
        if (has_gaps(pattern, code, v, system->d)) return pattern;
        for (ptrdiff_t i = 0; i < n; i++) is_taken |= others[i] == pattern;
        if (is_taken) continue;
        take_gap_sums(system, pattern, patterns->product, sums);
        make_pattern(system, code, v, pattern);
        return pattern;
    }
}

SIMD_UNUSED static void take_all_gap_sums(
    const System *system, const Patterns *patterns, Sums *sums)
{
    for (ptrdiff_t i = 1; i <= patterns->n; i++)
        take_gap_sums(system, patterns->all + i, patterns->product, sums);
}

/* whitened (n_observed,) <- L^-1 (v - C state - offset), R = L L' */
SIMD_UNUSED static void whiten_innovation(
    const System *system, const Pattern *pattern, const double *v, const double *state,
    double *whitened)
{
    ptrdiff_t n = pattern->n_observed, W = system->W;
    for (ptrdiff_t i = 0; i < n; i++) {
        ptrdiff_t row = pattern->indices[i];
        whitened[i] = v[row] - system->offset[row] - dot(system->C + row * W, state, W);
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        whitened[i] *= pattern->inverse[i];
        for (ptrdiff_t l = i + 1; l < n; l++)
            whitened[l] -= pattern->upper[i * n + l] * whitened[i];
    }
}

/* Update and prediction
 * ---------------------
 *
 * No difference of covariances is ever taken. The observed values of a row are whitened, R = L L',
 * H = L^-1 C; the predicted covariance is P = U U'; and with G = H'H and M = I + U'GU, whose
 * eigenvalues are at least 1, the filtered covariance is U M^-1 U'. So it is symmetric and positive
 * semi-definite by construction.
 */

/* Moments of a state before and after its row was seen, on their way through both passes. */
typedef struct {
    double *predicted;  /* (W,) */
    double *mean;       /* (W,), filtered */
    double *inverse;    /* (W,) */
    double *upper;      /* (W, W), U'U = predicted covariance */
    double *covariance; /* (W, W), filtered */
} FilteredState;

SIMD_INLINE ptrdiff_t filtered_size(ptrdiff_t W) { return 3 * W + 2 * W * W; }

/* State i of an array of them. */
SIMD_INLINE FilteredState filtered_at(double *states, ptrdiff_t i, ptrdiff_t W)
{
    double *memory = states + i * filtered_size(W);
    return (FilteredState){
        memory, memory + W, memory + 2 * W, memory + 3 * W, memory + 3 * W + W * W};
}

/* The factors of an update, as tables for `row_product` (so transposed). */
typedef struct {
    double *X;         /* (W, W), M^-1/2 U' */
    double *M_upper;   /* (W, W) */
    double *M_inverse; /* (W,) */
    double *lower;     /* (W, W): scratch */
    double *M;         /* (W, W): scratch */
    double log_det;    /* of M */
} Update;

SIMD_UNUSED static Update lay_out_update(ptrdiff_t W, Arena *arena)
{
    Update update;
    take_each(arena, W * W, &update.X, &update.M_upper, &update.lower, &update.M);
    update.M_inverse = take_doubles(arena, W);
    update.log_det = 0;
    return update;
}

/* What is padding stays 0. */
SIMD_UNUSED static void clear_update(ptrdiff_t W, Update *update)
{
    set_zero(W * W, update->X);
    set_zero(W * W, update->M_upper);
    set_zero(W, update->M_inverse);
}

/* state->covariance <- U M^-1 U', with what leads there */
SIMD_UNUSED static void filter_covariance(
    const double *G, ptrdiff_t k, ptrdiff_t W, Update *update, const FilteredState *state)
{
    transpose_square(state->upper, W, update->lower);
    matrix_product(G, update->lower, k, W, update->X);
    set_zero(W * W, update->M);
    for (ptrdiff_t i = 0; i < k; i++) update->M[i * W + i] = 1;
    add_transposed_product(update->lower, update->X, k, k, W, update->M);
    factorise(update->M, k, W, update->M_upper, update->M_inverse);
    update->log_det = log_det_from(update->M_inverse, k);
    copy(state->upper, W * W, update->X);
    substitute_forward(update->M_upper, update->M_inverse, k, W, W, update->X);
    set_zero(W * W, state->covariance);
    add_transposed_product(update->X, update->X, k, k, W, state->covariance);
}

/* state->mean <- the filtered mean; returns log p(v | past). `work`: d + 3 W. */
SIMD_UNUSED static double filter_mean(
    const System *system, const Pattern *pattern, const double *v, const Update *update,
    double *work, const FilteredState *state)
{
    ptrdiff_t k = system->k, W = system->W, n = pattern->n_observed;
    double *information = work, *root = work + W, *move = work + 2 * W, *whitened = work + 3 * W;
    double quadratic = 0;
    whiten_innovation(system, pattern, v, state->predicted, whitened);
    row_product(whitened, pattern->H, n, W, information);
    for (ptrdiff_t i = 0; i < W; i++) root[i] = dot(update->X + i * W, information, W);
    row_product(root, update->X, k, W, move);
    for (ptrdiff_t i = 0; i < W; i++) state->mean[i] = state->predicted[i] + move[i];
    for (ptrdiff_t i = 0; i < n; i++) {
        double rest = whitened[i] - dot(pattern->H + i * W, move, W);
        quadratic += rest * rest;
    }
    for (ptrdiff_t i = k - 1; i >= 0; i--) {
        for (ptrdiff_t l = i + 1; l < k; l++) root[i] -= update->M_upper[i * W + l] * root[l];
        root[i] *= update->M_inverse[i];
        quadratic += root[i] * root[i];
    }
    return -0.5 * (pattern->log_det + update->log_det + quadratic);
}

/* next (W,) <- A mean + b */
SIMD_UNUSED static void predict_mean(const System *system, const double *mean, double *next)
{
    row_product(mean, system->At, system->k, system->W, next);
    add(system->b, system->W, next);
}

/* next (W, W) <- A covariance A' + Q; product (W, W) <- A covariance */
SIMD_UNUSED static void predict_covariance(
    const System *system, const double *covariance, double *product, double *next)
{
    matrix_product(system->A, covariance, system->k, system->W, product);
    matrix_product(product, system->At, system->k, system->W, next);
    add(system->Q, system->W * system->W, next);
}

/* The step back
 * -------------
 *
 * The Rauch-Tung-Striebel smoother, and the simulation smoother, which draws states.
 *
 * States are drawn in antithetic pairs, as far above their smoothed means as below (Durbin & Koopman
 * 2002): only second moments of the deviation are left to chance. Of a state and the one after, the
 * first is averaged over, given the second (Rao-Blackwell).
 *
 * Smoothed covariances are sums of quadratic forms (Joseph's form), and so symmetric and positive
 * semi-definite by construction.
 */

/* Scratch matrices of a step, (W, W) each. */
typedef struct {
    double *gain;
    double *shrink;
    double *sum;
    double *rest;
    double *before;
} SmootherStep;

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
 * W) <- Cov(next, this). Where the next state was drawn its covariance is 0.
 *
 * Where `repeats` is 1, the gain is that of the step before; `is_at_rest` says whether lag and
 * covariance are, too. */
SIMD_UNUSED static void smooth_state(
    const System *system, FilteredState now, FilteredState next, const SmootherStep *step,
    int repeats, int *is_at_rest, double *mean, double *covariance, double *lag)
{
    ptrdiff_t k = system->k, W = system->W;
    double *gain = step->gain, *shrink = step->shrink, *sum = step->sum, *rest = step->rest;
    if (!repeats) smoother_gain(system, now.covariance, next.upper, next.inverse, gain, shrink);
    for (ptrdiff_t j = 0; j < W; j++) rest[j] = mean[j] - next.predicted[j];
    row_product(rest, gain, k, W, mean);
    add(now.mean, W, mean);
    if (repeats && *is_at_rest) return;
    matrix_product(covariance, gain, k, W, lag);
    copy(covariance, W * W, step->before);
    copy(covariance, W * W, sum);
    add(system->Q, W * W, sum);
    set_zero(W * W, covariance);
    add_quadratic(shrink, now.covariance, k, W, rest, covariance);
    add_quadratic(gain, sum, k, W, rest, covariance);
    symmetrise(covariance, k, W);
    *is_at_rest = repeats && is_steady(step->before, covariance, k, W);
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
