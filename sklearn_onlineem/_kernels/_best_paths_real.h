/* For each REAL, as `_best_paths.h` says. */

/* best (W,): from the best paths that end in each state of the first row, to those of the last row
 * of x (T, K); origins (T, W) <- the states before. `next` (W,) is scratch. */
SIMD_INLINE void NAMED(best_paths_of)(
    const REAL *RESTRICT x, ptrdiff_t T, const ptrdiff_t K, const ptrdiff_t W,
    const ptrdiff_t tile, const double *RESTRICT table, double *RESTRICT next,
    double *RESTRICT best, int *RESTRICT origins)
{
    for (ptrdiff_t t = 1; t < T; t++) {
        best_moves(best, table, W, tile, next, origins + t * W);
        for (ptrdiff_t j = 0; j < K; j++) best[j] = next[j] + x[t * K + j];
    }
}

SIMD_CLONES SIMD_UNUSED static void NAMED(best_paths)(
    const REAL *x, ptrdiff_t T, ptrdiff_t K, ptrdiff_t W, const double *table, double *next,
    double *best, int *origins)
{
    switch (W) {
    case 4: NAMED(best_paths_of)(x, T, K, 4, 4, table, next, best, origins); break;
    case 8: NAMED(best_paths_of)(x, T, K, 8, 8, table, next, best, origins); break;
    case 16: NAMED(best_paths_of)(x, T, K, 16, 16, table, next, best, origins); break;
    default: NAMED(best_paths_of)(x, T, K, W, 16, table, next, best, origins);
    }
}
