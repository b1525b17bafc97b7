/* Recursions over the lattices of W pairs of strings, one pair a lane.
 *
 * Lanes are aligned at their ends: shorter strings are padded in front, so that all lanes finish in
 * the same cell. Every symbol of a pair is consumed exactly once, alone or in a substitution; with
 * the probabilities of deletions and insertions divided out, these moves weigh 1, a substitution
 *
 *     r = p(a -> b) / (p(a -> nothing) p(nothing -> b)),
 *
 * and alpha(i, j) = alpha(i-1, j) + alpha(i, j-1) + r alpha(i-1, j-1). What is carried along is the
 * share of alpha(i, j) that comes from the left, H, and from above, V:
 *
 *     N = H(i-1, j) + V(i, j-1) + r H(i-1, j) V(i, j-1)
 *     H(i, j) = H(i-1, j) / N,  V(i, j) = V(i, j-1) / N.
 *
 * Shares stay within [1 / (1 + n (1 + r)), 1], so nothing has to be scaled however long the strings
 * are. They are also the probabilities of the moves back from (i, j), so that expected operations
 * are flows of probability from the last cell to the first, and drawn paths follow them.
 */
#pragma once

#include "_simd.h"

OPTIMISE_BEGIN(SELECTS)

/* Pairs that share a lattice. */
enum { EDIT_PAIRS = 16 };

/* Below any sum of shares of a real cell; cells before the first of a lane have shares of 0. */
#define EDIT_TINY 1e-250
/* Flows below this change no count, and products with them would soon be subnormal. */
#define EDIT_NEGLIGIBLE 1e-200

typedef struct {
    ptrdiff_t W, n, m;        /* lanes; rows and columns of the longest strings */
    int *x;                   /* (n, W): the symbols of the sources, anything in the padding */
    int *y;                   /* (m, W) */
    int *row_padding;         /* (W,): rows in front of the first symbol */
    int tied;                 /* whether two weights say all of substitutions */
    double match, mismatch;   /* r, or log r in lattices of logarithms */
    const double *table;      /* (., stride): otherwise, the weights of all pairs of symbols */
    int stride;
    double *looked_up;        /* (rows of a block, m + 1, W): where these go, row by row */
} EditLattice;

/* Look up the weights of row i before any is needed: a loop with look-ups in it stays scalar. */
SIMD_INLINE void look_up_row(
    const EditLattice *a, ptrdiff_t i, const ptrdiff_t W, double *looked_up)
{
    const double *table = a->table;
    const int *RESTRICT x = a->x + i * W;
    const int *RESTRICT y = a->y;
    double *RESTRICT out = looked_up + W;
    int start[EDIT_PAIRS];
    for (ptrdiff_t l = 0; l < W; l++) start[l] = x[l] * a->stride;
    for (ptrdiff_t j = 0; j < a->m; j++)
        for (ptrdiff_t l = 0; l < W; l++) out[j * W + l] = table[start[l] + y[j * W + l]];
}

/* Rows begin + 1 .. end of the shares, from row `begin` in H.
 *
 * With `keeps`, H (end - begin + 1, m + 1, W), V (end - begin, m + 1, W) and what is looked up are
 * filled; without, row after row takes the place of the first. The shares V of the last column
 * multiply `product` (W,), whose powers of two move to `exponent` (W,). */
SIMD_INLINE void share_rows_of(
    const EditLattice *a, ptrdiff_t begin, ptrdiff_t end, const int tied, const ptrdiff_t W,
    const int keeps, double *H, double *V, double *product, int64_t *exponent)
{
    const EditLattice lattice = *a;
    const double match = lattice.match, mismatch = lattice.mismatch;
    const ptrdiff_t row = (lattice.m + 1) * W;
    for (ptrdiff_t i = begin; i < end; i++) {
        const int *RESTRICT x = lattice.x + i * W;
        const double *above = H;
        double *weights = lattice.looked_up + (keeps ? (i - begin) * row : 0);
        double v[EDIT_PAIRS];
        if (!tied) look_up_row(&lattice, i, W, weights);
        if (keeps) H += row;
        for (ptrdiff_t l = 0; l < W; l++) v[l] = i >= lattice.row_padding[l] ? 1.0 : 0.0;
        if (keeps)
            for (ptrdiff_t l = 0; l < W; l++) {
                H[l] = 0.0;
                V[l] = v[l];
            }
        for (ptrdiff_t j = 1; j <= lattice.m; j++) {
            const int *RESTRICT y = lattice.y + (j - 1) * W;
            const double *RESTRICT looked_up = weights + j * W;
            const double *up = above + j * W;
            double *h = H + j * W;
            double *RESTRICT kept = V + j * W;
            INDEPENDENT
            for (ptrdiff_t l = 0; l < W; l++) {
                double r = tied ? (x[l] == y[l] ? match : mismatch) : looked_up[l];
                double N = up[l] + v[l] + r * (up[l] * v[l]);
                double inverse = 1.0 / (N > EDIT_TINY ? N : EDIT_TINY);
                h[l] = up[l] * inverse;
                v[l] *= inverse;
                if (keeps) kept[l] = v[l];
            }
        }
        for (ptrdiff_t l = 0; l < W; l++) {
            int64_t bits = bits_of_double(product[l] * (v[l] > 0.0 ? v[l] : 1.0));
            exponent[l] += (bits >> 52) - 1023;
            product[l] = double_of_bits((bits & 0xfffffffffffffLL) | (1023LL << 52));
        }
        if (keeps) V += row;
    }
}

/* Where expected operations go.
 *
 * Row by row: `deletions` (W,), and `substitutions` (m + 1, W) for tables; over all rows:
 * `insertions` (m + 1, W), `match` and `mismatch` (W,) where two weights say all. */
typedef struct {
    double *deletions, *substitutions, *insertions, *match, *mismatch;
} EditFlows;

/* Let probability flow from row i of the lattice to the row above, `flow` (m + 1, W); `weights` are
 * those that were looked up for the row. */
SIMD_INLINE void flow_row_of(
    const EditLattice *a, ptrdiff_t i, const int tied, const ptrdiff_t W, const double *weights,
    const double *above, const double *H, const double *V, double *flow, const EditFlows *to)
{
    const EditLattice lattice = *a;
    const double match = lattice.match, mismatch = lattice.mismatch;
    const int *RESTRICT x = lattice.x + i * W;
    double from_right[EDIT_PAIRS], diagonal[EDIT_PAIRS], deleted[EDIT_PAIRS];
    double matched[EDIT_PAIRS], mismatched[EDIT_PAIRS];
    for (ptrdiff_t l = 0; l < W; l++)
        from_right[l] = diagonal[l] = deleted[l] = matched[l] = mismatched[l] = 0.0;
    for (ptrdiff_t j = lattice.m; j >= 1; j--) {
        const int *RESTRICT y = lattice.y + (j - 1) * W;
        const double *RESTRICT looked_up = weights + j * W;
        const double *RESTRICT h = H + j * W;
        const double *RESTRICT v = V + j * W;
        const double *RESTRICT up = above + j * W;
        double *RESTRICT f = flow + j * W;
        double *RESTRICT inserted = to->insertions + j * W;
        double *RESTRICT substituted = to->substitutions + j * W;
        INDEPENDENT
        for (ptrdiff_t l = 0; l < W; l++) {
            double sum = f[l] + from_right[l];
            double g = sum > EDIT_NEGLIGIBLE ? sum : 0.0;
            double r = tied ? (x[l] == y[l] ? match : mismatch) : looked_up[l];
            double s = g * (r * (v[l] * up[l]));
            from_right[l] = g * h[l];
            f[l] = g * v[l] + diagonal[l];
            deleted[l] += g * v[l];
            inserted[l] += from_right[l];
            diagonal[l] = s;
            if (tied) {
                matched[l] += x[l] == y[l] ? s : 0.0;
                mismatched[l] += x[l] == y[l] ? 0.0 : s;
            } else {
                substituted[l] = s;
            }
        }
    }
    for (ptrdiff_t l = 0; l < W; l++) {
        double g = (flow[l] + from_right[l]) * V[l];
        flow[l] = g + diagonal[l];
        to->deletions[l] = deleted[l] + g;
        if (tied) {
            to->match[l] += matched[l];
            to->mismatch[l] += mismatched[l];
        }
    }
}

/* Add the substitutions of row i, by symbols; padded cells have none. */
SIMD_UNUSED static void scatter_row(
    const EditLattice *a, ptrdiff_t i, const double *RESTRICT substitutions, double *RESTRICT sums)
{
    const ptrdiff_t W = a->W, m = a->m;
    const int *RESTRICT x = a->x + i * W;
    const int *RESTRICT y = a->y;
    int start[EDIT_PAIRS];
    for (ptrdiff_t l = 0; l < W; l++) start[l] = x[l] * a->stride;
    for (ptrdiff_t j = 0; j < m; j++)
        for (ptrdiff_t l = 0; l < W; l++) sums[start[l] + y[j * W + l]] += substitutions[j * W + l];
}

/* best (m + 1, W) <- the logarithm of the best path to each cell of the last row. */
SIMD_INLINE void best_rows_of(const EditLattice *a, const int tied, const ptrdiff_t W, double *best)
{
    const EditLattice lattice = *a;
    const double match = lattice.match, mismatch = lattice.mismatch;
    for (ptrdiff_t i = 0; i < lattice.n; i++) {
        const int *RESTRICT x = lattice.x + i * W;
        if (!tied) look_up_row(&lattice, i, W, lattice.looked_up);
        double left[EDIT_PAIRS], corner[EDIT_PAIRS], padded[EDIT_PAIRS];
        for (ptrdiff_t l = 0; l < W; l++) {
            left[l] = corner[l] = best[l];
            padded[l] = i >= lattice.row_padding[l] ? INFINITY : -INFINITY;
        }
        for (ptrdiff_t j = 1; j <= lattice.m; j++) {
            const int *RESTRICT y = lattice.y + (j - 1) * W;
            const double *RESTRICT looked_up = lattice.looked_up + j * W;
            double *RESTRICT b = best + j * W;
            INDEPENDENT
            for (ptrdiff_t l = 0; l < W; l++) {
                double up = b[l];
                double r = tied ? (x[l] == y[l] ? match : mismatch) : looked_up[l];
                double through = corner[l] + r;
                double most = up > left[l] ? up : left[l];
                through = through < padded[l] ? through : padded[l];
                left[l] = most > through ? most : through;
                corner[l] = up;
                b[l] = left[l];
            }
        }
    }
}

/* One lane is for strings so long that more would fill the memory. */
#define EDIT_CALL(function, ...) \
    do { \
        if (a->W == 1 && a->tied) function(__VA_ARGS__, 1, 1); \
        else if (a->W == 1) function(__VA_ARGS__, 0, 1); \
        else if (a->tied) function(__VA_ARGS__, 1, EDIT_PAIRS); \
        else function(__VA_ARGS__, 0, EDIT_PAIRS); \
    } while (0)

#define EDIT_SHARES(begin, end, tied, W) \
    share_rows_of(a, begin, end, tied, W, 0, H, NULL, product, exponent)
#define EDIT_KEPT_SHARES(begin, end, tied, W) \
    share_rows_of(a, begin, end, tied, W, 1, H, V, product, exponent)
#define EDIT_FLOW(i, tied, W) flow_row_of(a, i, tied, W, weights, above, H, V, flow, to)
#define EDIT_BEST(best, tied, W) best_rows_of(a, tied, W, best)

SIMD_UNUSED SIMD_CLONES static void share_rows(
    const EditLattice *a, double *H, double *product, int64_t *exponent)
{
    EDIT_CALL(EDIT_SHARES, 0, a->n);
}

SIMD_UNUSED SIMD_CLONES static void keep_shares(
    const EditLattice *a, ptrdiff_t begin, ptrdiff_t end, double *H, double *V, double *product,
    int64_t *exponent)
{
    EDIT_CALL(EDIT_KEPT_SHARES, begin, end);
}

SIMD_UNUSED SIMD_CLONES static void flow_row(
    const EditLattice *a, ptrdiff_t i, const double *weights, const double *above, const double *H,
    const double *V, double *flow, const EditFlows *to)
{
    EDIT_CALL(EDIT_FLOW, i);
}

SIMD_UNUSED SIMD_CLONES static void best_rows(const EditLattice *a, double *best)
{
    EDIT_CALL(EDIT_BEST, best);
}

OPTIMISE_END
