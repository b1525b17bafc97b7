/* Included by `_counts.pyx` for each REAL and INDEX: products of CSR rows with tables.
 *
 * A table has a row of `width` components for each feature, padded to whole tiles, so that a
 * non-zero meets contiguous components and the loops over a tile unroll into vectors.
 */

/* out (B, width) <- offset + the rows' products with `table` */
SIMD_CLONES SIMD_UNUSED static void NAMED(gather_rows)(
    const REAL *RESTRICT data, const INDEX *RESTRICT indices, const INDEX *RESTRICT indptr,
    ptrdiff_t B, const REAL *RESTRICT table, const REAL *RESTRICT offset, ptrdiff_t width,
    REAL *RESTRICT out)
{
    for (ptrdiff_t b = 0; b < B; b++)
        for (ptrdiff_t tile = 0; tile < width; tile += COUNTS_TILE) {
            REAL sum[COUNTS_TILE];
            for (int k = 0; k < COUNTS_TILE; k++) sum[k] = offset[tile + k];
            for (INDEX i = indptr[b]; i < indptr[b + 1]; i++) {
                const REAL *row = table + (ptrdiff_t)indices[i] * width + tile;
                for (int k = 0; k < COUNTS_TILE; k++) sum[k] += data[i] * row[k];
            }
            for (int k = 0; k < COUNTS_TILE; k++) out[b * width + tile + k] = sum[k];
        }
}

/* table <- table + the rows' outer products with `shares` (B, width) */
SIMD_CLONES SIMD_UNUSED static void NAMED(scatter_rows)(
    const REAL *RESTRICT data, const INDEX *RESTRICT indices, const INDEX *RESTRICT indptr,
    ptrdiff_t B, const REAL *RESTRICT shares, ptrdiff_t width, double *RESTRICT table)
{
    for (ptrdiff_t b = 0; b < B; b++)
        for (INDEX i = indptr[b]; i < indptr[b + 1]; i++) {
            double *row = table + (ptrdiff_t)indices[i] * width;
            const REAL *share = shares + b * width;
            for (ptrdiff_t tile = 0; tile < width; tile += COUNTS_TILE)
                for (int k = 0; k < COUNTS_TILE; k++)
                    row[tile + k] += (double)data[i] * (double)share[tile + k];
        }
}
