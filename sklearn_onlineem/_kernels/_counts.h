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

#define TEMPLATE "_counts_real.h"
#include "_for_each_real.h"

OPTIMISE_END

#endif
