/* The forward pass of Viterbi's algorithm along one sequence.
 *
 * Rows of states are padded to W, whole vectors; a padded state is never entered or left, as its
 * column and row of the table are -inf. The usual widths are constants, and loops over columns are
 * not unrolled but made vectors, so that the compiler keeps a step in registers.
 */
#ifndef SKLEARN_ONLINEEM_BEST_PATHS_H
#define SKLEARN_ONLINEEM_BEST_PATHS_H

#include "_simd.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math") /* as in _simd.h */
#endif

#define WIDEST_TILE 16

/* next (W,) = max_i best (i) + table (i, j), the lowest i where two are equal, and which. */
SIMD_INLINE void best_moves(
    const double *RESTRICT best, const double *RESTRICT table, const ptrdiff_t W,
    const ptrdiff_t tile, double *RESTRICT next, int *RESTRICT origin)
{
    for (ptrdiff_t start = 0; start < W; start += tile) {
        double most[WIDEST_TILE], who[WIDEST_TILE];
        for (ptrdiff_t j = 0; j < tile; j++) most[j] = best[0] + table[start + j];
        for (ptrdiff_t j = 0; j < tile; j++) who[j] = 0;
        for (ptrdiff_t i = 1; i < W; i++) {
            const double *RESTRICT row = table + i * W + start;
            double from = best[i], number = (double)i;
            double through[WIDEST_TILE];
#pragma GCC unroll 1
            for (ptrdiff_t j = 0; j < tile; j++) through[j] = from + row[j];
#pragma GCC unroll 1
            for (ptrdiff_t j = 0; j < tile; j++) who[j] = through[j] > most[j] ? number : who[j];
#pragma GCC unroll 1
            for (ptrdiff_t j = 0; j < tile; j++)
                most[j] = through[j] > most[j] ? through[j] : most[j];
        }
        for (ptrdiff_t j = 0; j < tile; j++) next[start + j] = most[j];
        for (ptrdiff_t j = 0; j < tile; j++) origin[start + j] = (int)who[j];
    }
}

/* best (W,): from the best paths that end in each state of the first row, to those of the last row
 * of x (T, K); origins (T, W) <- the states before. `next` (W,) is scratch. */
#define BEST_PATHS(REAL, name) \
SIMD_INLINE void name##_of( \
    const REAL *RESTRICT x, ptrdiff_t T, const ptrdiff_t K, const ptrdiff_t W, \
    const ptrdiff_t tile, const double *RESTRICT table, double *RESTRICT best, \
    double *RESTRICT next, int *RESTRICT origins) \
{ \
    for (ptrdiff_t t = 1; t < T; t++) { \
        best_moves(best, table, W, tile, next, origins + t * W); \
        for (ptrdiff_t j = 0; j < K; j++) best[j] = next[j] + x[t * K + j]; \
    } \
} \
SIMD_CLONES SIMD_UNUSED static void name( \
    const REAL *x, ptrdiff_t T, ptrdiff_t K, ptrdiff_t W, const double *table, double *best, \
    double *next, int *origins) \
{ \
    switch (W) { \
    case 4: name##_of(x, T, K, 4, 4, table, best, next, origins); break; \
    case 8: name##_of(x, T, K, 8, 8, table, best, next, origins); break; \
    case 16: name##_of(x, T, K, 16, 16, table, best, next, origins); break; \
    default: name##_of(x, T, K, W, 16, table, best, next, origins); \
    } \
}
BEST_PATHS(float, best_paths_float)
BEST_PATHS(double, best_paths_double)
#undef BEST_PATHS

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
