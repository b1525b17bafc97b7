/* For each REAL, as `_gaussian.h` says. */

/* out (B, d) <- x (B, d) - mean */
SIMD_CLONES SIMD_UNUSED static void NAMED(subtract)(
    const REAL *x, ptrdiff_t B, ptrdiff_t d, const double *mean, REAL *out)
{
    for (ptrdiff_t b = 0; b < B; b++)
        for (ptrdiff_t j = 0; j < d; j++) out[b * d + j] = (REAL)(x[b * d + j] - mean[j]);
}

/* out (B,) <- offset - |y_b|^2 / 2, y (B, d) */
SIMD_CLONES SIMD_UNUSED static void NAMED(half_squared_norms)(
    const REAL *y, ptrdiff_t B, ptrdiff_t d, double offset, REAL *out)
{
    ptrdiff_t whole = d / PARTIAL_SUMS * PARTIAL_SUMS;
    for (ptrdiff_t b = 0; b < B; b++, y += d) {
        REAL partial[PARTIAL_SUMS], total = 0;
        for (int s = 0; s < PARTIAL_SUMS; s++) partial[s] = 0;
        for (ptrdiff_t j = 0; j < whole; j += PARTIAL_SUMS)
            for (int s = 0; s < PARTIAL_SUMS; s++) partial[s] += y[j + s] * y[j + s];
        for (ptrdiff_t s = 0; s < d - whole; s++) partial[s] += y[whole + s] * y[whole + s];
        for (int s = 0; s < PARTIAL_SUMS; s++) total += partial[s];
        out[b] = (REAL)(offset - 0.5 * total);
    }
}

/* out (n_out, d) <- sqrt(r) (x - mean), of the rows x (B, d) where r > 0; first (d,) <- the sum of
 * r (x - mean); returns n_out.
 *
 * Far from a component responsibilities underflow to zero, often most of them, and leaving those
 * rows out leaves less to multiply. */
SIMD_CLONES SIMD_UNUSED static ptrdiff_t NAMED(weigh)(
    const REAL *x, ptrdiff_t B, ptrdiff_t d, const REAL *shares, const double *mean,
    REAL *RESTRICT out, REAL *RESTRICT first)
{
    ptrdiff_t kept = 0;
    for (ptrdiff_t j = 0; j < d; j++) first[j] = 0;
    for (ptrdiff_t b = 0; b < B; b++) {
        if (!(shares[b] > 0)) continue;
        REAL root = (REAL)sqrt(shares[b]), *RESTRICT row = out + kept * d;
        for (ptrdiff_t j = 0; j < d; j++) {
            REAL weighted = root * (REAL)(x[b * d + j] - mean[j]);
            row[j] = weighted;
            first[j] += root * weighted;
        }
        kept++;
    }
    return kept;
}

/* out (B,) <- offset - sum_j (scale_j (x_jb - mean_j))^2 / 2, x (d, B) */
SIMD_CLONES SIMD_UNUSED static void NAMED(scaled_log_joint)(
    const REAL *x, ptrdiff_t B, ptrdiff_t d, ptrdiff_t stride, const double *mean,
    const REAL *scales, double offset, REAL *out)
{
    for (ptrdiff_t b = 0; b < B; b++) out[b] = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t b = 0; b < B; b++) {
            REAL scaled = NAMED(residual)(x[j * stride + b], mean[j]) * scales[j];
            out[b] += scaled * scaled;
        }
    for (ptrdiff_t b = 0; b < B; b++) out[b] = (REAL)(offset - 0.5 * out[b]);
}

/* first (d,) += sums of r (x - mean), second (d,) += those of r (x - mean)^2, x (d, B) */
SIMD_CLONES SIMD_UNUSED static void NAMED(add_scaled_moments)(
    const REAL *x, ptrdiff_t B, ptrdiff_t d, ptrdiff_t stride, const REAL *shares,
    const double *mean, double *first, double *second)
{
    ptrdiff_t whole = B / PARTIAL_SUMS * PARTIAL_SUMS;
    for (ptrdiff_t j = 0; j < d; j++, x += stride) {
        REAL firsts[PARTIAL_SUMS], seconds[PARTIAL_SUMS];
        for (int s = 0; s < PARTIAL_SUMS; s++) firsts[s] = seconds[s] = 0;
        for (ptrdiff_t b = 0; b < whole; b += PARTIAL_SUMS)
            UNROLL(1) /* or GCC makes no vectors of doubles */
            for (int s = 0; s < PARTIAL_SUMS; s++) {
                REAL difference = NAMED(residual)(x[b + s], mean[j]);
                REAL weighted = shares[b + s] * difference;
                firsts[s] += weighted;
                seconds[s] += weighted * difference;
            }
        for (ptrdiff_t s = 0; s < B - whole; s++) {
            REAL difference = NAMED(residual)(x[whole + s], mean[j]);
            REAL weighted = shares[whole + s] * difference;
            firsts[s] += weighted;
            seconds[s] += weighted * difference;
        }
        for (int s = 0; s < PARTIAL_SUMS; s++) {
            first[j] += firsts[s];
            second[j] += seconds[s];
        }
    }
}
