/* Loops of centred Gaussians over the rows of a block, for float and double; what BLAS would do for
 * them, where features are few. */
#ifndef SKLEARN_ONLINEEM_GAUSSIAN_H
#define SKLEARN_ONLINEEM_GAUSSIAN_H

#include "_simd.h"

/* x - mean, correctly rounded but for the last bit, without leaving float for double.
 *
 * The mean is the sum of two floats. Taking off the first is exact where x is so close to it that
 * the second matters. */
SIMD_INLINE float residual_float(float x, double mean)
{ return (x - (float)mean) - (float)(mean - (float)mean); }

SIMD_INLINE double residual_double(double x, double mean) { return x - mean; }

/* Quadratic forms and outer products of so few features that BLAS's calls and copies show: vectors
 * are those of GCC and clang, cut by the compiler to what the CPU has. Multiplications and additions
 * stay apart, so all CPUs compute the same bits.
 */

/* The most features that these are for; without such vectors BLAS is for all. */
#if defined(__GNUC__)
#define MOST_SMALL 64
#else
#define MOST_SMALL 0
#endif

#define VECTOR_BYTES 64

#define TEMPLATE "_gaussian.h"
#include "_for_each_real.h"

#define subtract(x, ...) OF_REAL(subtract, x)(x, __VA_ARGS__)
#define half_squared_norms(x, ...) OF_REAL(half_squared_norms, x)(x, __VA_ARGS__)
#define weigh(x, ...) OF_REAL(weigh, x)(x, __VA_ARGS__)
#define scaled_log_joint(x, ...) OF_REAL(scaled_log_joint, x)(x, __VA_ARGS__)
#define add_scaled_moments(x, ...) OF_REAL(add_scaled_moments, x)(x, __VA_ARGS__)
#if MOST_SMALL > 0
#define small_forms(x, ...) OF_REAL(small_forms, x)(x, __VA_ARGS__)
#define small_products(x, ...) OF_REAL(small_products, x)(x, __VA_ARGS__)
#else
#define small_forms(...) ((void)0)
#define small_products(...) ((void)0)
#endif

#elif defined(REAL)

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

#if MOST_SMALL > 0

typedef REAL NAMED(vector)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));
#define VECTOR NAMED(vector)
#define PER_VECTOR (VECTOR_BYTES / (ptrdiff_t)sizeof(REAL))

/* out (B,) <- offset - |P' (x - mean)|^2 / 2, x (d, B), P (d, d) with zeros below the diagonal.
 * Columns up to a whole vector are read and written. */
SIMD_CLONES SIMD_UNUSED static void NAMED(small_forms)(
    const REAL *x, ptrdiff_t B, ptrdiff_t d, ptrdiff_t stride, const double *mean, const REAL *P,
    double offset, REAL *out)
{
    VECTOR y[MOST_SMALL];
    for (ptrdiff_t b = 0; b < B; b += PER_VECTOR) {
        VECTOR total = {0};
        ptrdiff_t i = 0;
        for (ptrdiff_t j = 0; j < d; j++)
            for (ptrdiff_t lane = 0; lane < PER_VECTOR; lane++)
                y[j][lane] = (REAL)(x[j * stride + b + lane] - mean[j]);
        for (; i + 4 <= d; i += 4) {
            VECTOR z0 = {0}, z1 = {0}, z2 = {0}, z3 = {0};
            const REAL *p = P + i;
            for (ptrdiff_t j = 0; j < i + 4; j++, p += d) {
                z0 += p[0] * y[j];
                z1 += p[1] * y[j];
                z2 += p[2] * y[j];
                z3 += p[3] * y[j];
            }
            total += (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3);
        }
        for (; i < d; i++) {
            VECTOR z = {0};
            for (ptrdiff_t j = 0; j <= i; j++) z += P[j * d + i] * y[j];
            total += z * z;
        }
        for (ptrdiff_t lane = 0; lane < PER_VECTOR; lane++)
            out[b + lane] = (REAL)(offset - 0.5 * total[lane]);
    }
}

/* sums (d, d) += x' x, x (n, d); the upper triangle, with some of the rest.
 * A vector past the end of x is read. */
SIMD_CLONES SIMD_UNUSED static void NAMED(small_products)(
    const REAL *x, ptrdiff_t n, ptrdiff_t d, double *sums)
{
    for (ptrdiff_t i = 0; i < d; i += 4)
        for (ptrdiff_t j = i / PER_VECTOR * PER_VECTOR; j < d; j += PER_VECTOR) {
            VECTOR tile[4] = {{0}};
            const REAL *row = x;
            for (ptrdiff_t b = 0; b < n; b++, row += d) {
                VECTOR right = *(const VECTOR *)(row + j);
                tile[0] += row[i] * right;
                tile[1] += row[i + 1] * right;
                tile[2] += row[i + 2] * right;
                tile[3] += row[i + 3] * right;
            }
            for (ptrdiff_t k = 0; k < 4 && i + k < d; k++)
                for (ptrdiff_t lane = 0; lane < PER_VECTOR && j + lane < d; lane++)
                    sums[(i + k) * d + j + lane] += tile[k][lane];
        }
}

#undef VECTOR
#undef PER_VECTOR

#endif

#endif
