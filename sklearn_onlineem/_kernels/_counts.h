/* Products of CSR rows with tables, for float and double and for 32-bit and 64-bit indices.
 *
 * A table has a row of `width` components for each feature, padded to whole tiles, so that a
 * non-zero meets contiguous components. Its first row is that of a feature that is always 1: it
 * brings the offsets to the log densities, and takes the counts from the responsibilities.
 */
#ifndef SKLEARN_ONLINEEM_COUNTS_H
#define SKLEARN_ONLINEEM_COUNTS_H

#include "_simd.h"

/* Components of a tile, and tiles that a loop over non-zeros takes at once. */
#define COUNTS_TILE 8
#define COUNTS_TILES 4
#define COUNTS_STRIP (COUNTS_TILES * COUNTS_TILE)

/* A function for each number of tiles keeps sums in registers, and fetches the cache lines of a
 * table's row side by side. (Of one function for all, GCC makes vectors for some numbers only.) */
#define COUNTS_SIZED(tiles, name, ...) \
    switch (tiles) { \
    case 1: NAMED(name##_1)(__VA_ARGS__); break; \
    case 2: NAMED(name##_2)(__VA_ARGS__); break; \
    case 3: NAMED(name##_3)(__VA_ARGS__); break; \
    default: NAMED(name##_4)(__VA_ARGS__); \
    }

/* What GCC needs to hear to make vectors of tiles, and nothing but vectors: sums are registers when
 * their loops are unrolled before it vectorises, and a tile of a table, which crosses no border of
 * cache lines, is added whole when its loop is not. For no-trapping-math see `_simd.h`. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math")
#define COUNTS_UNROLLED _Pragma("GCC unroll 8")
#define COUNTS_WHOLE _Pragma("GCC unroll 1")
#else
#define COUNTS_UNROLLED
#define COUNTS_WHOLE
#endif

#define REAL float
#define INDEX int32_t
#define NAMED(name) name##_float_32
#include "_counts_gather.h"
#define SUM double
#include "_counts_scatter.h"
#undef SUM
#undef NAMED

#define NAMED(name) name##_single_32
#define SUM float
#include "_counts_scatter.h"
#undef SUM
#undef INDEX
#undef NAMED

#define INDEX int64_t
#define NAMED(name) name##_float_64
#include "_counts_gather.h"
#define SUM double
#include "_counts_scatter.h"
#undef SUM
#undef NAMED

#define NAMED(name) name##_single_64
#define SUM float
#include "_counts_scatter.h"
#undef SUM
#undef REAL
#undef INDEX
#undef NAMED

#define REAL double
#define SUM double
#define INDEX int32_t
#define NAMED(name) name##_double_32
#include "_counts_gather.h"
#include "_counts_scatter.h"
#undef INDEX
#undef NAMED

#define INDEX int64_t
#define NAMED(name) name##_double_64
#include "_counts_gather.h"
#include "_counts_scatter.h"
#undef REAL
#undef SUM
#undef INDEX
#undef NAMED

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
