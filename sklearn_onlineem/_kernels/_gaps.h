/* Gaussians of rows with gaps: components side by side, one pattern of missing features at a time.
 *
 * Let o be the features that a row has and m those that it lacks, S the covariance of a component,
 * L = S^-1, and y = x - mean on o. The marginal log density of y takes |S_oo| and y' S_oo^-1 y, the
 * E-step what is to be expected on m besides: its mean and its covariance. There are two ways:
 *
 * - by the precision, where the gap is the smaller part: with L = P P', P upper triangular, and
 *   b = L_mo y,
 *       |S_oo| = |S| |L_mm|,   y' S_oo^-1 y = |P'y|^2 - b' L_mm^-1 b,   mean -L_mm^-1 b,
 *       covariance L_mm^-1;
 * - by the covariance, where the gap is the larger part, or the precision has lost digits:
 *       mean S_mo S_oo^-1 y,   covariance S_mm - S_mo S_oo^-1 S_om.
 *
 * L_mm or S_oo is factorised as G D G', G unit lower triangular, without square roots. A lower
 * triangle has its columns one after the other; on the diagonal of G stands D^-1.
 *
 * Components come in groups of W, as many as are elements of a vector, or of two: what one waits for
 * is then done for the other. */
#ifndef SKLEARN_ONLINEEM_GAPS_H
#define SKLEARN_ONLINEEM_GAPS_H

#include "_small_matrices.h"

#define LOG_2_PI 1.8378770664093454835606594728112353

/* Sums of so many rows of a product are in registers at a time. */
#define QUAD 4
/* Columns of a product that are read at a time. */
#define COLUMNS 16
SIMD_INLINE ptrdiff_t in_quads(ptrdiff_t n) { return (n + QUAD - 1) / QUAD * QUAD; }
/* Of rows with room for PADDED: an odd number, or columns would share few sets of the cache. */
SIMD_INLINE ptrdiff_t stride_of(ptrdiff_t d) { return in_quads(d) + 1; }

/* Rows of a panel, one after the other, that lack the same features. */
typedef struct {
    ptrdiff_t n_observed, n_missing;
    /* Features times W, in ascending order. */
    ptrdiff_t *observed, *missing;
    int by_precision;
    ptrdiff_t first, n_rows;
    ptrdiff_t at; /* where its factor is: the entries of those of the patterns before it */
} Pattern;

/* Entries of what is kept of a pattern: a factor, and G^-1 S_om (n_missing, n_observed). */
SIMD_INLINE ptrdiff_t n_entries_of(const Pattern *pattern)
{
    const ptrdiff_t o = pattern->n_observed, m = pattern->n_missing;
    return pattern->by_precision ? triangle_size(m) : triangle_size(o) + o * in_quads(m);
}

/* Loops that set a few sums to zero are no calls of memset, for which they would be in memory. */
#define LOOPS_STAY "no-tree-loop-distribute-patterns"

/* Where sums have to stay in registers from one loop to the next, vectors are those of GCC and clang.
 * They have 32 bytes, as most CPUs have: of 64, GCC keeps what a CPU with AVX2 has to halve in memory,
 * and takes five times as long. Without these, each is one number. */
#if defined(__GNUC__)
typedef double Vector __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t Bits __attribute__((vector_size(32), aligned(8), may_alias));
/* x where y > 0, else 0 */
#define KEPT(x, y) ((Vector)((Bits)(x) & ((y) > 0)))
#else
typedef double Vector;
#define KEPT(x, y) ((y) > 0 ? (x) : 0)
#endif
#define N_VECTORS (W / (int)(sizeof(Vector) / sizeof(double)))
#define EACH_VECTOR UNROLL(2) for (int v = 0; v < N_VECTORS; v++)
/* Of W numbers, those of the vector at hand. */
#define IN(x) (((const Vector *)(x))[v])
#define OUT(x) (((Vector *)(x))[v])

OPTIMISE_BEGIN(WHOLE_TILES)
OPTIMISE_BEGIN(LOOPS_STAY)

#define W 8
#define EACH_LANE UNROLL(4) for (int s = 0; s < W; s++)
#define WIDE(f) f##_8
#include "_gaps.h"

#define W 16
#define EACH_LANE UNROLL(8) for (int s = 0; s < W; s++)
#define WIDE(f) f##_16
#include "_gaps.h"

OPTIMISE_END
OPTIMISE_END

#define TEMPLATE "_gaps.h"
#include "_for_each_real.h"

#define missing_bits(x, ...) OF_REAL(missing_bits, x)(x, __VA_ARGS__)

#define OF_WIDTH(f, width, ...) ((width) == 8 ? f##_8(__VA_ARGS__) : f##_16(__VA_ARGS__))
#define factorise_pattern(width, ...) OF_WIDTH(factorise_pattern, width, __VA_ARGS__)
#define centre_rows(width, ...) OF_WIDTH(centre_rows, width, __VA_ARGS__)
#define whiten_rows(width, ...) OF_WIDTH(whiten_rows, width, __VA_ARGS__)
#define rows_of_pattern(width, ...) OF_WIDTH(rows_of_pattern, width, __VA_ARGS__)
#define add_gap_covariance(width, ...) OF_WIDTH(add_gap_covariance, width, __VA_ARGS__)
#define weigh_panel(width, ...) OF_WIDTH(weigh_panel, width, __VA_ARGS__)
#define add_outer_products(width, ...) OF_WIDTH(add_outer_products, width, __VA_ARGS__)
#define row_of_variances(width, ...) OF_WIDTH(row_of_variances, width, __VA_ARGS__)
#define add_gap_shares(width, ...) OF_WIDTH(add_gap_shares, width, __VA_ARGS__)
#define add_lane_squares(width, ...) OF_WIDTH(add_lane_squares, width, __VA_ARGS__)

#elif defined(REAL)

/* out (n,) <- which of up to 8 values x (n, d) are missing, a bit for each */
SIMD_CLONES SIMD_UNUSED static void NAMED(missing_bits)(
    const REAL *x, ptrdiff_t n, ptrdiff_t d, ptrdiff_t width, unsigned char *out)
{
    for (ptrdiff_t i = 0; i < n; i++, x += d) {
        uint32_t bits = 0;
        for (ptrdiff_t j = 0; j < width; j++) bits |= (uint32_t)(x[j] != x[j]) << j;
        out[i] = (unsigned char)bits;
    }
}

#elif defined(W)

/* GCC has to be kept from unrolling EACH_LANE before it makes vectors of it. */

/* deviations (n_rows, stride_of(d), W) <- x (n_rows, d) - means, and 0 in the gaps */
SIMD_CLONES SIMD_UNUSED static void WIDE(centre_rows)(
    const Pattern *pattern, ptrdiff_t d, const double *x, const double *means,
    double *deviations)
{
    for (ptrdiff_t r = 0; r < pattern->n_rows; r++, x += d, deviations += stride_of(d) * W) {
        for (ptrdiff_t j = 0; j < pattern->n_observed; j++) {
            const ptrdiff_t at = pattern->observed[j];
            const double value = x[at / W];
            EACH_VECTOR OUT(deviations + at) = value - IN(means + at);
        }
        for (ptrdiff_t c = 0; c < pattern->n_missing; c++)
            EACH_VECTOR OUT(deviations + pattern->missing[c]) = (Vector){0};
    }
}

/* out[rows] <- P' x[rows], for those n rows of x and out (rows, stride_of(d), W); factors (d, d, W)
 * has P_ij where it has P_ji.
 *
 * By so few columns at a time that what is read of them stays in the nearest cache. */
SIMD_CLONES SIMD_UNUSED static void WIDE(whiten_rows)(
    const double *factors, ptrdiff_t d, const double *x, const ptrdiff_t *rows, ptrdiff_t n,
    double *out)
{
    const ptrdiff_t stride = stride_of(d) * W;
    for (ptrdiff_t start = 0; start < d; start += COLUMNS)
        for (ptrdiff_t r = 0; r < n; r += QUAD)
            for (ptrdiff_t i = start; i < d; i += 2) {
                const ptrdiff_t stop = i + 1 < start + COLUMNS ? i + 1 : start + COLUMNS;
                const double *upper = factors + i * d * W, *lower = upper + (i + 1 < d ? d * W : 0);
                double *to = out + i * W;
                ptrdiff_t at[QUAD];
                /* The first one is done again where there are no more. */
                for (int q = 0; q < QUAD; q++) at[q] = rows[r + q < n ? r + q : r] * stride;
                EACH_VECTOR {
                    Vector above[QUAD], below[QUAD];
                    for (int q = 0; q < QUAD; q++) {
                        above[q] = start > 0 ? IN(to + at[q]) : (Vector){0};
                        below[q] = start > 0 ? IN(to + at[q] + W) : (Vector){0};
                    }
                    for (ptrdiff_t j = start * W; j < stop * W; j += W) {
                        const Vector first = IN(upper + j), second = IN(lower + j);
                        for (int q = 0; q < QUAD; q++) {
                            const Vector value = IN(x + at[q] + j);
                            above[q] += first * value, below[q] += second * value;
                        }
                    }
                    if (i + 1 < d && i + 1 < start + COLUMNS)
                        for (int q = 0; q < QUAD; q++)
                            below[q] += IN(lower + (i + 1) * W) * IN(x + at[q] + (i + 1) * W);
                    for (int q = QUAD - 1; q >= 0; q--)
                        OUT(to + at[q]) = above[q], OUT(to + at[q] + W) = below[q];
                }
            }
}

/* sum (QUAD, W) <- rows x, x (n, W), of the first of n_rows, a stride apart; of fewer than four the
 * last one counts again */
SIMD_INLINE void WIDE(product_of_rows)(
    const double *rows, const ptrdiff_t stride, const ptrdiff_t n_rows, const double *x,
    const ptrdiff_t n, Vector sum[QUAD][N_VECTORS])
{
    const double *row[QUAD];
    for (int q = 0; q < QUAD; q++) {
        row[q] = rows + (q < n_rows ? q : n_rows - 1) * stride;
        EACH_VECTOR sum[q][v] = (Vector){0};
    }
    for (ptrdiff_t j = 0; j < n * W; j += W)
        EACH_VECTOR {
            const Vector value = IN(x + j);
            for (int q = 0; q < QUAD; q++) sum[q][v] += IN(row[q] + j) * value;
        }
}

/* x (n, W) <- G^-1 x, squares (W,) <- x' D^-1 x */
SIMD_INLINE void WIDE(solve_forward)(
    const double *factor, const ptrdiff_t n, double *x, double *squares)
{
    Vector total[N_VECTORS];
    EACH_VECTOR total[v] = (Vector){0};
    for (ptrdiff_t j = 0; j < n; j++) {
        Vector solved[N_VECTORS];
        EACH_VECTOR solved[v] = IN(x + j * W);
        EACH_VECTOR total[v] += solved[v] * solved[v] * IN(factor);
        factor += W;
        for (ptrdiff_t i = j + 1; i < n; i++, factor += W)
            EACH_VECTOR OUT(x + i * W) -= IN(factor) * solved[v];
    }
    EACH_VECTOR OUT(squares) = total[v];
}

/* x (n, W) <- G'^-1 D^-1 x */
SIMD_INLINE void WIDE(solve_backward)(const double *factor, const ptrdiff_t n, double *x)
{
    for (ptrdiff_t j = n - 1; j >= 0; j--) {
        const double *column = factor + entry_of(j, j, n) * W;
        Vector sum[N_VECTORS];
        EACH_VECTOR sum[v] = IN(x + j * W) * IN(column);
        for (ptrdiff_t i = j + 1; i < n; i++) {
            column += W;
            EACH_VECTOR sum[v] -= IN(column) * IN(x + i * W);
        }
        EACH_VECTOR OUT(x + j * W) = sum[v];
    }
}

/* factor <- that of table[features, features], table (d, d, W); log_det (W,) */
SIMD_INLINE void WIDE(factorise_part)(
    const double *table, const ptrdiff_t d, const ptrdiff_t *features, const ptrdiff_t n,
    double *factor, double *log_det)
{
    double *entry = factor, product[W];
    int64_t exponent[W];
    for (ptrdiff_t j = 0; j < n; j++)
        for (ptrdiff_t i = j; i < n; i++, entry += W) {
            const double *from = table + features[i] * d + features[j];
            EACH_VECTOR OUT(entry) = IN(from);
        }
    EACH_LANE product[s] = 1;
    EACH_LANE exponent[s] = 0;
    double *column = factor;
    for (ptrdiff_t j = 0; j < n; j++, column += (n - j + 1) * W) {
        const double *diagonal = table + features[j] * d + features[j];
        double inverse[W];
        EACH_LANE {
            /* Where rounding has left nothing, an error of rounding stands for it. */
            double least = diagonal[s] * ROUNDING, pivot = column[s] > least ? column[s] : least;
            int64_t bits = bits_of_double(product[s] * pivot);
            exponent[s] += (int64_t)((uint64_t)bits >> 52);
            product[s] = double_of_bits((bits & 0x000fffffffffffffLL) | 0x3ff0000000000000LL);
            inverse[s] = 1 / pivot;
        }
        double *other = column + (n - j) * W;
        for (ptrdiff_t l = 1; l < n - j; l++) {
            Vector ratio[N_VECTORS];
            EACH_VECTOR ratio[v] = IN(column + l * W) * IN(inverse);
            for (ptrdiff_t i = l; i < n - j; i++, other += W)
                EACH_VECTOR OUT(other) -= ratio[v] * IN(column + i * W);
        }
        EACH_LANE column[s] = inverse[s];
        for (ptrdiff_t i = 1; i < n - j; i++)
            EACH_VECTOR OUT(column + i * W) *= IN(inverse);
    }
    EACH_LANE {
        double whole = double_of_bits(exponent[s] | 0x4330000000000000LL) - 4503599627370496.0;
        log_det[s] = (whole - 1023.0 * (double)n) * 0.6931471805599453 + log_double(product[s]);
    }
}

/* factor <- that of the pattern; if `crosses`, G^-1 S_om (n_missing, n_observed) follows it where
 * the covariance is used. constants (W,) <- log weights - log |2 pi S_oo| / 2. */
SIMD_CLONES SIMD_UNUSED static void WIDE(factorise_pattern)(
    const Pattern *pattern, ptrdiff_t d, const double *covariance, const double *precision,
    const double *log_dets, const double *log_weights, int crosses, double *factor,
    double *constants)
{
    const ptrdiff_t o = pattern->n_observed, m = pattern->n_missing;
    double log_det[W];
    if (pattern->by_precision) {
        WIDE(factorise_part)(precision, d, pattern->missing, m, factor, log_det);
        EACH_LANE log_det[s] += log_dets[s];
    }
    else {
        WIDE(factorise_part)(covariance, d, pattern->observed, o, factor, log_det);
        double *cross = factor + triangle_size(o) * W;
        for (ptrdiff_t c = 0; crosses && c < m; c++, cross += o * W) {
            const double *row = covariance + pattern->missing[c] * d;
            double squares[W];
            for (ptrdiff_t j = 0; j < o; j++)
                EACH_LANE cross[j * W + s] = row[pattern->observed[j] + s];
            WIDE(solve_forward)(factor, o, cross, squares);
        }
    }
    EACH_LANE constants[s] = log_weights[s] - 0.5 * ((double)o * LOG_2_PI + log_det[s]);
}

/* deviation (stride_of(d), W), 0 in the gap: filled by what is expected if `fills`; log_joint (W,).
 * white (d, W) is what `whiten_rows` makes of it; work (in_quads(d), W) is scratch. */
SIMD_INLINE void WIDE(row_of_pattern)(
    const Pattern *pattern, const ptrdiff_t d, const double *factors, const double *factor,
    const double *constants, const double *white, const int fills, double *work,
    double *deviation, double *log_joint)
{
    const ptrdiff_t o = pattern->n_observed, m = pattern->n_missing;
    const ptrdiff_t *observed = pattern->observed, *missing = pattern->missing;
    double squares[W];
    if (pattern->by_precision) {
        double all[W], less[W];
        Vector total[N_VECTORS];
        EACH_VECTOR total[v] = (Vector){0};
        for (ptrdiff_t j = 0; j < d * W; j += W)
            EACH_VECTOR total[v] += IN(white + j) * IN(white + j);
        EACH_VECTOR OUT(all) = total[v];
        /* b = P P'y on the gap. */
        for (ptrdiff_t c = 0; c < m; c++) {
            const double *row = factors + missing[c] * d;
            Vector sum[N_VECTORS];
            EACH_VECTOR sum[v] = (Vector){0};
            for (ptrdiff_t j = missing[c]; j < d * W; j += W)
                EACH_VECTOR sum[v] += IN(row + j) * IN(white + j);
            EACH_VECTOR OUT(work + c * W) = sum[v];
        }
        WIDE(solve_forward)(factor, m, work, less);
        EACH_LANE {
            double left = all[s] - less[s];
            left = left > 0 ? left : 0;
            squares[s] = all[s] < INFINITY ? left : INFINITY;
        }
        if (fills) {
            WIDE(solve_backward)(factor, m, work);
            for (ptrdiff_t c = 0; c < m; c++)
                EACH_VECTOR OUT(deviation + missing[c]) = -IN(work + c * W);
        }
    }
    else {
        for (ptrdiff_t j = 0; j < o; j++)
            EACH_VECTOR OUT(work + j * W) = IN(deviation + observed[j]);
        WIDE(solve_forward)(factor, o, work, squares);
        if (fills) {
            const double *cross = factor + triangle_size(o) * W;
            for (ptrdiff_t j = 0; j < o; j++) {
                const double *inverse = factor + entry_of(j, j, o) * W;
                EACH_VECTOR OUT(work + j * W) *= IN(inverse);
            }
            for (ptrdiff_t c = 0; c < m; c += QUAD, cross += QUAD * o * W) {
                Vector sum[QUAD][N_VECTORS];
                WIDE(product_of_rows)(cross, o * W, m - c, work, o, sum);
                for (int q = 0; q < QUAD; q++)
                    if (c + q < m) EACH_VECTOR OUT(deviation + missing[c + q]) = sum[q][v];
            }
        }
    }
    EACH_LANE log_joint[s] = constants[s] - 0.5 * squares[s];
}

/* The same for the rows of a pattern. */
SIMD_CLONES SIMD_UNUSED static void WIDE(rows_of_pattern)(
    const Pattern *pattern, ptrdiff_t d, const double *factors, const double *factor,
    const double *constants, const double *white, int fills, double *work, double *deviations,
    double *log_joint)
{
    for (ptrdiff_t r = 0; r < pattern->n_rows; r++)
        WIDE(row_of_pattern)(
            pattern, d, factors, factor, constants, white + r * stride_of(d) * W, fills, work,
            deviations + r * stride_of(d) * W, log_joint + r * W);
}

/* inverse (n, n, W) <- (G D G')^-1, from its last column on: with the inverse Z,
 * Z G = G'^-1 D^-1 is upper triangular (Takahashi, Fagan & Chin 1973). */
SIMD_INLINE void WIDE(invert)(const double *factor, const ptrdiff_t n, double *inverse)
{
    const ptrdiff_t row = n * W;
    for (ptrdiff_t j = n - 1; j >= 0; j--) {
        const double *column = factor + entry_of(j, j, n) * W, *below = column + W;
        double *corner = inverse + j * (row + W);
        Vector pivot[N_VECTORS];
        EACH_VECTOR pivot[v] = IN(column);
        for (ptrdiff_t i = j + 1; i < n; i += QUAD) {
            const double *here = inverse + i * row + (j + 1) * W;
            Vector sum[QUAD][N_VECTORS];
            WIDE(product_of_rows)(here, row, n - i, below, n - j - 1, sum);
            for (int q = 0; q < QUAD; q++)
                if (i + q < n)
                    EACH_VECTOR {
                        pivot[v] += IN(below + (i + q - j - 1) * W) * sum[q][v];
                        OUT(inverse + (i + q) * row + j * W) = -sum[q][v];
                        OUT(corner + (i + q - j) * W) = -sum[q][v];
                    }
        }
        EACH_VECTOR OUT(corner) = pivot[v];
    }
}

/* second (d, stride) += the sum of the shares (n_rows, W) times the covariance of the gap; its
 * lower triangle. work (in_quads(d) d, W) is scratch. */
SIMD_CLONES SIMD_UNUSED static void WIDE(add_gap_covariance)(
    const Pattern *pattern, ptrdiff_t d, const double *covariance, const double *shares,
    const double *factor, double *work, ptrdiff_t stride, double *second)
{
    const ptrdiff_t o = pattern->n_observed, m = pattern->n_missing;
    const ptrdiff_t *missing = pattern->missing;
    Vector share[N_VECTORS];
    EACH_VECTOR share[v] = (Vector){0};
    for (ptrdiff_t r = 0; r < pattern->n_rows; r++) EACH_VECTOR share[v] += IN(shares + r * W);
    if (pattern->by_precision) {
        WIDE(invert)(factor, m, work);
        for (ptrdiff_t i = 0; i < m; i++) {
            const double *from = work + i * m * W;
            double *row = second + missing[i] / W * stride;
            for (ptrdiff_t j = 0; j <= i; j++, from += W) {
                EACH_VECTOR OUT(row + missing[j]) += share[v] * IN(from);
            }
        }
        return;
    }
    const double *cross = factor + triangle_size(o) * W;
    for (ptrdiff_t i = 0; i < m; i++) {
        const double *left = cross + i * o * W;
        double *row = second + missing[i] / W * stride;
        for (ptrdiff_t l = 0; l < o; l++) {
            const double *inverse = factor + entry_of(l, l, o) * W;
            EACH_VECTOR OUT(work + l * W) = IN(left + l * W) * IN(inverse);
        }
        for (ptrdiff_t j = 0; j <= i; j += QUAD) {
            Vector sum[QUAD][N_VECTORS];
            WIDE(product_of_rows)(cross + j * o * W, o * W, m - j, work, o, sum);
            for (int q = 0; q < QUAD; q++)
                if (j + q <= i) {
                    const double *from = covariance + missing[i] * d + missing[j + q];
                    EACH_VECTOR
                        OUT(row + missing[j + q]) += share[v] * (IN(from) - sum[q][v]);
                }
        }
    }
}

/* counts (W,) += shares (n, W), first (d, W) += shares deviations, and
 * deviations (n, stride_of(d), W) <- sqrt(shares) deviations, roots (n, W) <- sqrt(shares).
 *
 * Nothing is left of a deviation where the share is 0, not even if it is not finite. */
SIMD_CLONES SIMD_UNUSED static void WIDE(weigh_panel)(
    const double *shares, ptrdiff_t n, ptrdiff_t d, double *roots, double *deviations,
    double *counts, double *first)
{
    const ptrdiff_t stride = stride_of(d) * W;
    Vector count[N_VECTORS];
    EACH_VECTOR count[v] = IN(counts);
    for (ptrdiff_t r = 0; r < n; r++) EACH_VECTOR count[v] += IN(shares + r * W);
    EACH_VECTOR OUT(counts) = count[v];
    for (ptrdiff_t i = 0; i < n * W; i++) roots[i] = sqrt(shares[i]);
    for (ptrdiff_t j = 0; j < d; j++) {
        double *entry = deviations + j * W;
        Vector sum[N_VECTORS];
        EACH_VECTOR sum[v] = (Vector){0};
        for (ptrdiff_t r = 0; r < n; r++, entry += stride)
            EACH_VECTOR {
                const Vector root = IN(roots + r * W), weighted = KEPT(root * IN(entry), root);
                OUT(entry) = weighted;
                sum[v] += root * weighted;
            }
        EACH_VECTOR OUT(first + j * W) += sum[v];
    }
}

/* second (in_quads(d), stride_of(d), W) += the sum of x x' over rows x (n, stride_of(d), W); its lower
 * triangle, with some of the rest. */
SIMD_CLONES SIMD_UNUSED static void WIDE(add_outer_products)(
    const double *x, ptrdiff_t n, ptrdiff_t d, double *second)
{
    const ptrdiff_t stride = stride_of(d) * W;
    for (ptrdiff_t i = 0; i < d; i += 2)
        for (ptrdiff_t j = 0; j <= i; j += QUAD)
            EACH_VECTOR {
                const double *left = x + i * W, *right = x + j * W;
                double *to = second + i * stride + j * W;
                Vector above[QUAD], below[QUAD];
                for (int q = 0; q < QUAD; q++) above[q] = below[q] = (Vector){0};
                for (ptrdiff_t r = 0; r < n; r++, left += stride, right += stride) {
                    const Vector one = IN(left), other = IN(left + W);
                    for (int q = 0; q < QUAD; q++) {
                        const Vector value = IN(right + q * W);
                        above[q] += one * value, below[q] += other * value;
                    }
                }
                for (int q = 0; q < QUAD; q++) {
                    OUT(to + q * W) += above[q];
                    OUT(to + stride + q * W) += below[q];
                }
            }
}

/* Independent features: scales (d, 2, W) are 1 / sqrt(variance) and -log(2 pi variance) / 2;
 * deviation (d, W) is 0 in the gap. */
SIMD_CLONES SIMD_UNUSED static void WIDE(row_of_variances)(
    const Pattern *pattern, const double *x, const double *means, const double *scales,
    const double *log_weights, double *deviation, double *log_joint)
{
    Vector sum[N_VECTORS], squares[N_VECTORS];
    EACH_VECTOR sum[v] = IN(log_weights);
    EACH_VECTOR squares[v] = (Vector){0};
    for (ptrdiff_t j = 0; j < pattern->n_observed; j++) {
        const ptrdiff_t at = pattern->observed[j];
        const double *scale = scales + 2 * at, value = x[at / W];
        EACH_VECTOR {
            const Vector difference = value - IN(means + at), scaled = difference * IN(scale);
            OUT(deviation + at) = difference;
            squares[v] += scaled * scaled;
            sum[v] += IN(scale + W);
        }
    }
    for (ptrdiff_t c = 0; c < pattern->n_missing; c++)
        EACH_VECTOR OUT(deviation + pattern->missing[c]) = (Vector){0};
    EACH_VECTOR OUT(log_joint) = sum[v] - 0.5 * squares[v];
}

/* gaps (d, W) += shares (W,) where a feature is missing */
SIMD_CLONES SIMD_UNUSED static void WIDE(add_gap_shares)(
    const Pattern *pattern, const double *shares, double *gaps)
{
    for (ptrdiff_t c = 0; c < pattern->n_missing; c++)
        EACH_VECTOR OUT(gaps + pattern->missing[c]) += IN(shares);
}

/* second (d, W) += the sum of x^2 over the rows x (n, stride_of(d), W) */
SIMD_CLONES SIMD_UNUSED static void WIDE(add_lane_squares)(
    const double *x, ptrdiff_t n, ptrdiff_t d, double *second)
{
    const ptrdiff_t stride = stride_of(d) * W;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double *entry = x + j * W;
        Vector sum[N_VECTORS];
        EACH_VECTOR sum[v] = (Vector){0};
        for (ptrdiff_t r = 0; r < n; r++, entry += stride)
            EACH_VECTOR sum[v] += IN(entry) * IN(entry);
        EACH_VECTOR OUT(second + j * W) += sum[v];
    }
}

#undef W
#undef EACH_LANE
#undef WIDE

#endif
