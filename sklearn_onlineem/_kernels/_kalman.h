/* Steps of the Kalman filter and the Rauch-Tung-Striebel smoother.
 *
 * Matrices of states are W x W, row by row: the k states are padded with zeros to whole vectors.
 * The usual widths are constants, so that the compiler unrolls the loops.
 *
 * No difference of covariances is ever taken. What is seen of a row is whitened, R = L L',
 * H = L^-1 C; the predicted covariance is P = U U'; and with G = H'H and M = I + U'GU, whose
 * eigenvalues are at least 1, the filtered covariance is U M^-1 U'. Smoothed covariances are sums of
 * quadratic forms (Joseph's form). So all are symmetric and positive semi-definite by construction.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_H
#define SKLEARN_ONLINEEM_KALMAN_H

#include "_kalman_evidence.h"

/* Loops over a tile are vectors as they stand; GCC would rather put these together from pieces. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

#define LOG_2_PI 1.8378770664093453
#define ROUNDING 2.220446049250313e-16
#define WIDEST_LOCAL 64
#define TILE 4
#define WIDEST_TILE 8
#define MOST_SEEN 128

/* ---------------------------------------------------------------------- matrices of W x W */

SIMD_INLINE void multiply_tiled(
    const double *a, const double *b, const ptrdiff_t k, const ptrdiff_t W, const int tile,
    double *RESTRICT out)
{
    for (ptrdiff_t start = 0; start < W; start += tile)
        for (ptrdiff_t i = 0; i < k; i++) {
            double sum[WIDEST_TILE];
            for (int j = 0; j < tile; j++) sum[j] = 0;
            for (ptrdiff_t l = 0; l < k; l++)
                for (int j = 0; j < tile; j++) sum[j] += a[i * W + l] * b[l * W + start + j];
            for (int j = 0; j < tile; j++) out[i * W + start + j] = sum[j];
        }
    for (ptrdiff_t i = k * W; i < W * W; i++) out[i] = 0;
}

/* out <- a b */
SIMD_CLONES SIMD_UNUSED static void multiply(
    const double *a, const double *b, ptrdiff_t k, ptrdiff_t W, double *RESTRICT out)
{
    if (W == 8) multiply_tiled(a, b, k, 8, 8, out);
    else multiply_tiled(a, b, k, W, TILE, out);
}

SIMD_INLINE void add_product_tiled(
    const double *a, const double *b, const ptrdiff_t n, const ptrdiff_t k, const ptrdiff_t W,
    const int tile, double *RESTRICT out)
{
    for (ptrdiff_t start = 0; start < W; start += tile)
        for (ptrdiff_t i = 0; i < k; i++) {
            double sum[WIDEST_TILE];
            for (int j = 0; j < tile; j++) sum[j] = out[i * W + start + j];
            for (ptrdiff_t l = 0; l < n; l++)
                for (int j = 0; j < tile; j++) sum[j] += a[l * W + i] * b[l * W + start + j];
            for (int j = 0; j < tile; j++) out[i * W + start + j] = sum[j];
        }
}

/* out <- out + a' b, a and b of n rows; of a, k columns count */
SIMD_CLONES SIMD_UNUSED static void add_product(
    const double *a, const double *b, ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, double *RESTRICT out)
{
    if (W == 8) add_product_tiled(a, b, n, k, 8, 8, out);
    else add_product_tiled(a, b, n, k, W, TILE, out);
}

SIMD_INLINE void clear(double *out, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = 0;
}

SIMD_INLINE void copy(const double *x, ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = x[i];
}

SIMD_INLINE void add(const double *x, ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] += x[i];
}

/* out (W,) <- x' table, of n rows */
SIMD_CLONES SIMD_UNUSED static void weigh(
    const double *x, const double *table, ptrdiff_t n, ptrdiff_t W, double *RESTRICT out)
{
    for (ptrdiff_t start = 0; start < W; start += TILE) {
        double sum[TILE] = {0};
        for (ptrdiff_t i = 0; i < n; i++)
            for (int j = 0; j < TILE; j++) sum[j] += x[i] * table[i * W + start + j];
        for (int j = 0; j < TILE; j++) out[start + j] = sum[j];
    }
}

SIMD_INLINE void transpose(const double *x, ptrdiff_t W, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < W; i++)
        for (ptrdiff_t j = 0; j < W; j++) out[j * W + i] = x[i * W + j];
}

SIMD_INLINE void symmetrise(double *x, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < i; j++)
            x[i * W + j] = x[j * W + i] = 0.5 * (x[i * W + j] + x[j * W + i]);
}

/* upper (n, stride) <- U with U'U = x (its upper triangle), inverse_j <- 1 / U_jj.
 *
 * Where x is singular, rows of U are 0, and so are their inverses: substitution then solves what has
 * a solution. */
SIMD_CLONES SIMD_UNUSED static void factorise(
    const double *x, ptrdiff_t n, ptrdiff_t stride, double *upper, double *inverse)
{
    copy(x, n * stride, upper);
    for (ptrdiff_t j = 0; j < n; j++) {
        double *row = upper + j * stride, pivot = row[j];
        int is_positive = pivot > n * ROUNDING * x[j * stride + j] && pivot > 0;
        inverse[j] = is_positive ? 1 / sqrt(pivot) : 0;
        for (ptrdiff_t i = 0; i < j; i++) row[i] = 0;
        for (ptrdiff_t i = 0; i < stride; i++) row[i] *= inverse[j];
        for (ptrdiff_t i = j + 1; i < n; i++) {
            double *later = upper + i * stride, factor = row[i];
            for (ptrdiff_t l = 0; l < stride; l++) later[l] -= factor * row[l];
        }
    }
}

/* log |x| of a factorised matrix */
SIMD_UNUSED static double log_det_of(const double *inverse, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t j = 0; j < n; j++) sum += log(inverse[j]);
    return -2 * sum;
}

/* x (n, width) <- U'^-1 x */
SIMD_CLONES SIMD_UNUSED static void substitute_forward(
    const double *upper, const double *inverse, ptrdiff_t n, ptrdiff_t stride,
    ptrdiff_t width, double *x)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double *row = x + i * width;
        for (ptrdiff_t j = 0; j < width; j++) row[j] *= inverse[i];
        for (ptrdiff_t l = i + 1; l < n; l++) {
            double *later = x + l * width, factor = upper[i * stride + l];
            for (ptrdiff_t j = 0; j < width; j++) later[j] -= factor * row[j];
        }
    }
}

/* x (n, width) <- U^-1 x */
SIMD_CLONES SIMD_UNUSED static void substitute_backward(
    const double *upper, const double *inverse, ptrdiff_t n, ptrdiff_t stride,
    ptrdiff_t width, double *x)
{
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        double *row = x + i * width;
        for (ptrdiff_t l = i + 1; l < n; l++) {
            double factor = upper[i * stride + l];
            const double *later = x + l * width;
            for (ptrdiff_t j = 0; j < width; j++) row[j] -= factor * later[j];
        }
        for (ptrdiff_t j = 0; j < width; j++) row[j] *= inverse[i];
    }
}

/* -------------------------------------------------------------------------------- the system */

typedef struct {
    ptrdiff_t k, W, d;
    const double *A;      /* (W, W), and its transpose */
    const double *At;
    const double *b;      /* (W,) */
    const double *Q;      /* (W, W) */
    const double *C;      /* (d, W) */
    const double *offset; /* (d,) */
    const double *R;      /* (d, d) */
} System;

/* What is seen of a row. */
typedef struct {
    ptrdiff_t n;
    ptrdiff_t *seen;   /* (d,) indices, and then those of what is not */
    double *upper;     /* (n, n), of R's part */
    double *inverse;   /* (n,) */
    double *H;         /* (n, W) */
    double *G;         /* (W, W) */
    double log_det;    /* of R's part */
} Seen;

/* A row on its way through both passes. */
typedef struct {
    double *predicted;  /* (W,) */
    double *mean;       /* (W,), filtered */
    double *inverse;    /* (W,) */
    double *upper;      /* (W, W), U'U = predicted covariance */
    double *covariance; /* (W, W), filtered */
} Row;

SIMD_INLINE ptrdiff_t row_size(ptrdiff_t W) { return 3 * W + 2 * W * W; }

SIMD_INLINE Row row_at(double *memory, ptrdiff_t W)
{
    Row row = {memory, memory + W, memory + 2 * W, memory + 3 * W, memory + 3 * W + W * W};
    return row;
}

/* The gains of a step, as tables for `weigh` (so transposed), and what they come from. */
typedef struct {
    double *X;         /* (W, W), M^-1/2 U' */
    double *M_upper;   /* (W, W) */
    double *M_inverse; /* (W,) */
    double log_det;    /* of M */
    double *work;      /* (2 W, W) */
} Update;

/* covariance <- U M^-1 U', with what leads there */
SIMD_UNUSED static void filter_covariance(
    const double *G, ptrdiff_t k, ptrdiff_t W, const Row *row, Update *update)
{
    double *lower = update->work, *product = update->work + W * W;
    transpose(row->upper, W, lower);
    multiply(G, lower, k, W, update->X);
    clear(product, W * W);
    for (ptrdiff_t i = 0; i < k; i++) product[i * W + i] = 1;
    add_product(lower, update->X, k, k, W, product);
    factorise(product, k, W, update->M_upper, update->M_inverse);
    update->log_det = log_det_of(update->M_inverse, k);
    copy(row->upper, W * W, update->X);
    substitute_forward(update->M_upper, update->M_inverse, k, W, W, update->X);
    clear(row->covariance, W * W);
    add_product(update->X, update->X, k, k, W, row->covariance);
}

/* The covariance before the next row; `moved` <- A P */
SIMD_UNUSED static void predict_covariance(
    const System *system, ptrdiff_t W, const double *covariance, double *moved, double *out)
{
    multiply(system->A, covariance, system->k, W, moved);
    multiply(moved, system->At, system->k, W, out);
    add(system->Q, W * W, out);
}

/* gain <- J', where J = P A' (A P A' + Q)^-1 ; shrink <- (I - J A)' */
SIMD_UNUSED static void backward_gain(
    const System *system, ptrdiff_t W, const double *covariance, const double *next_upper,
    const double *next_inverse, double *gain, double *shrink)
{
    ptrdiff_t k = system->k;
    multiply(system->A, covariance, k, W, gain);
    substitute_forward(next_upper, next_inverse, k, W, W, gain);
    substitute_backward(next_upper, next_inverse, k, W, W, gain);
    multiply(system->At, gain, k, W, shrink);
    for (ptrdiff_t i = 0; i < W * W; i++) shrink[i] = -shrink[i];
    for (ptrdiff_t i = 0; i < k; i++) shrink[i * W + i] += 1;
}

/* out <- out + form' x form */
SIMD_UNUSED static void add_quadratic(
    const double *form, const double *x, ptrdiff_t k, ptrdiff_t W, double *work, double *out)
{
    multiply(x, form, k, W, work);
    add_product(form, work, k, k, W, out);
}

SIMD_INLINE double dot(const double *x, const double *y, const ptrdiff_t n)
{
    double lanes[4] = {0, 0, 0, 0};
    ptrdiff_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++) lanes[l] += x[i + l] * y[i + l];
    for (; i < n; i++) lanes[0] += x[i] * y[i];
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/* -------------------------------------------------------------------------- what is seen of rows */

/* Returns whether what is seen of v is as in `seen`. */
SIMD_UNUSED static int is_same(const Seen *seen, const double *v, ptrdiff_t d)
{
    if (seen->n < 0) return 0;
    for (ptrdiff_t i = 0; i < d; i++)
        if (isnan(v[seen->seen[i]]) != (i >= seen->n)) return 0;
    return 1;
}

/* Whitens what is seen of v. */
SIMD_UNUSED static void whiten(const System *system, const double *v, ptrdiff_t W, Seen *seen)
{
    ptrdiff_t d = system->d, n = 0, n_gone = 0;
    for (ptrdiff_t i = 0; i < d; i++)
        if (!isnan(v[i])) seen->seen[n++] = i;
    for (ptrdiff_t i = 0; i < d; i++)
        if (isnan(v[i])) seen->seen[n + n_gone++] = i;
    seen->n = n;
    double *part = seen->upper + d * d;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            part[i * n + j] = system->R[seen->seen[i] * d + seen->seen[j]];
    factorise(part, n, n, seen->upper, seen->inverse);
    seen->log_det = log_det_of(seen->inverse, n);
    for (ptrdiff_t i = 0; i < n; i++) copy(system->C + seen->seen[i] * W, W, seen->H + i * W);
    substitute_forward(seen->upper, seen->inverse, n, n, W, seen->H);
    clear(seen->G, W * W);
    add_product(seen->H, seen->H, n, system->k, W, seen->G);
}

/* What is seen of v, whitened unless it is remembered: the first of n is for rows without gaps, the
 * others for the last pattern of gaps that fell to each. */
SIMD_UNUSED static Seen *seen_of(
    const System *system, const double *v, ptrdiff_t W, ptrdiff_t n, Seen *remembered)
{
    uint64_t code = 0;
    for (ptrdiff_t i = 0; i < system->d; i++)
        code = code * 0x9e3779b97f4a7c15u + (isnan(v[i]) ? 1 : 0);
    ptrdiff_t place = code ? 1 + (ptrdiff_t)((code >> 32) % (uint64_t)(n - 1)) : 0;
    Seen *seen = remembered + place;
    if (!is_same(seen, v, system->d)) whiten(system, v, W, seen);
    return seen;
}

/* whitened <- L^-1 (v - C state - offset) */
SIMD_UNUSED static void innovate(
    const System *system, const Seen *seen, const double *v, const double *state,
    ptrdiff_t W, double *whitened)
{
    for (ptrdiff_t i = 0; i < seen->n; i++) {
        ptrdiff_t row = seen->seen[i];
        whitened[i] = v[row] - system->offset[row] - dot(system->C + row * W, state, W);
    }
    for (ptrdiff_t i = 0; i < seen->n; i++) {
        whitened[i] *= seen->inverse[i];
        for (ptrdiff_t l = i + 1; l < seen->n; l++)
            whitened[l] -= seen->upper[i * seen->n + l] * whitened[i];
    }
}

/* row->mean <- the filtered mean; returns log p(v | past). `work` has room for d + 3 W. */
SIMD_UNUSED static double filter_mean(
    const System *system, const Seen *seen, const double *v, ptrdiff_t W,
    const Update *update, double *work, Row *row)
{
    double *information = work, *root = work + W, *move = work + 2 * W, *whitened = work + 3 * W;
    double quadratic = 0;
    innovate(system, seen, v, row->predicted, W, whitened);
    weigh(whitened, seen->H, seen->n, W, information);
    for (ptrdiff_t i = 0; i < W; i++) root[i] = dot(update->X + i * W, information, W);
    weigh(root, update->X, system->k, W, move);
    for (ptrdiff_t i = 0; i < W; i++) row->mean[i] = row->predicted[i] + move[i];
    for (ptrdiff_t i = 0; i < seen->n; i++) {
        double rest = whitened[i] - dot(seen->H + i * W, move, W);
        quadratic += rest * rest;
    }
    for (ptrdiff_t i = system->k - 1; i >= 0; i--) {
        for (ptrdiff_t l = i + 1; l < system->k; l++)
            root[i] -= update->M_upper[i * W + l] * root[l];
        root[i] *= update->M_inverse[i];
        quadratic += root[i] * root[i];
    }
    return -0.5 * (seen->n * LOG_2_PI + seen->log_det + update->log_det + quadratic);
}

/* ------------------------------------------------------------------------------- one sequence */

enum { FIRST, DEPARTING, ARRIVING, EMITTING, LAGGED, N_SUMS };

/* Sums over rows, for an E-step: of covariances, and of means in blocks. */
typedef struct {
    double *states; /* (N_SUMS, W, W): first, departing, arriving and seen ones, and an arriving with
                       its departing one */
    double *across; /* (d, W), of what is missing with the state */
    double *within; /* (d, d), of what is missing */
    double *after;  /* (k,), mean of the state after */
    double *filled; /* (d,), the row without gaps */
    Moments initial;
    Block transitions;
    Block emissions;
} Sums;

/* What is wanted of a sequence of T rows; NULL is not. */
typedef struct {
    double *predicted;             /* (T, k) */
    double *predicted_covariances; /* (T, k, k) */
    double *filtered;              /* (T, k) */
    double *filtered_covariances;  /* (T, k, k) */
    double *log_densities;         /* (T,) */
    double *smoothed;              /* (T, k) */
    double *covariances;           /* (T, k, k) */
    double *lags;                  /* (T, k, k) */
    double *filled;                /* (T, d): gaps are filled by expectation */
    const double *noise;           /* (T, k): states are drawn with these */
    Sums *sums;
} Wanted;

/* Scratch memory of a sequence. */
typedef struct {
    ptrdiff_t B;      /* rows of a block */
    ptrdiff_t n_seen; /* at least 2 */
    Seen seen[MOST_SEEN];
    Update update;
    double *rows;     /* (B + 1) rows; the last is the first of the block after */
    double *starts;   /* (most blocks, W + W * W): predicted moments of their first rows */
    double *state;    /* (W + W * W): predicted moments of the next row */
    double *later;    /* (W + W * W): smoothed moments of the row after */
    double *work;     /* (6, W, W) */
    double *vector;   /* (3 W + d) */
    double *gaps;     /* (2 d d + d W + W) */
    double *sums;     /* sums_size */
} Workspace;

SIMD_UNUSED static void unpad(const double *x, ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < k; j++) out[i * k + j] = x[i * W + j];
}

SIMD_UNUSED static void put(const double *x, ptrdiff_t t, ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, double *out)
{
    if (out) unpad(x, n, k, W, out + t * n * k);
}

/* row <- moments given v and the past, from the predicted ones in `state`; these move on. */
SIMD_UNUSED static double forward_row(
    const System *system, const double *v, ptrdiff_t W, Workspace *space, Row row)
{
    double *mean = space->state, *covariance = space->state + W, log_density = 0;
    Seen *seen = seen_of(system, v, W, space->n_seen, space->seen);
    copy(mean, W, row.predicted);
    factorise(covariance, system->k, W, row.upper, row.inverse);
    if (seen->n > 0) {
        filter_covariance(seen->G, system->k, W, &row, &space->update);
        log_density = filter_mean(system, seen, v, W, &space->update, space->vector, &row);
    } else {
        copy(mean, W, row.mean);
        copy(covariance, W * W, row.covariance);
    }
    weigh(row.mean, system->At, system->k, W, mean);
    add(system->b, W, mean);
    predict_covariance(system, W, row.covariance, space->work, covariance);
    return log_density;
}

/* Rows begin .. begin + n of a sequence; returns their log-likelihood. */
SIMD_UNUSED static double forward_block(
    const System *system, const double *X, ptrdiff_t begin, ptrdiff_t n, ptrdiff_t W,
    Workspace *space, const Wanted *wanted)
{
    ptrdiff_t k = system->k;
    double log_likelihood = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        ptrdiff_t t = begin + i;
        Row row = row_at(space->rows + i * row_size(W), W);
        put(space->state, t, 1, k, W, wanted->predicted);
        put(space->state + W, t, k, k, W, wanted->predicted_covariances);
        double log_density = forward_row(system, X + t * system->d, W, space, row);
        put(row.mean, t, 1, k, W, wanted->filtered);
        put(row.covariance, t, k, k, W, wanted->filtered_covariances);
        if (wanted->log_densities) wanted->log_densities[t] = log_density;
        log_likelihood += log_density;
    }
    return log_likelihood;
}

/* mean <- mean + root(covariance) noise, covariance <- 0 */
SIMD_UNUSED static void draw(
    const double *noise, ptrdiff_t k, ptrdiff_t W, double *work, double *mean,
    double *covariance)
{
    double *upper = work, *inverse = work + W * W;
    factorise(covariance, k, W, upper, inverse);
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < W; j++) mean[j] += noise[i] * upper[i * W + j];
    clear(covariance, W * W);
}

/* later <- smoothed moments of a row, from those of the next; `lag` <- Cov(next, row) */
SIMD_UNUSED static void backward_row(
    const System *system, ptrdiff_t W, Row row, Row next, const double *noise, double *work,
    double *later, double *lag)
{
    ptrdiff_t k = system->k;
    double *gain = work, *shrink = work + W * W, *sum = work + 2 * W * W, *rest = work + 3 * W * W;
    double *mean = later, *covariance = later + W;
    backward_gain(system, W, row.covariance, next.upper, next.inverse, gain, shrink);
    for (ptrdiff_t j = 0; j < W; j++) rest[j] = mean[j] - next.predicted[j];
    weigh(rest, gain, k, W, mean);
    add(row.mean, W, mean);
    multiply(covariance, gain, k, W, lag);
    copy(covariance, W * W, sum);
    add(system->Q, W * W, sum);
    clear(covariance, W * W);
    add_quadratic(shrink, row.covariance, k, W, rest, covariance);
    add_quadratic(gain, sum, k, W, rest, covariance);
    symmetrise(covariance, k, W);
    if (noise) draw(noise, k, W, work, mean, covariance);
}

/* Fills the gaps of a row and adds the covariances of what they hold. */
SIMD_UNUSED static void complete(
    const System *system, const Seen *seen, const double *v, const double *state,
    const double *covariance, ptrdiff_t W, double *gaps, double *filled, Sums *sums)
{
    ptrdiff_t d = system->d, n = seen->n, n_gone = d - n;
    const ptrdiff_t *gone = seen->seen + n;
    double *weights = gaps, *rest = gaps + d * d, *slope = gaps + 2 * d * d;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n_gone; j++)
            weights[i * n_gone + j] = system->R[seen->seen[i] * d + gone[j]];
    substitute_forward(seen->upper, seen->inverse, n, n, n_gone, weights);
    for (ptrdiff_t i = 0; i < n_gone; i++)
        for (ptrdiff_t j = 0; j < n_gone; j++) {
            rest[i * n_gone + j] = system->R[gone[i] * d + gone[j]];
            for (ptrdiff_t l = 0; l < n; l++)
                rest[i * n_gone + j] -= weights[l * n_gone + i] * weights[l * n_gone + j];
        }
    substitute_backward(seen->upper, seen->inverse, n, n, n_gone, weights);
    for (ptrdiff_t j = 0; j < n_gone; j++) {
        copy(system->C + gone[j] * W, W, slope + j * W);
        filled[gone[j]] = system->offset[gone[j]] + dot(slope + j * W, state, W);
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        ptrdiff_t row = seen->seen[i];
        const double *C = system->C + row * W;
        double residual = v[row] - system->offset[row] - dot(C, state, W);
        for (ptrdiff_t j = 0; j < n_gone; j++) {
            double weight = weights[i * n_gone + j];
            filled[gone[j]] += weight * residual;
            for (ptrdiff_t l = 0; l < W; l++) slope[j * W + l] -= weight * C[l];
        }
    }
    if (!sums) return;
    for (ptrdiff_t j = 0; j < n_gone; j++) {
        double *product = sums->across + gone[j] * W, row[WIDEST_LOCAL];
        double *local = W <= WIDEST_LOCAL ? row : gaps + 2 * d * d + d * W;
        weigh(slope + j * W, covariance, system->k, W, local);
        add(local, W, product);
        for (ptrdiff_t i = 0; i < n_gone; i++)
            sums->within[gone[j] * d + gone[i]] +=
                dot(local, slope + i * W, W) + rest[j * n_gone + i];
    }
}

/* Adds state t of T, whose smoothed moments are given. */
SIMD_UNUSED static void sum_state(
    const double *mean, const double *covariance, ptrdiff_t t, ptrdiff_t T, ptrdiff_t k,
    ptrdiff_t W, double *zeros, Sums *sums)
{
    const ptrdiff_t n = W * W;
    if (t > 0) add(covariance, n, sums->states + ARRIVING * n);
    if (t + 1 < T) {
        double *pair = next_row(&sums->transitions);
        copy(mean, k, pair);
        copy(sums->after, k, pair + k);
        add(covariance, n, sums->states + DEPARTING * n);
    }
    if (t == 0) {
        clear(zeros, k * k);
        add_moments(&sums->initial, 1, mean, 0, zeros);
        add(covariance, n, sums->states + FIRST * n);
    }
    copy(mean, k, sums->after);
}

/* Adds a row of which something is seen, and its state. */
SIMD_UNUSED static void sum_row(
    const double *mean, const double *covariance, const double *filled, ptrdiff_t k, ptrdiff_t d,
    ptrdiff_t W, Sums *sums)
{
    double *pair = next_row(&sums->emissions);
    copy(mean, k, pair);
    copy(filled, d, pair + k);
    add(covariance, W * W, sums->states + EMITTING * W * W);
}

/* Hands out row t of T, whose smoothed moments are in `later`, as wanted. */
SIMD_UNUSED static void finish_row(
    const System *system, const double *v, ptrdiff_t t, ptrdiff_t T, ptrdiff_t W,
    Workspace *space, const Wanted *wanted)
{
    ptrdiff_t k = system->k, d = system->d;
    const double *mean = space->later, *covariance = space->later + W;
    Sums *sums = wanted->sums;
    put(mean, t, 1, k, W, wanted->smoothed);
    put(covariance, t, k, k, W, wanted->covariances);
    if (sums) sum_state(mean, covariance, t, T, k, W, space->work, sums);
    if (!sums && !wanted->filled) return;
    Seen *seen = seen_of(system, v, W, space->n_seen, space->seen);
    double *filled = sums ? sums->filled : wanted->filled + t * d;
    copy(v, d, filled);
    if (sums && seen->n == 0) return;
    if (seen->n < d) complete(system, seen, v, mean, covariance, W, space->gaps, filled, sums);
    if (sums) sum_row(mean, covariance, filled, k, d, W, sums);
}

/* Rows begin .. begin + n, the last of which may be the last of all. */
SIMD_UNUSED static void backward_block(
    const System *system, const double *X, ptrdiff_t begin, ptrdiff_t n, ptrdiff_t T,
    ptrdiff_t W, Workspace *space, const Wanted *wanted)
{
    ptrdiff_t k = system->k, size = row_size(W);
    double *lag = space->work + 5 * W * W;
    for (ptrdiff_t i = n - 1; i >= 0; i--) {
        ptrdiff_t t = begin + i;
        Row row = row_at(space->rows + i * size, W);
        const double *noise = wanted->noise ? wanted->noise + t * k : NULL;
        if (t == T - 1) {
            copy(row.mean, W, space->later);
            copy(row.covariance, W * W, space->later + W);
            if (noise) draw(noise, k, W, space->work, space->later, space->later + W);
        } else {
            Row next = row_at(space->rows + (i + 1 < n ? i + 1 : space->B) * size, W);
            backward_row(system, W, row, next, noise, space->work, space->later, lag);
            put(lag, t + 1, k, k, W, wanted->lags);
            if (wanted->sums) add(lag, W * W, wanted->sums->states + LAGGED * W * W);
        }
        finish_row(system, X + t * system->d, t, T, W, space, wanted);
    }
    copy(space->rows, size, space->rows + space->B * size);
}

SIMD_INLINE ptrdiff_t sums_size(ptrdiff_t k, ptrdiff_t W, ptrdiff_t d)
{
    return N_SUMS * W * W + d * W + d * d + k + d + block_size(2 * k) + block_size(k + d);
}

/* Sums of nothing yet, which end in `total`. `memory`: sums_size. */
SIMD_UNUSED static Sums sums_at(
    double *memory, ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, const Evidence *total)
{
    Sums sums;
    clear(memory, sums_size(k, W, d));
    clear(total->initial.weight, evidence_size(k, d));
    sums.states = memory;
    sums.across = sums.states + N_SUMS * W * W;
    sums.within = sums.across + d * W;
    sums.after = sums.within + d * d;
    sums.filled = sums.after + k;
    sums.initial = total->initial;
    sums.transitions = block_at(sums.filled + d, total->transitions);
    sums.emissions = block_at(sums.filled + d + block_size(2 * k), total->emissions);
    return sums;
}

/* Adds what is in blocks, and covariances. */
SIMD_UNUSED static void finish_sums(Sums *sums, ptrdiff_t k, ptrdiff_t W, ptrdiff_t d)
{
    const double *states = sums->states, *emitting = states + EMITTING * W * W;
    add_up_block(&sums->transitions);
    add_up_block(&sums->emissions);
    add_joint(states + FIRST * W * W, NULL, W, NULL, 0, k, 0, sums->initial.scatter);
    add_joint(
        states + DEPARTING * W * W, states + LAGGED * W * W, W, states + ARRIVING * W * W, W, k, k,
        sums->transitions.total.scatter);
    add_joint(emitting, sums->across, W, sums->within, d, k, d, sums->emissions.total.scatter);
}

/* Filters a sequence from the predicted moments in space->state, and smooths it if that is wanted;
 * returns its log-likelihood.
 *
 * Of a sequence longer than a block, only the moments before each block are kept, and the forward
 * pass of all blocks but the last is done again on the way back. */
SIMD_UNUSED static double kalman_sequence(
    const System *system, const double *X, ptrdiff_t T, Workspace *space, const Wanted *wanted)
{
    const Wanted nothing = {0};
    ptrdiff_t begin = 0, n = 0, W = system->W, n_state = W + W * W;
    double log_likelihood = 0;
    for (ptrdiff_t block = 0; begin < T; block++, begin += n) {
        n = T - begin < space->B ? T - begin : space->B;
        copy(space->state, n_state, space->starts + block * n_state);
        log_likelihood += forward_block(system, X, begin, n, W, space, wanted);
    }
    if (!wanted->smoothed && !wanted->sums) return log_likelihood;
    while (1) {
        begin -= n;
        backward_block(system, X, begin, n, T, W, space, wanted);
        if (begin == 0) return log_likelihood;
        n = space->B;
        copy(space->starts + (begin / n - 1) * n_state, n_state, space->state);
        forward_block(system, X, begin - n, n, W, space, &nothing);
    }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
