/* One row of a linear dynamical system,
 *
 *     h_t = A h_t-1 + b + N(0, Q),    v_t = C h_t + offset + N(0, R):
 *
 * which of its values are observed, the update by them, the prediction of the next state, and the
 * step back.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_STEPS_H
#define SKLEARN_ONLINEEM_KALMAN_STEPS_H

#include "_arena.h"
#include "_small_matrices.h"

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
} System;

/* What k states are padded to. */
SIMD_INLINE ptrdiff_t padded_width(ptrdiff_t k) { return k <= 4 ? 4 : (k + 7) / 8 * 8; }

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

/* Missing values
 * --------------
 *
 * Observed values of a row are whitened, and missing ones are imputed.
 */

#define WIDEST_LOCAL 64

/* What rows have in common whose observed values are the same ones. */
typedef struct {
    ptrdiff_t n_observed; /* -1: no pattern yet */
    ptrdiff_t *indices;   /* (d,): of observed values, and then of missing ones */
    double *upper;        /* (n_observed, n_observed): U'U = R of the observed values */
    double *inverse;      /* (n_observed,) */
    double *H;            /* (n_observed, W): whitened rows of C */
    double *G;            /* (W, W): H'H */
    double *covariance;   /* (n_observed, n_observed): scratch */
    double log_det;       /* of R of the observed values */
} ObservedPattern;

SIMD_UNUSED static ObservedPattern lay_out_pattern(ptrdiff_t W, ptrdiff_t d, Arena *arena)
{
    ObservedPattern pattern;
    pattern.n_observed = -1;
    pattern.H = take_doubles(arena, d * W);
    pattern.G = take_doubles(arena, W * W);
    pattern.upper = take_doubles(arena, d * d);
    pattern.covariance = take_doubles(arena, d * d);
    pattern.inverse = take_doubles(arena, d);
    pattern.indices = (ptrdiff_t *)take(arena, d, sizeof(ptrdiff_t));
    return pattern;
}

/* Returns whether the observed values of v are those of the pattern. */
SIMD_UNUSED static int has_pattern(const ObservedPattern *pattern, const double *v, ptrdiff_t d)
{
    if (pattern->n_observed < 0) return 0;
    for (ptrdiff_t i = 0; i < d; i++)
        if (isnan(v[pattern->indices[i]]) != (i >= pattern->n_observed)) return 0;
    return 1;
}

/* pattern <- that of v, whitened */
SIMD_UNUSED static void whiten(const System *system, const double *v, ObservedPattern *pattern)
{
    ptrdiff_t d = system->d, W = system->W, n = 0, n_missing = 0;
    for (ptrdiff_t i = 0; i < d; i++)
        if (!isnan(v[i])) pattern->indices[n++] = i;
    for (ptrdiff_t i = 0; i < d; i++)
        if (isnan(v[i])) pattern->indices[n + n_missing++] = i;
    pattern->n_observed = n;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            pattern->covariance[i * n + j] =
                system->R[pattern->indices[i] * d + pattern->indices[j]];
    factorise(pattern->covariance, n, n, pattern->upper, pattern->inverse);
    pattern->log_det = log_det_from(pattern->inverse, n);
    for (ptrdiff_t i = 0; i < n; i++)
        copy(system->C + pattern->indices[i] * W, W, pattern->H + i * W);
    substitute_forward(pattern->upper, pattern->inverse, n, n, W, pattern->H);
    set_zero(W * W, pattern->G);
    add_transposed_product(pattern->H, pattern->H, n, system->k, W, pattern->G);
}

/* The pattern of v, whitened unless it is remembered: the first of n patterns is for complete rows,
 * the others for the last incomplete one that fell to each. */
SIMD_UNUSED static ObservedPattern *pattern_of(
    const System *system, const double *v, ptrdiff_t n, ObservedPattern *remembered)
{
    uint64_t code = 0;
    for (ptrdiff_t i = 0; i < system->d; i++)
        code = code * 0x9e3779b97f4a7c15u + (isnan(v[i]) ? 1 : 0);
    ptrdiff_t place = code ? 1 + (ptrdiff_t)((code >> 32) % (uint64_t)(n - 1)) : 0;
    ObservedPattern *pattern = remembered + place;
    if (!has_pattern(pattern, v, system->d)) whiten(system, v, pattern);
    return pattern;
}

/* whitened (n_observed,) <- L^-1 (v - C state - offset), R = L L' */
SIMD_UNUSED static void whiten_innovation(
    const System *system, const ObservedPattern *pattern, const double *v, const double *state,
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

/* Scratch memory of `impute`. */
typedef struct {
    double *weights; /* (d, d): of observed values in the expectation of missing ones */
    double *rest;    /* (d, d): covariance of missing values given observed ones and the state */
    double *slope;   /* (d, W): by which missing values follow the state */
    double *product; /* (W,) */
} Imputation;

/* Missing values of `filled` (d,) <- their expectations, from the moments of the state.
 *
 * Unless they are NULL, `across` (d, W) and `within` (d, d) += the covariances of missing values
 * with the state, and with each other. */
SIMD_UNUSED static void impute(
    const System *system, const ObservedPattern *pattern, const double *v, const double *state,
    const double *covariance, const Imputation *scratch, double *filled, double *across,
    double *within)
{
    ptrdiff_t d = system->d, W = system->W, n = pattern->n_observed, n_missing = d - n;
    const ptrdiff_t *observed = pattern->indices, *missing = pattern->indices + n;
    double *weights = scratch->weights, *rest = scratch->rest, *slope = scratch->slope;
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
        copy(system->C + missing[j] * W, W, slope + j * W);
        filled[missing[j]] = system->offset[missing[j]] + dot(slope + j * W, state, W);
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        ptrdiff_t row = observed[i];
        const double *C = system->C + row * W;
        double residual = v[row] - system->offset[row] - dot(C, state, W);
        for (ptrdiff_t j = 0; j < n_missing; j++) {
            double weight = weights[i * n_missing + j];
            filled[missing[j]] += weight * residual;
            for (ptrdiff_t l = 0; l < W; l++) slope[j * W + l] -= weight * C[l];
        }
    }
    if (!across) return;
    for (ptrdiff_t j = 0; j < n_missing; j++) {
        double row[WIDEST_LOCAL], *local = W <= WIDEST_LOCAL ? row : scratch->product;
        row_product(slope + j * W, covariance, system->k, W, local);
        add(local, W, across + missing[j] * W);
        for (ptrdiff_t i = 0; i < n_missing; i++)
            within[missing[j] * d + missing[i]] +=
                dot(local, slope + i * W, W) + rest[j * n_missing + i];
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

#define LOG_2_PI 1.8378770664093453

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
    FilteredState state = {
        memory, memory + W, memory + 2 * W, memory + 3 * W, memory + 3 * W + W * W};
    return state;
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
    update.X = take_doubles(arena, W * W);
    update.M_upper = take_doubles(arena, W * W);
    update.lower = take_doubles(arena, W * W);
    update.M = take_doubles(arena, W * W);
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
    const System *system, const ObservedPattern *pattern, const double *v, const Update *update,
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
    return -0.5 * (n * LOG_2_PI + pattern->log_det + update->log_det + quadratic);
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

#endif
