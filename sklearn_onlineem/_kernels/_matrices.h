/* Small matrices: of W x W, row by row; and numbers of eight segments side by side.
 *
 * The first are for steps of one Kalman filter at a time. The second are for eight filters that
 * have the same gains, so that products of one row become products of a matrix.
 */
#ifndef SKLEARN_ONLINEEM_MATRICES_H
#define SKLEARN_ONLINEEM_MATRICES_H

#include "_simd.h"

/* One matrix
 * ----------
 *
 * The k states are padded with zeros to W, whole vectors. The usual widths are constants, so that
 * the compiler unrolls the loops.
 */

OPTIMISE_BEGIN(WHOLE_TILES)

#define ROUNDING 2.220446049250313e-16
#define TILE 4
#define WIDEST_TILE 8

SIMD_INLINE void set_zero(ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = 0;
}

SIMD_INLINE void copy(const double *x, ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = x[i];
}

SIMD_INLINE void add(const double *x, ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] += x[i];
}

SIMD_INLINE void matrix_product_tiled(
    const double *a, const double *b, const ptrdiff_t k, const ptrdiff_t W, const int tile,
    double *RESTRICT out)
{
    for (ptrdiff_t start = 0; start < W; start += tile)
        for (ptrdiff_t i = 0; i < k; i++) {
            double sum[WIDEST_TILE];
            for (int j = 0; j < tile; j++) sum[j] = 0;
            for (ptrdiff_t l = 0; l < k; l++)
                for (int j = 0; j < tile; j++) sum[j] += a[i * W + l] * b[l * W + start + j];
            for (int j = 0; j < tile; j++) out[i * W + start + j] = sum[j];
        }
    for (ptrdiff_t i = k * W; i < W * W; i++) out[i] = 0;
}

/* out <- a b */
SIMD_CLONES SIMD_UNUSED static void matrix_product(
    const double *a, const double *b, ptrdiff_t k, ptrdiff_t W, double *RESTRICT out)
{
    if (W == 8) matrix_product_tiled(a, b, k, 8, 8, out);
    else matrix_product_tiled(a, b, k, W, TILE, out);
}

SIMD_INLINE void add_transposed_product_tiled(
    const double *a, const double *b, const ptrdiff_t n, const ptrdiff_t k, const ptrdiff_t W,
    const int tile, double *RESTRICT out)
{
    for (ptrdiff_t start = 0; start < W; start += tile)
        for (ptrdiff_t i = 0; i < k; i++) {
            double sum[WIDEST_TILE];
            for (int j = 0; j < tile; j++) sum[j] = out[i * W + start + j];
            for (ptrdiff_t l = 0; l < n; l++)
                for (int j = 0; j < tile; j++) sum[j] += a[l * W + i] * b[l * W + start + j];
            for (int j = 0; j < tile; j++) out[i * W + start + j] = sum[j];
        }
}

/* out <- out + a' b, a and b of n rows; of a, k columns count */
SIMD_CLONES SIMD_UNUSED static void add_transposed_product(
    const double *a, const double *b, ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, double *RESTRICT out)
{
    if (W == 8) add_transposed_product_tiled(a, b, n, k, 8, 8, out);
    else add_transposed_product_tiled(a, b, n, k, W, TILE, out);
}

/* out (W,) <- x' table, of n rows */
SIMD_CLONES SIMD_UNUSED static void row_product(
    const double *x, const double *table, ptrdiff_t n, ptrdiff_t W, double *RESTRICT out)
{
    for (ptrdiff_t start = 0; start < W; start += TILE) {
        double sum[TILE] = {0};
        for (ptrdiff_t i = 0; i < n; i++)
            for (int j = 0; j < TILE; j++) sum[j] += x[i] * table[i * W + start + j];
        for (int j = 0; j < TILE; j++) out[start + j] = sum[j];
    }
}

SIMD_INLINE double dot(const double *x, const double *y, const ptrdiff_t n)
{
    double partial[4] = {0, 0, 0, 0};
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++) partial[l] += x[i + l] * y[i + l];
    for (; i < n; i++) partial[0] += x[i] * y[i];
    return (partial[0] + partial[1]) + (partial[2] + partial[3]);
}

SIMD_INLINE void transpose(const double *x, ptrdiff_t W, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < W; i++)
        for (ptrdiff_t j = 0; j < W; j++) out[j * W + i] = x[i * W + j];
}

SIMD_INLINE void symmetrise(double *x, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < i; j++)
            x[i * W + j] = x[j * W + i] = 0.5 * (x[i * W + j] + x[j * W + i]);
}

/* upper (n, stride) <- U with U'U = x (its upper triangle), inverse_j <- 1 / U_jj.
 *
 * Where x is singular, rows of U are 0, and so are their inverses: substitution then solves what
 * has a solution. */
SIMD_CLONES SIMD_UNUSED static void factorise(
    const double *x, ptrdiff_t n, ptrdiff_t stride, double *upper, double *inverse)
{
    copy(x, n * stride, upper);
    for (ptrdiff_t j = 0; j < n; j++) {
        double *row = upper + j * stride, pivot = row[j];
        int is_positive = pivot > n * ROUNDING * x[j * stride + j] && pivot > 0;
        inverse[j] = is_positive ? 1 / sqrt(pivot) : 0;
        for (ptrdiff_t i = 0; i < j; i++) row[i] = 0;
        for (ptrdiff_t i = 0; i < stride; i++) row[i] *= inverse[j];
        for (ptrdiff_t i = j + 1; i < n; i++) {
            double *later = upper + i * stride, factor = row[i];
            for (ptrdiff_t l = 0; l < stride; l++) later[l] -= factor * row[l];
        }
    }
}

/* log |x| of a factorised matrix */
SIMD_UNUSED static double log_det_from(const double *inverse, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t j = 0; j < n; j++) sum += log(inverse[j]);
    return -2 * sum;
}

/* x (n, width) <- U'^-1 x */
SIMD_CLONES SIMD_UNUSED static void substitute_forward(
    const double *upper, const double *inverse, ptrdiff_t n, ptrdiff_t stride,
    ptrdiff_t width, double *x)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double *row = x + i * width;
        for (ptrdiff_t j = 0; j < width; j++) row[j] *= inverse[i];
        for (ptrdiff_t l = i + 1; l < n; l++) {
            double *later = x + l * width, factor = upper[i * stride + l];
            for (ptrdiff_t j = 0; j < width; j++) later[j] -= factor * row[j];
        }
    }
}

/* x (n, width) <- U^-1 x */
SIMD_CLONES SIMD_UNUSED static void substitute_backward(
    const double *upper, const double *inverse, ptrdiff_t n, ptrdiff_t stride,
    ptrdiff_t width, double *x)
{
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        double *row = x + i * width;
        for (ptrdiff_t l = i + 1; l < n; l++) {
            double factor = upper[i * stride + l];
            const double *later = x + l * width;
            for (ptrdiff_t j = 0; j < width; j++) row[j] -= factor * later[j];
        }
        for (ptrdiff_t j = 0; j < width; j++) row[j] *= inverse[i];
    }
}

/* out <- out + form' x form */
SIMD_UNUSED static void add_quadratic(
    const double *form, const double *x, ptrdiff_t k, ptrdiff_t W, double *work, double *out)
{
    matrix_product(x, form, k, W, work);
    add_transposed_product(form, work, k, k, W, out);
}

/* out (n, k) <- x (n, W) */
SIMD_UNUSED static void unpad(const double *x, ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < k; j++) out[i * k + j] = x[i * W + j];
}

OPTIMISE_END

/* A batch
 * -------
 *
 * BATCH_SIZE numbers side by side, one for each segment of rows that a batch is made of. A loop over
 * them is a vector, or up to four: GCC has to be kept from unrolling it altogether first.
 */

/* Doubles of the widest vectors. */
#define BATCH_SIZE 8
#define EACH_SEGMENT UNROLL(4) for (int s = 0; s < BATCH_SIZE; s++)

/* out (n, BATCH_SIZE) <- x (n,), for each segment */
SIMD_INLINE void repeat(const double *x, const ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        EACH_SEGMENT out[i * BATCH_SIZE + s] = x[i];
}

/* out (n,) <- x (n, BATCH_SIZE), summed over segments */
SIMD_UNUSED static void sum_segments(const double *x, ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++, x += BATCH_SIZE)
        out[i] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/* out (n_x, n_y, BATCH_SIZE) <- out + x y' */
SIMD_INLINE void add_batched_outer(
    const double *x, const double *y, const ptrdiff_t n_x, const ptrdiff_t n_y,
    double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n_x; i++, x += BATCH_SIZE)
        for (ptrdiff_t j = 0; j < n_y; j++, out += BATCH_SIZE)
            EACH_SEGMENT out[s] += x[s] * y[j * BATCH_SIZE + s];
}

/* By way of numbers of its own, as `out` may be `origin`: or loops would be made twice. */
SIMD_INLINE void put_batched(
    const double *origin, const double sign, const double *sum, double *out)
{
    double result[BATCH_SIZE];
    EACH_SEGMENT result[s] = origin[s] + sign * sum[s];
    EACH_SEGMENT out[s] = result[s];
}

/* out (n_out, BATCH_SIZE) <- origin + sign table' x, x (n_in, BATCH_SIZE). out may be origin. */
SIMD_INLINE void batched_product(
    const double *table, const ptrdiff_t stride, const ptrdiff_t n_in, const ptrdiff_t n_out,
    const double *x, const double *origin, const double sign, double *out)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n_out; i += 4, origin += 4 * BATCH_SIZE, out += 4 * BATCH_SIZE) {
        double sum[4][BATCH_SIZE] = {{0}};
        for (ptrdiff_t j = 0; j < n_in; j++) {
            const double *row = table + j * stride + i, *here = x + j * BATCH_SIZE;
            EACH_SEGMENT sum[0][s] += row[0] * here[s];
            EACH_SEGMENT sum[1][s] += row[1] * here[s];
            EACH_SEGMENT sum[2][s] += row[2] * here[s];
            EACH_SEGMENT sum[3][s] += row[3] * here[s];
        }
        for (int l = 0; l < 4; l++)
            put_batched(origin + l * BATCH_SIZE, sign, sum[l], out + l * BATCH_SIZE);
    }
    for (; i < n_out; i++, origin += BATCH_SIZE, out += BATCH_SIZE) {
        double sum[BATCH_SIZE] = {0};
        for (ptrdiff_t j = 0; j < n_in; j++)
            EACH_SEGMENT sum[s] += table[j * stride + i] * x[j * BATCH_SIZE + s];
        put_batched(origin, sign, sum, out);
    }
}

/* sum (n, BATCH_SIZE) <- sum + x, where `keeps` (BATCH_SIZE,) is 1 */
SIMD_INLINE void add_kept(const int64_t *keeps, const double *x, const ptrdiff_t n, double *sum)
{
    for (ptrdiff_t i = 0; i < n * BATCH_SIZE; i += BATCH_SIZE) {
        double kept[BATCH_SIZE];
        EACH_SEGMENT kept[s] = sum[i + s] + (keeps[s] ? x[i + s] : 0);
        EACH_SEGMENT sum[i + s] = kept[s];
    }
}

/* out (n, BATCH_SIZE) <- x - y, where `keeps` is 1, else 0 */
SIMD_INLINE void subtract_kept(
    const int64_t *keeps, const double *x, const double *y, const ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n * BATCH_SIZE; i += BATCH_SIZE) {
        double kept[BATCH_SIZE];
        EACH_SEGMENT kept[s] = keeps[s] ? x[i + s] - y[i + s] : 0;
        EACH_SEGMENT out[i + s] = kept[s];
    }
}

#endif
