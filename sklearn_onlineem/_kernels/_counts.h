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

/* Calls `strip` with the number of tiles as a constant: its sums are registers then, and the cache
 * lines of a table's row are fetched side by side. */
#define COUNTS_SIZED(size, strip, ...) \
    switch ((size) / COUNTS_TILE) { \
    case 1: strip(__VA_ARGS__, 1); break; \
    case 2: strip(__VA_ARGS__, 2); break; \
    case 3: strip(__VA_ARGS__, 3); break; \
    default: strip(__VA_ARGS__, COUNTS_TILES); \
    }

/* no-trapping-math: as in `_simd.h`. A loop over a tile that GCC unrolls before it vectorises ends up
 * in pieces, where whole tiles never cross a border of cache lines. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math")
#define COUNTS_AS_VECTOR _Pragma("GCC unroll 1")
#else
#define COUNTS_AS_VECTOR
#endif

#define REAL float
#define NAMED(name) name##_float
#include "_counts_small.h"
#undef NAMED

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
#define NAMED(name) name##_double
#include "_counts_small.h"
#undef NAMED

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

/* sums (n,) <- sums + partial; partial <- 0 */
SIMD_CLONES SIMD_UNUSED static void spill(
    float *RESTRICT partial, ptrdiff_t n, double *RESTRICT sums)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        sums[i] += partial[i];
        partial[i] = 0;
    }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
