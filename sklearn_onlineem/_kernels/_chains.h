/* Recursions along one sequence of a hidden chain: scaled ones, forward and backward, with expected
 * transitions; and that of the best path.
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
 * share falls below LOST may have lost what a later row needs, see `forward_step`. It has not where
 * beta, by which that row multiplies the share of a state, stays below NEEDED. */
#define LOWEST_LOG (-460.0)
#define LOST 1e-150
#define NEEDED 1e100
#define WIDEST_TILE 32
#define FEWEST_MANY 64
#define ROWS_PER_DIVISION 4

/* Rows of a block, whose arrays stay in an L2 cache. Of a longer sequence, only the predicted state
 * at the start of each block is kept, and its forward pass is done again on the way back. */
#define CHAIN_ROWS 256

/* States under the model itself are stationary where so many rows later a step changes nothing. */
#define STATIONARY_ROWS 4096
#define LEAST_CHANGE 1e-16

/* A table of transitions, (W, W); also without its zeros, where `begin` is not NULL: of each slice
 * of SLICE columns, as many entries of each as the fullest of them has, padded by zeros. */
enum { SLICE = 8 };
typedef struct {
    const double *dense;    /* (W, W) */
    const ptrdiff_t *begin; /* (W / SLICE + 1,), rows of entries */
    const int *index;       /* (rows of entries, SLICE), rows of the table */
    const double *value;
} ChainTable;

/* out (W,) <- x (W,) table, without zeros */
SIMD_INLINE void sparse_product(
    const double *RESTRICT x, const ChainTable *table, const ptrdiff_t W, double *RESTRICT out)
{
    for (ptrdiff_t s = 0; s < W / SLICE; s++) {
        double sum[SLICE];
        for (int l = 0; l < SLICE; l++) sum[l] = 0;
        for (ptrdiff_t e = table->begin[s]; e < table->begin[s + 1]; e++)
            for (int l = 0; l < SLICE; l++)
                sum[l] += x[table->index[e * SLICE + l]] * table->value[e * SLICE + l];
        for (int l = 0; l < SLICE; l++) out[s * SLICE + l] = sum[l];
    }
}

/* `product` of 4 states: so short a loop GCC would unroll before it vectorises, and then no longer
 * can. */
SIMD_INLINE void product_of_four(const double *x, const double *table, double *out)
{
    UNROLL(1)
    for (ptrdiff_t j = 0; j < 4; j++)
        out[j] = (x[0] * table[j] + x[1] * table[4 + j])
                 + (x[2] * table[8 + j] + x[3] * table[12 + j]);
}

/* `product` of many states, whose table is read once from the first row to the last. */
SIMD_INLINE void product_of_many(
    const double *RESTRICT x, const double *RESTRICT table, const ptrdiff_t W,
    double *RESTRICT out)
{
    for (ptrdiff_t j = 0; j < W; j++) out[j] = 0;
    for (ptrdiff_t i = 0; i < W; i += 8) {
        const double *row = table + i * W;
        for (ptrdiff_t j = 0; j < W; j++) {
            double sum = out[j];
            sum += (x[i] * row[j] + x[i + 1] * row[W + j])
                   + (x[i + 2] * row[2 * W + j] + x[i + 3] * row[3 * W + j]);
            sum += (x[i + 4] * row[4 * W + j] + x[i + 5] * row[5 * W + j])
                   + (x[i + 6] * row[6 * W + j] + x[i + 7] * row[7 * W + j]);
            out[j] = sum;
        }
    }
}

/* out (W,) <- x (W,) table (W, W), four rows of the table at a time, by tiles of columns */
SIMD_INLINE void product(
    const double *x, const ChainTable *of, const ptrdiff_t W, const ptrdiff_t tile, double *out)
{
    const double *table = of->dense;
    if (tile == 0) {
        sparse_product(x, of, W, out);
        return;
    }
    if (W == 4) {
        product_of_four(x, table, out);
        return;
    }
    if (tile > WIDEST_TILE) {
        product_of_many(x, table, W, out);
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

/* The state that a uniform number chooses among weights with any sum above 0. */
SIMD_UNUSED static ptrdiff_t draw(const double *weights, ptrdiff_t K, double uniform)
{
    double total = 0, below = 0;
    ptrdiff_t state = 0;
    for (ptrdiff_t k = 0; k < K; k++) total += weights[k];
    for (ptrdiff_t k = 0; k < K; k++) {
        if (weights[k] > 0 && below <= uniform * total) state = k;
        below += weights[k];
    }
    return state;
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
 * for. Returns whether its sum is tiny. `least` (LANES,) takes the smallest shares of states that
 * can be reached, where the table has zeros: they are in doubt if they are tiny. (A state that is
 * entered from all others comes back by itself; others would stay lost.) */
enum { IS_IN_DOUBT = 1, IS_LOST = 2, LANES = 8 };

SIMD_INLINE int forward_step(
    const double *RESTRICT density, const ChainTable *table, int divides, int has_zeros,
    const ptrdiff_t W, const ptrdiff_t tile, double *predicted, double *before,
    double *RESTRICT alpha, double *RESTRICT total, double *RESTRICT scale, double *RESTRICT least)
{
    double inverse = 1 / *before;
    const ptrdiff_t lanes = W < LANES ? W : LANES;
    if (divides)
        for (ptrdiff_t j = 0; j < W; j++) predicted[j] *= inverse;
    for (ptrdiff_t j = 0; j < W; j++) alpha[j] = predicted[j] * density[j];
    if (has_zeros)
        for (ptrdiff_t j = 0; j < W; j += lanes)
            for (ptrdiff_t l = 0; l < lanes; l++) {
                double share = predicted[j + l] > 0 ? alpha[j + l] : 1;
                share = density[j + l] > 0 ? share : 1;
                least[l] = share < least[l] ? share : least[l];
            }
    *before = *total = sum_of(alpha, W);
    *scale = divides ? *before : *before * inverse;
    product(alpha, table, W, tile, predicted);
    return !(*before >= LOST);
}

/* alpha (W,) <- posterior p(h_t | v); filtered <- alpha / total; density <- w_t = density_t beta_t
 * / scale_t, so that expected transitions are the table times sum_t filtered_t-1 w_t'; beta <- that
 * of the row before, the largest of which `most` (LANES,) takes. */
SIMD_INLINE void backward_step(
    double *RESTRICT density, const ChainTable *transposed, double total, double scale,
    const ptrdiff_t W, const ptrdiff_t tile, double *beta, double *next, double *RESTRICT alpha,
    double *RESTRICT filtered, double *RESTRICT most)
{
    const ptrdiff_t lanes = W < LANES ? W : LANES;
    double inverse = 1 / scale, share = 1 / total;
    for (ptrdiff_t j = 0; j < W; j++) filtered[j] = alpha[j] * share;
    for (ptrdiff_t j = 0; j < W; j++) alpha[j] = filtered[j] * beta[j];
    for (ptrdiff_t j = 0; j < W; j++) density[j] = (density[j] * inverse) * beta[j];
    product(density, transposed, W, tile, next);
    for (ptrdiff_t j = 0; j < W; j += lanes)
        for (ptrdiff_t l = 0; l < lanes; l++)
            most[l] = next[j + l] > most[l] ? next[j + l] : most[l];
    for (ptrdiff_t j = 0; j < W; j++) beta[j] = next[j];
}

/* One block backward and another forward. Neither recursion waits for the other, so that both take
 * little longer than one. Either block may have no rows. Returns IS_LOST or IS_IN_DOUBT of the steps
 * ahead; those back set `lost` if a state in doubt would be needed.
 *
 * `states` (3, W) holds beta of the last row, and then of the row before the first; the predicted
 * state of the first row, and then that after the last; and room for one more. */
SIMD_INLINE int both_of(
    const ChainBlock *back, const ChainBlock *ahead, const ChainTable *table,
    const ChainTable *transposed, int has_zeros, const ptrdiff_t W, const ptrdiff_t tile,
    double *states, double *filtered, int *lost)
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
    double least[LANES], most[LANES];
    int is_lost = 0, is_in_doubt = 0;
    for (ptrdiff_t l = 0; l < LANES; l++) least[l] = 1;
    for (ptrdiff_t l = 0; l < LANES; l++) most[l] = 0;
    for (ptrdiff_t j = 0; j < 2 * W; j++) beta[j] = states[j];
    if (has_zeros && n_back > 0)
        for (ptrdiff_t j = 0; j < W; j++) most[0] = beta[j] > most[0] ? beta[j] : most[0];
    for (ptrdiff_t i = 0; i < n_steps; i++) {
        ptrdiff_t t = n_back - 1 - i;
        if (t >= 0)
            backward_step(w + t * W, transposed, back_total[t], back_scale[t], W, tile, beta, next,
                          posterior + t * W, filtered + t * W, most);
        if (i < n_ahead && !is_lost)
            is_lost = forward_step(density + i * W, table, i % ROWS_PER_DIVISION == 0, has_zeros,
                                   W, tile, predicted, &before, alpha + i * W, total + i,
                                   scale + i, least);
    }
    for (ptrdiff_t j = 0; j < 2 * W; j++) states[j] = beta[j];
    if (has_zeros)
        for (ptrdiff_t l = 0; l < LANES; l++) {
            *lost |= !(most[l] <= NEEDED);
            is_in_doubt |= least[l] < LOST;
        }
    return is_lost * IS_LOST | is_in_doubt * IS_IN_DOUBT;
}

SIMD_CLONES SIMD_UNUSED static int both_recursions(
    const ChainBlock *back, const ChainBlock *ahead, const ChainTable *table,
    const ChainTable *transposed, int has_zeros, ptrdiff_t W, double *states, double *filtered,
    int *lost)
{
#define BOTH(width, tile) \
    both_of(back, ahead, table, transposed, has_zeros, width, tile, states, filtered, lost)
    if (table->begin) return BOTH(W, 0);
    switch (W) {
    case 4: return BOTH(4, 4);
    case 8: return BOTH(8, 8);
    case 16: return BOTH(16, 16);
    case 24: return BOTH(24, 24);
    case 32: return BOTH(32, 32);
    default: return W > FEWEST_MANY ? BOTH(W, WIDEST_TILE + 1) : BOTH(W, 8);
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

/* left (W,) += sum_t weights_t+1 p_t and emitted (W,) += sum_t weights_t p_t, t = 0..T-1, where p_t+1
 * (W,) is p_t times the table, until that changes nothing. `states` (2, W) holds p_0, and room. */
SIMD_INLINE void occupy_of(
    const ChainTable *table, const double *RESTRICT weights, ptrdiff_t T, const ptrdiff_t W,
    const ptrdiff_t tile, double *states, double *RESTRICT left, double *RESTRICT emitted)
{
    double *p = states, *next = states + W;
    for (ptrdiff_t t = 0; t < T; t++) {
        double total = sum_of(p, W), share = total > 0 ? 1 / total : 0, later = 0, change = 0;
        for (ptrdiff_t j = 0; j < W; j++) p[j] *= share;
        for (ptrdiff_t j = 0; j < W; j++) emitted[j] += weights[t] * p[j];
        if (t + 1 == T) return;
        later = weights[t + 1];
        for (ptrdiff_t j = 0; j < W; j++) left[j] += later * p[j];
        product(p, table, W, tile, next);
        if ((t + 1) % STATIONARY_ROWS == 0) {
            for (ptrdiff_t j = 0; j < W; j++) change = fmax(change, fabs(next[j] - p[j]));
            if (change < LEAST_CHANGE) {
                double rest = sum_of(weights + t + 1, T - t - 1);
                for (ptrdiff_t j = 0; j < W; j++) emitted[j] += rest * next[j];
                for (ptrdiff_t j = 0; j < W; j++) left[j] += (rest - later) * next[j];
                return;
            }
        }
        double *swapped = p;
        p = next, next = swapped;
    }
}

SIMD_CLONES SIMD_UNUSED static void occupy(
    const double *table, const double *weights, ptrdiff_t T, ptrdiff_t W, double *states,
    double *left, double *emitted)
{
    const ChainTable all = { .dense = table };
    switch (W) {
    case 4: occupy_of(&all, weights, T, 4, 4, states, left, emitted); break;
    case 8: occupy_of(&all, weights, T, 8, 8, states, left, emitted); break;
    default: occupy_of(&all, weights, T, W, 8, states, left, emitted);
    }
}

/* sums (W, W) <- sums + filtered (T, W)' later (T, W), where transitions are not 0. `counts` (rows of
 * entries, SLICE) is scratch. */
SIMD_CLONES SIMD_UNUSED static void add_sparse_transitions(
    const double *RESTRICT filtered, const double *RESTRICT later, ptrdiff_t T, ptrdiff_t W,
    const ChainTable *transposed, double *RESTRICT counts, double *RESTRICT sums)
{
    const ptrdiff_t *begin = transposed->begin;
    const int *RESTRICT index = transposed->index;
    for (ptrdiff_t i = 0; i < begin[W / SLICE] * SLICE; i++) counts[i] = 0;
    for (ptrdiff_t t = 0; t < T; t++)
        for (ptrdiff_t s = 0; s < W / SLICE; s++)
            for (ptrdiff_t e = begin[s]; e < begin[s + 1]; e++)
                for (int l = 0; l < SLICE; l++)
                    counts[e * SLICE + l] +=
                        filtered[t * W + s * SLICE + l] * later[t * W + index[e * SLICE + l]];
    for (ptrdiff_t s = 0; s < W / SLICE; s++)
        for (ptrdiff_t e = begin[s]; e < begin[s + 1]; e++)
            for (int l = 0; l < SLICE; l++)
                if (transposed->value[e * SLICE + l] > 0)
                    sums[(s * SLICE + l) * W + index[e * SLICE + l]] += counts[e * SLICE + l];
}

/* The forward pass of Viterbi's algorithm: here a padded state is never entered or left, as its
 * column and row of the table are -inf. Loops over columns are not unrolled but made vectors. */
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

#define TEMPLATE "_chains.h"
#include "_for_each_real.h"

#define emissions(x, ...) OF_REAL(emissions, x)(x, __VA_ARGS__)
#define best_paths(x, ...) OF_REAL(best_paths, x)(x, __VA_ARGS__)

OPTIMISE_END

#elif defined(REAL)

/* max_k x_k */
SIMD_INLINE REAL NAMED(largest_of)(const REAL *x, ptrdiff_t K)
{
    REAL best[8], most = x[0];
    ptrdiff_t k = 0;
    if (K >= 8) {
        for (int l = 0; l < 8; l++) best[l] = x[l];
        for (k = 8; k + 8 <= K; k += 8)
            for (int l = 0; l < 8; l++) best[l] = x[k + l] > best[l] ? x[k + l] : best[l];
        for (int l = 0; l < 8; l++) most = best[l] > most ? best[l] : most;
    }
    for (; k < K; k++) most = x[k] > most ? x[k] : most;
    return most;
}

/* density (T, W) <- exp(x - largest_t), at least exp(LOWEST_LOG) unless x = -inf; largest_t, the
 * row's maximum, is 0 where all are -inf. */
SIMD_INLINE void NAMED(emissions_of)(
    const REAL *RESTRICT x, ptrdiff_t T, const ptrdiff_t K, const ptrdiff_t W,
    double *RESTRICT density, double *RESTRICT largest)
{
    for (ptrdiff_t t = 0; t < T; t++) {
        REAL most = NAMED(largest_of)(x + t * K, K);
        largest[t] = most == -INFINITY ? 0 : most;
        for (ptrdiff_t k = 0; k < K; k++) {
            double below = x[t * K + k] - largest[t];
            density[t * W + k] = below > LOWEST_LOG || below == -INFINITY ? below : LOWEST_LOG;
        }
        for (ptrdiff_t k = K; k < W; k++) density[t * W + k] = -INFINITY;
    }
    for (ptrdiff_t i = 0; i < T * W; i++) density[i] = exp_double(density[i]);
}

SIMD_CLONES SIMD_UNUSED static void NAMED(emissions)(
    const REAL *x, ptrdiff_t T, ptrdiff_t K, ptrdiff_t W, double *density, double *largest)
{
    switch (K) {
    case 2: NAMED(emissions_of)(x, T, 2, 4, density, largest); break;
    case 3: NAMED(emissions_of)(x, T, 3, 4, density, largest); break;
    case 4: NAMED(emissions_of)(x, T, 4, 4, density, largest); break;
    default: NAMED(emissions_of)(x, T, K, W, density, largest);
    }
}

/* best (W,): from the best paths that end in each state of the row before, to those of the last row
 * of x (T, K); origins (T, W) <- the states before. `next` (W,) is scratch. */
SIMD_INLINE void NAMED(best_paths_of)(
    const REAL *RESTRICT x, ptrdiff_t T, const ptrdiff_t K, const ptrdiff_t W,
    const ptrdiff_t tile, const double *RESTRICT table, double *RESTRICT next,
    double *RESTRICT best, int *RESTRICT origins)
{
    for (ptrdiff_t t = 0; t < T; t++) {
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

#endif
