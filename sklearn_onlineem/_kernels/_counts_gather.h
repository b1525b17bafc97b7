/* Included by `_counts.h` for each REAL and INDEX: products of CSR rows with a table. */

/* out <- a row's product with the first `tiles` of `table` */
SIMD_INLINE void NAMED(gather_strip)(
    const REAL *RESTRICT data, const INDEX *RESTRICT indices, INDEX n, const REAL *RESTRICT table,
    ptrdiff_t width, REAL *RESTRICT out, const int tiles)
{
    REAL sum[COUNTS_TILES][COUNTS_TILE];
    for (int t = 0; t < tiles; t++)
        for (int k = 0; k < COUNTS_TILE; k++) sum[t][k] = table[t * COUNTS_TILE + k];
    table += width;
    for (INDEX i = 0; i < n; i++) {
        const REAL *row = table + (ptrdiff_t)indices[i] * width;
        for (int t = 0; t < tiles; t++)
            for (int k = 0; k < COUNTS_TILE; k++)
                sum[t][k] += data[i] * row[t * COUNTS_TILE + k];
    }
    for (int t = 0; t < tiles; t++)
        for (int k = 0; k < COUNTS_TILE; k++) out[t * COUNTS_TILE + k] = sum[t][k];
}

/* out (B, width) <- the rows' products with `table` (1 + d, width) */
SIMD_CLONES SIMD_UNUSED static void NAMED(gather_rows)(
    const REAL *RESTRICT data, const INDEX *RESTRICT indices, const INDEX *RESTRICT indptr,
    ptrdiff_t B, const REAL *RESTRICT table, ptrdiff_t width, REAL *RESTRICT out)
{
    for (ptrdiff_t b = 0; b < B; b++)
        for (ptrdiff_t k = 0; k < width; k += COUNTS_STRIP)
            COUNTS_SIZED(width - k, NAMED(gather_strip), data + indptr[b], indices + indptr[b],
                         indptr[b + 1] - indptr[b], table + k, width, out + b * width + k);
}
