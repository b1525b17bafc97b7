/* Sequences without gaps: covariances and gains do not depend on the data.
 *
 * They are tabulated once, up to where they no longer change; means of all sequences then follow
 * from products of rows with these tables.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_SHARED_H
#define SKLEARN_ONLINEEM_KALMAN_SHARED_H

#include "_kalman.h"

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

SIMD_INLINE void weigh_row(
    const double *RESTRICT x, const double *RESTRICT table, ptrdiff_t k, const ptrdiff_t W,
    const double *RESTRICT origin, double sign, double *RESTRICT out)
{
    for (ptrdiff_t start = 0; start < W; start += TILE) {
        double even[TILE], odd[TILE] = {0};
        for (int j = 0; j < TILE; j++) even[j] = 0;
        for (ptrdiff_t i = 0; i < k; i += 2)
            for (int j = 0; j < TILE; j++) {
                even[j] += x[i] * table[i * W + start + j];
                odd[j] += x[i + 1] * table[(i + 1) * W + start + j];
            }
        for (int j = 0; j < TILE; j++)
            out[start + j] = origin[start + j] + sign * (even[j] + odd[j]);
    }
}

/* Rows t of all sequences (in order of falling length) that have one.
 *
 * information (n, W): H' times whitened rows. Returns the sum of squared innovations that lies in
 * the states. */
#define FORWARD_MEANS(W) \
    for (ptrdiff_t t = 0; t < length; t++) { \
        ptrdiff_t step = t < tables->n ? t : tables->n - 1; \
        const double *filtered = tables->filtered + step * W * W; \
        const double *root = tables->root + step * W * W; \
        while (lengths[S - 1] <= t) S--; \
        for (ptrdiff_t s = 0; s < S; s++) { \
            double *p = predicted + (begins[s] + t) * W, *m = means + (begins[s] + t) * W; \
            double u[WIDEST_MEAN], r[WIDEST_MEAN]; \
            if (t == 0) for (ptrdiff_t j = 0; j < W; j++) p[j] = start[j]; \
            else weigh_row(m - W, system->At, k, W, system->b, 1, p); \
            weigh_row(p, G, k, W, information + (begins[s] + t) * W, -1, u); \
            weigh_row(u, filtered, k, W, p, 1, m); \
            weigh_row(u, root, k, W, zeros, 1, r); \
            for (ptrdiff_t j = 0; j < W; j++) squares[j] += r[j] * r[j]; \
        } \
    }

SIMD_CLONES SIMD_UNUSED static double forward_means(
    const System *system, const Tables *tables, const double *G, const double *start,
    const double *information, const int64_t *begins, const int64_t *lengths, ptrdiff_t S,
    double *predicted, double *means)
{
    const double zeros[WIDEST_MEAN] = {0};
    double squares[WIDEST_MEAN] = {0}, sum = 0;
    ptrdiff_t length = lengths[0], k = system->k, width = system->W;
    if (width == 4) { FORWARD_MEANS(4) }
    else if (width == 8) { FORWARD_MEANS(8) }
    else { FORWARD_MEANS(width) }
    for (ptrdiff_t j = 0; j < width; j++) sum += squares[j];
    return sum;
}

/* means (n, W): filtered -> smoothed */
#define BACKWARD_MEANS(W) \
    for (ptrdiff_t t = lengths[0] - 2; t >= 0; t--) { \
        const double *gain = tables->gain + (t < tables->n ? t : tables->n - 1) * W * W; \
        while (active < S && lengths[active] > t + 1) active++; \
        for (ptrdiff_t s = 0; s < active; s++) { \
            double *m = means + (begins[s] + t) * W, later[WIDEST_MEAN]; \
            const double *p = predicted + (begins[s] + t + 1) * W; \
            for (ptrdiff_t j = 0; j < W; j++) later[j] = m[W + j] - p[j]; \
            double out[WIDEST_MEAN]; \
            weigh_row(later, gain, k, W, m, 1, out); \
            for (ptrdiff_t j = 0; j < W; j++) m[j] = out[j]; \
        } \
    }

SIMD_CLONES SIMD_UNUSED static void backward_means(
    const Tables *tables, const int64_t *begins, const int64_t *lengths, ptrdiff_t S, ptrdiff_t k,
    ptrdiff_t width, const double *predicted, double *means)
{
    ptrdiff_t active = 0;
    if (width == 4) { BACKWARD_MEANS(4) }
    else if (width == 8) { BACKWARD_MEANS(8) }
    else { BACKWARD_MEANS(width) }
}

#endif
