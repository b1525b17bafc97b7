/* Which values of a row are observed: these are whitened, and the missing ones are imputed. */
#ifndef SKLEARN_ONLINEEM_KALMAN_MISSING_H
#define SKLEARN_ONLINEEM_KALMAN_MISSING_H

#include "_arena.h"
#include "_kalman_system.h"

OPTIMISE_BEGIN(WHOLE_TILES)

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

SIMD_UNUSED static Imputation lay_out_imputation(ptrdiff_t W, ptrdiff_t d, Arena *arena)
{
    Imputation imputation;
    imputation.weights = take_doubles(arena, d * d);
    imputation.rest = take_doubles(arena, d * d);
    imputation.slope = take_doubles(arena, d * W);
    imputation.product = take_doubles(arena, W);
    return imputation;
}

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

OPTIMISE_END

#endif
