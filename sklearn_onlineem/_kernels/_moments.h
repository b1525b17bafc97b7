/* Moments of vectors, as sums take them: a weight, the mean, and the scatter about it. */
#ifndef SKLEARN_ONLINEEM_MOMENTS_H
#define SKLEARN_ONLINEEM_MOMENTS_H

#include <string.h>

#include "_arena.h"

typedef struct {
    ptrdiff_t n;
    double *weight;  /* (1,) */
    double *mean;    /* (n,) */
    double *scatter; /* (n, n) */
} Moments;

/* Moments in the array of a caller are a weight, a mean and a scatter, one after the other. */
SIMD_INLINE ptrdiff_t moments_size(ptrdiff_t n) { return 1 + n + n * n; }

SIMD_UNUSED static Moments moments_at(double *memory, ptrdiff_t n)
{
    Moments moments = {n, memory, memory + 1, memory + 1 + n};
    return moments;
}

SIMD_UNUSED static void clear_moments(const Moments *moments)
{
    memset(moments->weight, 0, (size_t)moments_size(moments->n) * sizeof(double));
}

/* Adds vectors of the given weight and mean, whose scatter is `scale` times what is given, by the
 * parallel-axis theorem. */
SIMD_CLONES SIMD_UNUSED static void add_moments(
    double weight, const double *mean, double scale, const double *scatter, Moments *total)
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

/* Vectors on their way to a total: moments are taken of many at a time, about their own mean. */
typedef struct {
    Moments total;
    ptrdiff_t n_rows;
    double *rows;    /* (BUFFER_ROWS, n) */
    double *mean;    /* (n,) */
    double *scatter; /* (n, n) */
} MomentsBuffer;

#define BUFFER_ROWS 128

SIMD_UNUSED static MomentsBuffer lay_out_moments_buffer(ptrdiff_t n, Arena *arena)
{
    MomentsBuffer buffer = {{n, NULL, NULL, NULL}, 0, NULL, NULL, NULL};
    buffer.rows = take_doubles(arena, BUFFER_ROWS * n);
    buffer.mean = take_doubles(arena, n);
    buffer.scatter = take_doubles(arena, n * n);
    return buffer;
}

SIMD_CLONES SIMD_UNUSED static void add_buffer(MomentsBuffer *buffer)
{
    const ptrdiff_t n = buffer->total.n, n_rows = buffer->n_rows;
    double *RESTRICT mean = buffer->mean, *RESTRICT scatter = buffer->scatter;
    for (ptrdiff_t i = 0; i < n; i++) mean[i] = 0;
    for (ptrdiff_t i = 0; i < n * n; i++) scatter[i] = 0;
    for (ptrdiff_t t = 0; t < n_rows; t++)
        for (ptrdiff_t i = 0; i < n; i++) mean[i] += buffer->rows[t * n + i] / (double)n_rows;
    for (ptrdiff_t t = 0; t < n_rows; t++) {
        double *row = buffer->rows + t * n;
        for (ptrdiff_t i = 0; i < n; i++) row[i] -= mean[i];
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t j = 0; j < n; j++) scatter[i * n + j] += row[i] * row[j];
    }
    add_moments((double)n_rows, mean, 1, scatter, &buffer->total);
    buffer->n_rows = 0;
}

/* Room for one more vector. */
SIMD_UNUSED static double *next_row(MomentsBuffer *buffer)
{
    if (buffer->n_rows == BUFFER_ROWS) add_buffer(buffer);
    return buffer->rows + buffer->n_rows++ * buffer->total.n;
}

/* From sums of deviations of (x, y) from a centre (in the place of the mean), and of their
 * products; x has n_x variables. */
SIMD_UNUSED static void centre_moments(
    const double *centre_x, ptrdiff_t n_x, const double *centre_y, Moments *moments)
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
