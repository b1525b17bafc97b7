/* Products of CSR rows with tables, for float and double.
 *
 * A table has a row of `width` components for each feature, padded to whole tiles, so that a
 * non-zero meets contiguous components. Its first row is that of a feature that is always 1: it
 * brings the offsets to the log densities, and takes the counts from the responsibilities.
 */
#ifndef SKLEARN_ONLINEEM_COUNTS_H
#define SKLEARN_ONLINEEM_COUNTS_H

#include "_simd.h"

/* Components of a tile, tiles that a loop over non-zeros takes at once, and non-zeros from that of
 * which the sums are changed to that of which they are fetched. */
#define COUNTS_TILE 8
#define COUNTS_AHEAD 12
#define COUNTS_TILES 4
#define COUNTS_STRIP (COUNTS_TILES * COUNTS_TILE)

/* A function for each number of tiles keeps sums in registers, and fetches the cache lines of a
 * table's row side by side. (Of one function for all, GCC makes vectors for some numbers only.) */
#define COUNTS_SIZED(tiles, OF, name, ...) \
    switch (tiles) { \
    case 1: OF(name##_1)(__VA_ARGS__); break; \
    case 2: OF(name##_2)(__VA_ARGS__); break; \
    case 3: OF(name##_3)(__VA_ARGS__); break; \
    default: OF(name##_4)(__VA_ARGS__); \
    }

/* What GCC needs to hear to make vectors of tiles, and nothing but vectors: sums are registers when
 * their loops are unrolled before it vectorises, and a tile of a table, which crosses no border of
 * cache lines, is added whole when its loop is not. */
OPTIMISE_BEGIN(SELECTS)
#define UNROLLED UNROLL(8)
#define WHOLE UNROLL(1)

#define TEMPLATE "_counts.h"
#include "_for_each_real.h"

#define gather_rows(data, ...) OF_REAL(gather_rows, data)(data, __VA_ARGS__)
/* Sums in single precision are those of rows that are. */
#define scatter_rows(data, indices, indptr, B, shares, width, table) \
    _Generic( \
        *(table), float: OF_REAL(scatter_rows_single, data), double: OF_REAL(scatter_rows, data) \
    )(data, indices, indptr, B, shares, width, table)

OPTIMISE_END

#elif defined(SUM)

/* For each REAL and SUM: outer products of rows with shares. */

/* The first `tiles` of `row` <- themselves + x times `share` */
SIMD_INLINE void OF_SUM(add_scaled)(
    REAL x, const REAL *RESTRICT share, SUM *RESTRICT row, const int tiles)
{
    for (int t = 0; t < tiles; t++)
        WHOLE
        for (int k = 0; k < COUNTS_TILE; k++)
            row[t * COUNTS_TILE + k] += (SUM)x * (SUM)share[t * COUNTS_TILE + k];
}

/* The first `tiles` of `table` <- themselves + a row's outer product with `share` */
SIMD_INLINE void OF_SUM(scatter_row)(
    const REAL *RESTRICT data, const int32_t *RESTRICT indices, ptrdiff_t n, const REAL *RESTRICT share,
    ptrdiff_t width, SUM *RESTRICT table, const int tiles)
{
    OF_SUM(add_scaled)(1, share, table, tiles);
    table += width;
    for (ptrdiff_t i = 0; i < n; i++) {
#if defined(__GNUC__)
        /* Rows of a large table wait in the second cache: a cache line for each tile of doubles. */
        const ptrdiff_t ahead = indices[i + COUNTS_AHEAD < n ? i + COUNTS_AHEAD : n - 1] * width;
        for (int t = 0; t < tiles && tiles > 1 && sizeof(SUM) == sizeof(double); t++)
            __builtin_prefetch(table + ahead + t * COUNTS_TILE, 1);
#endif
        OF_SUM(add_scaled)(data[i], share, table + (ptrdiff_t)indices[i] * width, tiles);
    }
}

#define SCATTER_STRIP(TILES) \
    SIMD_CLONES SIMD_UNUSED static void OF_SUM(scatter_strip_##TILES)( \
        const REAL *RESTRICT data, const int32_t *RESTRICT indices, const int64_t *RESTRICT indptr, \
        ptrdiff_t B, const REAL *RESTRICT shares, ptrdiff_t width, SUM *RESTRICT table) \
    { \
        for (ptrdiff_t b = 0; b < B; b++) \
            OF_SUM(scatter_row)(data + indptr[b], indices + indptr[b], indptr[b + 1] - indptr[b], \
                               shares + b * width, width, table, TILES); \
    }
SCATTER_STRIP(1)
SCATTER_STRIP(2)
SCATTER_STRIP(3)
SCATTER_STRIP(4)
#undef SCATTER_STRIP

/* table (1 + d, width) <- table + the rows' outer products with `shares` (B, width) */
SIMD_UNUSED static void OF_SUM(scatter_rows)(
    const REAL *data, const int32_t *indices, const int64_t *indptr, ptrdiff_t B, const REAL *shares,
    ptrdiff_t width, SUM *table)
{
    for (ptrdiff_t k = 0; k < width; k += COUNTS_STRIP)
        COUNTS_SIZED((width - k) / COUNTS_TILE, OF_SUM, scatter_strip, data, indices, indptr, B,
                     shares + k, width, table + k)
}

#elif defined(REAL)

/* For each REAL: products of rows with a table. */

/* out <- a row's product with the first `tiles` of `table` */
SIMD_INLINE void NAMED(gather_row)(
    const REAL *RESTRICT data, const int32_t *RESTRICT indices, ptrdiff_t n, const REAL *RESTRICT table,
    ptrdiff_t width, REAL *RESTRICT out, const int tiles)
{
    REAL sum[COUNTS_TILES][COUNTS_TILE];
    UNROLLED
    for (int t = 0; t < tiles; t++)
        UNROLLED
        for (int k = 0; k < COUNTS_TILE; k++) sum[t][k] = table[t * COUNTS_TILE + k];
    table += width;
    for (ptrdiff_t i = 0; i < n; i++) {
        const REAL x = data[i], *row = table + (ptrdiff_t)indices[i] * width;
        UNROLLED
        for (int t = 0; t < tiles; t++)
            UNROLLED
            for (int k = 0; k < COUNTS_TILE; k++) sum[t][k] += x * row[t * COUNTS_TILE + k];
    }
    UNROLLED
    for (int t = 0; t < tiles; t++)
        UNROLLED
        for (int k = 0; k < COUNTS_TILE; k++) out[t * COUNTS_TILE + k] = sum[t][k];
}

#define GATHER_STRIP(TILES) \
    SIMD_CLONES SIMD_UNUSED static void NAMED(gather_strip_##TILES)( \
        const REAL *RESTRICT data, const int32_t *RESTRICT indices, const int64_t *RESTRICT indptr, \
        ptrdiff_t B, const REAL *RESTRICT table, ptrdiff_t width, REAL *RESTRICT out) \
    { \
        for (ptrdiff_t b = 0; b < B; b++) \
            NAMED(gather_row)(data + indptr[b], indices + indptr[b], indptr[b + 1] - indptr[b], \
                              table, width, out + b * width, TILES); \
    }
GATHER_STRIP(1)
GATHER_STRIP(2)
GATHER_STRIP(3)
GATHER_STRIP(4)
#undef GATHER_STRIP

/* out (B, width) <- the rows' products with `table` (1 + d, width) */
SIMD_UNUSED static void NAMED(gather_rows)(
    const REAL *data, const int32_t *indices, const int64_t *indptr, ptrdiff_t B, const REAL *table,
    ptrdiff_t width, REAL *out)
{
    for (ptrdiff_t k = 0; k < width; k += COUNTS_STRIP)
        COUNTS_SIZED((width - k) / COUNTS_TILE, NAMED, gather_strip, data, indices, indptr, B,
                     table + k, width, out + k)
}

/* Sums of double or REAL. */

#define SUM double
#define OF_SUM(name) NAMED(name)
#include "_counts.h"
#undef SUM
#undef OF_SUM
#define SUM REAL
#define OF_SUM(name) NAMED(name##_single)
#include "_counts.h"
#undef SUM
#undef OF_SUM

#endif
