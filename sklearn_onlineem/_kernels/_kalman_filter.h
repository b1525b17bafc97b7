/* Steps of the Kalman filter: update by a row, prediction of the next state.
 *
 * No difference of covariances is ever taken. The observed values of a row are whitened, R = L L',
 * H = L^-1 C; the predicted covariance is P = U U'; and with G = H'H and M = I + U'GU, whose
 * eigenvalues are at least 1, the filtered covariance is U M^-1 U'. So it is symmetric and positive
 * semi-definite by construction.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_FILTER_H
#define SKLEARN_ONLINEEM_KALMAN_FILTER_H

#include "_kalman_missing.h"

OPTIMISE_BEGIN(WHOLE_TILES)

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
    transpose(state->upper, W, update->lower);
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

OPTIMISE_END

#endif
