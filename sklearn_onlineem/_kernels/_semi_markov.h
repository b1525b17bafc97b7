/* Windows of the last D terms of a hidden semi-Markov recursion, one for each state.
 *
 * A recursion asks for log sum_s exp(log p(s) + term_s), s = 1..D, after each row. Each term grows
 * by the row's log density, which all terms of a state share: only their common `shift` changes. So
 * terms are kept as logarithms, and as numbers in units of exp(scale). The sum is a product of
 * these with p, unless it is so small that numbers which are too small to be kept could change a digit:
 * then logarithms are summed.
 */
#pragma once

#include "_arena.h"
#include "_simd.h"

OPTIMISE_BEGIN(SELECTS)

/* Terms below 1e-308 in units of the scale are lost; sums above this lose no digit. */
#define LEAST_SUM 1e-280
#define LARGEST_LOG 600.0
enum { PARTS = 8 };

typedef struct {
    double *logs;    /* (capacity,), of which the last D count; the last one is that of s = 1 */
    double *numbers; /* (capacity,), exp(logs - scale) */
    ptrdiff_t D, n, capacity;
    double scale, shift;
} Window;

SIMD_UNUSED static Window lay_out_window(ptrdiff_t D, Arena *arena)
{
    Window window;
    window.D = D, window.n = 0, window.capacity = 3 * D + 64;
    window.scale = window.shift = 0;
    take_each(arena, window.capacity, &window.logs, &window.numbers);
    return window;
}

/* max_i x_i + y_i */
SIMD_CLONES SIMD_UNUSED static double largest_sum(const double *x, const double *y, ptrdiff_t n)
{
    double most[PARTS], largest = -INFINITY;
    ptrdiff_t i = 0;
    for (int l = 0; l < PARTS; l++) most[l] = -INFINITY;
    for (; i + PARTS <= n; i += PARTS)
        for (int l = 0; l < PARTS; l++) {
            double sum = x[i + l] + y[i + l];
            most[l] = sum > most[l] ? sum : most[l];
        }
    for (; i < n; i++) most[0] = x[i] + y[i] > most[0] ? x[i] + y[i] : most[0];
    for (int l = 0; l < PARTS; l++) largest = most[l] > largest ? most[l] : largest;
    return largest;
}

/* sum_i exp(x_i + y_i - most) */
SIMD_CLONES SIMD_UNUSED static double sum_of_exp(
    const double *x, const double *y, ptrdiff_t n, double most)
{
    double sum[PARTS], total = 0;
    ptrdiff_t i = 0;
    for (int l = 0; l < PARTS; l++) sum[l] = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int l = 0; l < PARTS; l++) sum[l] += exp_double(x[i + l] + y[i + l] - most);
    for (; i < n; i++) sum[0] += exp_double(x[i] + y[i] - most);
    for (int l = 0; l < PARTS; l++) total += sum[l];
    return total;
}

/* sum_i x_i y_i */
SIMD_CLONES SIMD_UNUSED static double product_of(const double *x, const double *y, ptrdiff_t n)
{
    double sum[PARTS], total = 0;
    ptrdiff_t i = 0;
    for (int l = 0; l < PARTS; l++) sum[l] = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int l = 0; l < PARTS; l++) sum[l] += x[i + l] * y[i + l];
    for (; i < n; i++) sum[0] += x[i] * y[i];
    for (int l = 0; l < PARTS; l++) total += sum[l];
    return total;
}

/* out (n,) <- out + a x */
SIMD_CLONES SIMD_UNUSED static void add_multiple(
    double a, const double *RESTRICT x, ptrdiff_t n, double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] += a * x[i];
}

/* out (n,) <- out + exp(x + y + log_weight) */
SIMD_CLONES SIMD_UNUSED static void add_exp(
    double log_weight, const double *RESTRICT x, const double *RESTRICT y, ptrdiff_t n,
    double *RESTRICT out)
{
    for (ptrdiff_t i = 0; i < n; i++) out[i] += exp_double(x[i] + y[i] + log_weight);
}

/* numbers (n,) <- exp(logs - scale), at most exp(LARGEST_LOG) */
SIMD_CLONES SIMD_UNUSED static void numbers_of(
    const double *RESTRICT logs, double scale, ptrdiff_t n, double *RESTRICT numbers)
{
    for (ptrdiff_t i = 0; i < n; i++) numbers[i] = exp_double(logs[i] - scale);
}

SIMD_INLINE const double *logs_of(const Window *window)
{ return window->logs + window->n - window->D; }

SIMD_INLINE const double *numbers_in(const Window *window)
{ return window->numbers + window->n - window->D; }

/* The largest term is the new unit. */
SIMD_UNUSED static void rescale(Window *window)
{
    const double *logs = logs_of(window);
    double most = -INFINITY;
    for (ptrdiff_t i = 0; i < window->D; i++) most = logs[i] > most ? logs[i] : most;
    window->scale = most;
    if (most > -INFINITY)
        numbers_of(logs, most, window->D, window->numbers + window->n - window->D);
    else
        for (ptrdiff_t i = window->n - window->D; i < window->n; i++) window->numbers[i] = 0;
}

/* No terms are left. */
SIMD_UNUSED static void clear_window(Window *window)
{
    for (ptrdiff_t i = 0; i < window->D; i++) window->logs[i] = -INFINITY;
    for (ptrdiff_t i = 0; i < window->D; i++) window->numbers[i] = 0;
    window->n = window->D;
    window->scale = -INFINITY, window->shift = 0;
}

/* A new term, that of s = 1; the others have one more. */
SIMD_UNUSED static void push(Window *window, double term)
{
    const ptrdiff_t D = window->D;
    if (window->n == window->capacity) {
        ptrdiff_t from = window->n - D;
        for (ptrdiff_t i = 0; i < D; i++)
            window->logs[i] = window->logs[from + i] + window->shift;
        window->shift = 0, window->n = D;
        rescale(window);
    }
    double log_term = term - window->shift;
    int is_above = log_term > window->scale + LARGEST_LOG;
    int counts = log_term > -INFINITY && !is_above;
    window->logs[window->n] = log_term;
    window->numbers[window->n++] = counts ? exp_double(log_term - window->scale) : 0;
    if (is_above) rescale(window);
}

/* All terms grow by the log density of a row. */
SIMD_INLINE void grow(Window *window, double log_density)
{
    if (log_density == -INFINITY) clear_window(window);
    else window->shift += log_density;
}

/* log sum_s exp(log p(s) + term_s), of tables from D down to 1; as_product (1,) <- the sum in units
 * of exp(shift + scale), or 0 where logarithms were summed */
SIMD_UNUSED static double log_sum_of(
    Window *window, const double *probabilities, const double *log_probabilities,
    double *as_product)
{
    const ptrdiff_t D = window->D;
    double sum = product_of(numbers_in(window), probabilities, D);
    *as_product = sum;
    if (sum > LEAST_SUM) return window->shift + window->scale + log(sum);
    *as_product = 0;
    double most = largest_sum(logs_of(window), log_probabilities, D);
    if (most == -INFINITY) return most;
    rescale(window);
    return window->shift + most + log(sum_of_exp(logs_of(window), log_probabilities, D, most));
}

/* max_s log p(s) + term_s */
SIMD_INLINE double best_of(const Window *window, const double *log_probabilities)
{ return window->shift + largest_sum(logs_of(window), log_probabilities, window->D); }

/* out (K,) <- log sum_j exp(x_j) table (j, k); its logarithms are for sums that are tiny. */
SIMD_UNUSED static void log_product(
    const double *x, const double *table, const double *log_table, ptrdiff_t K, double *scaled,
    double *out)
{
    double most = -INFINITY;
    for (ptrdiff_t j = 0; j < K; j++) most = x[j] > most ? x[j] : most;
    for (ptrdiff_t k = 0; k < K; k++) out[k] = most == -INFINITY ? most : 0;
    if (most == -INFINITY) return;
    for (ptrdiff_t j = 0; j < K; j++) scaled[j] = exp_double(x[j] - most);
    for (ptrdiff_t j = 0; j < K; j++)
        for (ptrdiff_t k = 0; k < K; k++) out[k] += scaled[j] * table[j * K + k];
    for (ptrdiff_t k = 0; k < K; k++) {
        if (out[k] > LEAST_SUM) {
            out[k] = most + log(out[k]);
            continue;
        }
        double best = -INFINITY, sum = 0;
        for (ptrdiff_t j = 0; j < K; j++) {
            double term = x[j] + log_table[j * K + k];
            best = term > best ? term : best;
        }
        for (ptrdiff_t j = 0; j < K && best > -INFINITY; j++)
            sum += exp_double(x[j] + log_table[j * K + k] - best);
        out[k] = best > -INFINITY ? best + log(sum) : best;
    }
}

OPTIMISE_END
