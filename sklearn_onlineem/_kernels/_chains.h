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
/* Tables of more states are not at hand in the L1 cache. Each part of one is used for all recursions
 * that go on side by side before the next part is read. */
#define FEWEST_MANY 64
#define ROWS_PER_DIVISION 4

/* Rows of a block, whose arrays stay in an L2 cache. Of a longer sequence, only the predicted state
 * at the start of each block is kept, and its forward pass is done again on the way back. */
#define CHAIN_ROWS 256

/* States under the model itself are stationary where so many rows later a step changes nothing. */
#define STATIONARY_ROWS 64
#define LEAST_CHANGE 1e-16

enum { IS_IN_DOUBT = 1, IS_LOST = 2, LANES = 8, MOST_RUNS = 4 };

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

/* out (W,) <- out + x (8,) rows (8, W) */
SIMD_INLINE void add_from_left(
    const double *RESTRICT x, const double *RESTRICT row, const ptrdiff_t W, double *RESTRICT out)
{
    for (ptrdiff_t j = 0; j < W; j++) {
        double sum = out[j];
        sum += (x[0] * row[j] + x[1] * row[W + j])
               + (x[2] * row[2 * W + j] + x[3] * row[3 * W + j]);
        sum += (x[4] * row[4 * W + j] + x[5] * row[5 * W + j])
               + (x[6] * row[6 * W + j] + x[7] * row[7 * W + j]);
        out[j] = sum;
    }
}

/* out (8,) <- rows (8, W) x (W,). Each row's sums are a loop of their own, as GCC would rather put
 * vectors of all rows together from pieces. */
SIMD_INLINE void multiply_from_right(
    const double *RESTRICT rows, const double *RESTRICT x, const ptrdiff_t W, double *RESTRICT out)
{
    double sum[8][LANES];
    for (int r = 0; r < 8; r++)
        for (int l = 0; l < LANES; l++) sum[r][l] = 0;
    for (ptrdiff_t j = 0; j < W; j += LANES) {
#define ADD_ROW(r) \
    UNROLL(1) for (int l = 0; l < LANES; l++) sum[r][l] += rows[r * W + j + l] * x[j + l]
        ADD_ROW(0);
        ADD_ROW(1);
        ADD_ROW(2);
        ADD_ROW(3);
        ADD_ROW(4);
        ADD_ROW(5);
        ADD_ROW(6);
        ADD_ROW(7);
#undef ADD_ROW
    }
    for (int r = 0; r < 8; r++)
        out[r] = ((sum[r][0] + sum[r][4]) + (sum[r][2] + sum[r][6]))
                 + ((sum[r][1] + sum[r][5]) + (sum[r][3] + sum[r][7]));
}

/* A product with a table, from the left (x' table) or from the right (table x). */
typedef struct {
    const double *x; /* (W,) */
    double *out;     /* (W,) */
    int is_from_left;
} ChainProduct;

/* Products with one table, which is read once. */
SIMD_INLINE void products(
    const ChainProduct *product, int n, const double *RESTRICT table, const ptrdiff_t W)
{
    for (int p = 0; p < n; p++)
        for (ptrdiff_t j = 0; j < W; j++) product[p].out[j] = 0;
    for (ptrdiff_t i = 0; i < W; i += 8)
        for (int p = 0; p < n; p++) {
            if (product[p].is_from_left)
                add_from_left(product[p].x + i, table + i * W, W, product[p].out);
            else
                multiply_from_right(table + i * W, product[p].x, W, product[p].out + i);
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
        const ChainProduct alone = { x, out, 1 };
        products(&alone, 1, table, W);
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
    take_each(arena, CHAIN_ROWS, &block.total, &block.scale, &block.largest);
    return block;
}

/* alpha (W,) <- predicted * density, whose product with the table is what is predicted next. `before`
 * is the sum of the last row.
 *
 * alpha is divided by its sum every few rows only, as the division is what the recursion would wait
 * for. Returns whether its sum is tiny. `least` (LANES,) takes the smallest shares of states that
 * can be reached, where the table has zeros: they are in doubt if they are tiny. (A state that is
 * entered from all others comes back by itself; others would stay lost.) */
SIMD_INLINE int forward_step(
    const double *RESTRICT density, int divides, int has_zeros, const ptrdiff_t W,
    double *predicted, double *before, double *RESTRICT alpha, double *RESTRICT total,
    double *RESTRICT scale, double *RESTRICT least)
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
    return !(*before >= LOST);
}

/* alpha (W,) <- posterior p(h_t | v); filtered <- alpha / total; density <- w_t = density_t beta_t
 * / scale_t, so that expected transitions are the table times sum_t filtered_t-1 w_t', and that the
 * table times w_t is the next beta. With `drops`, w_t is 0 for states without a share, whose beta
 * nothing bounds. */
SIMD_INLINE void backward_step(
    double *RESTRICT density, double total, double scale, int drops, const ptrdiff_t W,
    const double *RESTRICT beta, double *RESTRICT alpha, double *RESTRICT filtered)
{
    double inverse = 1 / scale, share = 1 / total;
    for (ptrdiff_t j = 0; j < W; j++) filtered[j] = alpha[j] * share;
    for (ptrdiff_t j = 0; j < W; j++) alpha[j] = filtered[j] * beta[j];
    for (ptrdiff_t j = 0; j < W; j++) density[j] = (density[j] * inverse) * beta[j];
    if (drops)
        for (ptrdiff_t j = 0; j < W; j++) density[j] = filtered[j] > 0 ? density[j] : 0;
}

/* beta (W,) <- that of the row before, `next`, the largest of which `most` (LANES,) takes. */
SIMD_INLINE void step_back(const double *next, const ptrdiff_t W, double *beta, double *most)
{
    const ptrdiff_t lanes = W < LANES ? W : LANES;
    for (ptrdiff_t j = 0; j < W; j += lanes)
        for (ptrdiff_t l = 0; l < lanes; l++)
            most[l] = next[j + l] > most[l] ? next[j + l] : most[l];
    for (ptrdiff_t j = 0; j < W; j++) beta[j] = next[j];
}

/* One block backward and another forward. Neither recursion waits for the other, so that both take
 * little longer than one. Either block may have no rows. */
typedef struct {
    const ChainBlock *back;
    const ChainBlock *ahead;
    int is_reversed;  /* whether the sequence goes with the transposed table */
    int is_certain;   /* whether a state whose share is 0 cannot be reached, rather than is lost */
    double *states;   /* (3, W): beta of the last row, and then of the row before the first; the
                       * predicted state of the first row, and then that after the last; room */
    double *filtered; /* (CHAIN_ROWS, W) */
    int status;       /* OUT: IS_LOST or IS_IN_DOUBT, of the steps ahead */
    int lost;         /* OUT: whether a state in doubt would be needed, by those back */
} ChainRun;

SIMD_INLINE void judge(
    const double *least, const double *most, int is_lost, int has_zeros, ChainRun *run)
{
    run->status = is_lost * IS_LOST, run->lost = 0;
    if (has_zeros)
        for (ptrdiff_t l = 0; l < LANES; l++) {
            run->lost |= !(most[l] <= NEEDED);
            run->status |= least[l] < LOST ? IS_IN_DOUBT : 0;
        }
}

/* Steps of some runs, of which each product with a table is made at once, or those of all runs, by
 * tiles above the widest, with one table that is read once. */
SIMD_INLINE void advance_by_tiles(
    ChainRun *runs, const int n_runs, const ChainTable *table, const ChainTable *transposed,
    int has_zeros, const ptrdiff_t W, const ptrdiff_t tile)
{
    const int is_together = tile > WIDEST_TILE;
    double local[3 * WIDEST_TILE], least[MOST_RUNS][LANES], most[MOST_RUNS][LANES];
    double before[MOST_RUNS], *states[MOST_RUNS];
    int is_lost[MOST_RUNS];
    ptrdiff_t n_steps = 0;
    for (int r = 0; r < n_runs; r++) {
        ptrdiff_t n_back = runs[r].back->B, n_ahead = runs[r].ahead->B;
        double *beta = states[r] = W <= WIDEST_TILE ? local : runs[r].states;
        before[r] = 1, is_lost[r] = 0;
        for (ptrdiff_t l = 0; l < LANES; l++) least[r][l] = 1;
        for (ptrdiff_t l = 0; l < LANES; l++) most[r][l] = 0;
        for (ptrdiff_t j = 0; j < 2 * W; j++) beta[j] = runs[r].states[j];
        for (ptrdiff_t j = 0; has_zeros && n_back > 0 && j < W; j++)
            most[r][0] = beta[j] > most[r][0] ? beta[j] : most[r][0];
        n_steps = n_steps > n_back ? n_steps : n_back;
        n_steps = n_steps > n_ahead ? n_steps : n_ahead;
    }
    for (ptrdiff_t i = 0; i < n_steps; i++) {
        ChainProduct all[2 * MOST_RUNS];
        int n_products = 0;
        for (int r = 0; r < n_runs; r++) {
            const ChainBlock *back = runs[r].back, *ahead = runs[r].ahead;
            double *beta = states[r], *predicted = beta + W, *next = beta + 2 * W;
            const ptrdiff_t t = back->B - 1 - i;
            if (t >= 0) {
                double *w = back->density + t * W;
                backward_step(w, back->total[t], back->scale[t], has_zeros && runs[r].is_certain, W,
                              beta, back->alpha + t * W, runs[r].filtered + t * W);
                if (is_together) {
                    all[n_products++] = (ChainProduct){ w, next, runs[r].is_reversed };
                } else {
                    product(w, transposed, W, tile, next);
                    step_back(next, W, beta, most[r]);
                }
            }
            if (i < ahead->B && !is_lost[r]) {
                double *alpha = ahead->alpha + i * W;
                is_lost[r] = forward_step(
                    ahead->density + i * W, i % ROWS_PER_DIVISION == 0, has_zeros, W, predicted,
                    before + r, alpha, ahead->total + i, ahead->scale + i, least[r]);
                if (is_together)
                    all[n_products++] = (ChainProduct){ alpha, predicted, !runs[r].is_reversed };
                else product(alpha, table, W, tile, predicted);
            }
        }
        if (is_together) products(all, n_products, table->dense, W);
        for (int r = 0; is_together && r < n_runs; r++)
            if (i < runs[r].back->B) step_back(states[r] + 2 * W, W, states[r], most[r]);
    }
    for (int r = 0; r < n_runs; r++) {
        for (ptrdiff_t j = 0; states[r] != runs[r].states && j < 2 * W; j++)
            runs[r].states[j] = states[r][j];
        judge(least[r], most[r], is_lost[r], has_zeros, runs + r);
    }
}

SIMD_INLINE int is_read_once(const ChainTable *table, ptrdiff_t W)
{ return W > FEWEST_MANY && table->begin == NULL; }

SIMD_CLONES SIMD_UNUSED static void advance_runs(
    ChainRun *runs, int n_runs, const ChainTable *table, const ChainTable *transposed,
    int has_zeros, ptrdiff_t W)
{
    if (is_read_once(table, W)) {
        advance_by_tiles(runs, n_runs, table, transposed, has_zeros, W, W);
        return;
    }
    for (int r = 0; r < n_runs; r++) {
        const ChainTable *ahead = runs[r].is_reversed ? transposed : table;
        const ChainTable *back = runs[r].is_reversed ? table : transposed;
#define RUN(width, tile) advance_by_tiles(runs + r, 1, ahead, back, has_zeros, width, tile)
        if (table->begin) RUN(W, 0);
        else if (W == 4) RUN(4, 4);
        else if (W == 8) RUN(8, 8);
        else if (W == 16) RUN(16, 16);
        else if (W == 24) RUN(24, 24);
        else if (W == 32) RUN(32, 32);
        else RUN(W, 8);
#undef RUN
    }
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

/* left (W,) += sum_t w_t+1 p_t and emitted (W,) += sum_t w_t p_t, t = 0..T-1, where p_t+1 (W,) is p_t
 * times the table, until that changes nothing. w_t is that of the first run that ends after t, and T
 * where the last one ends. `states` (2, W) holds p_0, and room. */
SIMD_INLINE void occupy_of(
    const ChainTable *table, const int64_t *ends, const double *weights, ptrdiff_t n_runs,
    const ptrdiff_t W, const ptrdiff_t tile, double *states, double *RESTRICT left,
    double *RESTRICT emitted)
{
    double *p = states, *next = states + W;
    for (ptrdiff_t t = 0;; t++) {
        double total = sum_of(p, W), share = total > 0 ? 1 / total : 0, later = 0, change = 0;
        for (ptrdiff_t j = 0; j < W; j++) p[j] *= share;
        for (ptrdiff_t j = 0; j < W; j++) emitted[j] += *weights * p[j];
        if (t + 1 == *ends && --n_runs == 0) return;
        if (t + 1 == *ends) ends++, weights++;
        later = *weights;
        for (ptrdiff_t j = 0; j < W; j++) left[j] += later * p[j];
        product(p, table, W, tile, next);
        if ((t + 1) % STATIONARY_ROWS == 0) {
            for (ptrdiff_t j = 0; j < W; j++) change = fmax(change, fabs(next[j] - p[j]));
            if (change < LEAST_CHANGE) {
                double rest = later * (double)(*ends - t - 1);
                for (ptrdiff_t r = 1; r < n_runs; r++)
                    rest += weights[r] * (double)(ends[r] - ends[r - 1]);
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
    const double *table, const int64_t *ends, const double *weights, ptrdiff_t n_runs, ptrdiff_t W,
    double *states, double *left, double *emitted)
{
    const ChainTable all = { .dense = table };
    if (W > FEWEST_MANY) occupy_of(&all, ends, weights, n_runs, W, W, states, left, emitted);
    else occupy_of(&all, ends, weights, n_runs, W, 8, states, left, emitted);
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

#define scaled_densities(x, ...) OF_REAL(scaled_densities, x)(x, __VA_ARGS__)
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

SIMD_CLONES SIMD_UNUSED static void NAMED(scaled_densities)(
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
