/* Sequences without gaps: covariances and gains do not depend on the data.
 *
 * They are tabulated once, up to where they no longer change; means of all sequences then follow
 * from products of rows with these tables.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_SHARED_H
#define SKLEARN_ONLINEEM_KALMAN_SHARED_H

#include "_kalman.h"

/* Loops over a tile are vectors as they stand; GCC would rather put these together from pieces. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

#define WIDEST_MEAN 512

/* What a covariance changes by, relative to its variances, when it is at rest. */
#define AT_REST (4 * ROUNDING)

typedef struct {
    ptrdiff_t n;       /* steps; the last one stands for all that follow */
    double *filtered;  /* (n, W, W), covariances */
    double *root;      /* (n, W, W): squares of root' u are the squared innovations */
    double *gain;      /* (n, W, W), transposed */
    double *rest;      /* (n, W, W), covariances given the next state */
    double *log_det;   /* (n,) */
} Tables;

SIMD_UNUSED static int is_at_rest(const double *x, const double *y, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j <= i; j++)
            if (!(fabs(x[i * W + j] - y[i * W + j])
                  <= AT_REST * sqrt(fabs(x[i * (W + 1)] * x[j * (W + 1)]))))
                return 0;
    return 1;
}

/* Fills in at most n steps from `covariance`, that before the first row; returns whether the last
 * one stands for all that follow. `work` has room for 7 W W. */
SIMD_UNUSED static int tabulate(
    const System *system, const double *G, double *covariance, ptrdiff_t n, Update *update,
    double *work, double *now_memory, double *next_memory, Tables *tables)
{
    ptrdiff_t k = system->k, W = system->W, size = W * W;
    double *moved = work, *next_covariance = work + size, *shrink = work + 2 * size;
    double *product = work + 3 * size;
    Row row = row_at(now_memory, W), next = row_at(next_memory, W);
    factorise(covariance, k, W, row.upper, row.inverse);
    for (ptrdiff_t t = 0; t < n; t++) {
        double *gain = tables->gain + t * size, *rest = tables->rest + t * size;
        filter_covariance(G, k, W, &row, update);
        tables->log_det[t] = update->log_det;
        copy(row.covariance, size, tables->filtered + t * size);
        substitute_backward(update->M_upper, update->M_inverse, k, W, W, update->X);
        transpose(update->X, W, tables->root + t * size);
        predict_covariance(system, W, row.covariance, moved, next_covariance);
        factorise(next_covariance, k, W, next.upper, next.inverse);
        backward_gain(system, W, row.covariance, next.upper, next.inverse, gain, shrink);
        clear(rest, size);
        add_quadratic(shrink, row.covariance, k, W, product, rest);
        add_quadratic(gain, system->Q, k, W, product, rest);
        symmetrise(rest, k, W);
        tables->n = t + 1;
        if (is_at_rest(covariance, next_covariance, k, W)) return 1;
        copy(next_covariance, size, covariance);
        Row swap = row;
        row = next;
        next = swap;
    }
    return 0;
}

/* sums (N_SUMS, W, W) <- sums + count times those of a sequence of T rows. `work`: 8 W W. */
SIMD_UNUSED static void add_covariances(
    const Tables *tables, ptrdiff_t T, double count, ptrdiff_t k, ptrdiff_t W, double *work,
    double *sums)
{
    ptrdiff_t size = W * W, last = tables->n - 1;
    double *now = work, *before = work + size, *lag = work + 2 * size, *one = work + 3 * size;
    clear(one, N_SUMS * size);
    copy(tables->filtered + (T - 1 < last ? T - 1 : last) * size, size, now);
    add(now, size, one + EMITTING * size);
    if (T > 1) add(now, size, one + ARRIVING * size);
    for (ptrdiff_t t = T - 2; t >= 0; t--) {
        ptrdiff_t step = t < last ? t : last;
        double times = 1;
        multiply(now, tables->gain + step * size, k, W, lag);
        copy(tables->rest + step * size, size, before);
        add_product(tables->gain + step * size, lag, k, k, W, before);
        symmetrise(before, k, W);
        if (t > last && is_at_rest(before, now, k, W)) {
            times = (double)(t - last + 1);
            t = last;
        }
        for (ptrdiff_t i = 0; i < size; i++) {
            one[LAGGED * size + i] += times * lag[i];
            one[EMITTING * size + i] += times * before[i];
            one[DEPARTING * size + i] += times * before[i];
            one[ARRIVING * size + i] += (t > 0 ? times : times - 1) * before[i];
        }
        copy(before, size, now);
    }
    copy(now, size, one + FIRST * size);
    for (ptrdiff_t i = 0; i < N_SUMS * size; i++) sums[i] += count * one[i];
}

/* out (width,) <- origin + sign x' table, x of n numbers, n a multiple of 4. out may be origin. */
SIMD_INLINE void weigh_row(
    const double *RESTRICT x, const double *RESTRICT table, const ptrdiff_t n,
    const ptrdiff_t width, const ptrdiff_t tile, const double *origin, double sign, double *out)
{
    for (ptrdiff_t start = 0; start < width; start += tile) {
        double sum[8];
        for (ptrdiff_t j = 0; j < tile; j++) sum[j] = 0;
        for (ptrdiff_t i = 0; i < n; i += 4) {
            const double *row = table + i * width + start;
            for (ptrdiff_t j = 0; j < tile; j++)
                sum[j] += (x[i] * row[j] + x[i + 1] * row[width + j])
                          + (x[i + 2] * row[2 * width + j] + x[i + 3] * row[3 * width + j]);
        }
        for (ptrdiff_t j = 0; j < tile; j++) out[start + j] = origin[start + j] + sign * sum[j];
    }
}

/* What turns rows into information about states, and states into residuals; D is d, padded. */
typedef struct {
    ptrdiff_t d, D;
    const double *offset;    /* (d,) */
    const double *weights;   /* (D, W), R^-1 C */
    const double *emission;  /* (W, D), C' */
    const double *whitening; /* (D, D), L'^-1 with R = L L' */
    const double *G;         /* (W, W), C' R^-1 C */
} Sight;

/* Sequences that are walked side by side, as a step waits for the one before it. */
#define ABREAST 4

/* m <- filtered mean, from p, the predicted one; squares <- squares + squared innovations */
SIMD_INLINE void filter_row(
    const Sight *sight, const double *filtered, const double *root, const double *v, const ptrdiff_t W,
    const ptrdiff_t D, const ptrdiff_t tile, const double *zeros, const double *p, double *m, double *squares)
{
    double centred[WIDEST_MEAN], residual[WIDEST_MEAN], u[WIDEST_MEAN], r[WIDEST_MEAN];
    ptrdiff_t d = sight->d;
    for (ptrdiff_t j = 0; j < d; j++) centred[j] = v[j] - sight->offset[j];
    for (ptrdiff_t j = d; j < D; j++) centred[j] = 0;
    weigh_row(centred, sight->weights, D, W, tile, zeros, 1, u);
    weigh_row(p, sight->G, W, W, tile, u, -1, u);
    weigh_row(u, filtered, W, W, tile, p, 1, m);
    weigh_row(u, root, W, W, tile, zeros, 1, r);
    weigh_row(m, sight->emission, W, D, 4, centred, -1, residual);
    weigh_row(residual, sight->whitening, D, D, 4, zeros, 1, centred);
    for (ptrdiff_t j = 0; j < W; j++) squares[j] += r[j] * r[j];
    for (ptrdiff_t j = 0; j < D; j++) squares[j] += centred[j] * centred[j];
}

/* Forward and backward passes over S sequences, in order of falling length. */
SIMD_INLINE void means_abreast(
    const System *system, const Tables *tables, const Sight *sight, const double *start,
    const double *X, const int64_t *begins, const int64_t *lengths, ptrdiff_t S,
    const ptrdiff_t W, const ptrdiff_t D, const ptrdiff_t tile, const double *zeros, double *predicted, double *means, double *squares)
{
    ptrdiff_t active = S, last = tables->n - 1;
    for (ptrdiff_t t = 0; t < lengths[0]; t++) {
        ptrdiff_t step = (t < last ? t : last) * W * W;
        while (lengths[active - 1] <= t) active--;
        for (ptrdiff_t s = 0; s < active; s++) {
            ptrdiff_t row = begins[s] + t;
            double *p = predicted + row * W, *m = means + row * W;
            if (t == 0)
                for (ptrdiff_t j = 0; j < W; j++) p[j] = start[j];
            else
                weigh_row(m - W, system->At, W, W, tile, system->b, 1, p);
            filter_row(sight, tables->filtered + step, tables->root + step, X + row * sight->d, W,
                       D, tile, zeros, p, m, squares);
        }
    }
    active = 0;
    for (ptrdiff_t t = lengths[0] - 2; t >= 0; t--) {
        const double *gain = tables->gain + (t < last ? t : last) * W * W;
        while (active < S && lengths[active] > t + 1) active++;
        for (ptrdiff_t s = 0; s < active; s++) {
            double *m = means + (begins[s] + t) * W, later[WIDEST_MEAN];
            const double *p = predicted + (begins[s] + t + 1) * W;
            for (ptrdiff_t j = 0; j < W; j++) later[j] = m[W + j] - p[j];
            weigh_row(later, gain, W, W, tile, m, 1, m);
        }
    }
}

/* means (n, W) <- smoothed means; returns the sum of squared innovations. */
SIMD_CLONES SIMD_UNUSED static double smooth_means(
    const System *system, const Tables *tables, const Sight *sight, const double *start,
    const double *X, const int64_t *begins, const int64_t *lengths, ptrdiff_t S,
    double *predicted, double *means)
{
    const double zeros[WIDEST_MEAN] = {0};
    double squares[WIDEST_MEAN] = {0}, sum = 0;
    for (ptrdiff_t first = 0; first < S; first += ABREAST) {
        ptrdiff_t n = S - first < ABREAST ? S - first : ABREAST;
#define MEANS(W, D, tile) \
        means_abreast(system, tables, sight, start, X, begins + first, lengths + first, n, W, D, \
                      tile, zeros, predicted, means, squares)
        if (system->W == 8 && sight->D == 12) MEANS(8, 12, 8);
        else if (system->W == 8) MEANS(8, sight->D, 8);
        else MEANS(system->W, sight->D, 4);
#undef MEANS
    }
    for (ptrdiff_t j = 0; j < WIDEST_MEAN; j++) sum += squares[j];
    return sum;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
