/* Topics of tokens given those of all the others, where the topics' words are integrated out. */
#ifndef SKLEARN_ONLINEEM_TOPIC_SWEEPS_H
#define SKLEARN_ONLINEEM_TOPIC_SWEEPS_H

#include "_topics.h"

/* The tokens of one document. */
typedef struct {
    ptrdiff_t n_tokens;
    const int *tokens;  /* (n_tokens,) words */
    int *topics;        /* (n_tokens,), -1 of a token that has none and is not counted */
    const float *alpha; /* (P,), 0 where no topic is, or none that the document may use */
    double alpha_sum;
    uint64_t key;
} TokenList;

/* How often words have topics. */
typedef struct {
    ptrdiff_t P;
    float *word_topic;  /* (V, P) */
    double *totals;     /* (P,) */
    float *inverses;    /* (P,) 1 / (totals + V beta) */
    float *raised;      /* (P,) 1 / (totals + 1 + V beta) */
    const float *betas; /* (P,) beta */
    double beta_sum;    /* V beta */
} TopicCounts;

SIMD_INLINE void fetch_words_ahead(
    const TokenList *document, const TopicCounts *counts, ptrdiff_t t)
{
    if (t + WORDS_AHEAD < document->n_tokens)
        fetch_row(
            counts->word_topic + document->tokens[t + WORDS_AHEAD] * counts->P,
            (size_t)counts->P * sizeof(float));
}

/* n (P,) <- how many tokens have each topic; return how many have any. */
SIMD_INLINE ptrdiff_t count_document(const TokenList *document, const ptrdiff_t P, float *n)
{
    ptrdiff_t seen = 0;
    memset(n, 0, (size_t)P * sizeof *n);
    for (ptrdiff_t t = 0; t < document->n_tokens; t++)
        if (document->topics[t] >= 0) {
            n[document->topics[t]] += 1;
            seen++;
        }
    return seen;
}

/* The topic of a token at a share of all weights; sum <- their sum. */
SIMD_INLINE int choose_topic(
    const float *alpha, const ptrdiff_t P, const Scan *scan, float uniform, double *sum)
{
    const float *ends = scan->running + P - TOPIC_LANES;
    LaneSums sums;
    *sum = sum_lanes(ends, &sums);
    if (!is_sum(sums.total)) {
        *sum = FLT_MIN;
        weigh_alike(alpha, P, scan);
        sum_lanes(ends, &sums);
    }
    return (int)choose(scan->running, P, &sums, uniform);
}

/* A token that changes its topic, and what that changes the inverses of the two to. */
typedef struct {
    int to, from; /* P: none */
    float to_inverse, from_inverse;
} Move;

/* 1 / (totals + more + V beta) of a topic, but no more than leaves room for what it multiplies. */
SIMD_INLINE float inverse_total(const TopicCounts *counts, ptrdiff_t k, double more)
{
    double inverse = 1 / (counts->totals[k] + more + counts->beta_sum);
    return (float)(inverse < 1e30 ? inverse : 1e30);
}

SIMD_INLINE void count_token(const TopicCounts *counts, ptrdiff_t k, double change)
{
    counts->totals[k] += change;
    counts->raised[k] = inverse_total(counts, k, 1);
}

/* Count that a token leaves `from`, and that the one before it came to `to`. What is needed of
 * either case is made before it is known whether these are one topic. */
SIMD_INLINE void count_move(const TopicCounts *counts, Move *move)
{
    if (move->from < counts->P) {
        const float other = inverse_total(counts, move->from, -1);
        const float same = inverse_total(counts, move->from, 0);
        move->from_inverse = move->from == move->to ? same : other;
        count_token(counts, move->from, -1);
    }
    if (move->to < counts->P) count_token(counts, move->to, 1);
}

/* n (P,), inverses (P,) <- themselves after a move; running <- sums along lanes of the weights
 * (n + alpha) (words + beta) inverses, where words (P,) has what came, and still what leaves. */
SIMD_INLINE void move_and_weigh_counts(
    const TopicCounts *counts, const Move *move, const float *alpha, const float *words,
    const Scan *scan, float *n)
{
    const ptrdiff_t P = counts->P;
    float *inverses = counts->inverses;
#if defined(__GNUC__)
    const Vector betas = OF_VECTOR(counts->betas);
    const Vector to = EACH_OF_VECTOR(move->to_inverse), from = EACH_OF_VECTOR(move->from_inverse);
    VectorInts numbers = VECTOR_NUMBERS;
    Vector sums[PARTS] = {{0}};
    for (ptrdiff_t row = 0; row < P; row += TOPIC_LANES)
        for (int part = 0; part < PARTS; part++, numbers += WIDTH) {
            const ptrdiff_t k = row + part * WIDTH;
            /* `to` is known last, so that everything else is done before. */
            const VectorInts is_to = numbers == move->to, is_from = numbers == move->from;
            const Vector leaves = ONE_AT(numbers, move->from);
            const Vector comes = ONE_AT(numbers, move->to);
            VectorInts inverse = *(const VectorInts *)(inverses + k);
            inverse = ((VectorInts)to & is_to) | (inverse & ~is_to);
            inverse = ((VectorInts)from & is_from) | (inverse & ~is_from);
            Vector here = OF_VECTOR(n + k) - leaves;
            Vector word = OF_VECTOR(words + k) - leaves + betas;
            Vector x = ((here + OF_VECTOR(alpha + k)) + comes) * (word * (Vector)inverse);
            sums[part] += x;
            IN_VECTOR(n + k) = here + comes;
            IN_VECTOR(inverses + k) = (Vector)inverse;
            IN_VECTOR(scan->running + k) = sums[part];
        }
#else
    float sums[TOPIC_LANES] = {0};
    if (move->to < P) {
        n[move->to] += 1;
        inverses[move->to] = move->to_inverse;
    }
    if (move->from < P) {
        n[move->from] -= 1;
        inverses[move->from] = move->from_inverse;
    }
    for (ptrdiff_t k = 0; k < P; k += TOPIC_LANES)
        EACH_LANE {
            float word = words[k + lane] - (k + lane == move->from ? 1.0f : 0.0f);
            sums[lane] += (n[k + lane] + alpha[k + lane])
                * ((word + counts->betas[lane]) * inverses[k + lane]);
            scan->running[k + lane] = sums[lane];
        }
#endif
}

/* A sweep of collapsed Gibbs sampling over the tokens of a document: topics and counts <-
 * themselves after it, probabilities (n_tokens,) <- p(w | all other tokens). n (P,) is scratch. */
SIMD_CLONES SIMD_UNUSED static void collapsed_document(
    const TokenList *document, const TopicCounts *all_counts, const Scan *all_scan, float *n,
    double *probabilities)
{
    const TopicCounts counts = *all_counts;
    const Scan scan = *all_scan;
    const ptrdiff_t P = counts.P;
    const int none = (int)P;
    Move move = {none, none, 0, 0};
    double seen = (double)count_document(document, P, n);
    for (ptrdiff_t t = 0; t < document->n_tokens; t++) {
        float *words = counts.word_topic + document->tokens[t] * P;
        fetch_words_ahead(document, &counts, t);
        move.from = document->topics[t] < 0 ? none : document->topics[t];
        if (move.from < none) seen -= 1;
        count_move(&counts, &move);
        move_and_weigh_counts(&counts, &move, document->alpha, words, &scan, n);
        move.to = choose_topic(
            document->alpha, P, &scan, uniform_of(document->key, (uint64_t)t), probabilities + t);
        probabilities[t] /= seen + document->alpha_sum;
        seen += 1;
        if (move.from < none) words[move.from] -= 1;
        words[move.to] += 1;
        move.to_inverse = counts.raised[move.to];
        document->topics[t] = move.to;
    }
    if (move.to < none) {
        counts.inverses[move.to] = move.to_inverse;
        count_token(&counts, move.to, 1);
    }
}

/* The same with the counts of the last pass, in which each token has its own part. theta (P,) is
 * scratch, too. */
SIMD_CLONES SIMD_UNUSED static void stochastic_document(
    const TokenList *document, const TopicCounts *all_counts, const Scan *all_scan, float *n,
    float *theta, double *probabilities)
{
    const TopicCounts counts = *all_counts;
    const Scan scan = *all_scan;
    const ptrdiff_t P = counts.P;
    double seen = (double)count_document(document, P, n);
    for (ptrdiff_t k = 0; k < P; k++) theta[k] = (n[k] + document->alpha[k]) * counts.inverses[k];
    for (ptrdiff_t t = 0; t < document->n_tokens; t++) {
        fetch_words_ahead(document, &counts, t);
        weigh(counts.word_topic + document->tokens[t] * P, counts.betas, theta, P, &scan);
        document->topics[t] = choose_topic(
            document->alpha, P, &scan, uniform_of(document->key, (uint64_t)t), probabilities + t);
        probabilities[t] /= seen + document->alpha_sum;
    }
}

/* word_topic (V, P) <- how often words have topics: of every n_parts-th word alone */
SIMD_UNUSED static void count_words(
    const int *tokens, const int *topics, ptrdiff_t n_tokens, ptrdiff_t P, int part, int n_parts,
    float *word_topic)
{
    for (ptrdiff_t t = 0; t < n_tokens; t++)
        if (n_parts == 1 || tokens[t] % n_parts == part)
            word_topic[tokens[t] * P + topics[t]] += 1;
}

#endif
