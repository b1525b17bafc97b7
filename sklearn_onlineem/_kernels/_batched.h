/* Arithmetic on batched numbers: BATCH_SIZE of them side by side, one for each segment of rows that
 * a batch is made of.
 *
 * Vectors are those of GCC and clang, cut by the compiler to what the CPU has; others get loops.
 */
#ifndef SKLEARN_ONLINEEM_BATCHED_H
#define SKLEARN_ONLINEEM_BATCHED_H

#include <stddef.h>
#include <stdint.h>

#include "_compiler.h"

/* Doubles of the widest vectors. */
#define BATCH_SIZE 8

#if defined(__GNUC__)
typedef double Batched __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t BatchedMask __attribute__((vector_size(64), aligned(8), may_alias));
#define ELEMENTWISE(type, x, op, y, out) \
    (*(type *)(out) = *(const type *)(x) op *(const type *)(y))
#define ADD_SCALED(a, x, sum) (*(Batched *)(sum) += (a) * *(const Batched *)(x))
#define ADD_PRODUCT(x, y, sum) \
    (*(Batched *)(sum) += *(const Batched *)(x) * *(const Batched *)(y))
#else
typedef struct { double segment[BATCH_SIZE]; } Batched;
typedef struct { int64_t segment[BATCH_SIZE]; } BatchedMask;
#define EACH_SEGMENT for (int s = 0; s < BATCH_SIZE; s++)
#define ELEMENTWISE(type, x, op, y, out) \
    EACH_SEGMENT ((type *)(out))->segment[s] = \
        ((const type *)(x))->segment[s] op ((const type *)(y))->segment[s]
#define ADD_SCALED(a, x, sum) \
    EACH_SEGMENT ((Batched *)(sum))->segment[s] += (a) * ((const Batched *)(x))->segment[s]
#define ADD_PRODUCT(x, y, sum) \
    EACH_SEGMENT ((Batched *)(sum))->segment[s] += \
        ((const Batched *)(x))->segment[s] * ((const Batched *)(y))->segment[s]
#endif

/* out (n, BATCH_SIZE) <- x (n,), for each segment */
SIMD_INLINE void repeat(const double *x, const ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (int s = 0; s < BATCH_SIZE; s++) out[i * BATCH_SIZE + s] = x[i];
}

/* out (n,) <- x (n, BATCH_SIZE), summed over segments */
SIMD_UNUSED static void sum_segments(const double *x, ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++, x += BATCH_SIZE)
        out[i] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/* out (n_x, n_y, BATCH_SIZE) <- out + x y' */
SIMD_INLINE void add_batched_outer(
    const double *x, const double *y, const ptrdiff_t n_x, const ptrdiff_t n_y, double *out)
{
    for (ptrdiff_t i = 0; i < n_x; i++) {
        const Batched here = *(const Batched *)(x + i * BATCH_SIZE);
        for (ptrdiff_t j = 0; j < n_y; j++, out += BATCH_SIZE)
            ADD_PRODUCT(&here, y + j * BATCH_SIZE, out);
    }
}

SIMD_INLINE void put_batched(
    const double *origin, const double sign, const Batched *sum, double *out)
{
    Batched result = *(const Batched *)origin;
    ADD_SCALED(sign, sum, &result);
    *(Batched *)out = result;
}

/* out (n_out, BATCH_SIZE) <- origin + sign table' x, x (n_in, BATCH_SIZE). out may be origin. */
SIMD_INLINE void batched_product(
    const double *table, const ptrdiff_t stride, const ptrdiff_t n_in, const ptrdiff_t n_out,
    const double *x, const double *origin, const double sign, double *out)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n_out; i += 4) {
        Batched a = {0}, b = {0}, c = {0}, e = {0};
        for (ptrdiff_t j = 0; j < n_in; j++) {
            const double *row = table + j * stride + i, *here = x + j * BATCH_SIZE;
            ADD_SCALED(row[0], here, &a);
            ADD_SCALED(row[1], here, &b);
            ADD_SCALED(row[2], here, &c);
            ADD_SCALED(row[3], here, &e);
        }
        put_batched(origin + i * BATCH_SIZE, sign, &a, out + i * BATCH_SIZE);
        put_batched(origin + (i + 1) * BATCH_SIZE, sign, &b, out + (i + 1) * BATCH_SIZE);
        put_batched(origin + (i + 2) * BATCH_SIZE, sign, &c, out + (i + 2) * BATCH_SIZE);
        put_batched(origin + (i + 3) * BATCH_SIZE, sign, &e, out + (i + 3) * BATCH_SIZE);
    }
    for (; i < n_out; i++) {
        Batched a = {0};
        for (ptrdiff_t j = 0; j < n_in; j++)
            ADD_SCALED(table[j * stride + i], x + j * BATCH_SIZE, &a);
        put_batched(origin + i * BATCH_SIZE, sign, &a, out + i * BATCH_SIZE);
    }
}

/* sum (n, BATCH_SIZE) <- sum + x, where mask is -1, and not where it is 0 */
SIMD_INLINE void add_kept(const int64_t *mask, const double *x, const ptrdiff_t n, double *sum)
{
    for (ptrdiff_t i = 0; i < n * BATCH_SIZE; i += BATCH_SIZE) {
        Batched kept;
        ELEMENTWISE(BatchedMask, x + i, &, mask, &kept);
        ELEMENTWISE(Batched, sum + i, +, &kept, sum + i);
    }
}

/* out (n, BATCH_SIZE) <- x - y where mask is -1, and 0 where it is 0 */
SIMD_INLINE void subtract_kept(
    const int64_t *mask, const double *x, const double *y, const ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n * BATCH_SIZE; i += BATCH_SIZE) {
        Batched difference;
        ELEMENTWISE(Batched, x + i, -, y + i, &difference);
        ELEMENTWISE(BatchedMask, &difference, &, mask, out + i);
    }
}

#endif
