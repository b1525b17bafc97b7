/* Algebra of small matrices, in the three forms in which they come.
 *
 * - One matrix, row by row: for steps of one Kalman filter at a time, each from the last.
 * - A batch: one number of each of LANES problems side by side. Filters that have the same
 *   gains turn products of one row into products of a matrix.
 * - Matrices side by side: K of them, as components have. Of so few columns rows would fill no
 *   vector, so LANES matrices are elements of one; as squares where all are inverted at once, and as
 *   packed triangles where a row is solved for by all, and one changes between rows.
 */
#pragma once

#include "_simd.h"

/* Doubles of the widest vectors, unless a kernel has said how many it takes side by side. */
#ifndef LANES
#define LANES 8
#endif

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

SIMD_INLINE void transpose_square(const double *x, ptrdiff_t W, double *RESTRICT out)
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

/* out (W,) <- x (k,), with zeros */
SIMD_INLINE void pad(const double *x, ptrdiff_t k, ptrdiff_t W, double *out)
{
    copy(x, k, out);
    set_zero(W - k, out + k);
}

/* out (W, W) <- x (k, k), with zeros */
SIMD_UNUSED static void pad_square(const double *x, ptrdiff_t k, ptrdiff_t W, double *out)
{
    for (ptrdiff_t i = 0; i < k; i++) pad(x + i * k, k, W, out + i * W);
    set_zero((W - k) * W, out + k * W);
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
 * LANES numbers side by side, one for each segment of rows that a batch is made of. A loop over
 * them is a vector, or up to four: GCC has to be kept from unrolling it altogether first.
 */

#define EACH_SEGMENT UNROLL(4) for (int s = 0; s < LANES; s++)

/* out (n, LANES) <- x (n,), for each segment */
SIMD_INLINE void repeat(const double *x, const ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        EACH_SEGMENT out[i * LANES + s] = x[i];
}

/* out (n,) <- x (n, LANES), summed over segments */
SIMD_UNUSED static void sum_segments(const double *x, ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++, x += LANES) {
        double sum[LANES];
        copy(x, LANES, sum);
        for (int m = LANES / 2; m > 0; m /= 2)
            for (int s = 0; s < m; s++) sum[s] += sum[m + s];
        out[i] = sum[0];
    }
}

/* out (n_out, LANES) <- origin + table' x, x (n_in, LANES). out may be origin. */
SIMD_CLONES SIMD_UNUSED static void batched_product(
    const double *table, const ptrdiff_t stride, const ptrdiff_t n_in, const ptrdiff_t n_out,
    const double *x, const double *origin, double *out)
{
    for (ptrdiff_t i = 0; i < n_out; i++) {
        double sum[LANES];
        EACH_SEGMENT sum[s] = origin[i * LANES + s];
        for (ptrdiff_t j = 0; j < n_in; j++)
            EACH_SEGMENT sum[s] += table[j * stride + i] * x[j * LANES + s];
        EACH_SEGMENT out[i * LANES + s] = sum[s];
    }
}

/* out (n_x, stride, LANES) <- out + sum over steps of x y, each x (n_x, LANES), and y (LANES,) */
SIMD_CLONES SIMD_UNUSED static void add_batched_outer(
    const double *x, const ptrdiff_t stride_x, const ptrdiff_t n_x, const double *y,
    const ptrdiff_t stride_y, const ptrdiff_t n_steps, const ptrdiff_t stride, double *out)
{
    for (ptrdiff_t i = 0; i < n_x; i++, x += LANES, out += stride * LANES) {
        double sum[LANES];
        EACH_SEGMENT sum[s] = out[s];
        for (ptrdiff_t j = 0; j < n_steps; j++)
            EACH_SEGMENT sum[s] += x[j * stride_x + s] * y[j * stride_y + s];
        EACH_SEGMENT out[s] = sum[s];
    }
}

/* sum (n, LANES) <- sum + x, where `keeps` (LANES,) is not 0 */
SIMD_INLINE void add_kept(
    const int64_t *keeps, const double *x, const ptrdiff_t n, double *RESTRICT sum)
{
    for (ptrdiff_t i = 0; i < n * LANES; i += LANES)
        EACH_SEGMENT sum[i + s] += keeps[s] ? x[i + s] : 0;
}

/* out (n, LANES) <- x - y, where `keeps` is not 0, else 0 */
SIMD_INLINE void subtract_kept(
    const int64_t *keeps, const double *x, const double *y, const ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n * LANES; i += LANES)
        EACH_SEGMENT out[i + s] = keeps[s] ? x[i + s] - y[i + s] : 0;
}

/* Squares side by side
 * --------------------
 *
 * Every scalar of the textbook algorithm is a vector. All loops run along rows, so that they have no
 * sums across iterations.
 */

/* target (n, LANES) <- target + sign factor (LANES,) source */
SIMD_INLINE void add_multiple(
    double *RESTRICT target, const double *factor, const double *source, const ptrdiff_t n,
    const double sign)
{
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t m = 0; m < LANES; m++)
            target[j * LANES + m] += sign * (factor[m] * source[j * LANES + m]);
}

/* target (n, LANES) <- factor (LANES,) target */
SIMD_INLINE void scale_lanes(double *RESTRICT target, const double *factor, const ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t m = 0; m < LANES; m++) target[j * LANES + m] *= factor[m];
}

/* Inverts LANES matrices, given by the upper triangle of `work` (d, d, LANES): S = U'U.
 *
 * work <- inv(U)' below, and on, the diagonal (what is above it is spent); precision <- inv(S)
 * below, and on, the diagonal. Not positive definite: NaN or inf. */
SIMD_CLONES SIMD_UNUSED static void invert_lanes(double *work, double *precision, ptrdiff_t d)
{
    const ptrdiff_t row = d * LANES;
    /* Right-looking Cholesky; 1 / U_ii stays on the diagonal, where it is also inv(U)_ii. */
    for (ptrdiff_t i = 0; i < d; i++) {
        double *pivot = work + i * row + i * LANES;
        for (ptrdiff_t m = 0; m < LANES; m++) pivot[m] = 1 / sqrt(pivot[m]);
        scale_lanes(pivot + LANES, pivot, d - i - 1);
        for (ptrdiff_t p = i + 1; p < d; p++) {
            const double *source = work + i * row + p * LANES;
            add_multiple(work + p * row + p * LANES, source, source, d - p, -1);
        }
    }
    /* inv(U)' by forward substitution, row by row. */
    for (ptrdiff_t i = 1; i < d; i++) {
        memset(work + i * row, 0, (size_t)(i * LANES) * sizeof(double));
        for (ptrdiff_t p = 0; p < i; p++)
            add_multiple(work + i * row, work + p * row + i * LANES, work + p * row, p + 1, -1);
        scale_lanes(work + i * row, work + i * row + i * LANES, i);
    }
    /* inv(S) = inv(U) inv(U)'. */
    memset(precision, 0, (size_t)(d * row) * sizeof(double));
    for (ptrdiff_t p = 0; p < d; p++) {
        const double *source = work + p * row;
        for (ptrdiff_t i = 0; i <= p; i++)
            add_multiple(precision + i * row, source + i * LANES, source, i + 1, 1);
    }
}

/* Packed triangles
 * ----------------
 *
 * A lower triangle has its columns one after the other. LANES of them make a tile: those of P
 * matrices are (P / LANES, d (d + 1) / 2, LANES). A single one has its entries `stride` apart.
 */

OPTIMISE_BEGIN(SELECTS)

SIMD_INLINE ptrdiff_t triangle_size(ptrdiff_t d) { return d * (d + 1) / 2; }
/* Where a triangle has the entry of a row and a column. */
SIMD_INLINE ptrdiff_t entry_of(ptrdiff_t i, ptrdiff_t j, ptrdiff_t d)
{ return j * d - triangle_size(j) + i; }

/* v (d, LANES) <- L_k^-1 (x - mean_k), for the triangles of a tile, squares <- |v_k|^2. What is
 * solved is taken from all that follows, as numbers there do not wait for each other. */
SIMD_INLINE void solve_tile(
    const double *RESTRICT factor, const double *RESTRICT inverses, const double *RESTRICT x,
    const double *RESTRICT means, const ptrdiff_t d, double *RESTRICT v, double *RESTRICT squares)
{
    for (ptrdiff_t j = 0; j < d; j++)
        UNROLL(1) /* or GCC puts vectors together from several rows */
        for (int m = 0; m < LANES; m++)
            v[j * LANES + m] = x[j] - means[j * LANES + m];
    for (int m = 0; m < LANES; m++) squares[m] = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        double solved[LANES];
        for (int m = 0; m < LANES; m++) {
            solved[m] = v[j * LANES + m] * inverses[j * LANES + m];
            v[j * LANES + m] = solved[m];
            squares[m] += solved[m] * solved[m];
        }
        factor += LANES;
        for (ptrdiff_t i = j + 1; i < d; i++, factor += LANES)
            for (int m = 0; m < LANES; m++) v[i * LANES + m] -= factor[m] * solved[m];
    }
}

/* v, in tiles, and squares (P,) <- the same, for a triangle L of each component */
SIMD_CLONES SIMD_UNUSED static void solve_own(
    const double *factor, const double *inverses, const double *x, const double *means,
    ptrdiff_t d, ptrdiff_t P, double *v, double *squares)
{
    for (ptrdiff_t k = 0; k < P; k += LANES)
        solve_tile(
            factor + k * triangle_size(d), inverses + k * d, x, means + k * d, d, v + k * d,
            squares + k);
}

/* v (d, P), squares (P,) <- the same, for one triangle L of all components */
SIMD_CLONES SIMD_UNUSED static void solve_shared(
    const double *RESTRICT factor, const double *RESTRICT inverses, const double *RESTRICT x,
    const double *RESTRICT means, ptrdiff_t d, ptrdiff_t P, double *RESTRICT v,
    double *RESTRICT squares)
{
    for (ptrdiff_t start = 0; start < P; start += SIMD_STRIP) {
        const ptrdiff_t stop = P - start < SIMD_STRIP ? P : start + SIMD_STRIP;
        const double *entry = factor;
        for (ptrdiff_t j = 0; j < d; j++)
            for (ptrdiff_t k = start; k < stop; k++) v[j * P + k] = x[j] - means[j * P + k];
        for (ptrdiff_t k = start; k < stop; k++) squares[k] = 0;
        for (ptrdiff_t j = 0; j < d; j++) {
            double *RESTRICT solved = v + j * P;
            for (ptrdiff_t k = start; k < stop; k++) {
                solved[k] *= inverses[j];
                squares[k] += solved[k] * solved[k];
            }
            entry++;
            for (ptrdiff_t i = j + 1; i < d; i++, entry++)
                for (ptrdiff_t k = start; k < stop; k++) v[i * P + k] -= entry[0] * solved[k];
        }
    }
}

/* triangle += w w', both of one matrix */
SIMD_CLONES SIMD_UNUSED static void add_outer(
    const double *RESTRICT w, ptrdiff_t d, double *RESTRICT triangle)
{
    for (ptrdiff_t j = 0; j < d; triangle += d - j++)
        for (ptrdiff_t i = j; i < d; i++) triangle[i - j] += w[j] * w[i];
}

/* The triangle L of L L' <- that of L L' + sign w w', and the inverses of its diagonal; entries are
 * `stride` apart, w (d,) is spent. Returns 0 where that is not positive definite.
 *
 * Both are hyperbolic or plane rotations of the columns of L with w, of which those that downdate
 * take the new column to rotate w, as is stable (Bojanczyk, Brent, Van Dooren & de Hoog 1987). */
SIMD_UNUSED static int change_factor(
    double *factor, double *inverses, ptrdiff_t stride, ptrdiff_t d, double sign, double *w)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        double *pivot = factor + entry_of(j, j, d) * stride;
        double square = pivot[0] * pivot[0] + sign * (w[j] * w[j]);
        if (!(square > 0)) return 0;
        double root = sqrt(square), cosine = root / pivot[0], sine = w[j] / pivot[0];
        double inverse = pivot[0] / root;
        pivot[0] = root;
        inverses[j * stride] = 1 / root;
        for (ptrdiff_t i = j + 1; i < d; i++) {
            double *entry = pivot + (i - j) * stride;
            entry[0] = (entry[0] + sign * sine * w[i]) * inverse;
            w[i] = cosine * w[i] - sine * entry[0];
        }
    }
    return 1;
}

/* factor <- the triangle L of L L' = a matrix, of which `triangle` has the lower one and is spent;
 * entries are `stride` apart. Returns the log-determinant, or NaN if it is not positive definite. */
SIMD_UNUSED static double factorise_triangle(
    double *triangle, ptrdiff_t d, ptrdiff_t stride, double *factor, double *inverses)
{
    double log_det = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        double *column = triangle + entry_of(j, j, d), pivot = column[0];
        if (!(pivot > 0)) return NAN;
        double inverse = 1 / sqrt(pivot);
        inverses[j * stride] = inverse;
        log_det += log(pivot);
        factor[entry_of(j, j, d) * stride] = sqrt(pivot);
        for (ptrdiff_t i = j + 1; i < d; i++) {
            column[i - j] *= inverse;
            factor[entry_of(i, j, d) * stride] = column[i - j];
        }
        for (ptrdiff_t l = j + 1; l < d; l++)
            for (ptrdiff_t i = l; i < d; i++)
                triangle[entry_of(i, l, d)] -= column[i - j] * column[l - j];
    }
    return log_det;
}

OPTIMISE_END
