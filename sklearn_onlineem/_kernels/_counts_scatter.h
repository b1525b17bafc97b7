/* For each REAL, INDEX and SUM of `_counts_real.h`: outer products of CSR rows with shares. */

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
    for (INDEX i = 0; i < n; i++)
        INDEXED(add_scaled)(data[i], share, table + (ptrdiff_t)indices[i] * width, tiles);
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
