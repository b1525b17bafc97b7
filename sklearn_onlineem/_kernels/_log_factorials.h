/* Counts that are small integers, for float and double. */
#ifndef SKLEARN_ONLINEEM_LOG_FACTORIALS_H
#define SKLEARN_ONLINEEM_LOG_FACTORIALS_H

#include "_simd.h"

/* See `_simd.h`. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math")
#endif

#define REAL float
#define NAMED(name) name##_float
#include "_small_counts.h"
#undef REAL
#undef NAMED

#define REAL double
#define NAMED(name) name##_double
#include "_small_counts.h"
#undef REAL
#undef NAMED

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
