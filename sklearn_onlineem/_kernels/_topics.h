/* Topics of the tokens of documents, given those of words: drawn, or shared in the mean. */
#pragma once

#include "_topic_draws.h"

typedef struct {
    ptrdiff_t n_words;   /* that differ */
    const int *words;    /* (n_words,) */
    const float *counts; /* (n_words,) */
    const float *table;  /* (V, P) phi */
    const float *alpha;  /* (P,), 0 where no topic is, or none that the document may use */
    ptrdiff_t P;
} Document;

SIMD_INLINE void fetch_ahead(const Document *document, ptrdiff_t i)
{
    const size_t P = (size_t)document->P;
    if (i + WORDS_AHEAD < document->n_words)
        fetch_row(document->table + document->words[i + WORDS_AHEAD] * P, P * sizeof(float));
}

/* weights <- (n + alpha) phi, running <- sums along lanes */
SIMD_INLINE void weigh(
    const float *n, const float *alpha, const float *phi, const ptrdiff_t P, const Scan *scan)
{
    float *RESTRICT weights = scan->weights, *RESTRICT running = scan->running;
#if defined(__GNUC__)
    Vector sums[PARTS] = {{0}};
    for (ptrdiff_t row = 0; row < P; row += TOPIC_LANES)
        for (int part = 0; part < PARTS; part++) {
            const ptrdiff_t k = row + part * WIDTH;
            Vector x = (OF_VECTOR(n + k) + OF_VECTOR(alpha + k)) * OF_VECTOR(phi + k);
            sums[part] += x;
            IN_VECTOR(weights + k) = x;
            IN_VECTOR(running + k) = sums[part];
        }
#else
    float sums[TOPIC_LANES] = {0};
    for (ptrdiff_t k = 0; k < P; k += TOPIC_LANES)
        EACH_LANE {
            weights[k + lane] = (n[k + lane] + alpha[k + lane]) * phi[k + lane];
            running[k + lane] = sums[lane] += weights[k + lane];
        }
#endif
}

/* The same, where first one token comes to n (P,), and one leaves it: topic P is none. Whole rows
 * are stored, as a row is not loaded before single numbers that are stored in it have left for the
 * cache. */
SIMD_INLINE void move_and_weigh(
    float *n, int to, int from, const float *alpha, const float *phi, const ptrdiff_t P,
    const Scan *scan)
{
#if defined(__GNUC__)
    Vector sums[PARTS] = {{0}};
    VectorInts numbers = VECTOR_NUMBERS;
    for (ptrdiff_t row = 0; row < P; row += TOPIC_LANES)
        for (int part = 0; part < PARTS; part++, numbers += WIDTH) {
            const ptrdiff_t k = row + part * WIDTH;
            /* `to` is known last, so that everything else is done before. */
            Vector comes = ONE_AT(numbers, to);
            Vector here = OF_VECTOR(n + k) - ONE_AT(numbers, from);
            Vector x = ((here + OF_VECTOR(alpha + k)) + comes) * OF_VECTOR(phi + k);
            sums[part] += x;
            IN_VECTOR(n + k) = here + comes;
            IN_VECTOR(scan->weights + k) = x;
            IN_VECTOR(scan->running + k) = sums[part];
        }
#else
    if (to < P) n[to] += 1;
    if (from < P) n[from] -= 1;
    weigh(n, alpha, phi, P, scan);
#endif
}

/* row (P,) <- row + scale x */
SIMD_INLINE void add_scaled_row(const float *x, float scale, const ptrdiff_t P, float *row)
{
    for (ptrdiff_t k = 0; k < P; k++) row[k] += scale * x[k];
}

/* The chain of a Gibbs sampler on the topics of one document. */
typedef struct {
    Document document;
    Scan scan;
    uint64_t key;
    int most_single;     /* tokens of a word; those of one that has more are a block */
    ptrdiff_t n_tokens;  /* in no block */
    int *tokens;         /* (n_tokens,) the number of each one's word in the document */
    int *topics;         /* (n_tokens,), P of one that has none */
    ptrdiff_t n_blocks;
    int *blocks;         /* (n_blocks,) the number of each one's word */
    float *block_topics; /* (n_blocks, P) */
    BlockSpace block_space;
    uint64_t first;      /* the first sweep that draws blocks, */
    const float *start;  /* ... and (P,) tokens of each topic before it, or NULL */
    float *n;            /* (P,) tokens of each topic, but for `last` */
    int last;            /* the topic of the token that was drawn last, or P */
    float *rows;         /* (n_words, P) */
} Chain;

/* tokens, topics, blocks, n, rows <- those of tokens without topics */
SIMD_UNUSED static void begin_chain(Chain *chain)
{
    const Document *document = &chain->document;
    memset(chain->n, 0, (size_t)document->P * sizeof *chain->n);
    memset(chain->rows, 0, (size_t)(document->n_words * document->P) * sizeof *chain->rows);
    chain->n_tokens = chain->n_blocks = 0;
    for (ptrdiff_t i = 0; i < document->n_words; i++) {
        if (document->counts[i] > (float)chain->most_single) {
            chain->blocks[chain->n_blocks++] = (int)i;
            continue;
        }
        for (int c = (int)document->counts[i]; c > 0; c--) {
            chain->topics[chain->n_tokens] = (int)document->P;
            chain->tokens[chain->n_tokens++] = (int)i;
        }
    }
    memset(
        chain->block_topics, 0,
        (size_t)(chain->n_blocks * document->P) * sizeof *chain->block_topics);
}

/* Up to so many tokens of a block are drawn one by one, all from one scan, if the sum of the weights
 * is so large that none that a float cannot hold would matter. */
#define MOST_FROM_A_SCAN 4096
#define LEAST_SCANNED 1e-20f

/* counts <- how many of the tokens of a block have each topic, drawn from its scan; or false */
SIMD_INLINE int draw_from_scan(
    const Chain *chain, Numbers *numbers, double count, float *counts, float *sum)
{
    const ptrdiff_t P = chain->document.P;
    LaneSums sums;
    *sum = sum_lanes(chain->scan.running + P - TOPIC_LANES, &sums);
    if (count > MOST_FROM_A_SCAN || !(*sum >= LEAST_SCANNED && *sum <= FLT_MAX)) return 0;
    memset(counts, 0, (size_t)P * sizeof *counts);
    for (ptrdiff_t t = (ptrdiff_t)count; t > 0; t--) {
        const float x = uniform_of(numbers->key, numbers->used++) * *sum;
        counts[choose_at(chain->scan.running, P, &sums, x)] += 1;
    }
    return 1;
}

/* Draw the topics of blocks, as `draw_topic` does those of a token: given proportions, which in the
 * first sweep are their mean, given the start or the blocks before. */
SIMD_CLONES SIMD_UNUSED static void draw_blocks(const Chain *chain, uint64_t sweep, float scale)
{
    const Document *document = &chain->document;
    const BlockSpace *space = &chain->block_space;
    const ptrdiff_t P = document->P;
    Numbers numbers = numbers_of_blocks(stream_of(chain->key, sweep));
    const int is_given = sweep > chain->first || chain->start;
    if (chain->n_blocks == 0 || sweep < chain->first) return;
    if (sweep > chain->first)
        draw_log_proportions(&numbers, document->alpha, chain->n, P, space->logs);
    else
        for (ptrdiff_t k = 0; k < P; k++) {
            const double n = chain->start ? chain->start[k] : 0;
            space->logs[k] = document->alpha[k] > 0 ? log_double(document->alpha[k] + n) : -INFINITY;
        }
    share_logs(space->logs, P, space->shares);
    for (ptrdiff_t b = 0; b < chain->n_blocks; b++) {
        const ptrdiff_t word = chain->blocks[b];
        const float *phi = document->table + document->words[word] * P;
        const double count = document->counts[word];
        float *topics = chain->block_topics + b * P, *row = chain->rows + word * P, sum;
        fetch_ahead(document, word);
        /* Twice the shares, which makes no difference. */
        weigh(is_given ? space->shares : chain->n, is_given ? space->shares : document->alpha, phi,
              P, &chain->scan);
        if (draw_from_scan(chain, &numbers, count, space->counts, &sum)) {
            if (scale > 0)
                add_scaled_row(chain->scan.weights, (float)(scale * count / sum), P, row);
        } else {
            for (ptrdiff_t k = 0; k < P; k++)
                space->weights[k] = phi[k] > 0 ? space->logs[k] + log_double(phi[k]) : -INFINITY;
            const double total = weigh_logs(document->alpha, P, space->weights);
            draw_counts(&numbers, count, space->weights, P, space->tails, space->counts);
            for (ptrdiff_t k = 0; k < P && scale > 0; k++)
                row[k] += (float)(scale * count * space->weights[k] / total);
        }
        for (ptrdiff_t k = 0; k < P; k++) {
            chain->n[k] += space->counts[k] - topics[k];
            topics[k] = space->counts[k];
        }
    }
}

/* Draw the topic of a token; if scale > 0, add scale * the law that it was drawn from to the row of
 * its word. */
SIMD_INLINE void draw_topic(Chain *chain, uint64_t key, ptrdiff_t token, float scale)
{
    const Document *document = &chain->document;
    const ptrdiff_t P = document->P, word = chain->tokens[token];
    const float *ends = chain->scan.running + P - TOPIC_LANES;
    LaneSums sums;
    move_and_weigh(
        chain->n, chain->last, chain->topics[token], document->alpha,
        document->table + document->words[word] * P, P, &chain->scan);
    if (!is_sum(sum_lanes(ends, &sums))) {
        weigh_alike(document->alpha, P, &chain->scan);
        sum_lanes(ends, &sums);
    }
    chain->last = (int)choose_at(
        chain->scan.running, P, &sums, uniform_of(key, (uint64_t)token) * sums.total);
    chain->topics[token] = chain->last;
    if (scale > 0)
        add_scaled_row(chain->scan.weights, scale / sums.total, P, chain->rows + word * P);
}

SIMD_UNUSED static void begin_sweep(Chain *chain, uint64_t sweep, float scale)
{
    draw_blocks(chain, sweep, scale);
    chain->last = (int)chain->document.P;
}

SIMD_UNUSED static void end_sweep(const Chain *chain)
{
    if (chain->last < chain->document.P) chain->n[chain->last] += 1;
}

/* The tokens from begin to end in a sweep of two chains, of which the second may be without tokens.
 * A token waits for the one before it, and while it waits, the CPU draws one of the other chain. */
SIMD_CLONES SIMD_UNUSED static void gibbs_sweep(
    Chain *first, Chain *second, uint64_t sweep, ptrdiff_t begin, ptrdiff_t end, float scale)
{
    Chain a = *first, b = *second;
    const uint64_t a_key = stream_of(a.key, sweep), b_key = stream_of(b.key, sweep);
    const ptrdiff_t a_end = a.n_tokens < end ? a.n_tokens : end;
    const ptrdiff_t b_end = b.n_tokens < end ? b.n_tokens : end;
    ptrdiff_t token = begin;
    for (; token < a_end && token < b_end; token++) {
        draw_topic(&a, a_key, token, scale);
        draw_topic(&b, b_key, token, scale);
    }
    for (ptrdiff_t alone = token; alone < a_end; alone++) draw_topic(&a, a_key, alone, scale);
    for (ptrdiff_t alone = token; alone < b_end; alone++) draw_topic(&b, b_key, alone, scale);
    first->last = a.last;
    second->last = b.last;
}

/* rows <- how many tokens of each word have each topic */
SIMD_UNUSED static void count_topics(const Chain *chain)
{
    const Document *document = &chain->document;
    memset(chain->rows, 0, (size_t)(document->n_words * document->P) * sizeof *chain->rows);
    for (ptrdiff_t t = 0; t < chain->n_tokens; t++)
        chain->rows[chain->tokens[t] * document->P + chain->topics[t]] += 1;
    for (ptrdiff_t b = 0; b < chain->n_blocks; b++)
        memcpy(
            chain->rows + chain->blocks[b] * document->P, chain->block_topics + b * document->P,
            (size_t)document->P * sizeof *chain->rows);
}

/* Shares q of each word's topics in proportion to (n + alpha) phi: out (P,) <- sum_w c_w q_w,
 * rows (n_words, P) <- c_w q_w and sums (n_words,) <- sum_k (n_k + alpha_k) phi_k, unless NULL. */
SIMD_CLONES SIMD_UNUSED static void share_words(
    const Document *document, const float *n, const Scan *scan, float *RESTRICT out, float *rows,
    double *sums)
{
    const ptrdiff_t P = document->P;
    memset(out, 0, (size_t)P * sizeof *out);
    for (ptrdiff_t i = 0; i < document->n_words; i++) {
        LaneSums lanes;
        fetch_ahead(document, i);
        weigh(n, document->alpha, document->table + document->words[i] * P, P, scan);
        float sum = sum_lanes(scan->running + P - TOPIC_LANES, &lanes), total = sum;
        if (!is_sum(sum)) {
            weigh_alike(document->alpha, P, scan);
            total = sum_lanes(scan->running + P - TOPIC_LANES, &lanes);
            sum = 0;
        }
        if (sums) sums[i] = sum;
        float scale = document->counts[i] / total;
        if (rows) {
            for (ptrdiff_t k = 0; k < P; k++) rows[i * P + k] = scale * scan->weights[k];
        }
        add_scaled_row(scan->weights, scale, P, out);
    }
}

/* variances (P,) <- those of sums over tokens, each there with probability row / count. */
SIMD_CLONES SIMD_UNUSED static void sum_variances(
    const float *RESTRICT rows, const float *RESTRICT counts, ptrdiff_t n, ptrdiff_t P,
    double *RESTRICT variances)
{
    memset(variances, 0, (size_t)P * sizeof *variances);
    for (ptrdiff_t i = 0; i < n; i++, rows += P) {
        float inverse = counts[i] > 0 ? 1 / counts[i] : 0;
        for (ptrdiff_t k = 0; k < P; k++) variances[k] += rows[k] * (1 - rows[k] * inverse);
    }
}

/* sums (P,) <- sums of rows (n, P) */
SIMD_CLONES SIMD_UNUSED static void sum_rows(
    const float *RESTRICT rows, ptrdiff_t n, ptrdiff_t P, double *RESTRICT sums)
{
    memset(sums, 0, (size_t)P * sizeof *sums);
    for (ptrdiff_t i = 0; i < n; i++, rows += P)
        for (ptrdiff_t k = 0; k < P; k++) sums[k] += rows[k];
}

/* totals (V, K) <- totals + scale * rows (n, P) of words (n,): of each n_parts-th word alone */
SIMD_CLONES SIMD_UNUSED static void add_rows_of_words(
    const float *RESTRICT rows, const int *words, ptrdiff_t n, ptrdiff_t P, ptrdiff_t K,
    double scale, int part, int n_parts, double *RESTRICT totals)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const float *row = rows + i * P;
        double *total = totals + words[i] * K;
        if (n_parts > 1 && words[i] % n_parts != part) continue;
        if (i + WORDS_AHEAD < n)
            fetch_row(totals + words[i + WORDS_AHEAD] * K, (size_t)K * sizeof(double));
        for (ptrdiff_t k = 0; k < K; k++) total[k] += scale * row[k];
    }
}

/* What Stirling's series are applied at: from here on their precision is that of a double. */
#define RISE 8
#define HALF_LOG_TWO_PI 0.91893853320467274178

/* The derivative of log Gamma at x > 0: that at x + RISE, less the sum of all 1 / (x + i). */
SIMD_INLINE double digamma_double(double x)
{
    double p = x, slope = 1;
    for (int i = 1; i < RISE; i++) {
        slope = slope * (x + i) + p;
        p *= x + i;
    }
    double y = x + RISE, r = 1 / y, s = r * r;
    double tail = 0.5 * r + s * (1 / 12. - s * (1 / 120. - s * (1 / 252. - s * (
        1 / 240. - s * (1 / 132. - s * (691 / 32760. - s / 12.))))));
    return log_double(y) - tail - slope / p;
}

SIMD_INLINE double log_gamma_double(double x)
{
    double p = x;
    for (int i = 1; i < RISE; i++) p *= x + i;
    double y = x + RISE, r = 1 / y, s = r * r;
    double tail = r * (1 / 12. - s * (1 / 360. - s * (1 / 1260. - s * (1 / 1680. - s * (
        1 / 1188. - s * (691 / 360360. - s / 156.))))));
    return (y - 0.5) * log_double(y) - y + HALF_LOG_TWO_PI + tail - log_double(p);
}

/* out (P,) <- out + scale * (psi(alpha + n) - shift) */
SIMD_CLONES SIMD_UNUSED static void add_expected_logs(
    const double *RESTRICT alpha, const float *RESTRICT n, ptrdiff_t P, double scale, double shift,
    double *RESTRICT out)
{
    for (ptrdiff_t k = 0; k < P; k++)
        out[k] += scale * (digamma_double(alpha[k] + n[k]) - shift);
}

/* out (P,) <- log Gamma(alpha + n) - n log(theta) */
SIMD_CLONES SIMD_UNUSED static void bound_of_topics(
    const double *RESTRICT alpha, const float *RESTRICT n, const float *RESTRICT theta,
    ptrdiff_t P, double *RESTRICT out)
{
    for (ptrdiff_t k = 0; k < P; k++)
        out[k] = log_gamma_double(alpha[k] + n[k]) - n[k] * log_double(theta[k]);
}

/* x (n,) <- x y */
SIMD_CLONES SIMD_UNUSED static void multiply_by(
    const double *RESTRICT y, ptrdiff_t n, double *RESTRICT x)
{
    for (ptrdiff_t i = 0; i < n; i++) x[i] *= y[i];
}

/* log(y / z) for y, z > 0 with one division: 2^k z is next to y, with the k that is the rounded
 * difference of their bits, in units of the exponent. (That is log2(y / z) to .09.) With
 * s = (y - 2^k z) / (y + 2^k z), |s| < .201, log(y / (2^k z)) = s (2 + s^2 P(s^2)). */
SIMD_INLINE double log_ratio(double y, double z)
{
    int64_t bits = bits_of_double(z);
    int64_t biased = bits_of_double(y) - bits + (1024LL << 52) + (1LL << 51);
    biased = (int64_t)((uint64_t)biased >> 52);
    z = double_of_bits(bits + (biased - 1024) * (1LL << 52));
    double k = double_of_bits(biased | 0x4330000000000000LL) - (4503599627370496.0 + 1024.0);
    double s = (y - z) / (y + z);
    double x = s * s;
    double P = 0.1513358127807951;
    P = P * x + 0.15281972927942838;
    P = P * x + 0.18184684870997098;
    P = P * x + 0.22222181285686451;
    P = P * x + 0.2857142884962405;
    P = P * x + 0.3999999999929016;
    P = P * x + 0.6666666666666695;
    return k * 0.6931471803691238 + (2.0 * s + (s * x * P + k * 1.9082149292705878e-10));
}

/* x (n,) <- log x, x > 0 */
SIMD_CLONES SIMD_UNUSED static void log_all(double *x, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++) x[i] = log_double(x[i]);
}
