/* Scaled forward and backward recursions along one sequence, and its expected transitions.
 *
 * A step is the product of a row of W states with a W x W table, W being the number of states
 * padded to whole vectors; padded states have probability 0. The usual widths are constants, so
 * that the compiler keeps the sums of a step in registers.
 */
#ifndef SKLEARN_ONLINEEM_CHAINS_H
#define SKLEARN_ONLINEEM_CHAINS_H

#include "_arena.h"
#include "_simd.h"

OPTIMISE_BEGIN(SELECTS)

/* Densities that are not 0 are at least exp(-460) = 1e-200 of the row's largest; a state whose
 * share falls below LOST may have lost what a later row needs, see `forward_step`. */
#define LOWEST_LOG (-460.0)
#define LOST 1e-150
#define WIDEST_TILE 32
#define ROWS_PER_DIVISION 4

/* Rows of a block, whose arrays stay in an L2 cache. Of a longer sequence, only the predicted state
 * at the start of each block is kept, and its forward pass is done again on the way back. */
#define CHAIN_ROWS 256

/* `product` of 4 states: so short a loop GCC would unroll before it vectorises, and then no longer
 * can. */
SIMD_INLINE void product_of_four(const double *x, const double *table, double *out)
{
    UNROLL(1)
    for (ptrdiff_t j = 0; j < 4; j++)
        out[j] = (x[0] * table[j] + x[1] * table[4 + j])
                 + (x[2] * table[8 + j] + x[3] * table[12 + j]);
}

/* out (W,) <- x (W,) table (W, W), four rows of the table at a time, by tiles of columns */
SIMD_INLINE void product(
    const double *x, const double *table, const ptrdiff_t W, const ptrdiff_t tile, double *out)
{
    if (W == 4) {
        product_of_four(x, table, out);
        return;
    }
    for (ptrdiff_t start = 0; start < W; start += tile) {
        double sum[WIDEST_TILE];
        for (ptrdiff_t j = 0; j < tile; j++) sum[j] = 0;
        for (ptrdiff_t i = 0; i < W; i += 4) {
            const double *row = table + i * W + start;
            for (ptrdiff_t j = 0; j < tile; j++)
                sum[j] += (x[i] * row[j] + x[i + 1] * row[W + j])
                          + (x[i + 2] * row[2 * W + j] + x[i + 3] * row[3 * W + j]);
        }
        for (ptrdiff_t j = 0; j < tile; j++) out[start + j] = sum[j];
    }
}

SIMD_INLINE double sum_of(const double *x, ptrdiff_t n)
{
    double partial[4] = {0, 0, 0, 0};
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++) partial[l] += x[i + l];
    for (; i < n; i++) partial[0] += x[i];
    return (partial[0] + partial[1]) + (partial[2] + partial[3]);
}

/* Rows of a sequence on their way through both recursions. */
typedef struct {
    ptrdiff_t B;     /* at most CHAIN_ROWS */
    double *density; /* (B + 1, W); then w, and a row for the w that follows */
    double *alpha;   /* (B, W); then posteriors */
    double *total;   /* (B,), sums of the rows of alpha */
    double *scale;   /* (B,), p(v_t | past) */
    double *largest; /* (B,), what densities were divided by, as logarithms */
} ChainBlock;

SIMD_UNUSED static ChainBlock lay_out_chain_block(ptrdiff_t W, Arena *arena)
{
    ChainBlock block;
    block.B = 0;
    block.density = take_doubles(arena, (CHAIN_ROWS + 1) * W);
    block.alpha = take_doubles(arena, CHAIN_ROWS * W);
    block.total = take_doubles(arena, CHAIN_ROWS);
    block.scale = take_doubles(arena, CHAIN_ROWS);
    block.largest = take_doubles(arena, CHAIN_ROWS);
    return block;
}

/* alpha (W,) <- predicted * density; predicted <- alpha table. `before` is the sum of the last row.
 *
 * alpha is divided by its sum every few rows only, as the division is what the recursion would wait
 * for. Returns 1 if digits may be lost: a sum is tiny, or, where the table has zeros, the share of
 * a state that can be reached is. (A state that is entered from all others comes back by itself;
 * others would stay lost.) */
SIMD_INLINE int forward_step(
    const double *RESTRICT density, const double *table, int divides, int has_zeros,
    const ptrdiff_t W, const ptrdiff_t tile, double *predicted, double *before,
    double *RESTRICT alpha, double *RESTRICT total, double *RESTRICT scale)
{
    double inverse = 1 / *before;
    int lost = 0;
    if (divides)
        for (ptrdiff_t j = 0; j < W; j++) predicted[j] *= inverse;
    if (has_zeros)
        for (ptrdiff_t j = 0; j < W; j++)
            lost |= (predicted[j] > 0) & (density[j] > 0) & (predicted[j] * density[j] < LOST);
    for (ptrdiff_t j = 0; j < W; j++) alpha[j] = predicted[j] * density[j];
    *before = *total = sum_of(alpha, W);
    *scale = divides ? *before : *before * inverse;
    product(alpha, table, W, tile, predicted);
    return lost || !(*before >= LOST);
}

/* alpha (W,) <- posterior p(h_t | v); filtered <- alpha / total; density <- w_t = density_t beta_t
 * / scale_t, so that expected transitions are the table times sum_t filtered_t-1 w_t'; beta <- that
 * of the row before. */
SIMD_INLINE void backward_step(
    double *RESTRICT density, const double *transposed, double total, double scale,
    const ptrdiff_t W, const ptrdiff_t tile, double *beta, double *next, double *RESTRICT alpha,
    double *RESTRICT filtered)
{
    double inverse = 1 / scale, share = 1 / total;
    for (ptrdiff_t j = 0; j < W; j++) filtered[j] = alpha[j] * share;
    for (ptrdiff_t j = 0; j < W; j++) alpha[j] = filtered[j] * beta[j];
    for (ptrdiff_t j = 0; j < W; j++) density[j] = (density[j] * inverse) * beta[j];
    product(density, transposed, W, tile, next);
    for (ptrdiff_t j = 0; j < W; j++) beta[j] = next[j];
}

/* One block backward and another forward. Neither recursion waits for the other, so that both take
 * little longer than one. Either block may have no rows.
 *
 * `states` (3, W) holds beta of the last row, and then of the row before the first; the predicted
 * state of the first row, and then that after the last; and room for one more. */
SIMD_INLINE int both_of(
    const ChainBlock *back, const ChainBlock *ahead, const double *table, const double *transposed,
    int has_zeros, const ptrdiff_t W, const ptrdiff_t tile, double *states, double *filtered)
{
    double local[3 * WIDEST_TILE], before = 1;
    double *beta = W <= WIDEST_TILE ? local : states;
    double *predicted = beta + W, *next = beta + 2 * W;
    double *RESTRICT w = back->density, *RESTRICT posterior = back->alpha;
    const double *RESTRICT back_total = back->total, *RESTRICT back_scale = back->scale;
    const double *RESTRICT density = ahead->density;
    double *RESTRICT alpha = ahead->alpha, *RESTRICT total = ahead->total;
    double *RESTRICT scale = ahead->scale;
    ptrdiff_t n_back = back->B, n_ahead = ahead->B, n_steps = n_back > n_ahead ? n_back : n_ahead;
    int lost = 0;
    for (ptrdiff_t j = 0; j < 2 * W; j++) beta[j] = states[j];
    for (ptrdiff_t i = 0; i < n_steps; i++) {
        ptrdiff_t t = n_back - 1 - i;
        if (t >= 0)
            backward_step(w + t * W, transposed, back_total[t], back_scale[t], W, tile, beta, next,
                          posterior + t * W, filtered + t * W);
        if (i < n_ahead && !lost)
            lost = forward_step(density + i * W, table, i % ROWS_PER_DIVISION == 0, has_zeros, W,
                                tile, predicted, &before, alpha + i * W, total + i, scale + i);
    }
    for (ptrdiff_t j = 0; j < 2 * W; j++) states[j] = beta[j];
    return lost;
}

SIMD_CLONES SIMD_UNUSED static int both_recursions(
    const ChainBlock *back, const ChainBlock *ahead, const double *table, const double *transposed,
    int has_zeros, ptrdiff_t W, double *states, double *filtered)
{
#define BOTH(width, tile) \
    both_of(back, ahead, table, transposed, has_zeros, width, tile, states, filtered)
    switch (W) {
    case 4: return BOTH(4, 4);
    case 8: return BOTH(8, 8);
    case 16: return BOTH(16, 16);
    case 24: return BOTH(24, 24);
    case 32: return BOTH(32, 32);
    default: return BOTH(W, 8);
    }
#undef BOTH
}

/* sums (W, W) <- sums + filtered (T, W)' later (T, W), for narrow W */
SIMD_INLINE void add_transitions_of(
    const double *RESTRICT filtered, const double *RESTRICT later, ptrdiff_t T, const ptrdiff_t W,
    double *RESTRICT sums)
{
    double tile[64];
    for (ptrdiff_t i = 0; i < W * W; i++) tile[i] = sums[i];
    for (ptrdiff_t t = 0; t < T; t++)
        for (ptrdiff_t i = 0; i < W; i++)
            for (ptrdiff_t j = 0; j < W; j++)
                tile[i * W + j] += filtered[t * W + i] * later[t * W + j];
    for (ptrdiff_t i = 0; i < W * W; i++) sums[i] = tile[i];
}

SIMD_CLONES SIMD_UNUSED static void add_transitions(
    const double *filtered, const double *later, ptrdiff_t T, ptrdiff_t W, double *sums)
{
    if (W == 4) add_transitions_of(filtered, later, T, 4, sums);
    else add_transitions_of(filtered, later, T, 8, sums);
}

#define TEMPLATE "_chains_real.h"
#include "_for_each_real.h"

OPTIMISE_END

#endif
