/* Products of CSR rows with tables, for float and double and for 32-bit and 64-bit indices.
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
#define COUNTS_SIZED(tiles, name, ...) \
    switch (tiles) { \
    case 1: INDEXED(name##_1)(__VA_ARGS__); break; \
    case 2: INDEXED(name##_2)(__VA_ARGS__); break; \
    case 3: INDEXED(name##_3)(__VA_ARGS__); break; \
    default: INDEXED(name##_4)(__VA_ARGS__); \
    }

/* What GCC needs to hear to make vectors of tiles, and nothing but vectors: sums are registers when
 * their loops are unrolled before it vectorises, and a tile of a table, which crosses no border of
 * cache lines, is added whole when its loop is not. */
OPTIMISE_BEGIN(SELECTS)
#define UNROLLED UNROLL(8)
#define WHOLE UNROLL(1)

#define TEMPLATE "_counts.h"
#include "_for_each_real.h"

/* Of a function, that for what data and indices point to. */
#define OF_INDEXED(f, data, indices) \
    _Generic(*(indices), int32_t: OF_REAL(f##_32, data), int64_t: OF_REAL(f##_64, data))
#define gather_rows(data, indices, ...) \
    OF_INDEXED(gather_rows, data, indices)(data, indices, __VA_ARGS__)
/* Sums in single precision are those of rows that are. */
#define scatter_rows(data, indices, indptr, B, shares, width, table) \
    _Generic( \
        *(table), float: OF_INDEXED(scatter_rows_single, data, indices), \
        double: OF_INDEXED(scatter_rows, data, indices) \
    )(data, indices, indptr, B, shares, width, table)

OPTIMISE_END

#elif defined(SUM)

/* For each REAL, INDEX and SUM: outer products of rows with shares. */

/* The first `tiles` of `row` <- themselves + x times `share` */
SIMD_INLINE void INDEXED(add_scaled)(
    REAL x, const REAL *RESTRICT share, SUM *RESTRICT row, const int tiles)
{
    for (int t = 0; t < tiles; t++)
        WHOLE
        for (int k = 0; k < COUNTS_TILE; k++)
            row[t * COUNTS_TILE + k] += (SUM)x * (SUM)share[t * COUNTS_TILE + k];
}

/* The first `tiles` of `table` <- themselves + a row's outer product with `share` */
SIMD_INLINE void INDEXED(scatter_row)(
    const REAL *RESTRICT data, const INDEX *RESTRICT indices, INDEX n, const REAL *RESTRICT share,
    ptrdiff_t width, SUM *RESTRICT table, const int tiles)
{
    INDEXED(add_scaled)(1, share, table, tiles);
    table += width;
    for (INDEX i = 0; i < n; i++) {
#if defined(__GNUC__)
        /* Rows of a large table wait in the second cache: a cache line for each tile of doubles. */
        const ptrdiff_t ahead = indices[i + COUNTS_AHEAD < n ? i + COUNTS_AHEAD : n - 1] * width;
        for (int t = 0; t < tiles && tiles > 1 && sizeof(SUM) == sizeof(double); t++)
            __builtin_prefetch(table + ahead + t * COUNTS_TILE, 1);
#endif
        INDEXED(add_scaled)(data[i], share, table + (ptrdiff_t)indices[i] * width, tiles);
    }
}

#define SCATTER_STRIP(TILES) \
    SIMD_CLONES SIMD_UNUSED static void INDEXED(scatter_strip_##TILES)( \
        const REAL *RESTRICT data, const INDEX *RESTRICT indices, const INDEX *RESTRICT indptr, \
        ptrdiff_t B, const REAL *RESTRICT shares, ptrdiff_t width, SUM *RESTRICT table) \
    { \
        for (ptrdiff_t b = 0; b < B; b++) \
            INDEXED(scatter_row)(data + indptr[b], indices + indptr[b], indptr[b + 1] - indptr[b], \
                               shares + b * width, width, table, TILES); \
    }
SCATTER_STRIP(1)
SCATTER_STRIP(2)
SCATTER_STRIP(3)
SCATTER_STRIP(4)
#undef SCATTER_STRIP

/* table (1 + d, width) <- table + the rows' outer products with `shares` (B, width) */
SIMD_UNUSED static void INDEXED(scatter_rows)(
    const REAL *data, const INDEX *indices, const INDEX *indptr, ptrdiff_t B, const REAL *shares,
    ptrdiff_t width, SUM *table)
{
    for (ptrdiff_t k = 0; k < width; k += COUNTS_STRIP)
        COUNTS_SIZED((width - k) / COUNTS_TILE, scatter_strip, data, indices, indptr, B, shares + k,
                     width, table + k)
}

#elif defined(INDEX)

/* For each REAL and INDEX: products of rows with a table. */

/* out <- a row's product with the first `tiles` of `table` */
SIMD_INLINE void INDEXED(gather_row)(
    const REAL *RESTRICT data, const INDEX *RESTRICT indices, INDEX n, const REAL *RESTRICT table,
    ptrdiff_t width, REAL *RESTRICT out, const int tiles)
{
    REAL sum[COUNTS_TILES][COUNTS_TILE];
    UNROLLED
    for (int t = 0; t < tiles; t++)
        UNROLLED
        for (int k = 0; k < COUNTS_TILE; k++) sum[t][k] = table[t * COUNTS_TILE + k];
    table += width;
    for (INDEX i = 0; i < n; i++) {
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
    SIMD_CLONES SIMD_UNUSED static void INDEXED(gather_strip_##TILES)( \
        const REAL *RESTRICT data, const INDEX *RESTRICT indices, const INDEX *RESTRICT indptr, \
        ptrdiff_t B, const REAL *RESTRICT table, ptrdiff_t width, REAL *RESTRICT out) \
    { \
        for (ptrdiff_t b = 0; b < B; b++) \
            INDEXED(gather_row)(data + indptr[b], indices + indptr[b], indptr[b + 1] - indptr[b], \
                              table, width, out + b * width, TILES); \
    }
GATHER_STRIP(1)
GATHER_STRIP(2)
GATHER_STRIP(3)
GATHER_STRIP(4)
#undef GATHER_STRIP

/* out (B, width) <- the rows' products with `table` (1 + d, width) */
SIMD_UNUSED static void INDEXED(gather_rows)(
    const REAL *data, const INDEX *indices, const INDEX *indptr, ptrdiff_t B, const REAL *table,
    ptrdiff_t width, REAL *out)
{
    for (ptrdiff_t k = 0; k < width; k += COUNTS_STRIP)
        COUNTS_SIZED((width - k) / COUNTS_TILE, gather_strip, data, indices, indptr, B, table + k,
                     width, out + k)
}

#elif defined(REAL)

/* For each REAL: indices of 32 and 64 bits, and sums of double or REAL. */

#define INDEX int32_t
#define INDEXED(name) NAMED(name##_32)
#include "_counts.h"
#define SUM double
#include "_counts.h"
#undef SUM
#undef INDEXED
#define INDEXED(name) NAMED(name##_single_32)
#define SUM REAL
#include "_counts.h"
#undef SUM
#undef INDEXED
#undef INDEX

#define INDEX int64_t
#define INDEXED(name) NAMED(name##_64)
#include "_counts.h"
#define SUM double
#include "_counts.h"
#undef SUM
#undef INDEXED
#define INDEXED(name) NAMED(name##_single_64)
#define SUM REAL
#include "_counts.h"
#undef SUM
#undef INDEXED
#undef INDEX

#endif
