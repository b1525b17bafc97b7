/* Topics of blocks: of the many tokens of one word in one document, drawn as counts.
 *
 * Given the document's proportions and the word's probabilities, topics of a block are multinomial,
 * exactly. Where these were integrated out, they are drawn first, from their posterior given the
 * topics of all tokens, those of the block among them, and forgotten after it. Such a step leaves
 * the posterior of all topics as it is, as a step token by token does. Other numbers are drawn, so
 * that chains differ; what they are draws from does not.
 */
#ifndef SKLEARN_ONLINEEM_TOPIC_BLOCKS_H
#define SKLEARN_ONLINEEM_TOPIC_BLOCKS_H

#include <math.h>

#include "_topic_draws.h"

/* Up to so many draws of a binomial variable are made one by one. */
#define MOST_TRIALS 16

/* A stream of random numbers. */
typedef struct {
    uint64_t key;
    uint64_t used;
} Numbers;

/* The scratch memory of a block. */
typedef struct {
    double *logs;    /* (P,) of proportions, up to a constant */
    double *weights; /* (P,) */
    double *tails;   /* (P,) sums of weights from each on */
    float *counts;   /* (P,) */
} BlockSpace;

/* The numbers of a document's blocks: those of its tokens have lower numbers. */
SIMD_INLINE Numbers numbers_of_blocks(uint64_t key)
{
    Numbers numbers = {stream_of(key, UINT64_MAX), 0};
    return numbers;
}

/* In (0, 1). */
SIMD_INLINE double next_uniform(Numbers *numbers)
{
    const uint64_t bits = stream_of(numbers->key, numbers->used++) >> 11;
    return ((double)(int64_t)bits + 0.5) * 1.1102230246251565e-16;
}

/* Marsaglia's polar method. */
SIMD_UNUSED static double next_normal(Numbers *numbers)
{
    double x, y, square;
    do {
        x = 2 * next_uniform(numbers) - 1;
        y = 2 * next_uniform(numbers) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    return x * sqrt(-2 * log_double(square) / square);
}

/* A gamma variable of shape >= 1 (Marsaglia & Tsang 2000). */
SIMD_UNUSED static double next_gamma(Numbers *numbers, double shape)
{
    const double d = shape - 1 / 3., c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = next_normal(numbers), root = 1 + c * x;
        if (root <= 0) continue;
        const double v = root * root * root;
        if (log_double(next_uniform(numbers)) < 0.5 * x * x + d * (1 - v + log_double(v)))
            return d * v;
    }
}

/* The logarithm of one of any shape > 0, which may be too small for a double itself. */
SIMD_UNUSED static double next_log_gamma(Numbers *numbers, double shape)
{
    if (shape >= 1) return log_double(next_gamma(numbers, shape));
    const double log_large = log_double(next_gamma(numbers, shape + 1));
    return log_large + log_double(next_uniform(numbers)) / shape;
}

/* How many of n uniform numbers are below p, from the place of their median: on one side of it none
 * or all are, on the other they are uniform again (Devroye 1986, section X.4.3). */
SIMD_UNUSED static double next_binomial(Numbers *numbers, double n, double p)
{
    double result = 0;
    while (n > MOST_TRIALS) {
        const double below = floor(n / 2);
        const double a = next_gamma(numbers, below + 1), b = next_gamma(numbers, n - below);
        const double median = a / (a + b);
        if (median < p) {
            result += below + 1;
            n -= below + 1;
            p = (p - median) * ((a + b) / b);
        } else {
            n = below;
            p /= median;
        }
    }
    for (; n > 0; n--) result += next_uniform(numbers) < p;
    return result;
}

/* counts (P,) <- how many of n have each topic; nothing of weight 0 is ever drawn. */
SIMD_UNUSED static void draw_counts(
    Numbers *numbers, double n, const double *weights, ptrdiff_t P, double *tails, float *counts)
{
    double tail = 0;
    for (ptrdiff_t k = P - 1; k >= 0; k--) tails[k] = tail += weights[k];
    for (ptrdiff_t k = 0; k < P; k++) {
        double count = 0;
        if (n > 0 && weights[k] > 0)
            count = weights[k] < tails[k] ? next_binomial(numbers, n, weights[k] / tails[k]) : n;
        counts[k] = (float)count;
        n -= count;
    }
}

/* logs (P,) <- logarithms of proportions, up to a constant, of topics of which a document may have
 * tokens, given how many (P,) it has */
SIMD_UNUSED static void draw_log_proportions(
    Numbers *numbers, const float *alpha, const float *n, ptrdiff_t P, double *logs)
{
    for (ptrdiff_t k = 0; k < P; k++)
        logs[k] = alpha[k] > 0 ? next_log_gamma(numbers, (double)alpha[k] + n[k]) : -INFINITY;
}

/* weights (P,) <- exp(themselves), up to a factor; if none has any, all topics that there are have
 * the same. Return their sum. */
SIMD_UNUSED static double weigh_logs(const float *alpha, ptrdiff_t P, double *weights)
{
    double most = -INFINITY, total = 0;
    for (ptrdiff_t k = 0; k < P; k++) most = weights[k] > most ? weights[k] : most;
    for (ptrdiff_t k = 0; k < P; k++) {
        if (most > -INFINITY)
            weights[k] = weights[k] > most - 700 ? exp_double(weights[k] - most) : 0;
        else
            weights[k] = alpha[k] > 0;
        total += weights[k];
    }
    return total;
}

#endif
