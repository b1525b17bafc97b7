/* Loops over columns that the compiler vectorises, for float and double.
 *
 * libm's exp and log are calls, and a loop with a call in it stays scalar. The ones below are
 * straight-line arithmetic, so the loops below become vector code, in clones for
 * several instruction sets. None of these fuses multiply and add, so all give the same bits.
 */
#ifndef SKLEARN_ONLINEEM_SIMD_H
#define SKLEARN_ONLINEEM_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_compiler.h"

OPTIMISE_BEGIN(SELECTS)

/* Columns that one pass handles before the next pass returns to them: they stay in L1. */
#define SIMD_STRIP 64

/* Partial sums that a sum over a row is made of, so that vectors of all widths give the same bits.
 * */
#define PARTIAL_SUMS 16

/* What a row of k states is padded to. */
SIMD_INLINE ptrdiff_t padded_width(ptrdiff_t k) { return k <= 4 ? 4 : (k + 7) / 8 * 8; }

SIMD_INLINE int64_t bits_of_double(double x) { int64_t i; memcpy(&i, &x, sizeof i); return i; }
SIMD_INLINE double double_of_bits(int64_t i) { double x; memcpy(&x, &i, sizeof x); return x; }
SIMD_INLINE int32_t bits_of_float(float x) { int32_t i; memcpy(&i, &x, sizeof i); return i; }
SIMD_INLINE float float_of_bits(int32_t i) { float x; memcpy(&x, &i, sizeof x); return x; }

/* exp(x) = 2^n exp(r), n = round(x / log 2), |r| <= log(2)/2. For x up to 700 (80 for float).
 *
 * Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits of the mantissa, where a
 * shift turns it into an exponent: no conversion between floats and integers, which AVX2 lacks for
 * 64 bits. exp(r) = 1 + r + r^2 q(r), with q interpolated at Chebyshev nodes (relative error 2e-17,
 * for float 1e-8). From the clamp down the exponent field is 0, and so is the result: subnormal
 * responsibilities weigh nothing, and arithmetic on them is slow on many CPUs.
 */
SIMD_INLINE double exp_double(double x)
{
    const double magic = 6755399441055744.0;
    double clamped = x < -709.0 ? -709.0 : x;
    double shifted = clamped * 1.4426950408889634 + magic;
    double n = shifted - magic;
    double r = (clamped - n * 0.6931471803691238) - n * 1.9082149292705878e-10;
    double q = 2.5100472505694996e-08;
    q = q * r + 2.7620201591031549e-07;
    q = q * r + 2.7557268276905696e-06;
    q = q * r + 2.4801521057868205e-05;
    q = q * r + 1.9841269863171556e-04;
    q = q * r + 1.3888888917367081e-03;
    q = q * r + 8.3333333333300382e-03;
    q = q * r + 4.1666666666623821e-02;
    q = q * r + 1.6666666666666667e-01;
    q = q * r + 5.0000000000000010e-01;
    double power = double_of_bits((int64_t)((uint64_t)(bits_of_double(shifted) + 1023) << 52));
    return (1.0 + (r + r * r * q)) * power;
}

SIMD_INLINE float exp_float(float x)
{
    const float magic = 12582912.0f;
    float clamped = x < -88.0f ? -88.0f : x;
    float shifted = clamped * 1.44269504f + magic;
    float n = shifted - magic;
    float r = (clamped - n * 0.693145751953125f) - n * 1.4286068203e-06f;
    float q = 1.3926250831e-03f;
    q = q * r + 8.3632328837e-03f;
    q = q * r + 4.1666554213e-02f;
    q = q * r + 1.6666576666e-01f;
    q = q * r + 0.5f;
    float power = float_of_bits((int32_t)((uint32_t)(bits_of_float(shifted) + 127) << 23));
    return (1.0f + (r + r * r * q)) * power;
}

/* log(x) = k log 2 + log(m), x = 2^k m, m in [sqrt(1/2), sqrt(2)), for x positive and normal.
 *
 * log(m) = 2s + s^3 P(s^2), s = (m - 1) / (m + 1), is evaluated as f - s (f - s^2 P), f = m - 1:
 * the same number with a leading term that is exact. Subtracting the bits of sqrt(1/2) makes the
 * exponent field count from there. k becomes a double in the mantissa of 2^52, as above.
 */
SIMD_INLINE double log_double(double x)
{
    const int64_t origin = 0x3fe6a09e667f3bcdLL;
    int64_t bits = bits_of_double(x);
    int64_t biased = (int64_t)((uint64_t)(bits - origin + (1024LL << 52)) >> 52);
    double m = double_of_bits(bits - ((biased - 1024) * (1LL << 52)));
    double k = double_of_bits(biased | 0x4330000000000000LL) - (4503599627370496.0 + 1024.0);
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double P = 0.1461644968504341;
    P = P * z + 0.1533172160055604;
    P = P * z + 0.1818288912526172;
    P = P * z + 0.2222221113477508;
    P = P * z + 0.2857142862597548;
    P = P * z + 0.3999999999989950;
    P = P * z + 0.6666666666666670;
    return k * 0.6931471803691238 + (f - (s * (f - z * P) - k * 1.9082149292705878e-10));
}

SIMD_INLINE float log_float(float x)
{
    const int32_t origin = 0x3f3504f3;
    int32_t bits = bits_of_float(x);
    int32_t biased = (int32_t)((uint32_t)(bits - origin + (128 << 23)) >> 23);
    float m = float_of_bits(bits - (biased - 128) * (1 << 23));
    float k = float_of_bits(biased | 0x4b000000) - (8388608.0f + 128.0f);
    float f = m - 1.0f;
    float s = f / (2.0f + f);
    float z = s * s;
    float P = 0.2957994939f;
    P = P * z + 0.3998878057f;
    P = P * z + 0.6666668504f;
    return k * 0.693145751953125f + (f - (s * (f - z * P) - k * 1.4286068203e-06f));
}

#define TEMPLATE "_simd.h"
#include "_for_each_real.h"

#define exp_columns(x, ...) OF_REAL(exp_columns, x)(x, __VA_ARGS__)
#define add_log(x, ...) OF_REAL(add_log, x)(x, __VA_ARGS__)
#define scale_columns(x, ...) OF_REAL(scale_columns, x)(x, __VA_ARGS__)
#define transpose(x, ...) OF_REAL(transpose, x)(x, __VA_ARGS__)
#define centred_transpose(x, ...) OF_REAL(centred_transpose, x)(x, __VA_ARGS__)
#define multiply(x, ...) OF_REAL(multiply, x)(x, __VA_ARGS__)
#define widen(x, ...) OF_REAL(widen, x)(x, __VA_ARGS__)
#define square_sum(x, ...) OF_REAL(square_sum, x)(x, __VA_ARGS__)
#define add_squares(x, ...) OF_REAL(add_squares, x)(x, __VA_ARGS__)
#define small_counts(x, ...) OF_REAL(small_counts, x)(x, __VA_ARGS__)

SIMD_INLINE double sum_of(const double *x, ptrdiff_t n)
{
    double partial[4] = {0, 0, 0, 0};
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++) partial[l] += x[i + l];
    for (; i < n; i++) partial[0] += x[i];
    return (partial[0] + partial[1]) + (partial[2] + partial[3]);
}

/* max |x_i|: magnitudes have the order of their bits, and what is not a number comes last. */
SIMD_CLONES SIMD_UNUSED static float largest_magnitude_float(const float *x, ptrdiff_t n)
{
    int32_t largest = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t bits = bits_of_float(x[i]) & INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    return float_of_bits(largest);
}

OPTIMISE_END

#elif defined(REAL)

/* Loops over the columns of row-major blocks. Observations are columns here, so that the innermost
 * loop runs over independent ones and vectorises without reordering any sum.
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

/* out (B,) <- x */
SIMD_CLONES SIMD_UNUSED static void NAMED(widen)(
    REAL *RESTRICT out, const unsigned char *x, ptrdiff_t B)
{
    for (ptrdiff_t b = 0; b < B; b++) out[b] = x[b];
}

/* out (B,) <- sum_j x_j^2, x (d, B) */
SIMD_CLONES SIMD_UNUSED static void NAMED(square_sum)(
    const REAL *RESTRICT x, ptrdiff_t d, ptrdiff_t B, ptrdiff_t stride, REAL *RESTRICT out)
{
    for (ptrdiff_t b = 0; b < B; b++) out[b] = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t b = 0; b < B; b++) out[b] += x[j * stride + b] * x[j * stride + b];
}

/* partial (PARTIAL_SUMS,) <- partial + squares of x (n,); what is not a number may count as 0 */
SIMD_CLONES SIMD_UNUSED static void NAMED(add_squares)(
    const REAL *x, ptrdiff_t n, int skips_nan, REAL *RESTRICT partial)
{
    const ptrdiff_t whole = n / PARTIAL_SUMS * PARTIAL_SUMS;
    const REAL unknown = skips_nan ? 0 : (REAL)NAN;
    for (ptrdiff_t i = 0; i < whole; i += PARTIAL_SUMS)
        for (int s = 0; s < PARTIAL_SUMS; s++) {
            const REAL square = x[i + s] * x[i + s];
            partial[s] += square == square ? square : unknown;
        }
    for (ptrdiff_t i = whole; i < n; i++)
        if (!(skips_nan && x[i] != x[i])) partial[0] += x[i] * x[i];
}

/* out (n,) <- x, cut to [0, largest]; return whether nothing was lost. NaN is cut to 0,
 * and lost. */
SIMD_CLONES SIMD_UNUSED static int NAMED(small_counts)(
    const REAL *RESTRICT x, ptrdiff_t n, int32_t largest, int32_t *RESTRICT out)
{
    int32_t lost = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        REAL count = x[i] > 0 ? x[i] : 0;
        count = count < (REAL)largest ? count : (REAL)largest;
        out[i] = (int32_t)count;
        lost |= (REAL)out[i] != x[i];
    }
    return !lost;
}

#undef NEGLIGIBLE_LOG

#endif
