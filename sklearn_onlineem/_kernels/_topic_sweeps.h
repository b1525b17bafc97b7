/* Topics of tokens given those of all the others, where the topics' words are integrated out. */
#pragma once

#include "_topics.h"

/* What is counted for single tokens comes from all over a table, too. */
#define TOKENS_AHEAD 16

/* The tokens of one document. */
typedef struct {
    ptrdiff_t n_tokens;        /* in no block */
    const int *tokens;         /* (n_tokens,) words */
    int *topics;               /* (n_tokens,), -1 of a token that has none and is not counted */
    ptrdiff_t n_blocks;
    const int *block_words;    /* (n_blocks,) */
    const float *block_counts; /* (n_blocks,) tokens */
    float *block_topics;       /* (n_blocks, P): how many of them have each topic */
    const float *alpha; /* (P,), 0 where no topic is, or none that the document may use */
    double alpha_sum;
    uint64_t key;
} TokenList;

/* How often words have topics. */
typedef struct {
    ptrdiff_t P;
    float *word_topic; /* (V, P) */
    double *totals;    /* (P,) */
    float *inverses;   /* (P,) 1 / (totals + V beta) */
    float *raised;     /* (P,) 1 / (totals + 1 + V beta) */
    float beta;
    double beta_sum;   /* V beta */
} TopicCounts;

/* The same of one document. */
typedef struct {
    float *n;     /* (P,) tokens of each topic */
    float *theta; /* (P,) (n + alpha) / (totals + V beta): what all its words have in common */
} Shares;

SIMD_INLINE void fetch_words_ahead(
    const TokenList *document, const TopicCounts *counts, ptrdiff_t t)
{
    if (t + WORDS_AHEAD < document->n_tokens)
        fetch_row(
            counts->word_topic + document->tokens[t + WORDS_AHEAD] * counts->P,
            (size_t)counts->P * sizeof(float));
}

/* 1 / (totals + more + V beta) of a topic, but no more than leaves room for what it multiplies. */
SIMD_INLINE float inverse_total(const TopicCounts *counts, ptrdiff_t k, double more)
{
    double inverse = 1 / (counts->totals[k] + more + counts->beta_sum);
    return (float)(inverse < 1e30 ? inverse : 1e30);
}

SIMD_INLINE void share_topic(
    const TokenList *document, const TopicCounts *counts, ptrdiff_t k, const Shares *shares)
{
    shares->theta[k] = (shares->n[k] + document->alpha[k]) * counts->inverses[k];
}

/* shares <- those of a document's topics; return how many tokens have any. */
SIMD_INLINE ptrdiff_t begin_shares(
    const TokenList *document, const TopicCounts *counts, const Shares *shares)
{
    ptrdiff_t seen = 0;
    memset(shares->n, 0, (size_t)counts->P * sizeof *shares->n);
    for (ptrdiff_t t = 0; t < document->n_tokens; t++)
        if (document->topics[t] >= 0) {
            shares->n[document->topics[t]] += 1;
            seen++;
        }
    for (ptrdiff_t i = 0; i < document->n_blocks * counts->P; i++) {
        shares->n[i % counts->P] += document->block_topics[i];
        seen += (ptrdiff_t)document->block_topics[i];
    }
    for (ptrdiff_t k = 0; k < counts->P; k++) share_topic(document, counts, k, shares);
    return seen;
}

/* Topics of words are drawn from weights (words + beta) theta: running <- their sums along lanes,
 * and sums. Where `leaves_out`, the weight of topic `without` is not among them. */
SIMD_INLINE void weigh_word(
    const TopicCounts *counts, const float *words, const Shares *shares, const int leaves_out,
    const int without, const Scan *scan, LaneSums *sums)
{
    const ptrdiff_t P = counts->P;
    const float *theta = shares->theta;
    float *running = scan->running;
#if defined(__GNUC__)
    const float beta = counts->beta;
    const Vector betas = EACH_OF_VECTOR(beta);
    VectorInts numbers = VECTOR_NUMBERS;
    Vector along[PARTS] = {{0}};
    for (ptrdiff_t row = 0; row < P; row += TOPIC_LANES)
        for (int part = 0; part < PARTS; part++, numbers += WIDTH) {
            const ptrdiff_t k = row + part * WIDTH;
            Vector share = OF_VECTOR(theta + k);
            if (leaves_out) share = (Vector)((VectorInts)share & (numbers != without));
            along[part] += (OF_VECTOR(words + k) + betas) * share;
            IN_VECTOR(running + k) = along[part];
        }
#else
    float along[TOPIC_LANES] = {0};
    for (ptrdiff_t k = 0; k < P; k += TOPIC_LANES)
        EACH_LANE {
            float share = leaves_out && k + lane == without ? 0 : theta[k + lane];
            running[k + lane] = along[lane] += (words[k + lane] + counts->beta) * share;
        }
#endif
    sum_lanes(running + P - TOPIC_LANES, sums);
}

/* The sum of all weights, or of none that matters: the topics that there are have a word that no
 * topic explains in equal shares. */
SIMD_INLINE float usable_sum(
    const float *alpha, const ptrdiff_t P, const Scan *scan, LaneSums *sums)
{
    if (is_sum(sums->total)) return sums->total;
    weigh_alike(alpha, P, scan);
    sum_lanes(scan->running + P - TOPIC_LANES, sums);
    return FLT_MIN;
}

/* A token leaves its topic: counts and shares <- themselves without it. */
SIMD_INLINE void leave(
    const TokenList *document, const TopicCounts *counts, const int k, float *words,
    const Shares *shares)
{
    words[k] -= 1;
    shares->n[k] -= 1;
    counts->totals[k] -= 1;
    counts->raised[k] = counts->inverses[k];
    counts->inverses[k] = inverse_total(counts, k, 0);
    share_topic(document, counts, k, shares);
}

/* A token has a topic: counts and shares <- themselves with it. */
SIMD_INLINE void join(
    const TokenList *document, const TopicCounts *counts, const int k, float *words,
    const Shares *shares)
{
    words[k] += 1;
    shares->n[k] += 1;
    counts->totals[k] += 1;
    counts->inverses[k] = counts->raised[k];
    counts->raised[k] = inverse_total(counts, k, 1);
    share_topic(document, counts, k, shares);
}

/* A sweep of collapsed Gibbs sampling over the tokens of a document: topics and counts <-
 * themselves after it, probabilities (n_tokens,) <- p(w | all other tokens), of which there are
 * `seen`. shares are those of all tokens of the document, and then scratch.
 *
 * Each token waits for the topic of the one before it, which adds to the weight of that topic
 * alone. So all weights are made without it while its topic is being drawn, and a draw goes through
 * three parts: the weights of all topics but the token's own, then that of its own, and last
 * what the topic of the token before has gained.
 *
 * A CPU does not load a row before single numbers that were stored in it have left for the cache,
 * where they do not go before all that comes before them is done. This is why the token's own topic
 * is left out in registers, and leaves memory only after the row has been loaded. */
SIMD_CLONES SIMD_UNUSED static void collapsed_document(
    const TokenList *all_tokens, const TopicCounts *all_counts, const Scan *all_scan,
    const Shares *all_shares, double seen, double *probabilities)
{
    const TokenList document = *all_tokens;
    const TopicCounts counts = *all_counts;
    const Scan scan = *all_scan;
    const Shares shares = *all_shares;
    const ptrdiff_t P = counts.P;
    const int none = (int)P;
    int last = none;
    float *last_words = counts.word_topic;
    for (ptrdiff_t t = 0; t < document.n_tokens; t++) {
        float *words = counts.word_topic + document.tokens[t] * P;
        const int from = document.topics[t] < 0 ? none : document.topics[t];
        float own = 0, gained = 0;
        LaneSums sums;
        fetch_words_ahead(&document, &counts, t);
        weigh_word(&counts, words, &shares, 1, from, &scan, &sums);
        if (from < none) {
            seen -= 1;
            leave(&document, &counts, from, words, &shares);
            own = (words[from] + counts.beta) * shares.theta[from];
        }
        if (last < none) {
            const float before = (words[last] + counts.beta) * shares.theta[last];
            join(&document, &counts, last, last_words, &shares);
            gained = (words[last] + counts.beta) * shares.theta[last] - before;
        }
        float total = sums.total + own + gained, sum = total;
        /* A topic may lose by a token where alpha_k > V beta. */
        if (RARELY(!(gained >= 0) || !is_sum(total))) {
            weigh_word(&counts, words, &shares, 0, none, &scan, &sums);
            sum = usable_sum(document.alpha, P, &scan, &sums);
            total = sums.total;
            own = 0;
        }
        probabilities[t] = sum / (seen + document.alpha_sum);
        const float x = uniform_of(document.key, (uint64_t)t) * total;
        const int here = x < sums.total, own_or_last = x < sums.total + own ? from : last;
        const int other = (int)choose_at(scan.running, P, &sums, here ? x : 0);
        last = here ? other : own_or_last;
        last_words = words;
        document.topics[t] = last;
        seen += 1;
    }
    if (last < none) join(&document, &counts, last, last_words, &shares);
}

/* The same with the counts of the last pass, in which each token has its own part. */
SIMD_CLONES SIMD_UNUSED static void stochastic_document(
    const TokenList *all_tokens, const TopicCounts *all_counts, const Scan *all_scan,
    const Shares *all_shares, double seen, double *probabilities)
{
    const TokenList document = *all_tokens;
    const TopicCounts counts = *all_counts;
    const Scan scan = *all_scan;
    const Shares shares = *all_shares;
    const ptrdiff_t P = counts.P;
    const double scale = 1 / (seen + document.alpha_sum);
    for (ptrdiff_t t = 0; t < document.n_tokens; t++) {
        const float *words = counts.word_topic + document.tokens[t] * P;
        LaneSums sums;
        fetch_words_ahead(&document, &counts, t);
        weigh_word(&counts, words, &shares, 0, 0, &scan, &sums);
        probabilities[t] = usable_sum(document.alpha, P, &scan, &sums) * scale;
        const float x = uniform_of(document.key, (uint64_t)t) * sums.total;
        document.topics[t] = (int)choose_at(scan.running, P, &sums, x);
    }
}

/* weights (P,) <- those from which the topic of a token of a block's word is drawn; return their
 * sum, or 0 where no topic explains the word, which these then have in equal shares. */
SIMD_UNUSED static double weigh_block(
    const TokenList *document, const TopicCounts *counts, const float *words, const Shares *shares, double *weights)
{
    double total = 0;
    for (ptrdiff_t k = 0; k < counts->P; k++)
        total += weights[k] = ((double)words[k] + counts->beta) * shares->theta[k];
    if (total > 0 && total < INFINITY) return total;
    for (ptrdiff_t k = 0; k < counts->P; k++) weights[k] = document->alpha[k] > 0;
    return 0;
}

/* The log-likelihood of the tokens of a block, each given all others as they are. */
SIMD_UNUSED static double score_block(
    const TokenList *document, const TopicCounts *counts, const float *words,
    const Shares *shares, const float *topics, double n, double seen, double total,
    const double *weights)
{
    double score = 0;
    for (ptrdiff_t k = 0; k < counts->P; k++)
        if (topics[k] > 0) {
            const double own = (words[k] - 1.0 + counts->beta)
                * (shares->n[k] - 1.0 + document->alpha[k]) * inverse_total(counts, k, -1);
            const double sum = total - weights[k] + own;
            score += topics[k] * log_double(
                (sum > FLT_MIN ? sum : FLT_MIN) / (seen - 1 + document->alpha_sum));
            n -= topics[k];
        }
    if (n > 0)
        score += n * log_double((total > FLT_MIN ? total : FLT_MIN) / (seen + document->alpha_sum));
    return score;
}

/* The topics of blocks in a sweep of collapsed Gibbs sampling, as in `_topic_draws.h`: topics and
 * counts <- themselves after it; return the sum of log p(w | all other tokens). */
SIMD_UNUSED static double collapsed_blocks(
    const TokenList *document, const TopicCounts *counts, const Shares *shares, double seen,
    const BlockSpace *space)
{
    const ptrdiff_t P = counts->P;
    Numbers numbers = numbers_of_blocks(document->key);
    double score = 0;
    if (document->n_blocks == 0) return 0;
    draw_log_proportions(&numbers, document->alpha, shares->n, P, space->logs);
    for (ptrdiff_t b = 0; b < document->n_blocks; b++) {
        float *words = counts->word_topic + document->block_words[b] * P;
        float *topics = document->block_topics + b * P;
        const double n = document->block_counts[b];
        const double total = weigh_block(document, counts, words, shares, space->weights);
        score += score_block(
            document, counts, words, shares, topics, n, seen, total, space->weights);
        /* The word's probability in a topic, of which the others have the rest. */
        for (ptrdiff_t k = 0; k < P; k++) {
            if (!(document->alpha[k] > 0)) {
                space->weights[k] = -INFINITY;
                continue;
            }
            const double others = counts->totals[k] - words[k] + counts->beta_sum - counts->beta;
            const double own = next_log_gamma(&numbers, (double)words[k] + counts->beta);
            const double rest = others > FLT_MIN ? next_log_gamma(&numbers, others) : -INFINITY;
            const double most = own > rest ? own : rest, least = own > rest ? rest : own;
            space->weights[k] = space->logs[k] + own - most
                - (least > most - 700 ? log_double(1 + exp_double(least - most)) : 0);
        }
        weigh_logs(document->alpha, P, space->weights);
        draw_counts(&numbers, n, space->weights, P, space->tails, space->counts);
        for (ptrdiff_t k = 0; k < P; k++) {
            const float gained = space->counts[k] - topics[k];
            seen += gained;
            topics[k] = space->counts[k];
            words[k] += gained;
            shares->n[k] += gained;
            counts->totals[k] += gained;
            counts->inverses[k] = inverse_total(counts, k, 0);
            counts->raised[k] = inverse_total(counts, k, 1);
            share_topic(document, counts, k, shares);
        }
    }
    return score;
}

/* The same with the counts of the last pass: tokens are drawn from one distribution. */
SIMD_UNUSED static double stochastic_blocks(
    const TokenList *document, const TopicCounts *counts, const Shares *shares, double seen,
    const BlockSpace *space)
{
    const ptrdiff_t P = counts->P;
    Numbers numbers = numbers_of_blocks(document->key);
    double score = 0;
    for (ptrdiff_t b = 0; b < document->n_blocks; b++) {
        const float *words = counts->word_topic + document->block_words[b] * P;
        const double n = document->block_counts[b];
        const double total = weigh_block(document, counts, words, shares, space->weights);
        score += n * log_double((total > FLT_MIN ? total : FLT_MIN) / (seen + document->alpha_sum));
        draw_counts(&numbers, n, space->weights, P, space->tails, document->block_topics + b * P);
    }
    return score;
}

/* The sum of log x (n,), which is lost. Logarithms are of products of up to four, for which x has
 * to be between 1e-70 and 1e70. */
SIMD_UNUSED static double sum_of_logs(double *x, ptrdiff_t n)
{
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        const ptrdiff_t pairs = n / 2;
        multiply_by(x + n - pairs, pairs, x);
        n -= pairs;
    }
    log_all(x, n);
    for (ptrdiff_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

/* word_topic (V, P) <- how often words have topics: of every n_parts-th word alone */
SIMD_UNUSED static void count_words(
    const int *tokens, const int *topics, ptrdiff_t n_tokens, ptrdiff_t P, int part, int n_parts,
    float *word_topic)
{
    for (ptrdiff_t t = 0; t < n_tokens; t++) {
        const ptrdiff_t ahead = t + TOKENS_AHEAD;
        if (ahead < n_tokens) fetch_row(word_topic + tokens[ahead] * P + topics[ahead], 1);
        if (n_parts == 1 || tokens[t] % n_parts == part)
            word_topic[tokens[t] * P + topics[t]] += 1;
    }
}
