/* For each REAL: loops over the columns of row-major blocks.
 *
 * Observations are columns here, so that the innermost loop runs over independent ones and
 * vectorises without reordering any sum.
 */

/* Shares below 1e-60 of the largest (1e-30 in single precision) are 0: they change no digit of any
 * sum, while their rows cost the moments as much as others, and more where their products are
 * subnormal. */
#define NEGLIGIBLE_LOG (sizeof(REAL) == sizeof(float) ? -69 : -138)

/* x (K, B) <- exp(x - maximum); maximum (B,) <- max_k x; total (B,) <- sum_k exp(x - maximum);
 * all but zeros are at least exp(NEGLIGIBLE_LOG).
 * A column of -inf gets the maximum 0, hence the total 0, and no NaN from -inf - (-inf). */
SIMD_CLONES SIMD_UNUSED static void NAMED(exp_columns)(
    REAL *x, ptrdiff_t K, ptrdiff_t B, ptrdiff_t stride, REAL *maximum, REAL *total)
{
    for (ptrdiff_t start = 0; start < B; start += SIMD_STRIP) {
        ptrdiff_t width = B - start < SIMD_STRIP ? B - start : SIMD_STRIP;
        REAL *RESTRICT m = maximum + start, *RESTRICT t = total + start;
        for (ptrdiff_t b = 0; b < width; b++) m[b] = x[start + b];
        for (ptrdiff_t k = 1; k < K; k++) {
            const REAL *RESTRICT row = x + k * stride + start;
            for (ptrdiff_t b = 0; b < width; b++) m[b] = row[b] > m[b] ? row[b] : m[b];
        }
        for (ptrdiff_t b = 0; b < width; b++) {
            m[b] = m[b] == -INFINITY ? 0 : m[b];
            t[b] = 0;
        }
        for (ptrdiff_t k = 0; k < K; k++) {
            REAL *RESTRICT row = x + k * stride + start;
            for (ptrdiff_t b = 0; b < width; b++) {
                REAL below = row[b] - m[b];
                REAL e = below < NEGLIGIBLE_LOG ? 0 : NAMED(exp)(below);
                row[b] = e;
                t[b] += e;
            }
        }
    }
}

/* x (B,) <- x + log(total) */
SIMD_CLONES SIMD_UNUSED static void NAMED(add_log)(
    REAL *RESTRICT x, const REAL *RESTRICT total, ptrdiff_t B)
{
    for (ptrdiff_t b = 0; b < B; b++) x[b] += NAMED(log)(total[b]);
}

/* x (K, B) <- x * scale (B,) */
SIMD_CLONES SIMD_UNUSED static void NAMED(scale_columns)(
    REAL *RESTRICT x, ptrdiff_t K, ptrdiff_t B, ptrdiff_t stride, const REAL *RESTRICT scale)
{
    for (ptrdiff_t k = 0; k < K; k++)
        for (ptrdiff_t b = 0; b < B; b++) x[k * stride + b] *= scale[b];
}

/* out (columns, rows) <- x (rows, columns)'. */
SIMD_CLONES SIMD_UNUSED static void NAMED(transpose)(
    const REAL *RESTRICT x, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t stride,
    REAL *RESTRICT out, ptrdiff_t out_stride)
{
    for (ptrdiff_t start = 0; start < rows; start += SIMD_STRIP) {
        ptrdiff_t stop = rows - start < SIMD_STRIP ? rows : start + SIMD_STRIP;
        for (ptrdiff_t j = 0; j < columns; j++)
            for (ptrdiff_t i = start; i < stop; i++)
                out[j * out_stride + i] = x[i * stride + j];
    }
}

/* out (columns, rows) <- (x (rows, columns) - centre)'; the difference is taken in double. */
SIMD_CLONES SIMD_UNUSED static void NAMED(centred_transpose)(
    const REAL *RESTRICT x, ptrdiff_t rows, ptrdiff_t columns, const double *RESTRICT centre,
    REAL *RESTRICT out, ptrdiff_t out_stride)
{
    for (ptrdiff_t start = 0; start < rows; start += SIMD_STRIP) {
        ptrdiff_t stop = rows - start < SIMD_STRIP ? rows : start + SIMD_STRIP;
        for (ptrdiff_t j = 0; j < columns; j++)
            for (ptrdiff_t i = start; i < stop; i++)
                out[j * out_stride + i] = (REAL)(x[i * columns + j] - centre[j]);
    }
}

/* out (B,) <- x * y */
SIMD_CLONES SIMD_UNUSED static void NAMED(multiply)(
    const REAL *x, const REAL *y, ptrdiff_t B, REAL *RESTRICT out)
{
    for (ptrdiff_t b = 0; b < B; b++) out[b] = x[b] * y[b];
}

/* out (B,) <- sum_j x_j^2, x (d, B) */
SIMD_CLONES SIMD_UNUSED static void NAMED(square_sum)(
    const REAL *RESTRICT x, ptrdiff_t d, ptrdiff_t B, ptrdiff_t stride, REAL *RESTRICT out)
{
    for (ptrdiff_t b = 0; b < B; b++) out[b] = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t b = 0; b < B; b++) out[b] += x[j * stride + b] * x[j * stride + b];
}

/* partial (PARTIAL_SUMS,) <- partial + squares of x (n,) */
SIMD_CLONES SIMD_UNUSED static void NAMED(add_squares)(
    const REAL *x, ptrdiff_t n, REAL *RESTRICT partial)
{
    ptrdiff_t whole = n / PARTIAL_SUMS * PARTIAL_SUMS;
    for (ptrdiff_t i = 0; i < whole; i += PARTIAL_SUMS)
        for (int s = 0; s < PARTIAL_SUMS; s++) partial[s] += x[i + s] * x[i + s];
    for (ptrdiff_t i = whole; i < n; i++) partial[0] += x[i] * x[i];
}

#undef NEGLIGIBLE_LOG
