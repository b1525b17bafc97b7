/* Topics drawn from the weights that a token's topics have.
 *
 * A row of topics has P floats: K, and zeros up to a multiple of TOPIC_LANES. A topic is drawn from
 * weights p by sums that run along each lane (k = lane, lane + 16, ...): the lanes' last sums say
 * the lane, and the sums along it the place. All sums are of fixed lanes, so that vectors of all
 * widths give the same bits.
 */
#pragma once

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "_compiler.h"
#include "_simd.h"

#define TOPIC_LANES 16
#define EACH_LANE for (int lane = 0; lane < TOPIC_LANES; lane++)

/* Vectors are those of GCC and clang; others get loops. Lanes are cut into vectors that most CPUs
 * have: GCC would take wider ones apart in memory. */
#if defined(__GNUC__)
#if defined(__x86_64__)
#define WIDTH 8
#define EACH_OF_VECTOR(x) {x, x, x, x, x, x, x, x}
#define VECTOR_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7}
#else
#define WIDTH 4
#define EACH_OF_VECTOR(x) {x, x, x, x}
#define VECTOR_NUMBERS {0, 1, 2, 3}
#endif
#define PARTS (TOPIC_LANES / WIDTH)
typedef float Vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t VectorInts __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef float Quad __attribute__((vector_size(16), aligned(4), may_alias));
#define IN_VECTOR(x) (*(Vector *)(x))
#define OF_VECTOR(x) (*(const Vector *)(x))
/* 1 at a number, and 0 elsewhere; `numbers` are those of the vector. */
#define ONE_AT(numbers, number) ((Vector)(((numbers) == (number)) & (VectorInts)ONES))
#define ONES ((Vector)EACH_OF_VECTOR(1))
#endif

/* Rows of words are all over the vocabulary, so those of words to come are fetched ahead. */
#define WORDS_AHEAD 8

SIMD_INLINE void fetch_row(const void *row, const size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) FETCH((const char *)row + i);
}

typedef struct {
    float *weights; /* (P,) */
    float *running; /* (P,) sums of the weights along lanes */
} Scan;

/* Steele, Lea, Flood (2014): the finaliser of SplitMix64. */
SIMD_INLINE uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The key of a stream of random numbers within that of another one. */
SIMD_INLINE uint64_t stream_of(uint64_t key, uint64_t number)
{ return mixed(key + (number + 1) * 0x9e3779b97f4a7c15u); }

/* In [0, 1): a multiple of 2^-24, so that its product with a normal x is less than x. */
SIMD_INLINE float uniform_of(uint64_t key, uint64_t number)
{ return (float)(int32_t)(stream_of(key, number) >> 40) * 5.9604644775390625e-08f; }

/* Whether a topic can be drawn: if not, weights are all 0, or too large for a float. */
SIMD_INLINE int is_sum(float sum) { return sum >= FLT_MIN && sum <= FLT_MAX; }

/* The same for a word that no topic explains: the topics that there are have it in equal shares. */
SIMD_UNUSED static void weigh_alike(const float *alpha, const ptrdiff_t P, const Scan *scan)
{
    float sums[TOPIC_LANES] = {0};
    for (ptrdiff_t k = 0; k < P; k += TOPIC_LANES)
        EACH_LANE {
            scan->weights[k + lane] = alpha[k + lane] > 0 ? 1.0f : 0.0f;
            scan->running[k + lane] = sums[lane] += scan->weights[k + lane];
        }
}

/* Sums of lanes, which are four columns of four and go down one column after the other: row i of
 * bounds (5, 4) has the sums before the lanes of row i, and row i + 1 those after them. Each of
 * these sums is at least the one before it, and more where the lane's own is not 0. */
typedef struct {
    float bounds[5 * 4];
    float total;
} LaneSums;

/* The sum of all weights; `last` (TOPIC_LANES,) are the sums of lanes. */
SIMD_INLINE float sum_lanes(const float *last, LaneSums *sums)
{
#if defined(__GNUC__)
    Quad down[4];
    down[0] = *(const Quad *)last;
    for (int i = 1; i < 4; i++) down[i] = down[i - 1] + *(const Quad *)(last + 4 * i);
    const float first = down[3][0], second = first + down[3][1], third = second + down[3][2];
    const Quad start = {0, first, second, third};
    *(Quad *)sums->bounds = start;
    for (int i = 0; i < 4; i++) *(Quad *)(sums->bounds + 4 * i + 4) = start + down[i];
    return sums->total = third + down[3][3];
#else
    float down[4] = {0}, start[5] = {0};
    for (int lane = 0; lane < TOPIC_LANES; lane++) down[lane % 4] += last[lane];
    for (int j = 0; j < 4; j++) start[j + 1] = start[j] + down[j];
    for (int j = 0; j < 4; j++) {
        float sum = 0;
        sums->bounds[j] = start[j];
        for (int i = 0; i < 4; i++)
            sums->bounds[4 * i + 4 + j] = start[j] + (sum += last[4 * i + j]);
    }
    return sums->total = start[4];
#endif
}

/* How many lanes are wholly below x. Each draw waits for this number: what the compiler makes of the
 * loop costs a sweep a sixteenth of its time. */
SIMD_INLINE int count_lanes(const LaneSums *sums, float x)
{
#if defined(__SSE2__)
    const __m128 here = _mm_set1_ps(x);
    __m128i below[4];
    for (int i = 0; i < 4; i++)
        below[i] = _mm_castps_si128(_mm_cmpge_ps(here, _mm_loadu_ps(sums->bounds + 4 * i + 4)));
    const __m128i first = _mm_packs_epi32(below[0], below[1]);
    const __m128i second = _mm_packs_epi32(below[2], below[3]);
    return __builtin_popcount((unsigned)_mm_movemask_epi8(_mm_packs_epi16(first, second)));
#else
    int count = 0;
    for (int i = 4; i < 20; i++) count += x >= sums->bounds[i];
    return count;
#endif
}

/* The topic at x, which is less than the sum: first the lane, then the place in it. Where rounding
 * would leave more of x than there is in the lane, its first place of any weight is taken, so that
 * nothing of weight 0 ever is. Of no weights at all it is any topic. */
SIMD_INLINE ptrdiff_t choose_at(
    const float *running, const ptrdiff_t P, const LaneSums *sums, float x)
{
    int number = count_lanes(sums, x), i = number % 4, j = number / 4;
    const float *lane = running + 4 * i + j;
    x -= sums->bounds[4 * i + j];
    x = x < lane[P - TOPIC_LANES] ? x : 0;
    ptrdiff_t place = 0;
    for (ptrdiff_t k = 0; k < P - TOPIC_LANES; k += TOPIC_LANES) place += x >= lane[k];
    return place * TOPIC_LANES + 4 * i + j;
}

/* Blocks
 * ------
 *
 * Topics of the many tokens of one word in one document, drawn as counts.
 *
 * Given the document's proportions and the word's probabilities, topics of a block are multinomial,
 * exactly. Where these were integrated out, they are drawn first, from their posterior given the
 * topics of all tokens, those of the block among them, and forgotten after it. Such a step leaves
 * the posterior of all topics as it is, as a step token by token does. Other numbers are drawn, so
 * that chains differ; what they are draws from does not.
 */

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
    float *shares;   /* (P,) proportions, up to a constant, in single precision */
} BlockSpace;

/* The numbers of a document's blocks: those of its tokens have lower numbers. */
SIMD_INLINE Numbers numbers_of_blocks(uint64_t key)
{ return (Numbers){stream_of(key, UINT64_MAX), 0}; }

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

/* shares (P,) <- exp(logs), up to a factor */
SIMD_UNUSED static void share_logs(const double *logs, ptrdiff_t P, float *shares)
{
    double most = -INFINITY;
    for (ptrdiff_t k = 0; k < P; k++) most = logs[k] > most ? logs[k] : most;
    for (ptrdiff_t k = 0; k < P; k++)
        shares[k] = logs[k] > most - 80 ? (float)exp_double(logs[k] - most) : 0;
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
