/* What an E-step sums over the rows of sequences, from the smoothed moments of states. */
#ifndef SKLEARN_ONLINEEM_KALMAN_SUMS_H
#define SKLEARN_ONLINEEM_KALMAN_SUMS_H

#include "_kalman_evidence.h"
#include "_kalman_system.h"

OPTIMISE_BEGIN(WHOLE_TILES)

/* Whose covariances are summed: those of first states, of states with one after them, of states
 * with one before them, and of states whose row is observed; and those of a state with the one
 * before. */
enum { FIRST, DEPARTING, ARRIVING, EMITTING, LAGGED, N_SUMS };

/* Sums over rows: of covariances, and of means in blocks. */
typedef struct {
    double *states; /* (N_SUMS, W, W) */
    double *across; /* (d, W), of missing values with the state */
    double *within; /* (d, d), of missing values */
    double *after;  /* (k,), mean of the state after */
    double *filled; /* (d,), the row with its missing values imputed */
    double *zeros;  /* (k, k) */
    MomentsBuffer transitions;
    MomentsBuffer emissions;
    Moments initial;
} Sums;

SIMD_UNUSED static Sums lay_out_sums(ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, Arena *arena)
{
    Sums sums;
    sums.states = take_doubles(arena, N_SUMS * W * W);
    sums.across = take_doubles(arena, d * W);
    sums.within = take_doubles(arena, d * d);
    sums.after = take_doubles(arena, k);
    sums.filled = take_doubles(arena, d);
    sums.zeros = take_doubles(arena, k * k);
    sums.transitions = lay_out_moments_buffer(2 * k, arena);
    sums.emissions = lay_out_moments_buffer(k + d, arena);
    return sums;
}

/* Sums of nothing yet, which end in `total`. */
SIMD_UNUSED static void start_sums(
    ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, const Evidence *total, Sums *sums)
{
    set_zero(N_SUMS * W * W, sums->states);
    set_zero(d * W, sums->across);
    set_zero(d * d, sums->within);
    set_zero(k * k, sums->zeros);
    clear_evidence(total);
    sums->initial = total->initial;
    sums->transitions.total = total->transitions;
    sums->emissions.total = total->emissions;
    sums->transitions.n_rows = sums->emissions.n_rows = 0;
}

/* Adds state t of T; `arriving` is its covariance as the state after another one. */
SIMD_UNUSED static void sum_state(
    const double *mean, const double *covariance, const double *arriving, ptrdiff_t t, ptrdiff_t T,
    ptrdiff_t k, ptrdiff_t W, Sums *sums)
{
    const ptrdiff_t n = W * W;
    if (t > 0) add(arriving, n, sums->states + ARRIVING * n);
    if (t + 1 < T) {
        double *pair = next_row(&sums->transitions);
        copy(mean, k, pair);
        copy(sums->after, k, pair + k);
        add(covariance, n, sums->states + DEPARTING * n);
    }
    if (t == 0) {
        add_moments(1, mean, 0, sums->zeros, &sums->initial);
        add(covariance, n, sums->states + FIRST * n);
    }
    copy(mean, k, sums->after);
}

/* Adds a state and its row, of which something is observed. */
SIMD_UNUSED static void sum_row(
    const double *mean, const double *covariance, ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, Sums *sums)
{
    double *pair = next_row(&sums->emissions);
    copy(mean, k, pair);
    copy(sums->filled, d, pair + k);
    add(covariance, W * W, sums->states + EMITTING * W * W);
}

/* Adds what is in buffers, and covariances. */
SIMD_UNUSED static void finish_sums(ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, Sums *sums)
{
    const double *states = sums->states;
    add_buffer(&sums->transitions);
    add_buffer(&sums->emissions);
    add_joint(states + FIRST * W * W, NULL, W, NULL, 0, k, 0, sums->initial.scatter);
    add_joint(
        states + DEPARTING * W * W, states + LAGGED * W * W, W, states + ARRIVING * W * W, W, k, k,
        sums->transitions.total.scatter);
    add_joint(states + EMITTING * W * W, sums->across, W, sums->within, d, k, d,
              sums->emissions.total.scatter);
}

OPTIMISE_END

#endif
