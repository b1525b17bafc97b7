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

SIMD_UNUSED static Moments moments_at(double *memory, ptrdiff_t n)
{
    Moments moments = {n, memory, memory + 1, memory + 1 + n};
    return moments;
}

/* Adds vectors of the given weight and mean, whose scatter is `scale` times what is given, by the
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

/* Vectors whose moments are taken a block at a time, about its own mean. */
typedef struct {
    Moments total;
    ptrdiff_t n_rows;
    double *rows; /* (BLOCK_ROWS, n) */
    double *work; /* (n + n n) */
} Block;

#define BLOCK_ROWS 128

SIMD_INLINE ptrdiff_t block_size(ptrdiff_t n) { return BLOCK_ROWS * n + n + n * n; }

SIMD_UNUSED static Block block_at(double *memory, Moments total)
{
    Block block = {total, 0, memory, memory + BLOCK_ROWS * total.n};
    return block;
}

SIMD_CLONES SIMD_UNUSED static void add_up_block(Block *block)
{
    const ptrdiff_t n = block->total.n, n_rows = block->n_rows;
    double *RESTRICT mean = block->work, *RESTRICT scatter = block->work + n;
    for (ptrdiff_t i = 0; i < n + n * n; i++) block->work[i] = 0;
    for (ptrdiff_t t = 0; t < n_rows; t++)
        for (ptrdiff_t i = 0; i < n; i++) mean[i] += block->rows[t * n + i] / (double)n_rows;
    for (ptrdiff_t t = 0; t < n_rows; t++) {
        double *row = block->rows + t * n;
        for (ptrdiff_t i = 0; i < n; i++) row[i] -= mean[i];
        for (ptrdiff_t i = 0; i < n; i++)
            for (ptrdiff_t j = 0; j < n; j++) scatter[i * n + j] += row[i] * row[j];
    }
    add_moments(&block->total, (double)n_rows, mean, 1, scatter);
    block->n_rows = 0;
}

/* Room for one more vector. */
SIMD_UNUSED static double *next_row(Block *block)
{
    if (block->n_rows == BLOCK_ROWS) add_up_block(block);
    return block->rows + block->n_rows++ * block->total.n;
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
