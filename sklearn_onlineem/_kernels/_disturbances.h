/* Smoothed noise of linear systems whose variables are independent, from diffuse starts.
 *
 * Given the diffuse variables d of the first state, errors of the filter are v + V d, so that d is a
 * regression on all values, and covariances are those of a known start. Columns of states are their
 * derivatives by d, and the states of S sequences with the same gaps where d is 0. A row is read
 * value by value; see Durbin & Koopman, chapters 4.5, 5 and 6.4. */
#ifndef SKLEARN_ONLINEEM_DISTURBANCES_H
#define SKLEARN_ONLINEEM_DISTURBANCES_H

#include "_arena.h"
#include "_small_matrices.h"

#define LOG_2_PI 1.8378770664093453

/* Equations that enter the triangle together, and their share in it that is nothing; the least
 * derivative, as products of smaller ones are slow, and how often these are looked for. */
#define ROWS_OF_BLOCK 16
#define FORGOTTEN 1e-20
#define LEAST_DERIVATIVE 1e-200
#define ROWS_UNTIL_LOOK 64

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
} NoiseTask;

typedef struct {
    ptrdiff_t n_entries;  /* of A that are not 0 */
    ptrdiff_t *to, *from; /* (k k,) */
    double *values;       /* (k k,) */
    double *C;            /* (d, W) */
    double *gains;        /* (T, d, W) */
    double *variances;    /* (T, d): of errors of the filter */
    double *errors;       /* (T, d, M) */
    double *square;       /* (k, W): covariances, and later those of what the smoother adds up */
    double *work;         /* (k, W) */
    double *columns;      /* (k, M) */
    double *moved;        /* (k, M) */
    double *triangle;     /* (q, M): of the regression on d, and its right sides */
    double *inverse;      /* (q,): of its diagonal, which is 0 then, as is what is below it */
    double *block;        /* (ROWS_OF_BLOCK, M): equations that are not in it yet */
    double *row;          /* (M,) */
} NoiseSpace;

SIMD_UNUSED static NoiseSpace lay_out_noise(const NoiseTask *task, Arena *arena)
{
    const ptrdiff_t k = task->k, W = task->W, M = task->M, n = task->T * task->d;
    NoiseSpace space;
    space.to = (ptrdiff_t *)take(arena, k * k, sizeof(ptrdiff_t));
    space.from = (ptrdiff_t *)take(arena, k * k, sizeof(ptrdiff_t));
    space.values = take_doubles(arena, k * k);
    space.C = take_doubles(arena, task->d * W);
    space.gains = take_doubles(arena, n * W);
    space.variances = take_doubles(arena, n);
    space.errors = take_doubles(arena, n * M);
    space.square = take_doubles(arena, k * W);
    space.work = take_doubles(arena, k * W);
    space.columns = take_doubles(arena, k * M);
    space.moved = take_doubles(arena, k * M);
    space.triangle = take_doubles(arena, task->q * M);
    space.inverse = take_doubles(arena, task->q);
    space.block = take_doubles(arena, ROWS_OF_BLOCK * M);
    space.row = take_doubles(arena, M);
    return space;
}

SIMD_INLINE void add_scaled(
    double factor, const double *x, const ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] += factor * x[i];
}

/* out (n,) <- x' table, of k rows */
SIMD_INLINE void weighted_rows(
    const double *x, const double *table, ptrdiff_t k, ptrdiff_t n, double *RESTRICT out)
{
    set_zero(n, out);
    for (ptrdiff_t i = 0; i < k; i++)
        if (x[i] != 0) add_scaled(x[i], table + i * n, n, out);
}

/* out (k, n) <- A x, or A' x */
SIMD_INLINE void apply(
    const NoiseSpace *space, int transposes, const double *x, ptrdiff_t k, ptrdiff_t n,
    double *RESTRICT out)
{
    const ptrdiff_t *to = transposes ? space->from : space->to;
    const ptrdiff_t *from = transposes ? space->to : space->from;
    set_zero(k * n, out);
    for (ptrdiff_t e = 0; e < space->n_entries; e++)
        add_scaled(space->values[e], x + from[e] * n, n, out + to[e] * n);
}

/* space->square P <- A P A', or A' P A */
SIMD_INLINE void apply_twice(const NoiseSpace *space, int transposes, ptrdiff_t k, ptrdiff_t W)
{
    apply(space, transposes, space->square, k, W, space->work);
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < k; j++) space->square[j * W + i] = space->work[i * W + j];
    apply(space, transposes, space->square, k, W, space->work);
    copy(space->work, k * W, space->square);
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
    space->n_entries = 0;
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
            weighted_rows(C, space->columns, k, M, error);
            for (ptrdiff_t i = 0; i < M; i++) error[i] = -error[i];
            for (ptrdiff_t s = 0; s < S; s++) error[q + s] += x[s] - task->offset[j];
            for (ptrdiff_t i = 0; i < k; i++)
                if (gain[i] != 0) {
                    add_scaled(-gain[i] / F, gain, W, space->square + i * W);
                    add_scaled(gain[i] / F, error, M, space->columns + i * M);
                }
            for (ptrdiff_t i = 0; i < W; i++) gain[i] /= F;
            space->variances[at] = F;
            const double unit = 1 / sqrt(F);
            for (ptrdiff_t i = 0; i < M; i++) space->block[n * M + i] = unit * error[i];
            if (++n < ROWS_OF_BLOCK) continue;
            reflect_in(space, n, q, M, space->row);
            n = 0;
        }
        if (t + 1 == task->T) break;
        move_columns(space, 0, k, M);
        if (t % ROWS_UNTIL_LOOK == 0)
            for (ptrdiff_t i = 0; i < k; i++)
                for (ptrdiff_t j = 0; j < q; j++)
                    if (fabs(space->columns[i * M + j]) < LEAST_DERIVATIVE)
                        space->columns[i * M + j] = 0;
        apply_twice(space, 0, k, W);
        for (ptrdiff_t i = 0; i < k; i++) {
            space->square[i * W + i] += task->Q[i];
            for (ptrdiff_t s = 0; s < S; s++) space->columns[i * M + q + s] += task->b[i];
        }
    }
    reflect_in(space, n, q, M, space->row);
}

/* Errors <- those at the best d, and their derivatives by variables of which it has variance 1;
 * log_likelihoods (S,) <- sums over values. */
SIMD_INLINE void solve_noise_sized(
    const NoiseTask *task, const NoiseSpace *space, const ptrdiff_t M, double *log_likelihoods)
{
    const ptrdiff_t q = task->q, S = task->S;
    double log_det = 0;
    for (ptrdiff_t i = 0; i < q; i++) {
        double *own = space->triangle + i * M;
        space->inverse[i] = 1 / own[i];
        log_det += 2 * log(fabs(own[i]));
        set_zero(i + 1, own);
    }
    for (ptrdiff_t at = 0; at < task->T * task->d; at++) {
        double *RESTRICT error = space->errors + at * M;
        if (isnan(task->X[at * S])) continue;
        const double F = space->variances[at];
        log_det += LOG_2_PI + log(F);
        for (ptrdiff_t i = 0; i < q; i++) {
            error[i] *= space->inverse[i];
            add_scaled(-error[i], space->triangle + i * M, M, error);
        }
        for (ptrdiff_t s = 0; s < S; s++)
            log_likelihoods[s] -= 0.5 * error[q + s] * error[q + s] / F;
    }
    for (ptrdiff_t s = 0; s < S; s++) log_likelihoods[s] -= 0.5 * log_det;
}

/* Of S variables of variance V, whose smoothed means are V x and their variances V - V^2 y, where y
 * is less the squares of derivatives: the sum of squares. */
SIMD_INLINE double sum_of_squares(const double *x, double y, double V, ptrdiff_t q, ptrdiff_t S)
{
    double own = 0, of_start = 0;
    for (ptrdiff_t i = 0; i < q; i++) of_start += x[i] * x[i];
    for (ptrdiff_t s = 0; s < S; s++) own += x[q + s] * x[q + s];
    return V * ((double)S * (1 - V * (y - of_start)) + V * own);
}

/* The smoother: sums of squares of noise over sequences: transitions, observed values. */
SIMD_INLINE void smooth_noise_sized(
    const NoiseTask *task, NoiseSpace *space, const ptrdiff_t W, const ptrdiff_t M,
    double *of_states, double *of_rows)
{
    const ptrdiff_t k = task->k, q = task->q, S = task->S, d = task->d;
    double *RESTRICT row = space->row;
    set_zero(k * W, space->square);
    set_zero(k * M, space->columns);
    for (ptrdiff_t t = task->T - 1; t >= 0; t--) {
        for (ptrdiff_t j = d - 1; j >= 0; j--) {
            const ptrdiff_t at = t * d + j;
            const double *gain = space->gains + at * W, *error = space->errors + at * M;
            const double *C = space->C + j * W, V = task->R[j];
            if (isnan(task->X[at * S])) continue;
            const double F = space->variances[at];
            weighted_rows(gain, space->columns, k, M, row);
            for (ptrdiff_t i = 0; i < M; i++) row[i] = error[i] / F - row[i];
            for (ptrdiff_t i = 0; i < k; i++)
                if (C[i] != 0) add_scaled(C[i], row, M, space->columns + i * M);
            weighted_rows(gain, space->square, k, W, space->work);
            const double y = 1 / F + dot(gain, space->work, k);
            of_rows[j] += sum_of_squares(row, y, V, q, S);
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
                of_states[i] += sum_of_squares(
                    space->columns + i * M, space->square[i * W + i], task->Q[i], q, S);
        move_columns(space, 1, k, M);
        apply_twice(space, 1, k, W);
    }
}

/* The usual widths are constants, so that the compiler unrolls the loops. */
SIMD_CLONES SIMD_UNUSED static void filter_noise(const NoiseTask *task, NoiseSpace *space)
{
    const ptrdiff_t W = task->W, M = task->M;
    if (W == 4 && M == 4) filter_noise_sized(task, space, 4, 4);
    else if (W == 8 && M == 8) filter_noise_sized(task, space, 8, 8);
    else if (W == 16 && M == 16) filter_noise_sized(task, space, 16, 16);
    else filter_noise_sized(task, space, W, M);
}

SIMD_CLONES SIMD_UNUSED static void solve_noise(
    const NoiseTask *task, const NoiseSpace *space, double *log_likelihoods)
{
    if (task->M == 4) solve_noise_sized(task, space, 4, log_likelihoods);
    else if (task->M == 8) solve_noise_sized(task, space, 8, log_likelihoods);
    else if (task->M == 16) solve_noise_sized(task, space, 16, log_likelihoods);
    else solve_noise_sized(task, space, task->M, log_likelihoods);
}

SIMD_CLONES SIMD_UNUSED static void smooth_noise(
    const NoiseTask *task, NoiseSpace *space, double *of_states, double *of_rows)
{
    const ptrdiff_t W = task->W, M = task->M;
    if (W == 4 && M == 4) smooth_noise_sized(task, space, 4, 4, of_states, of_rows);
    else if (W == 8 && M == 8) smooth_noise_sized(task, space, 8, 8, of_states, of_rows);
    else if (W == 16 && M == 16) smooth_noise_sized(task, space, 16, 16, of_states, of_rows);
    else smooth_noise_sized(task, space, W, M, of_states, of_rows);
}

/* A climb over standard deviations by quasi-Newton steps, as 0 is an ordinary maximum of these: of
 * all evaluations the most, and of the trials of a step; the least deviation, as a share of the
 * largest at the start; the least factor of a deviation in a step, and how many times itself one
 * rises; the factor of the next trial, the share of its promise that a step gains, and the promise,
 * in nats, that is nothing. */
#define MOST_EVALUATIONS 100
#define MOST_TRIALS 4
#define LEAST_SHARE 3e-6
#define LEAST_FACTOR 0.1
#define LONGEST_RISE 1.7
#define SHORTER_STEP 0.25
#define SUFFICIENT_GAIN 1e-4
#define NO_PROMISE 1e-5

typedef struct {
    ptrdiff_t p;          /* variances that are learnt */
    const int64_t *which; /* (p,): those of states, and of rows, from k on */
    const double *counts; /* (p,): of noise that has them */
    const double *added;  /* (p,): to squares, by the M-step */
    double *variances;    /* (k + d,) */
    double *squares;      /* (k + d,) */
    double *sums;         /* (S,) */
    double *deviations, *score, *there, *score_there, *direction, *work; /* (p,) */
    double *inverse; /* (p, p): of the negative second derivatives */
} Climb;

SIMD_UNUSED static void lay_out_climb(const NoiseTask *task, Climb *climb, Arena *arena)
{
    double **arrays[] = {&climb->deviations, &climb->score, &climb->there, &climb->score_there,
                         &climb->direction, &climb->work};
    climb->squares = take_doubles(arena, task->k + task->d);
    climb->sums = take_doubles(arena, task->S);
    for (int i = 0; i < 6; i++) *arrays[i] = take_doubles(arena, climb->p);
    climb->inverse = take_doubles(arena, climb->p * climb->p);
}

/* The log-likelihood, with what is added as pseudo-data, and its score by deviations. */
SIMD_UNUSED static double climb_score(
    const NoiseTask *task, NoiseSpace *space, Climb *climb, const double *deviations, double *score)
{
    double total = 0;
    for (ptrdiff_t i = 0; i < climb->p; i++)
        climb->variances[climb->which[i]] = deviations[i] * deviations[i];
    set_zero(task->k + task->d, climb->squares);
    set_zero(task->S, climb->sums);
    start_noise(task, space);
    filter_noise(task, space);
    solve_noise(task, space, climb->sums);
    smooth_noise(task, space, climb->squares, climb->squares + task->k);
    for (ptrdiff_t s = 0; s < task->S; s++) total += climb->sums[s];
    for (ptrdiff_t i = 0; i < climb->p; i++) {
        const double V = climb->variances[climb->which[i]], n = climb->counts[i];
        const double pseudo = n * climb->added[i] / V;
        total -= 0.5 * pseudo;
        score[i] = (climb->squares[climb->which[i]] / V + pseudo - n) / deviations[i];
    }
    return total;
}

/* In units in which a step along the score is one of EM. */
SIMD_INLINE void reset_inverse(const Climb *climb)
{
    set_zero(climb->p * climb->p, climb->inverse);
    for (ptrdiff_t i = 0; i < climb->p; i++)
        climb->inverse[i * climb->p + i] =
            climb->deviations[i] * climb->deviations[i] / (2 * climb->counts[i]);
}

/* Broyden, Fletcher, Goldfarb and Shanno's inverse after a step to `there`, if it is definite. */
SIMD_INLINE void update_inverse(const Climb *climb)
{
    const ptrdiff_t p = climb->p;
    double *step = climb->direction, *change = climb->score, *turned = climb->work;
    for (ptrdiff_t i = 0; i < p; i++) {
        step[i] = climb->there[i] - climb->deviations[i];
        change[i] -= climb->score_there[i];
    }
    const double along = dot(step, change, p);
    if (!(along > 1e-8 * sqrt(dot(step, step, p) * dot(change, change, p)))) return;
    for (ptrdiff_t i = 0; i < p; i++) turned[i] = dot(climb->inverse + i * p, change, p);
    const double share = (1 + dot(turned, change, p) / along) / along;
    for (ptrdiff_t i = 0; i < p; i++)
        for (ptrdiff_t j = 0; j < p; j++)
            climb->inverse[i * p + j] += share * step[i] * step[j] -
                                         (turned[i] * step[j] + step[i] * turned[j]) / along;
}

/* Variances <- those at a maximum; returns how often the rows were read, and sets the gain that is
 * still promised. */
SIMD_UNUSED static ptrdiff_t climb_noise(
    const NoiseTask *task, NoiseSpace *space, Climb *climb, double *promised)
{
    const ptrdiff_t p = climb->p;
    ptrdiff_t n = 1, is_fresh = 1;
    double least = 0, slope = 0;
    for (ptrdiff_t i = 0; i < p; i++) {
        climb->deviations[i] = sqrt(climb->variances[climb->which[i]]);
        least = fmax(least, LEAST_SHARE * climb->deviations[i]);
    }
    double here = climb_score(task, space, climb, climb->deviations, climb->score);
    reset_inverse(climb);
    while (n < MOST_EVALUATIONS) {
        double rise = 0, there = -HUGE_VAL;
        slope = 0;
        for (ptrdiff_t i = 0; i < p; i++) {
            climb->direction[i] = dot(climb->inverse + i * p, climb->score, p);
            if (climb->deviations[i] <= least && climb->direction[i] < 0) climb->direction[i] = 0;
            slope += climb->direction[i] * climb->score[i];
            rise = fmax(rise, climb->direction[i] / climb->deviations[i]);
        }
        if (!(slope > 2 * NO_PROMISE)) break;
        double length = rise > LONGEST_RISE ? LONGEST_RISE / rise : 1;
        int is_better = 0;
        for (int trial = 0; trial < MOST_TRIALS && !is_better; trial++, n++) {
            for (ptrdiff_t i = 0; i < p; i++) {
                const double own = climb->deviations[i], low = fmax(least, LEAST_FACTOR * own);
                climb->there[i] = fmax(own + length * climb->direction[i], fmin(own, low));
            }
            there = climb_score(task, space, climb, climb->there, climb->score_there);
            is_better = there - here >= SUFFICIENT_GAIN * length * slope;
            length *= SHORTER_STEP;
        }
        if (is_better) {
            is_fresh = 0, here = there;
            update_inverse(climb);
            copy(climb->there, p, climb->deviations);
            copy(climb->score_there, p, climb->score);
        } else if (is_fresh) {
            break;
        } else {
            reset_inverse(climb), is_fresh = 1;
        }
    }
    for (ptrdiff_t i = 0; i < p; i++)
        climb->variances[climb->which[i]] = climb->deviations[i] * climb->deviations[i];
    *promised = 0.5 * slope;
    return n;
}

#endif
