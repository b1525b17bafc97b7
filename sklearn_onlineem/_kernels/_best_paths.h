/* The forward pass of Viterbi's algorithm along one sequence.
 *
 * Rows of states are padded to W, whole vectors; a padded state is never entered or left, as its
 * column and row of the table are -inf. The usual widths are constants, and loops over columns are
 * not unrolled but made vectors, so that the compiler keeps a step in registers.
 */
#ifndef SKLEARN_ONLINEEM_BEST_PATHS_H
#define SKLEARN_ONLINEEM_BEST_PATHS_H

#include "_simd.h"

OPTIMISE_BEGIN(SELECTS)

#define WIDEST_STRIP 16

/* next (W,) = max_i best (i) + table (i, j), the lowest i where two are equal, and which. */
SIMD_INLINE void best_moves(
    const double *RESTRICT best, const double *RESTRICT table, const ptrdiff_t W,
    const ptrdiff_t tile, double *RESTRICT next, int *RESTRICT origin)
{
    for (ptrdiff_t start = 0; start < W; start += tile) {
        double most[WIDEST_STRIP], who[WIDEST_STRIP];
        for (ptrdiff_t j = 0; j < tile; j++) most[j] = best[0] + table[start + j];
        for (ptrdiff_t j = 0; j < tile; j++) who[j] = 0;
        for (ptrdiff_t i = 1; i < W; i++) {
            const double *RESTRICT row = table + i * W + start;
            double from = best[i], number = (double)i;
            double through[WIDEST_STRIP];
            UNROLL(1)
            for (ptrdiff_t j = 0; j < tile; j++) through[j] = from + row[j];
            UNROLL(1)
            for (ptrdiff_t j = 0; j < tile; j++) who[j] = through[j] > most[j] ? number : who[j];
            UNROLL(1)
            for (ptrdiff_t j = 0; j < tile; j++)
                most[j] = through[j] > most[j] ? through[j] : most[j];
        }
        for (ptrdiff_t j = 0; j < tile; j++) next[start + j] = most[j];
        for (ptrdiff_t j = 0; j < tile; j++) origin[start + j] = (int)who[j];
    }
}

#define TEMPLATE "_best_paths_real.h"
#include "_for_each_real.h"

OPTIMISE_END

#endif
