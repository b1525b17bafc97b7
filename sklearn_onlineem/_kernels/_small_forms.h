/* Quadratic forms and outer products of so few features that BLAS's calls and copies show.
 *
 * Vectors are those of GCC and clang, cut by the compiler to what the CPU has. Multiplications and
 * additions stay apart, so all CPUs compute the same bits.
 */
#ifndef SKLEARN_ONLINEEM_SMALL_FORMS_H
#define SKLEARN_ONLINEEM_SMALL_FORMS_H

#include "_simd.h"

/* The most features that these are for; without such vectors BLAS is for all. */
#if defined(__GNUC__)
#define MOST_SMALL 64
#else
#define MOST_SMALL 0
#endif

#define VECTOR_BYTES 64

#define TEMPLATE "_small_forms_real.h"
#include "_for_each_real.h"

#endif
