/* What does not depend on the data of sequences without missing values: covariances and gains,
 * tabulated up to the steady state, and the moments of states under the model itself. */
#pragma once

#include "_kalman_steps.h"
#include "_kalman_sums.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* Likewise a mean and its covariance, one after the other. */
SIMD_UNUSED static int state_is_steady(const double *x, const double *y, ptrdiff_t k, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < k; i++)
        if (!(fabs(x[i] - y[i]) <= STEADY * (sqrt(x[W + i * (W + 1)]) + fabs(x[i])))) return 0;
    return is_steady(x + W, y + W, k, W);
}

typedef struct {
    ptrdiff_t n;       /* steps; the last one stands for all that follow */
    double *filtered;  /* (n, W, W), covariances */
    double *move;      /* (n, W, W), transposed: what innovations of whitened values move states by */
    double *root;      /* (n, W, W), transposed: innovations have no correlations after it */
    double *gain;      /* (n, W, W), transposed */
    double *rest;      /* (n, W, W), covariances given the next state */
    double *log_det;   /* (n,) */
} GainTables;

/* Scratch memory of `tabulate`. */
typedef struct {
    Update update;
    double *states;  /* two filtered ones: of this step, and of the next */
    double *H;       /* (W, W), and so all that follows */
    double *G;
    double *product;
    double *next;
    double *shrink;
} Tabulation;

SIMD_UNUSED static Tabulation lay_out_tabulation(ptrdiff_t W, Arena *arena)
{
    Tabulation tabulation;
    tabulation.states = take_doubles(arena, 2 * filtered_size(W));
    tabulation.update = lay_out_update(W, arena);
    take_each(arena, W * W, &tabulation.H, &tabulation.G, &tabulation.product, &tabulation.next,
              &tabulation.shrink);
    return tabulation;
}

/* tables <- at most n steps from `covariance` (W, W), that before the first row, which moves on;
 * Ht (W, W) is that of `Shared`. Returns whether the last one stands for all that follow. */
SIMD_UNUSED static int tabulate(
    const System *system, const double *Ht, ptrdiff_t n, Tabulation *scratch, double *covariance,
    GainTables *tables)
{
    ptrdiff_t k = system->k, W = system->W, size = W * W;
    Update *update = &scratch->update;
    double *product = scratch->product, *next_covariance = scratch->next;
    FilteredState now = filtered_at(scratch->states, 0, W);
    FilteredState next = filtered_at(scratch->states, 1, W);
    set_zero(2 * filtered_size(W), scratch->states);
    clear_update(W, update);
    factorise(covariance, k, W, now.upper, now.inverse);
    transpose_square(Ht, W, scratch->H);
    set_zero(size, scratch->G);
    add_transposed_product(scratch->H, scratch->H, k, k, W, scratch->G);
    for (ptrdiff_t t = 0; t < n; t++) {
        double *gain = tables->gain + t * size, *rest = tables->rest + t * size;
        filter_covariance(scratch->G, k, W, update, &now);
        tables->log_det[t] = update->log_det;
        copy(now.covariance, size, tables->filtered + t * size);
        matrix_product(scratch->H, now.covariance, k, W, tables->move + t * size);
        /* Innovations have the covariance S'S = I + H P H', P = U'U; what is tabulated is S^-1. */
        matrix_product(now.upper, Ht, k, W, product);
        set_zero(size, update->M);
        for (ptrdiff_t i = 0; i < k; i++) update->M[i * W + i] = 1;
        copy(update->M, size, update->X);
        add_transposed_product(product, product, k, k, W, update->M);
        factorise(update->M, k, W, update->M_upper, update->M_inverse);
        substitute_forward(update->M_upper, update->M_inverse, k, W, W, update->X);
        transpose_square(update->X, W, tables->root + t * size);
        predict_covariance(system, now.covariance, product, next_covariance);
        factorise(next_covariance, k, W, next.upper, next.inverse);
        smoother_gain(system, now.covariance, next.upper, next.inverse, gain, scratch->shrink);
        set_zero(size, rest);
        add_quadratic(scratch->shrink, now.covariance, k, W, product, rest);
        add_quadratic(gain, system->Q, k, W, product, rest);
        symmetrise(rest, k, W);
        tables->n = t + 1;
        if (is_steady(covariance, next_covariance, k, W)) return 1;
        copy(next_covariance, size, covariance);
        FilteredState swap = now;
        now = next;
        next = swap;
    }
    return 0;
}

/* Sum over T rows of what is in log_det. */
SIMD_UNUSED static double sum_log_dets(const GainTables *tables, ptrdiff_t T)
{
    const ptrdiff_t n = T < tables->n ? T : tables->n;
    double sum = (double)(T - n) * tables->log_det[tables->n - 1];
    for (ptrdiff_t t = 0; t < n; t++) sum += tables->log_det[t];
    return sum;
}

/* sums (N_SUMS, W, W) <- sums + count times those of a sequence of T rows; work (N_SUMS + 3, W, W) */
SIMD_UNUSED static void add_covariances(
    const GainTables *tables, ptrdiff_t T, double count, ptrdiff_t k, ptrdiff_t W, double *work,
    double *sums)
{
    const ptrdiff_t size = W * W, last = tables->n - 1;
    double *now = work, *before = now + size, *lag = before + size, *one = lag + size;
    set_zero(N_SUMS * size, one);
    copy(tables->filtered + (T - 1 < last ? T - 1 : last) * size, size, now);
    add(now, size, one + EMITTING * size);
    if (T > 1) add(now, size, one + ARRIVING * size);
    for (ptrdiff_t t = T - 2; t >= 0; t--) {
        ptrdiff_t step = t < last ? t : last;
        double times = 1;
        matrix_product(now, tables->gain + step * size, k, W, lag);
        copy(tables->rest + step * size, size, before);
        add_transposed_product(tables->gain + step * size, lag, k, k, W, before);
        symmetrise(before, k, W);
        if (t > last && is_steady(before, now, k, W)) {
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

/* An unstable system is taken to stop growing at so many times its start: any occupancy keeps the
 * promise that a step lowers the objective of its batch, but not one that overflows. */
#define LARGEST_GROWTH 1e10

/* Steps of equal weight that are summed at once. */
#define FEWEST_ALIKE 16

/* Mean of the squared length. */
SIMD_UNUSED static double mean_square(const double *state, ptrdiff_t k, ptrdiff_t W)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < k; i++) sum += state[i] * state[i] + state[W + i * (W + 1)];
    return sum;
}

/* What is left of a start is forgotten, in units of the states, so that a level of 1e8 is, too; and
 * the steps to that are at most two to this power. */
#define FORGOTTEN 1e-24
#define MOST_FORGETTING 16

SIMD_UNUSED static int is_forgotten(const double *form, ptrdiff_t W)
{
    for (ptrdiff_t i = 0; i < W * W; i++)
        if (!(fabs(form[i]) < FORGOTTEN)) return 0;
    return 1;
}

/* First power of a form (W, W) that is nothing beside 1, or 0 if it is too far; powers
 * (MOST_FORGETTING + 1, W, W), of which the first is the form, product and longer (W, W) */
SIMD_UNUSED static ptrdiff_t steps_until_forgotten(
    ptrdiff_t k, ptrdiff_t W, double *powers, double *product, double *longer)
{
    const ptrdiff_t size = W * W;
    ptrdiff_t n = 0, steps = 0;
    for (; !is_forgotten(powers + n * size, W); n++) {
        if (n == MOST_FORGETTING) return 0;
        matrix_product(powers + n * size, powers + n * size, k, W, powers + (n + 1) * size);
    }
    set_zero(size, product);
    for (ptrdiff_t i = 0; i < k; i++) product[i * W + i] = 1;
    for (; n >= 0; n--) {
        matrix_product(product, powers + n * size, k, W, longer);
        if (is_forgotten(longer, W)) continue;
        steps += (ptrdiff_t)1 << n;
        copy(longer, size, product);
    }
    return steps + 1;
}

/* The states of some steps of equal weight. The sums over 2 N of them follow from those over N, as
 * state t + N is the same affine map of each state t, with the same noise. */
typedef struct {
    double *first;      /* (W,): mean of the first state, and what shifts are from */
    double *move;       /* (W,): shift of the second state */
    double *shift;      /* (W,): of the state after the last */
    double *covariance; /* (W, W): of that state */
    double *power;      /* (W, W): A'^N */
    double *noise;      /* (W, W): what N steps add to covariances */
    double *total;      /* (W,): sum of shifts */
    double *sum;        /* (W, W): of covariances, and products of shifts */
    double *turned;     /* (W,) */
    double *next;       /* (W, W) */
    double *product;    /* (W, W) */
} Stretch;

SIMD_UNUSED static Stretch lay_out_stretch(ptrdiff_t W, Arena *arena)
{
    Stretch stretch;
    take_each(arena, W, &stretch.first, &stretch.move, &stretch.shift, &stretch.total,
              &stretch.turned);
    take_each(arena, W * W, &stretch.covariance, &stretch.power, &stretch.noise, &stretch.sum,
              &stretch.next, &stretch.product);
    return stretch;
}

/* covariance <- form' covariance form + noise */
SIMD_INLINE void move_covariance(
    const double *form, const double *noise, ptrdiff_t k, ptrdiff_t W, const Stretch *stretch,
    double *covariance)
{
    copy(noise, W * W, stretch->next);
    add_quadratic(form, covariance, k, W, stretch->product, stretch->next);
    copy(stretch->next, W * W, covariance);
}

/* One more state. */
SIMD_UNUSED static void lengthen(const System *system, const Stretch *stretch)
{
    const ptrdiff_t k = system->k, W = system->W;
    add(stretch->covariance, W * W, stretch->sum);
    add_outer_product(stretch->shift, stretch->shift, k, W, stretch->sum);
    add(stretch->shift, W, stretch->total);
    row_product(stretch->shift, system->At, k, W, stretch->turned);
    copy(stretch->move, W, stretch->shift);
    add(stretch->turned, W, stretch->shift);
    move_covariance(system->At, system->Q, k, W, stretch, stretch->covariance);
    move_covariance(system->At, system->Q, k, W, stretch, stretch->noise);
    matrix_product(stretch->power, system->At, k, W, stretch->product);
    copy(stretch->product, W * W, stretch->power);
}

/* From n states to twice as many. */
SIMD_UNUSED static void double_stretch(const System *system, ptrdiff_t n, const Stretch *stretch)
{
    const ptrdiff_t k = system->k, W = system->W;
    double *turned = stretch->turned, *next = stretch->next, *shift = stretch->shift;
    row_product(stretch->total, stretch->power, k, W, turned);
    set_zero(W * W, next);
    add_quadratic(stretch->power, stretch->sum, k, W, stretch->product, next);
    for (ptrdiff_t i = 0; i < W; i++)
        for (ptrdiff_t j = 0; j < W; j++)
            stretch->sum[i * W + j] +=
                next[i * W + j] + (turned[i] * shift[j] + shift[i] * turned[j])
                + (double)n * (stretch->noise[i * W + j] + shift[i] * shift[j]);
    for (ptrdiff_t i = 0; i < W; i++) stretch->total[i] += turned[i] + (double)n * shift[i];
    move_covariance(stretch->power, stretch->noise, k, W, stretch, stretch->covariance);
    row_product(shift, stretch->power, k, W, turned);
    add(turned, W, shift);
    move_covariance(stretch->power, stretch->noise, k, W, stretch, stretch->noise);
    matrix_product(stretch->power, stretch->power, k, W, next);
    copy(next, W * W, stretch->power);
}

/* state (W + W W) <- that after n from it on, whose sums are those of the stretch */
SIMD_UNUSED static void take_stretch(
    const System *system, ptrdiff_t n, const Stretch *stretch, double *state)
{
    const ptrdiff_t k = system->k, W = system->W, size = W * W;
    ptrdiff_t bit = 1, done = 1;
    copy(state, W, stretch->first);
    copy(state + W, size, stretch->sum);
    copy(state + W, size, stretch->covariance);
    set_zero(W, stretch->total);
    predict_mean(system, state, stretch->move);
    for (ptrdiff_t i = 0; i < W; i++) stretch->move[i] -= state[i];
    copy(stretch->move, W, stretch->shift);
    move_covariance(system->At, system->Q, k, W, stretch, stretch->covariance);
    copy(system->Q, size, stretch->noise);
    copy(system->At, size, stretch->power);
    while (2 * bit <= n) bit *= 2;
    for (bit /= 2; bit > 0; bit /= 2) {
        double_stretch(system, done, stretch);
        done *= 2;
        if (n & bit) {
            lengthen(system, stretch);
            done++;
        }
    }
    add(stretch->shift, W, state);
    copy(stretch->covariance, size, state + W);
}

/* Adds the states of a stretch of n, each with the given weight. */
SIMD_UNUSED static void add_stretch(
    ptrdiff_t n, double weight, ptrdiff_t W, const Stretch *stretch, Moments *total)
{
    double *mean = stretch->turned, *scatter = stretch->next;
    for (ptrdiff_t i = 0; i < W; i++) {
        mean[i] = stretch->first[i] + stretch->total[i] / (double)n;
        for (ptrdiff_t j = 0; j < W; j++)
            scatter[i * W + j] = stretch->sum[i * W + j]
                                 - stretch->total[i] * stretch->total[j] / (double)n;
    }
    add_moments(weight * (double)n, mean, weight, scatter, total);
}

/* A model's transitions, padded, and scratch memory of `add_occupancy`. */
typedef struct {
    System system;
    double *state;   /* (W + W W): a mean and its covariance */
    double *next;    /* (W + W W) */
    double *product; /* (W, W) */
    Stretch stretch;
    Moments leaving; /* of W variables: of states with one after them, and of all */
    Moments emitting;
} Occupancy;

SIMD_UNUSED static Occupancy lay_out_occupancy(ptrdiff_t k, Arena *arena)
{
    const ptrdiff_t W = padded_width(k);
    Occupancy occupancy = {{0}};
    System *system = &occupancy.system;
    system->k = k, system->W = W;
    system->A = take_doubles(arena, W * W), system->At = take_doubles(arena, W * W);
    system->b = take_doubles(arena, W), system->Q = take_doubles(arena, W * W);
    take_each(arena, state_size(W), &occupancy.state, &occupancy.next);
    occupancy.product = take_doubles(arena, W * W);
    occupancy.stretch = lay_out_stretch(W, arena);
    double *leaving = take_doubles(arena, 2 * moments_size(W));
    if (leaving) {
        occupancy.leaving = moments_at(leaving, W);
        occupancy.emitting = moments_at(leaving + moments_size(W), W);
    }
    return occupancy;
}

/* Adds the moments of states, from that in `state` on, in runs of equal weights. The weight of each
 * is its own for those that emit, and that of the next one, if there is one, for those that are
 * left. */
SIMD_UNUSED static void add_occupancy(
    const int64_t *ends, const double *weights, ptrdiff_t n_runs, Occupancy *occupancy)
{
    const System *system = &occupancy->system;
    const ptrdiff_t T = ends[n_runs - 1];
    const ptrdiff_t k = system->k, W = system->W;
    double *state = occupancy->state, *next = occupancy->next;
    double largest = mean_square(state, k, W);
    const ptrdiff_t alike = n_runs > 1 ? ends[n_runs - 2] : 0;
    ptrdiff_t run = 0;
    for (ptrdiff_t i = 0; i < k; i++)
        largest += system->Q[i * (W + 1)] + system->b[i] * system->b[i];
    largest *= LARGEST_GROWTH;
    for (ptrdiff_t t = 0; t < T; t++) {
        const ptrdiff_t n = t == alike ? T - 1 - t : 0;
        if (n >= FEWEST_ALIKE) {
            const Stretch *stretch = &occupancy->stretch;
            copy(state, state_size(W), next);
            take_stretch(system, n, stretch, next);
            /* A stable system may well be large beside its start, in other units than that. */
            if (mean_square(next, k, W) <= largest
                || dot(stretch->power, stretch->power, W * W) < 1) {
                add_stretch(n, weights[run], W, stretch, &occupancy->leaving);
                add_stretch(n, weights[run], W, stretch, &occupancy->emitting);
                add_moments(weights[run], next, weights[run], next + W, &occupancy->emitting);
                return;
            }
        }
        predict_mean(system, state, next);
        predict_covariance(system, state + W, occupancy->product, next + W);
        int stays = state_is_steady(state, next, k, W) || !(mean_square(next, k, W) <= largest);
        double emitting = weights[run], leaving = 0;
        run += t + 1 == ends[run];
        if (run < n_runs) leaving = weights[run] * (double)(stays ? ends[run] - t - 1 : 1);
        for (ptrdiff_t r = run + 1; stays && r < n_runs; r++)
            leaving += weights[r] * (double)(ends[r] - ends[r - 1]);
        if (stays) emitting += leaving;
        add_moments(leaving, state, leaving, state + W, &occupancy->leaving);
        add_moments(emitting, state, emitting, state + W, &occupancy->emitting);
        if (stays) return;
        double *swap = state;
        state = next;
        next = swap;
    }
}

OPTIMISE_END
