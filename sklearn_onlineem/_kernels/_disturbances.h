/* Smoothed noise of linear systems whose variables are independent, from diffuse starts.
 *
 * Given the diffuse variables d of the first state, errors of the filter are v + V d, so that d is a
 * regression on all values, and covariances are those of a known start. Columns of states are their
 * derivatives by d, and the states of S sequences with the same gaps where d is 0. A row is read
 * value by value; see Durbin & Koopman, chapters 4.5, 5 and 6.4. */
#pragma once

#include "_arena.h"
#include "_small_matrices.h"

#define LOG_2_PI 1.8378770664093453

/* Equations that enter the triangle together, and their share in it that is nothing; the least
 * derivative, as products of smaller ones are slow, and after how many rows these are looked for, and
 * covariances made symmetric, as systems whose states grow move the rest away; the least product of
 * precisions whose logarithm is not yet taken. */
#define ROWS_OF_BLOCK 16
#define FORGOTTEN 1e-20
#define LEAST_DERIVATIVE 1e-200
#define ROWS_UNTIL_LOOK 16
#define LEAST_PRODUCT 1e-100

typedef struct {
    ptrdiff_t T, d, k, q, S;  /* q diffuse variables */
    ptrdiff_t W, M;           /* k states, and q + S columns, with zeros to whole vectors */
    const double *X;          /* (T, d, S), NaN where missing, in all S */
    const double *A;          /* (k, k) */
    const double *b;          /* (k,) */
    const double *Q;          /* (k,): variances */
    const double *C;          /* (d, k) */
    const double *offset;     /* (d,) */
    const double *R;          /* (d,): variances, above 0 */
    const double *mean;       /* (k,): of the first state, 0 where it is diffuse */
    const double *covariance; /* (k, k): of it, 0 where it is diffuse */
    const int64_t *diffuse;   /* (q,): variables */
    int keeps;                /* states of the filter, for moments of noise with states; and 2 of */
                              /* these alone */
} NoiseTask;

/* Scratch memory, and sums over all sequences. By the noise of a transition x, given all rows, are
 * meant its mean and its square in units of its variance, less what it has without rows; see Koopman
 * & Shephard, Biometrika 1992. Of transitions, these are derivatives of the log-likelihood by A. */
typedef struct {
    double *slopes;       /* (k + d,): twice the derivatives of log-likelihoods by variances */
    double *origin;       /* (k,): a mean state, which is subtracted from those below */
    double *pairs;        /* (k, 2 W + 2): of noise times states; of states times states; of both */
    ptrdiff_t n_entries;  /* of A that are not 0 */
    ptrdiff_t *to, *from; /* (k k,) */
    double *values;       /* (k k,) */
    double *C;            /* (d, W) */
    double *gains;        /* (T, d, W) */
    double *precisions;   /* (T, d): of errors of the filter */
    double *errors;       /* (T, d, M) */
    double *square;       /* (k, W): covariances, and later those of what the smoother adds up */
    double *work;         /* (k, W) */
    double *columns;      /* (k, M) */
    double *moved;        /* (k, M) */
    double *triangle;     /* (q, M): of the regression on d, and its right sides */
    double *inverse;      /* (q,): of its diagonal, which is 0 then, as is what is below it */
    double *block;        /* (ROWS_OF_BLOCK, M): equations that are not in it yet */
    double *row;          /* (M,) */
    double *states;       /* (T, k, M), given the rows so far, like the next, if they are kept */
    double *spreads;      /* (T, k, W) */
    double *turned;       /* (k, W) */
    double *crosswise;    /* (q + S, W) */
} NoiseSpace;

SIMD_UNUSED static NoiseSpace lay_out_noise(const NoiseTask *task, Arena *arena)
{
    const ptrdiff_t k = task->k, W = task->W, M = task->M, n = task->T * task->d;
    NoiseSpace space;
    space.slopes = take_doubles(arena, k + task->d);
    space.origin = take_doubles(arena, k);
    space.pairs = take_doubles(arena, k * (2 * W + 2));
    space.to = (ptrdiff_t *)take(arena, k * k, sizeof(ptrdiff_t));
    space.from = (ptrdiff_t *)take(arena, k * k, sizeof(ptrdiff_t));
    space.values = take_doubles(arena, k * k);
    space.C = take_doubles(arena, task->d * W);
    space.gains = take_doubles(arena, n * W);
    space.precisions = take_doubles(arena, n);
    space.errors = take_doubles(arena, n * M);
    take_each(arena, k * W, &space.square, &space.work, &space.turned);
    take_each(arena, k * M, &space.columns, &space.moved);
    space.triangle = take_doubles(arena, task->q * M);
    space.inverse = take_doubles(arena, task->q);
    space.block = take_doubles(arena, ROWS_OF_BLOCK * M);
    space.row = take_doubles(arena, M);
    space.states = take_doubles(arena, (task->keeps > 0) * task->T * k * M);
    space.spreads = take_doubles(arena, (task->keeps > 0) * task->T * k * W);
    space.crosswise = take_doubles(arena, (task->q + task->S) * W);
    return space;
}

SIMD_INLINE void add_scaled(double factor, const double *x, const ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] += factor * x[i];
}

/* out (n,) <- x' table, of k rows */
SIMD_INLINE void weighted_rows(
    const double *x, const double *table, ptrdiff_t k, ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] = x[0] * table[i];
    for (ptrdiff_t i = 1; i < k; i++)
        if (x[i] != 0) add_scaled(x[i], table + i * n, n, out);
}

/* out (k, n) <- A x, or A' x */
SIMD_INLINE void apply(
    const NoiseSpace *space, int transposes, const double *x, ptrdiff_t k, ptrdiff_t n,
    double *RESTRICT out)
{
    const ptrdiff_t *to = transposes ? space->from : space->to;
    const ptrdiff_t *from = transposes ? space->to : space->from;
    if (k == 1) {
        for (ptrdiff_t i = 0; i < n; i++) out[i] = space->values[0] * x[i];
        return;
    }
    set_zero(k * n, out);
    for (ptrdiff_t e = 0; e < space->n_entries; e++)
        add_scaled(space->values[e], x + from[e] * n, n, out + to[e] * n);
}

/* space->square P <- A P A', or A' P A, at row t */
SIMD_INLINE void apply_twice(
    const NoiseSpace *space, int transposes, ptrdiff_t k, ptrdiff_t W, ptrdiff_t t)
{
    if (k == 1) {
        space->square[0] *= space->values[0] * space->values[0];
        return;
    }
    apply(space, transposes, space->square, k, W, space->work);
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < k; j++) space->square[j * W + i] = space->work[i * W + j];
    apply(space, transposes, space->square, k, W, space->work);
    copy(space->work, k * W, space->square);
    if (t % ROWS_UNTIL_LOOK == 0) symmetrise(space->square, k, W);
}

SIMD_INLINE void move_columns(NoiseSpace *space, int transposes, ptrdiff_t k, ptrdiff_t M)
{
    apply(space, transposes, space->columns, k, M, space->moved);
    double *before = space->columns;
    space->columns = space->moved, space->moved = before;
}

/* space->triangle <- that with the rows of the block, by Householder's reflections. */
SIMD_INLINE void reflect_in(
    const NoiseSpace *space, ptrdiff_t n, ptrdiff_t q, const ptrdiff_t M, double *RESTRICT sum)
{
    for (ptrdiff_t i = 0; i < q; i++) {
        double *RESTRICT own = space->triangle + i * M;
        double squares = 0;
        for (ptrdiff_t r = 0; r < n; r++)
            squares += space->block[r * M + i] * space->block[r * M + i];
        const double size = sqrt(own[i] * own[i] + squares);
        if (sqrt(squares) <= FORGOTTEN * size) continue;
        const double pivot = own[i] > 0 ? -size : size, first = own[i] - pivot;
        copy(own, M, sum);
        for (ptrdiff_t r = 0; r < n; r++) {
            const double *row = space->block + r * M;
            add_scaled(row[i] / first, row, M, sum);
        }
        const double share = -first / pivot;
        add_scaled(-share, sum, M, own);
        for (ptrdiff_t r = 0; r < n; r++) {
            double *row = space->block + r * M;
            add_scaled(-share * row[i] / first, sum, M, row);
        }
    }
}

SIMD_INLINE void start_noise(const NoiseTask *task, NoiseSpace *space)
{
    const ptrdiff_t k = task->k, q = task->q, W = task->W, M = task->M;
    space->n_entries = 0, space->values[0] = 0;
    for (ptrdiff_t i = 0; i < k * k; i++)
        if (task->A[i] != 0) {
            space->to[space->n_entries] = i / k, space->from[space->n_entries] = i % k;
            space->values[space->n_entries++] = task->A[i];
        }
    for (ptrdiff_t j = 0; j < task->d; j++) pad(task->C + j * k, k, W, space->C + j * W);
    for (ptrdiff_t i = 0; i < k; i++) {
        double *own = space->columns + i * M;
        pad(task->covariance + i * k, k, W, space->square + i * W);
        set_zero(M, own);
        for (ptrdiff_t s = 0; s < task->S; s++) own[q + s] = task->mean[i];
    }
    for (ptrdiff_t i = 0; i < q; i++) space->columns[task->diffuse[i] * M + i] = 1;
    set_zero(q * M, space->triangle);
}

/* The filter: gains, variances and errors of all values, and the triangle. */
SIMD_INLINE void filter_noise_sized(
    const NoiseTask *task, NoiseSpace *space, const ptrdiff_t W, const ptrdiff_t M)
{
    const ptrdiff_t k = task->k, q = task->q, S = task->S, d = task->d;
    ptrdiff_t n = 0;
    for (ptrdiff_t t = 0; t < task->T; t++) {
        for (ptrdiff_t j = 0; j < d; j++) {
            const ptrdiff_t at = t * d + j;
            const double *x = task->X + at * S, *C = space->C + j * W;
            double *gain = space->gains + at * W, *error = space->errors + at * M, F = task->R[j];
            if (isnan(x[0])) continue;
            weighted_rows(C, space->square, k, W, gain);
            F += dot(C, gain, k);
            const double precision = 1 / F, unit = sqrt(precision);
            weighted_rows(C, space->columns, k, M, error);
            for (ptrdiff_t i = 0; i < M; i++) error[i] = -error[i];
            for (ptrdiff_t s = 0; s < S; s++) error[q + s] += x[s] - task->offset[j];
            for (ptrdiff_t i = 0; i < k; i++)
                if (gain[i] != 0) {
                    const double own = gain[i] * precision;
                    add_scaled(-own, gain, W, space->square + i * W);
                    add_scaled(own, error, M, space->columns + i * M);
                }
            for (ptrdiff_t i = 0; i < W; i++) gain[i] *= precision;
            space->precisions[at] = precision;
            for (ptrdiff_t i = 0; i < M; i++) space->block[n * M + i] = unit * error[i];
            if (++n < ROWS_OF_BLOCK) continue;
            reflect_in(space, n, q, M, space->row), n = 0;
        }
        if (t + 1 == task->T) break;
        if (task->keeps) {
            copy(space->columns, k * M, space->states + t * k * M);
            copy(space->square, k * W, space->spreads + t * k * W);
        }
        move_columns(space, 0, k, M);
        if (t % ROWS_UNTIL_LOOK == 0)
            for (ptrdiff_t i = 0; i < k; i++)
                for (ptrdiff_t j = 0; j < q; j++)
                    if (fabs(space->columns[i * M + j]) < LEAST_DERIVATIVE)
                        space->columns[i * M + j] = 0;
        apply_twice(space, 0, k, W, t);
        for (ptrdiff_t i = 0; i < k; i++) {
            space->square[i * W + i] += task->Q[i];
            for (ptrdiff_t s = 0; s < S; s++) space->columns[i * M + q + s] += task->b[i];
        }
    }
    reflect_in(space, n, q, M, space->row);
}

/* A row of columns <- that at the best d, and its derivatives by variables of variance 1. */
SIMD_INLINE void at_best_start(
    const NoiseSpace *space, ptrdiff_t q, const ptrdiff_t M, double *RESTRICT row)
{
    for (ptrdiff_t i = 0; i < q; i++) {
        row[i] *= space->inverse[i];
        add_scaled(-row[i], space->triangle + i * M, M, row);
    }
}

/* Errors <- those at the best d, and their derivatives by variables of which it has variance 1;
 * log_likelihoods (S,) <- sums over values. A logarithm takes as long as all else of a value, so
 * that precisions are multiplied as long as their product is a number far from bounds. */
SIMD_INLINE void solve_noise_sized(
    const NoiseTask *task, const NoiseSpace *space, const ptrdiff_t M, double *log_likelihoods)
{
    const ptrdiff_t q = task->q, S = task->S;
    double log_det = 0, product = 1;
    for (ptrdiff_t i = 0; i < q; i++) {
        double *own = space->triangle + i * M;
        space->inverse[i] = 1 / own[i];
        log_det += 2 * log(fabs(own[i]));
        set_zero(i + 1, own);
    }
    for (ptrdiff_t at = 0; at < task->T * task->d; at++) {
        double *RESTRICT error = space->errors + at * M;
        if (isnan(task->X[at * S])) continue;
        const double precision = space->precisions[at];
        log_det += LOG_2_PI, product *= precision;
        if (!(product > LEAST_PRODUCT && product < 1 / LEAST_PRODUCT))
            log_det -= log(product), product = 1;
        at_best_start(space, q, M, error);
        for (ptrdiff_t s = 0; s < S; s++)
            log_likelihoods[s] -= 0.5 * error[q + s] * error[q + s] * precision;
    }
    log_det -= log(product);
    for (ptrdiff_t s = 0; s < S; s++) log_likelihoods[s] -= 0.5 * log_det;
}

/* Of S variables, whose smoothed means are V x and variances V - V^2 y in units of their variance V,
 * where y is less the squares of derivatives: what the sum of their squares is beyond S, by V. */
SIMD_INLINE double excess(const double *x, double y, ptrdiff_t q, ptrdiff_t S)
{
    double own = 0, of_start = 0;
    for (ptrdiff_t i = 0; i < q; i++) of_start += x[i] * x[i];
    for (ptrdiff_t s = 0; s < S; s++) own += x[q + s] * x[q + s];
    return own + (double)S * (of_start - y);
}

/* Pairs get covariances of a transition from row t, before its noise, columns and square, moves
 * back, and after that what means add. Smoothed states are those of the filter and P A' r. */
SIMD_INLINE void add_covariances(
    const NoiseTask *task, NoiseSpace *space, ptrdiff_t t, const ptrdiff_t W)
{
    const ptrdiff_t k = task->k, n = 2 * W + 2;
    const double S = (double)task->S, *spread = space->spreads + t * k * W;
    /* turned <- N A P, work <- A P */
    apply(space, 0, spread, k, W, space->work);
    for (ptrdiff_t i = 0; i < k; i++) {
        double *turned = space->turned + i * W;
        weighted_rows(space->square + i * W, space->work, k, W, turned);
        add_scaled(-S, turned, W, space->pairs + i * n);
    }
    for (ptrdiff_t i = 0; task->keeps > 1 && i < k; i++) {
        double *squares = space->pairs + i * n + W;
        add_scaled(S, spread + i * W, W, squares);
        for (ptrdiff_t l = 0; l < k; l++)
            add_scaled(-S * space->work[l * W + i], space->turned + l * W, W, squares);
    }
}

SIMD_INLINE void add_means(
    const NoiseTask *task, NoiseSpace *space, ptrdiff_t t, const ptrdiff_t W, const ptrdiff_t M)
{
    const ptrdiff_t k = task->k, q = task->q, S = task->S, n = 2 * W + 2;
    double *own = space->row, *states = space->crosswise;
    for (ptrdiff_t i = 0; i < k; i++) {
        double *filtered = space->states + (t * k + i) * M;
        at_best_start(space, q, M, filtered);
        weighted_rows(space->spreads + (t * k + i) * W, space->columns, k, M, own);
        add_scaled(1, filtered, M, own);
        if (t + 2 == task->T) space->origin[i] = own[q];
        for (ptrdiff_t c = 0; c < q; c++) states[c * W + i] = own[c];
        for (ptrdiff_t c = q; c < q + S; c++) states[c * W + i] = own[c] - space->origin[i];
    }
    for (ptrdiff_t i = 0; i < k; i++) {
        const double *noise = space->moved + i * M;
        double *pairs = space->pairs + i * n;
        for (ptrdiff_t c = 0; c < q + S; c++) {
            /* Derivatives are those of all sequences. */
            const double weight = c < q ? (double)S : 1;
            add_scaled(weight * noise[c], states + c * W, W, pairs);
            if (task->keeps < 2) continue;
            add_scaled(weight * states[c * W + i], states + c * W, W, pairs + W);
        }
        for (ptrdiff_t c = q; c < q + S; c++)
            pairs[2 * W] += states[c * W + i], pairs[2 * W + 1] += noise[c];
    }
}

/* The smoother: sums of noise over sequences, and of pairs if states are kept. */
SIMD_INLINE void smooth_noise_sized(
    const NoiseTask *task, NoiseSpace *space, const ptrdiff_t W, const ptrdiff_t M)
{
    const ptrdiff_t k = task->k, q = task->q, S = task->S, d = task->d;
    double *RESTRICT row = space->row;
    set_zero(k * W, space->square);
    set_zero(k * M, space->columns);
    for (ptrdiff_t t = task->T - 1; t >= 0; t--) {
        for (ptrdiff_t j = d - 1; j >= 0; j--) {
            const ptrdiff_t at = t * d + j;
            const double *gain = space->gains + at * W, *error = space->errors + at * M;
            const double *C = space->C + j * W;
            if (isnan(task->X[at * S])) continue;
            const double precision = space->precisions[at];
            weighted_rows(gain, space->columns, k, M, row);
            for (ptrdiff_t i = 0; i < M; i++) row[i] = precision * error[i] - row[i];
            for (ptrdiff_t i = 0; i < k; i++)
                if (C[i] != 0) add_scaled(C[i], row, M, space->columns + i * M);
            weighted_rows(gain, space->square, k, W, space->work);
            const double y = precision + dot(gain, space->work, k);
            space->slopes[k + j] += excess(row, y, q, S);
            for (ptrdiff_t i = 0; i < k; i++) {
                double *own = space->square + i * W;
                add_scaled(-space->work[i], C, W, own);
                if (C[i] == 0) continue;
                add_scaled(-C[i], space->work, W, own);
                add_scaled(C[i] * y, C, W, own);
            }
        }
        if (t == 0) break;
        for (ptrdiff_t i = 0; i < k; i++)
            if (task->Q[i] > 0)
                space->slopes[i] +=
                    excess(space->columns + i * M, space->square[i * W + i], q, S);
        if (task->keeps) add_covariances(task, space, t - 1, W);
        move_columns(space, 1, k, M);
        apply_twice(space, 1, k, W, t);
        if (task->keeps) add_means(task, space, t - 1, W, M);
    }
}

/* out (k, 2 k + 2) <- pairs, without zeros that make whole vectors */
SIMD_UNUSED static void copy_pairs(const NoiseTask *task, const NoiseSpace *space, double *out)
{
    const ptrdiff_t k = task->k, W = task->W;
    for (ptrdiff_t i = 0; i < k; i++, out += 2 * k + 2) {
        const double *own = space->pairs + i * (2 * W + 2);
        copy(own, k, out), copy(own + W, k, out + k), copy(own + 2 * W, 2, out + 2 * k);
    }
}

/* Squares (k + d,) of noise are added, from slopes. */
SIMD_UNUSED static void add_squares_of_noise(
    const NoiseTask *task, const double *slopes, double *squares)
{
    const ptrdiff_t k = task->k, d = task->d;
    for (ptrdiff_t i = 0; i < k + d; i++) {
        const double V = i < k ? task->Q[i] : task->R[i - k];
        ptrdiff_t n = i < k ? task->T - 1 : 0;
        for (ptrdiff_t t = 0; i >= k && t < task->T; t++)
            n += !isnan(task->X[(t * d + i - k) * task->S]);
        squares[i] += V * ((double)(n * task->S) + V * slopes[i]);
    }
}

SIMD_INLINE void expect_noise_sized(
    const NoiseTask *task, NoiseSpace *space, double *log_likelihoods, const ptrdiff_t W,
    const ptrdiff_t M)
{
    filter_noise_sized(task, space, W, M);
    solve_noise_sized(task, space, M, log_likelihoods);
    smooth_noise_sized(task, space, W, M);
}

/* The log-likelihoods of sequences are added, and sums are of all. The usual widths are constants, so
 * that the compiler unrolls the loops. */
SIMD_CLONES SIMD_UNUSED static void expect_noise(
    const NoiseTask *task, NoiseSpace *space, double *log_likelihoods)
{
    const ptrdiff_t k = task->k, W = task->W, M = task->M;
    set_zero(k + task->d, space->slopes);
    set_zero(k * (2 * W + 2), space->pairs);
    set_zero(k, space->origin);
    start_noise(task, space);
    if (W == 4 && M == 4) expect_noise_sized(task, space, log_likelihoods, 4, 4);
    else if (W == 8 && M == 8) expect_noise_sized(task, space, log_likelihoods, 8, 8);
    else if (W == 16 && M == 16) expect_noise_sized(task, space, log_likelihoods, 16, 16);
    else expect_noise_sized(task, space, log_likelihoods, W, M);
}

/* A climb over standard deviations by quasi-Newton steps, as 0 is an ordinary maximum of these, and
 * over coefficients of transitions: of the trials of a step the most; the least deviation, as a share
 * of the largest at the start; the least factor of a deviation in a step, and how many times itself
 * one rises; the factor of the next trial, the share of its promise that a step gains, and the
 * promise, in nats, that is nothing; twice that of a lost variance which is raised, how many times
 * itself its deviation is then, at first and at last, and as which share of the largest it is lost;
 * steps of differences, of logarithms of variances, and of
 * coefficients in standard errors of complete data. */
#define MOST_TRIALS 4
#define LEAST_SHARE 3e-6
#define LEAST_FACTOR 0.5
#define LONGEST_RISE 1.7
#define SHORTER_STEP 0.25
#define SUFFICIENT_GAIN 1e-4
#define NO_PROMISE 1e-5
#define RAISED_PROMISE 2e-4
#define RAISED 10.0
#define LEAST_RAISED 1.5
#define LOST 1e-2
#define DIFFERENCE 1e-2

typedef struct {
    const NoiseTask *task;     /* of which `variances` and `A` are those at values */
    NoiseSpace *space;
    ptrdiff_t p, n;            /* variances that are learnt, and these and coefficients */
    ptrdiff_t most;            /* evaluations */
    const int64_t *places;     /* (k + d,): which of the former each is, or -1 */
    const double *counts;      /* (p,): of noise that has them */
    const double *added;       /* (p,): to squares, by the M-step */
    const double *start;       /* (k, k): transitions, where coefficients are 0 */
    const double *directions;  /* (n - p, k, k): in which coefficients move these */
    const double *covariance;  /* (n - p, n - p): of coefficients, given complete data */
    double *variances;         /* INOUT (k + d,) */
    double *values;            /* INOUT (n,) */
    double *derivatives;       /* OUT (n, n): of slopes, in rows */
    ptrdiff_t n_read;          /* OUT: how often the rows were read */
    double promised;           /* OUT: the gain that is left */
    double here;               /* the log-likelihood at values */
    double *A;                 /* (k, k) */
    double *totals;            /* (S,) */
    double *raw; /* (n,): twice derivatives by variances, and those by coefficients */
    double *score, *there, *score_there, *direction, *work; /* (n,) */
    double *inverse; /* (n, n): of the negative second derivatives */
} Climb;

SIMD_UNUSED static void lay_out_climb(const NoiseTask *task, Climb *climb, Arena *arena)
{
    climb->A = take_doubles(arena, task->k * task->k);
    climb->totals = take_doubles(arena, task->S);
    take_each(arena, climb->n, &climb->raw, &climb->score, &climb->there, &climb->work,
              &climb->score_there, &climb->direction);
    climb->inverse = take_doubles(arena, climb->n * climb->n);
}

/* The model at values, and slopes by variances and coefficients there. */
SIMD_INLINE void read_at(Climb *climb, const double *values)
{
    const NoiseTask *task = climb->task;
    const NoiseSpace *space = climb->space;
    const ptrdiff_t k = task->k, p = climb->p;
    const double *direction = climb->directions;
    for (ptrdiff_t i = 0; i < k + task->d; i++)
        if (climb->places[i] >= 0) {
            const double own = values[climb->places[i]];
            climb->variances[i] = own * own;
        }
    copy(climb->start, k * k, climb->A);
    for (ptrdiff_t c = p; c < climb->n; c++)
        add_scaled(values[c], climb->directions + (c - p) * k * k, k * k, climb->A);
    set_zero(task->S, climb->totals);
    expect_noise(task, climb->space, climb->totals);
    climb->n_read++;
    set_zero(climb->n, climb->raw);
    for (ptrdiff_t i = 0; i < k + task->d; i++)
        if (climb->places[i] >= 0) climb->raw[climb->places[i]] += space->slopes[i];
    for (ptrdiff_t c = p; c < climb->n; c++, direction += k * k)
        for (ptrdiff_t i = 0; i < k; i++) {
            const double *of_noise = space->pairs + i * (2 * task->W + 2);
            for (ptrdiff_t j = 0; j < k; j++)
                climb->raw[c] += direction[i * k + j] *
                                 (of_noise[j] + of_noise[2 * task->W + 1] * space->origin[j]);
        }
}

/* The log-likelihood, with what is added as pseudo-data, and its score. */
SIMD_UNUSED static double climb_score(Climb *climb, const double *values, double *score)
{
    double total = 0;
    read_at(climb, values);
    for (ptrdiff_t s = 0; s < climb->task->S; s++) total += climb->totals[s];
    copy(climb->raw, climb->n, score);
    for (ptrdiff_t i = 0; i < climb->p; i++) {
        const double V = values[i] * values[i], pseudo = climb->counts[i] * climb->added[i] / V;
        total -= 0.5 * pseudo;
        score[i] = values[i] * climb->raw[i] + pseudo / values[i];
    }
    return total;
}

/* Twice the derivative of the log-likelihood, from the score. */
SIMD_INLINE double slope_by_variance(const Climb *climb, ptrdiff_t i)
{
    const double own = climb->values[i], pseudo = climb->counts[i] * climb->added[i];
    return (climb->score[i] - pseudo / (own * own * own)) / own;
}

/* In units in which a step along the score is one of EM. */
SIMD_INLINE void reset_inverse(const Climb *climb)
{
    const ptrdiff_t p = climb->p, n = climb->n;
    set_zero(n * n, climb->inverse);
    for (ptrdiff_t i = 0; i < p; i++)
        climb->inverse[i * n + i] = climb->values[i] * climb->values[i] / (2 * climb->counts[i]);
    for (ptrdiff_t c = 0; c < n - p; c++)
        copy(climb->covariance + c * (n - p), n - p, climb->inverse + (p + c) * n + p);
}

/* Broyden, Fletcher, Goldfarb and Shanno's inverse after a step to `there`, if it is definite. */
SIMD_INLINE void update_inverse(const Climb *climb)
{
    const ptrdiff_t n = climb->n;
    double *step = climb->direction, *change = climb->score, *turned = climb->work;
    for (ptrdiff_t i = 0; i < n; i++) {
        step[i] = climb->there[i] - climb->values[i];
        change[i] -= climb->score_there[i];
    }
    const double along = dot(step, change, n);
    if (!(along > 1e-8 * sqrt(dot(step, step, n) * dot(change, change, n)))) return;
    for (ptrdiff_t i = 0; i < n; i++) turned[i] = dot(climb->inverse + i * n, change, n);
    const double share = (1 + dot(turned, change, n) / along) / along;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            climb->inverse[i * n + j] += share * step[i] * step[j] -
                                         (turned[i] * step[j] + step[i] * turned[j]) / along;
}

/* Derivatives of slopes by logarithms of variances and by coefficients. */
SIMD_UNUSED static void differentiate_slopes(Climb *climb)
{
    const ptrdiff_t p = climb->p, n = climb->n;
    copy(climb->score, n, climb->work);
    for (ptrdiff_t i = 0; i < p; i++) climb->work[i] = slope_by_variance(climb, i);
    for (ptrdiff_t j = 0; j < n; j++) {
        double step = DIFFERENCE;
        copy(climb->values, n, climb->there);
        if (j < p) climb->there[j] *= exp(0.5 * step), step = expm1(step);
        else climb->there[j] += step *= sqrt(climb->covariance[(j - p) * (n - p + 1)]);
        read_at(climb, climb->there);
        for (ptrdiff_t i = 0; i < n; i++)
            climb->derivatives[i * n + j] = (climb->raw[i] - climb->work[i]) / step;
    }
}

/* Near a deviation of 0 its score vanishes, also where the likelihood rises with the variance. Values
 * <- those with one such variance raised as long as that is better; returns whether it was. */
SIMD_INLINE int raise_lost(Climb *climb)
{
    double largest = 0;
    for (ptrdiff_t i = 0; i < climb->p; i++) largest = fmax(largest, climb->values[i]);
    for (ptrdiff_t i = 0; i < climb->p; i++) {
        const double slope = slope_by_variance(climb, i);
        const double first = sqrt(RAISED_PROMISE / slope) / climb->values[i];
        int is_better = 0;
        if (!(slope > 0 && climb->values[i] < LOST * largest)) continue;
        double factor = fmax(RAISED, first);
        while (factor > LEAST_RAISED && climb->n_read < climb->most) {
            copy(climb->values, climb->n, climb->there);
            climb->there[i] *= factor;
            const double there = climb_score(climb, climb->there, climb->score_there);
            if (there > climb->here + NO_PROMISE) {
                if (!is_better) factor = RAISED;
                is_better = 1, climb->here = there;
                climb->values[i] = climb->there[i];
                copy(climb->score_there, climb->n, climb->score);
            } else if (is_better) {
                factor = sqrt(factor);
            } else {
                break;
            }
        }
        if (is_better) return 1;
    }
    return 0;
}

/* Values and variances <- those at a maximum. */
SIMD_UNUSED static void climb_noise(Climb *climb)
{
    const ptrdiff_t p = climb->p, n = climb->n;
    int is_fresh = 1;
    double least = 0, slope = 0;
    climb->n_read = 0;
    for (ptrdiff_t i = 0; i < p; i++) least = fmax(least, LEAST_SHARE * climb->values[i]);
    climb->here = climb_score(climb, climb->values, climb->score);
    reset_inverse(climb);
    while (climb->n_read < climb->most) {
        double rise = 0, there = -HUGE_VAL;
        slope = 0;
        for (ptrdiff_t i = 0; i < n; i++) {
            climb->direction[i] = dot(climb->inverse + i * n, climb->score, n);
            if (i < p && climb->values[i] <= least && climb->direction[i] < 0)
                climb->direction[i] = 0;
            slope += climb->direction[i] * climb->score[i];
            if (i < p) rise = fmax(rise, climb->direction[i] / climb->values[i]);
        }
        if (!(slope > 2 * NO_PROMISE)) {
            if (!raise_lost(climb)) break;
            reset_inverse(climb), is_fresh = 1;
            continue;
        }
        double length = rise > LONGEST_RISE ? LONGEST_RISE / rise : 1;
        int is_better = 0;
        for (int trial = 0; trial < MOST_TRIALS && !is_better; trial++) {
            for (ptrdiff_t i = 0; i < n; i++) {
                const double own = climb->values[i], next = own + length * climb->direction[i];
                const double low = fmin(own, fmax(least, LEAST_FACTOR * own));
                climb->there[i] = i < p ? fmax(next, low) : next;
            }
            there = climb_score(climb, climb->there, climb->score_there);
            is_better = there - climb->here >= SUFFICIENT_GAIN * length * slope;
            length *= SHORTER_STEP;
        }
        if (is_better) {
            is_fresh = 0, climb->here = there;
            update_inverse(climb);
            copy(climb->there, n, climb->values);
            copy(climb->score_there, n, climb->score);
        } else if (is_fresh) {
            break;
        } else {
            reset_inverse(climb), is_fresh = 1;
        }
    }
    differentiate_slopes(climb);
    climb->promised = 0.5 * slope;
}
