/* What an E-step of linear dynamical systems makes of sequences. */
#ifndef SKLEARN_ONLINEEM_KALMAN_EVIDENCE_H
#define SKLEARN_ONLINEEM_KALMAN_EVIDENCE_H

#include "_moments.h"

typedef struct {
    Moments initial;     /* of first states */
    Moments transitions; /* of states, and the ones after them */
    Moments emissions;   /* of states and rows */
} Evidence;

SIMD_UNUSED static Evidence lay_out_evidence(ptrdiff_t k, ptrdiff_t d, Arena *arena)
{
    double *initial = take_doubles(arena, moments_size(k));
    double *transitions = take_doubles(arena, moments_size(2 * k));
    double *emissions = take_doubles(arena, moments_size(k + d));
    Evidence evidence = {{0}};
    if (initial) {
        evidence.initial = moments_at(initial, k);
        evidence.transitions = moments_at(transitions, 2 * k);
        evidence.emissions = moments_at(emissions, k + d);
    }
    return evidence;
}

SIMD_UNUSED static void clear_evidence(const Evidence *evidence)
{
    clear_moments(&evidence->initial);
    clear_moments(&evidence->transitions);
    clear_moments(&evidence->emissions);
}

SIMD_UNUSED static void add_all(const Moments *part, Moments *total)
{
    add_moments(*part->weight, part->mean, 1, part->scatter, total);
}

SIMD_UNUSED static void add_evidence(const Evidence *part, Evidence *total)
{
    add_all(&part->initial, &total->initial);
    add_all(&part->transitions, &total->transitions);
    add_all(&part->emissions, &total->emissions);
}

/* out (n_x + n_y, n_x + n_y) <- out + (xx, yx' / yx, yy), where yy may be NULL, for 0. Rows of xx
 * and yx are `stride` apart, those of yy `stride_y`. */
SIMD_UNUSED static void add_joint(
    const double *xx, const double *yx, ptrdiff_t stride, const double *yy, ptrdiff_t stride_y,
    ptrdiff_t n_x, ptrdiff_t n_y, double *out)
{
    const ptrdiff_t n = n_x + n_y;
    for (ptrdiff_t i = 0; i < n_x; i++)
        for (ptrdiff_t j = 0; j < n_x; j++) out[i * n + j] += xx[i * stride + j];
    for (ptrdiff_t i = 0; i < n_y; i++) {
        double *row = out + (n_x + i) * n;
        for (ptrdiff_t j = 0; j < n_x; j++) {
            row[j] += yx[i * stride + j];
            out[j * n + n_x + i] += yx[i * stride + j];
        }
        for (ptrdiff_t j = 0; j < n_y; j++) row[n_x + j] += yy ? yy[i * stride_y + j] : 0;
    }
}

#endif
