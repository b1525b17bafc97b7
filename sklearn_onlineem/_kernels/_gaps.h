/* Gaussians of rows with gaps: LANES components side by side, a pattern of missing features at a time.
 *
 * Let o be the features that a row has and m those that it lacks, S the covariance of a component,
 * L = S^-1, and y = x - mean on o. The marginal log density of y takes |S_oo| and y' S_oo^-1 y, the
 * E-step what is to be expected on m besides: its mean and its covariance. There are two ways:
 *
 * - by the precision, as the gap is the smaller part: with b = L_mo y,
 *       |S_oo| = |S| |L_mm|,   y' S_oo^-1 y = y' L_oo y - b' L_mm^-1 b,   mean -L_mm^-1 b,
 *       covariance L_mm^-1;
 * - by the covariance, as the gap is the larger part, or the precision has lost digits:
 *       mean S_mo S_oo^-1 y,   covariance S_mm - S_mo S_oo^-1 S_om.
 *
 * L_mm or S_oo is factorised as G D G', G unit lower triangular, without square roots. A lower
 * triangle has its columns one after the other; on the diagonal of G stands D^-1. */
#ifndef SKLEARN_ONLINEEM_GAPS_H
#define SKLEARN_ONLINEEM_GAPS_H

#include "_small_matrices.h"

#define LOG_2_PI 1.8378770664093454835606594728112353

/* Sums of so many rows of a product are in registers at a time; lists of features are padded to it. */
#define QUAD 4
#define PADDED(n) (((n) + QUAD - 1) / QUAD * QUAD)

/* GCC has to be kept from unrolling it before it makes it a vector. */
#define EACH_LANE UNROLL(1) for (int s = 0; s < LANES; s++)

/* Rows of a panel, one after the other, that lack the same features. */
typedef struct {
    ptrdiff_t n_observed, n_missing;
    /* Features times LANES, in ascending order; some more of feature 0, to PADDED. */
    ptrdiff_t *observed, *missing;
    int by_precision;
    ptrdiff_t first, n_rows;
    ptrdiff_t at; /* where its factor is: the entries of those of the patterns before it */
} Pattern;

OPTIMISE_BEGIN(WHOLE_TILES)

/* sum (QUAD, LANES) += table[rows, columns[first:last]] y[first:last], table (d, d, LANES) */
SIMD_INLINE void add_products(
    const double *table, const ptrdiff_t d, const ptrdiff_t *rows, const ptrdiff_t *columns,
    const ptrdiff_t first, const ptrdiff_t last, const double *y, double sum[QUAD][LANES])
{
    const double *row0 = table + rows[0] * d, *row1 = table + rows[1] * d;
    const double *row2 = table + rows[2] * d, *row3 = table + rows[3] * d;
    for (ptrdiff_t j = first; j < last; j++) {
        const double *here = y + j * LANES;
        const ptrdiff_t at = columns[j];
        EACH_LANE sum[0][s] += row0[at + s] * here[s];
        EACH_LANE sum[1][s] += row1[at + s] * here[s];
        EACH_LANE sum[2][s] += row2[at + s] * here[s];
        EACH_LANE sum[3][s] += row3[at + s] * here[s];
    }
}

/* out (LANES,) <- y' table[observed, observed] y, y (PADDED(n_observed), LANES) with zeros */
SIMD_INLINE void quadratic_form(
    const double *table, const ptrdiff_t d, const Pattern *pattern, const double *y, double *out)
{
    double total[LANES] = {0};
    for (ptrdiff_t i = 0; i < pattern->n_observed; i += QUAD) {
        double sum[QUAD][LANES] = {{0}};
        add_products(table, d, pattern->observed + i, pattern->observed, 0, i, y, sum);
        for (int r = 0; r < QUAD; r++) EACH_LANE sum[r][s] += sum[r][s];
        add_products(table, d, pattern->observed + i, pattern->observed, i, i + QUAD, y, sum);
        for (int r = 0; r < QUAD; r++) EACH_LANE total[s] += sum[r][s] * y[(i + r) * LANES + s];
    }
    EACH_LANE out[s] = total[s];
}

/* out (PADDED(n_missing), LANES) <- table[missing, observed] y */
SIMD_INLINE void cross_product(
    const double *table, const ptrdiff_t d, const Pattern *pattern, const double *y, double *out)
{
    for (ptrdiff_t i = 0; i < pattern->n_missing; i += QUAD) {
        double sum[QUAD][LANES] = {{0}};
        add_products(
            table, d, pattern->missing + i, pattern->observed, 0, pattern->n_observed, y, sum);
        for (int r = 0; r < QUAD; r++) EACH_LANE out[(i + r) * LANES + s] = sum[r][s];
    }
}

/* v (n, LANES) <- G^-1 v, squares (LANES,) <- v' D^-1 v */
SIMD_INLINE void solve_forward(
    const double *factor, const ptrdiff_t n, double *RESTRICT v, double *squares)
{
    double total[LANES] = {0};
    for (ptrdiff_t j = 0; j < n; j++) {
        double solved[LANES];
        EACH_LANE solved[s] = v[j * LANES + s];
        EACH_LANE total[s] += solved[s] * solved[s] * factor[s];
        factor += LANES;
        for (ptrdiff_t i = j + 1; i < n; i++, factor += LANES)
            EACH_LANE v[i * LANES + s] -= factor[s] * solved[s];
    }
    EACH_LANE squares[s] = total[s];
}

/* v (n, LANES) <- G'^-1 D^-1 v */
SIMD_INLINE void solve_backward(const double *factor, const ptrdiff_t n, double *RESTRICT v)
{
    for (ptrdiff_t j = n - 1; j >= 0; j--) {
        const double *column = factor + ENTRY(j, j, n) * LANES;
        double sum[LANES];
        EACH_LANE sum[s] = v[j * LANES + s] * column[s];
        for (ptrdiff_t i = j + 1; i < n; i++) {
            column += LANES;
            EACH_LANE sum[s] -= column[s] * v[i * LANES + s];
        }
        EACH_LANE v[j * LANES + s] = sum[s];
    }
}

/* factor <- that of table[features, features], table (d, d, LANES); log_det (LANES,) */
SIMD_INLINE void factorise_part(
    const double *table, const ptrdiff_t d, const ptrdiff_t *features, const ptrdiff_t n,
    double *RESTRICT factor, double *log_det)
{
    double *entry = factor, product[LANES];
    int64_t exponent[LANES];
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t i = j; i < n; i++, entry += LANES) {
            const double *from = table + features[i] * d + features[j];
            EACH_LANE entry[s] = from[s];
        }
    EACH_LANE product[s] = 1;
    EACH_LANE exponent[s] = 0;
    double *column = factor;
    for (ptrdiff_t j = 0; j < n; j++, column += (n - j + 1) * LANES) {
        const double *diagonal = table + features[j] * d + features[j];
        double inverse[LANES];
        EACH_LANE {
            /* Where rounding has left nothing, an error of rounding stands for it. */
            double least = diagonal[s] * ROUNDING, pivot = column[s] > least ? column[s] : least;
            int64_t bits = bits_of_double(product[s] * pivot);
            exponent[s] += (int64_t)((uint64_t)bits >> 52);
            product[s] = double_of_bits((bits & 0x000fffffffffffffLL) | 0x3ff0000000000000LL);
            inverse[s] = 1 / pivot;
        }
        double *other = column + (n - j) * LANES;
        for (ptrdiff_t l = 1; l < n - j; l++) {
            double ratio[LANES];
            EACH_LANE ratio[s] = column[l * LANES + s] * inverse[s];
            for (ptrdiff_t i = l; i < n - j; i++, other += LANES)
                EACH_LANE other[s] -= ratio[s] * column[i * LANES + s];
        }
        EACH_LANE column[s] = inverse[s];
        for (ptrdiff_t i = 1; i < n - j; i++)
            EACH_LANE column[i * LANES + s] *= inverse[s];
    }
    EACH_LANE {
        double whole = double_of_bits(exponent[s] | 0x4330000000000000LL) - 4503599627370496.0;
        log_det[s] = (whole - 1023.0 * (double)n) * 0.6931471805599453 + log_double(product[s]);
    }
}

/* factor <- that of the pattern; if `crosses`, G^-1 S_om (n_missing, n_observed) follows it where
 * the covariance is used. constants (LANES,) <- log weights - log |2 pi S_oo| / 2. */
SIMD_CLONES SIMD_UNUSED static void factorise_pattern(
    const Pattern *pattern, ptrdiff_t d, const double *covariance, const double *precision,
    const double *log_dets, const double *log_weights, int crosses, double *factor,
    double *constants)
{
    const ptrdiff_t o = pattern->n_observed, m = pattern->n_missing;
    double log_det[LANES];
    if (pattern->by_precision) {
        factorise_part(precision, d, pattern->missing, m, factor, log_det);
        EACH_LANE log_det[s] += log_dets[s];
    }
    else {
        factorise_part(covariance, d, pattern->observed, o, factor, log_det);
        double *cross = factor + TRIANGLE_SIZE(o) * LANES;
        for (ptrdiff_t c = 0; crosses && c < m; c++, cross += o * LANES) {
            const double *row = covariance + pattern->missing[c] * d;
            double squares[LANES];
            for (ptrdiff_t j = 0; j < o; j++)
                EACH_LANE cross[j * LANES + s] = row[pattern->observed[j] + s];
            solve_forward(factor, o, cross, squares);
        }
    }
    EACH_LANE constants[s] = log_weights[s] - 0.5 * ((double)o * LOG_2_PI + log_det[s]);
}

/* deviation (d, LANES) <- x - means, filled by what is expected if `fills`; log_joint (LANES,).
 * y (PADDED(d), LANES), b (PADDED(d), LANES) are scratch. */
SIMD_INLINE void row_of_pattern(
    const Pattern *pattern, const ptrdiff_t d, const double *precision, const double *factor,
    const double *constants, const double *x, const double *means, const int fills, double *y,
    double *b, double *deviation, double *log_joint)
{
    const ptrdiff_t o = pattern->n_observed, m = pattern->n_missing;
    const ptrdiff_t *observed = pattern->observed, *missing = pattern->missing;
    double squares[LANES], all[LANES];
    for (ptrdiff_t j = 0; j < o; j++) {
        const double value = x[observed[j] / LANES];
        EACH_LANE y[j * LANES + s] = value - means[observed[j] + s];
    }
    if (fills)
        for (ptrdiff_t j = 0; j < o; j++)
            EACH_LANE deviation[observed[j] + s] = y[j * LANES + s];
    if (pattern->by_precision) {
        for (ptrdiff_t j = o; j < PADDED(o); j++) EACH_LANE y[j * LANES + s] = 0;
        quadratic_form(precision, d, pattern, y, all);
        cross_product(precision, d, pattern, y, b);
        solve_forward(factor, m, b, squares);
        EACH_LANE {
            double left = all[s] - squares[s];
            left = left > 0 ? left : 0;
            all[s] = all[s] < INFINITY ? left : INFINITY;
        }
        if (fills) {
            solve_backward(factor, m, b);
            for (ptrdiff_t c = 0; c < m; c++)
                EACH_LANE deviation[missing[c] + s] = -b[c * LANES + s];
        }
    }
    else {
        solve_forward(factor, o, y, all);
        if (fills) {
            const double *cross = factor + TRIANGLE_SIZE(o) * LANES;
            for (ptrdiff_t j = 0; j < o; j++) {
                const double *inverse = factor + ENTRY(j, j, o) * LANES;
                EACH_LANE y[j * LANES + s] *= inverse[s];
            }
            for (ptrdiff_t c = 0; c < m; c++) {
                double sum[LANES] = {0};
                for (ptrdiff_t j = 0; j < o; j++, cross += LANES)
                    EACH_LANE sum[s] += cross[s] * y[j * LANES + s];
                EACH_LANE deviation[missing[c] + s] = sum[s];
            }
        }
    }
    EACH_LANE log_joint[s] = constants[s] - 0.5 * all[s];
}

/* The same for the rows x (n_rows, d) of a pattern; a deviation has `stride` elements. */
SIMD_CLONES SIMD_UNUSED static void rows_of_pattern(
    const Pattern *pattern, ptrdiff_t d, const double *precision, const double *factor,
    const double *constants, const double *x, const double *means, int fills, ptrdiff_t stride,
    double *y, double *b, double *deviations, double *log_joint)
{
    for (ptrdiff_t r = 0; r < pattern->n_rows; r++)
        row_of_pattern(
            pattern, d, precision, factor, constants, x + r * d, means, fills, y, b,
            deviations + r * stride, log_joint + r * LANES);
}

/* factor <- the lower triangle of (G D G')^-1; sums (n, LANES) is scratch. From the last column on,
 * as Z G = G'^-1 D^-1, which is upper triangular (Takahashi, Fagan & Chin 1973). */
SIMD_INLINE void invert_factor(double *factor, const ptrdiff_t n, double *RESTRICT sums)
{
    for (ptrdiff_t j = n - 1; j >= 0; j--) {
        double *column = factor + ENTRY(j, j, n) * LANES;
        const double *g = column - j * LANES, *z = column + (n - j) * LANES;
        double corner[LANES];
        for (ptrdiff_t i = j + 1; i < n; i++) EACH_LANE sums[i * LANES + s] = 0;
        for (ptrdiff_t l = j + 1; l < n; l++) {
            double sum[LANES];
            EACH_LANE sum[s] = sums[l * LANES + s] + z[s] * g[l * LANES + s];
            z += LANES;
            for (ptrdiff_t i = l + 1; i < n; i++, z += LANES) {
                EACH_LANE sums[i * LANES + s] += z[s] * g[l * LANES + s];
                EACH_LANE sum[s] += z[s] * g[i * LANES + s];
            }
            EACH_LANE sums[l * LANES + s] = sum[s];
        }
        EACH_LANE corner[s] = column[s];
        for (ptrdiff_t i = j + 1; i < n; i++) {
            EACH_LANE corner[s] += column[(i - j) * LANES + s] * sums[i * LANES + s];
            EACH_LANE column[(i - j) * LANES + s] = -sums[i * LANES + s];
        }
        EACH_LANE column[s] = corner[s];
    }
}

/* second (d, stride) += the sum of the shares (n_rows, LANES) times the covariance of the gap; its
 * lower triangle. The factor is spent; sums (d, LANES) is scratch. */
SIMD_CLONES SIMD_UNUSED static void add_gap_covariance(
    const Pattern *pattern, ptrdiff_t d, const double *covariance, const double *shares,
    double *factor, double *sums, ptrdiff_t stride, double *RESTRICT second)
{
    const ptrdiff_t o = pattern->n_observed, m = pattern->n_missing;
    const ptrdiff_t *missing = pattern->missing;
    double share[LANES] = {0};
    for (ptrdiff_t r = 0; r < pattern->n_rows; r++) EACH_LANE share[s] += shares[r * LANES + s];
    if (pattern->by_precision) {
        invert_factor(factor, m, sums);
        for (ptrdiff_t j = 0; j < m; j++)
            for (ptrdiff_t i = j; i < m; i++, factor += LANES) {
                double *to = second + missing[i] / LANES * stride + missing[j];
                EACH_LANE to[s] += share[s] * factor[s];
            }
        return;
    }
    const double *cross = factor + TRIANGLE_SIZE(o) * LANES;
    for (ptrdiff_t i = 0; i < m; i++) {
        const double *left = cross + i * o * LANES;
        for (ptrdiff_t l = 0; l < o; l++) {
            const double *inverse = factor + ENTRY(l, l, o) * LANES;
            EACH_LANE sums[l * LANES + s] = left[l * LANES + s] * inverse[s];
        }
        for (ptrdiff_t j = 0; j <= i; j++) {
            const double *right = cross + j * o * LANES;
            const double *from = covariance + missing[i] * d + missing[j];
            double *to = second + missing[i] / LANES * stride + missing[j], sum[LANES] = {0};
            for (ptrdiff_t l = 0; l < o; l++)
                EACH_LANE sum[s] += sums[l * LANES + s] * right[l * LANES + s];
            EACH_LANE to[s] += share[s] * (from[s] - sum[s]);
        }
    }
}

/* counts (LANES,) += shares (n, LANES), first (d, LANES) += shares deviations, and
 * deviations (n, PADDED(d), LANES) <- sqrt(shares) deviations, roots (n, LANES) <- sqrt(shares).
 *
 * Nothing is left of a deviation where the share is 0, not even if it is not finite. */
SIMD_CLONES SIMD_UNUSED static void weigh_panel(
    const double *shares, ptrdiff_t n, ptrdiff_t d, double *roots, double *RESTRICT deviations,
    double *counts, double *RESTRICT first)
{
    const ptrdiff_t stride = PADDED(d) * LANES;
    double count[LANES];
    EACH_LANE count[s] = counts[s];
    for (ptrdiff_t r = 0; r < n; r++) {
        EACH_LANE count[s] += shares[r * LANES + s];
        EACH_LANE roots[r * LANES + s] = sqrt(shares[r * LANES + s]);
    }
    EACH_LANE counts[s] = count[s];
    for (ptrdiff_t j = 0; j < d; j++) {
        double sum[LANES] = {0}, *entry = deviations + j * LANES;
        for (ptrdiff_t r = 0; r < n; r++, entry += stride) {
            const double *root = roots + r * LANES;
            EACH_LANE {
                double weighted = root[s] * entry[s];
                weighted = root[s] > 0 ? weighted : 0;
                entry[s] = weighted;
                sum[s] += root[s] * weighted;
            }
        }
        EACH_LANE first[j * LANES + s] += sum[s];
    }
}

/* second (d, PADDED(d), LANES) += the sum of x x' over the rows x (n, PADDED(d), LANES); its lower
 * triangle, with some of the rest. */
SIMD_CLONES SIMD_UNUSED static void add_outer_products(
    const double *x, ptrdiff_t n, ptrdiff_t d, double *RESTRICT second)
{
    const ptrdiff_t stride = PADDED(d) * LANES;
    for (ptrdiff_t i = 0; i < d; i++)
        for (ptrdiff_t j = 0; j <= i; j += QUAD) {
            const double *left = x + i * LANES, *right = x + j * LANES;
            double sum[QUAD][LANES] = {{0}}, *to = second + i * stride + j * LANES;
            for (ptrdiff_t r = 0; r < n; r++, left += stride, right += stride) {
                EACH_LANE sum[0][s] += left[s] * right[s];
                EACH_LANE sum[1][s] += left[s] * right[LANES + s];
                EACH_LANE sum[2][s] += left[s] * right[2 * LANES + s];
                EACH_LANE sum[3][s] += left[s] * right[3 * LANES + s];
            }
            for (int c = 0; c < QUAD; c++) EACH_LANE to[c * LANES + s] += sum[c][s];
        }
}

/* Independent features: scales (d, 2, LANES) are precisions and -log(2 pi variance) / 2;
 * deviation (d, LANES) is 0 in the gap. */
SIMD_CLONES SIMD_UNUSED static void row_of_variances(
    const Pattern *pattern, const double *x, const double *means, const double *scales,
    const double *log_weights, int fills, double *deviation, double *log_joint)
{
    double sum[LANES], squares[LANES] = {0};
    EACH_LANE sum[s] = log_weights[s];
    for (ptrdiff_t j = 0; j < pattern->n_observed; j++) {
        const ptrdiff_t at = pattern->observed[j];
        const double *scale = scales + 2 * at, value = x[at / LANES];
        double difference[LANES];
        EACH_LANE difference[s] = value - means[at + s];
        EACH_LANE squares[s] += difference[s] * difference[s] * scale[s];
        EACH_LANE sum[s] += scale[LANES + s];
        if (fills) EACH_LANE deviation[at + s] = difference[s];
    }
    for (ptrdiff_t c = 0; fills && c < pattern->n_missing; c++)
        EACH_LANE deviation[pattern->missing[c] + s] = 0;
    EACH_LANE log_joint[s] = sum[s] - 0.5 * squares[s];
}

/* gaps (d, LANES) += shares (LANES,) where a feature is missing */
SIMD_CLONES SIMD_UNUSED static void add_gap_shares(
    const Pattern *pattern, const double *shares, double *RESTRICT gaps)
{
    for (ptrdiff_t c = 0; c < pattern->n_missing; c++)
        EACH_LANE gaps[pattern->missing[c] + s] += shares[s];
}

/* second (d, LANES) += the sum of x^2 over the rows x (n, PADDED(d), LANES) */
SIMD_CLONES SIMD_UNUSED static void add_lane_squares(
    const double *x, ptrdiff_t n, ptrdiff_t d, double *RESTRICT second)
{
    const ptrdiff_t stride = PADDED(d) * LANES;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double *entry = x + j * LANES;
        double sum[LANES] = {0};
        for (ptrdiff_t r = 0; r < n; r++, entry += stride)
            EACH_LANE sum[s] += entry[s] * entry[s];
        EACH_LANE second[j * LANES + s] += sum[s];
    }
}

OPTIMISE_END

#endif
