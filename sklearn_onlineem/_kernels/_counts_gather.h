/* For each REAL and INDEX of `_counts_real.h`: products of CSR rows with a table. */

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
