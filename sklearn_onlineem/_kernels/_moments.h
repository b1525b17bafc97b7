/* Moments of vectors, as sums take them: a weight, the mean, and the scatter about it. */
#ifndef SKLEARN_ONLINEEM_MOMENTS_H
#define SKLEARN_ONLINEEM_MOMENTS_H

#include "_simd.h"

typedef struct {
    ptrdiff_t n;
    double *weight;  /* (1,) */
    double *mean;    /* (n,) */
    double *scatter; /* (n, n) */
} Moments;

SIMD_INLINE ptrdiff_t moments_size(ptrdiff_t n) { return 1 + n + n * n; }

SIMD_INLINE Moments moments_at(double *memory, ptrdiff_t n)
{
    Moments moments = {n, memory, memory + 1, memory + 1 + n};
    return moments;
}

/* Adds vectors of the given weight and mean, whose scatter is `scale` times what is given; by the
 * parallel-axis theorem. */
SIMD_CLONES SIMD_UNUSED static void add_moments(
    Moments *total, double weight, const double *mean, double scale, const double *scatter)
{
    const ptrdiff_t n = total->n;
    if (!(weight > 0)) return;
    const double share = weight / (*total->weight + weight), factor = *total->weight * share;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double shift = mean[i] - total->mean[i];
        double *RESTRICT out = total->scatter + i * n;
        for (ptrdiff_t j = 0; j < n; j++)
            out[j] += scale * scatter[i * n + j] + factor * (shift * (mean[j] - total->mean[j]));
    }
    for (ptrdiff_t i = 0; i < n; i++) total->mean[i] += share * (mean[i] - total->mean[i]);
    *total->weight += weight;
}

/* From sums of deviations of (x, y) from a centre (in the place of the mean), and of their products;
 * x has n_x variables. */
SIMD_UNUSED static void centre_moments(
    Moments *moments, const double *centre_x, ptrdiff_t n_x, const double *centre_y)
{
    const ptrdiff_t n = moments->n;
    const double weight = *moments->weight;
    if (!(weight > 0)) return;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            moments->scatter[i * n + j] -= moments->mean[i] * moments->mean[j] / weight;
    for (ptrdiff_t i = 0; i < n; i++)
        moments->mean[i] =
            (i < n_x ? centre_x[i] : centre_y[i - n_x]) + moments->mean[i] / weight;
}

#endif
