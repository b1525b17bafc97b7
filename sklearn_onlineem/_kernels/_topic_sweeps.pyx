"""Latent Dirichlet allocation: sweeps over the topics of all tokens, and what these tell.

The topics' words are integrated out. Tokens come document by document; random numbers depend on the
seed, the document's number and the token. Of a word that a document has very often its tokens are a
block, whose topics are drawn as counts, see `_topic_draws.h`.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, fmax
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, memset

from ._arena cimport (
    Arena, allocate, arena_of, counting_arena, free, take_arenas, take_doubles, take_each,
)
from ._arrays cimport require
from ._gamma_functions cimport digamma_difference, polygamma
from ._openmp cimport (
    Slabs, busy_threads, is_interrupted, lay_out_slabs, omp_get_thread_num, raise_waiting, slabs_of,
    walk_blocks,
)
from ._topics cimport (
    FLT_MIN, MOST_TOKENS, BlockSpace, Scan, check_allowed, check_lanes, check_prior, most_prior,
    stream_of, sum_rows, take_block_space, take_floats,
)

from _topic_sweeps_h cimport (
    Shares, TokenList, TopicCounts, begin_shares, collapsed_blocks, collapsed_document, count_words,
    inverse_total, stochastic_blocks, stochastic_document, sum_of_logs,
)

cdef enum:
    MOST_WEIGHTS = 1 << 26      # of topics, in which draws go on without a look for Ctrl-C
    DOCUMENTS = 64              # whose expected logarithms are summed by one thread

cdef struct Tokens:
    Py_ssize_t n                # documents
    Py_ssize_t K
    Py_ssize_t P
    Py_ssize_t V
    Py_ssize_t most_tokens      # of a document
    int n_threads
    uint64_t seed
    const int* tokens
    const int64_t* offsets
    const unsigned char* allowed    # (n, K) or NULL
    int* topics
    const int64_t* block_offsets
    const int* block_words
    const float* block_counts
    float* block_topics
    const double* alpha
    float* float_alpha              # (P,), 0 in the padding
    double alpha_sum
    double prior_shift              # psi(alpha_0)
    # The scratch memory of a sweep.
    Arena counted
    char* threads
    TopicCounts counts
    double* log_likelihoods     # (n,)

# The scratch memory of a thread.
cdef struct TokenSpace:
    float* alpha                # (P,) of the topics that the document may use
    Shares shares
    Scan scan
    double* probabilities       # (most_tokens,)
    BlockSpace blocks


cdef TokenSpace lay_out_tokens(const Tokens* problem, Arena* arena) noexcept nogil:
    cdef TokenSpace space
    space.alpha = take_floats(arena, problem.P)
    space.shares.n = take_floats(arena, problem.P)
    space.shares.theta = take_floats(arena, problem.P)
    space.scan.weights = take_floats(arena, problem.P)
    space.scan.running = take_floats(arena, problem.P)
    space.probabilities = take_doubles(arena, problem.most_tokens)
    space.blocks = take_block_space(arena, problem.P)
    return space


cdef void lay_out_sweep(Tokens* problem, Arena* arena) noexcept nogil:
    problem.counted = counting_arena()
    lay_out_tokens(problem, &problem.counted)
    problem.threads = take_arenas(arena, problem.n_threads, &problem.counted)
    problem.float_alpha = take_floats(arena, problem.P)
    problem.counts.inverses = take_floats(arena, problem.P)
    problem.counts.raised = take_floats(arena, problem.P)
    problem.counts.totals = take_doubles(arena, problem.P)
    problem.log_likelihoods = take_doubles(arena, problem.n)


cdef void begin_counts(
    Tokens* problem, float* word_topic, const double* totals, double beta
) noexcept nogil:
    cdef TopicCounts* counts = &problem.counts
    cdef Py_ssize_t k
    counts.P, counts.word_topic = problem.P, word_topic
    counts.beta, counts.beta_sum = <float> fmax(beta, FLT_MIN), problem.V * beta
    for k in range(problem.P):
        counts.totals[k] = totals[k]
        counts.inverses[k] = inverse_total(counts, k, 0)
        counts.raised[k] = inverse_total(counts, k, 1)


cdef double take_alpha(
    const Tokens* problem, const unsigned char* allowed, float* alpha
) noexcept nogil:
    """alpha (P,) <- alpha, 0 of topics that are not allowed; return its sum."""
    cdef Py_ssize_t k
    cdef double total = 0
    memset(alpha, 0, problem.P * sizeof(float))
    for k in range(problem.K):
        if allowed == NULL or allowed[k]:
            alpha[k] = <float> fmax(problem.alpha[k], FLT_MIN)
            total += alpha[k]
    return total


cdef TokenList token_list(
    const Tokens* problem, Py_ssize_t d, const TokenSpace* space
) noexcept nogil:
    cdef TokenList document
    cdef Py_ssize_t start = problem.offsets[d], block = problem.block_offsets[d]
    document.n_tokens = problem.offsets[d + 1] - start
    document.tokens, document.topics = problem.tokens + start, problem.topics + start
    document.n_blocks = problem.block_offsets[d + 1] - block
    document.block_words = problem.block_words + block
    document.block_counts = problem.block_counts + block
    document.block_topics = problem.block_topics + block * problem.P
    document.key = stream_of(problem.seed, d)
    document.alpha, document.alpha_sum = problem.float_alpha, problem.alpha_sum
    if problem.allowed != NULL:
        document.alpha = space.alpha
        document.alpha_sum = take_alpha(problem, problem.allowed + d * problem.K, space.alpha)
    return document


cdef double draw_document(
    const Tokens* problem, Py_ssize_t d, bint collapsed, Arena arena
) noexcept nogil:
    """Draw the topics of a document's tokens; return the sum of log p(w | the others)."""
    cdef TokenSpace space = lay_out_tokens(problem, &arena)
    cdef TokenList document = token_list(problem, d, &space)
    cdef const TopicCounts* counts = &problem.counts
    cdef double seen = begin_shares(&document, counts, &space.shares), of_blocks
    if collapsed:
        of_blocks = collapsed_blocks(&document, counts, &space.shares, seen, &space.blocks)
        # Tokens of blocks that had no topics have some now.
        seen = begin_shares(&document, counts, &space.shares) if document.n_blocks > 0 else seen
        collapsed_document(&document, counts, &space.scan, &space.shares, seen, space.probabilities)
    else:
        of_blocks = stochastic_blocks(&document, counts, &space.shares, seen, &space.blocks)
        stochastic_document(
            &document, counts, &space.scan, &space.shares, seen, space.probabilities)
    return of_blocks + sum_of_logs(space.probabilities, document.n_tokens)


cdef Py_ssize_t end_of_piece(const Tokens* problem, Py_ssize_t first) noexcept nogil:
    """The documents that are drawn before the next look for Ctrl-C, at least one."""
    cdef Py_ssize_t last = first + 1
    cdef Py_ssize_t most = MOST_WEIGHTS // problem.P * problem.n_threads
    while last < problem.n and problem.offsets[last + 1] - problem.offsets[first] <= most:
        last += 1
    return last


cdef Tokens tokens_of(
    int[::1] topics, const int64_t[::1] offsets, const int64_t[::1] block_offsets,
    float[:, ::1] block_topics, const unsigned char[:, ::1] allowed, const double[::1] alpha,
    int least,
) except *:
    """Topics of documents, and what these may use; a topic of -1 is none, if it is the `least`."""
    cdef Tokens documents
    cdef Py_ssize_t n = offsets.shape[0] - 1, K = alpha.shape[0], P = block_topics.shape[1], d, i, k
    cdef bint valid = True, is_allowed
    require(n > 0 and K > 0, "documents, topics")
    check_lanes(K, P)
    require(offsets[0] == 0 and offsets[n] == topics.shape[0], "offsets of all topics")
    require(block_offsets.shape[0] == n + 1 and block_offsets[0] == 0
            and block_offsets[n] == block_topics.shape[0], "offsets of all blocks, rows of topics")
    documents.most_tokens = 0
    for d in range(n):
        require(offsets[d] <= offsets[d + 1] and block_offsets[d] <= block_offsets[d + 1],
                "offsets, and those of blocks, do not fall")
        documents.most_tokens = max(documents.most_tokens, offsets[d + 1] - offsets[d])
    check_allowed(allowed, n, K)
    for d in range(n):
        for i in range(offsets[d], offsets[d + 1]):
            valid &= least <= topics[i] < K and (
                allowed.shape[0] == 0 or topics[i] < 0 or allowed[d, topics[i]] != 0)
        for i in range(block_offsets[d], block_offsets[d + 1]):
            for k in range(P):
                is_allowed = k < K and (allowed.shape[0] == 0 or allowed[d, k] != 0)
                valid &= 0 <= block_topics[i, k] < INFINITY
                valid &= is_allowed or block_topics[i, k] == 0
    require(valid, "topics of tokens, and of blocks, are among those that the document may use")
    documents.n, documents.K, documents.P, documents.alpha_sum = n, K, P, check_prior(alpha)
    documents.offsets, documents.block_offsets = &offsets[0], &block_offsets[0]
    documents.topics = &topics[0] if topics.shape[0] > 0 else NULL
    documents.block_topics = &block_topics[0, 0] if block_topics.shape[0] > 0 else NULL
    documents.alpha = &alpha[0]
    documents.allowed = &allowed[0, 0] if allowed.shape[0] > 0 else NULL
    return documents


cdef int add_words(
    Tokens* documents, const int[::1] tokens, const int[::1] block_words,
    const float[::1] block_counts, Py_ssize_t V,
) except -1:
    """The words of documents are among V."""
    cdef Py_ssize_t n_tokens = documents.offsets[documents.n]
    cdef Py_ssize_t n_blocks = documents.block_offsets[documents.n], P = documents.P, d, i, k
    cdef double n
    cdef bint present = True, valid = True
    require(tokens.shape[0] == n_tokens and block_words.shape[0] == n_blocks
            and block_counts.shape[0] == n_blocks, "words of all tokens and blocks, counts")
    for i in range(n_tokens):
        present &= 0 <= tokens[i] < V
    for d in range(documents.n):
        n = documents.offsets[d + 1] - documents.offsets[d]
        for i in range(documents.block_offsets[d], documents.block_offsets[d + 1]):
            present &= 0 <= block_words[i] < V
            valid &= 0 <= block_counts[i] < MOST_TOKENS and block_counts[i] == <int> block_counts[i]
            n += block_counts[i]
            for k in range(P):
                valid &= documents.block_topics[i * P + k] <= block_counts[i]
        require(n < MOST_TOKENS, "a document has less than 2^24 tokens")
    require(present, "words are rows of the table")
    require(valid, "blocks have whole counts, of which each topic has some")
    documents.V = V
    documents.tokens = &tokens[0] if n_tokens > 0 else NULL
    documents.block_words = &block_words[0] if n_blocks > 0 else NULL
    documents.block_counts = &block_counts[0] if n_blocks > 0 else NULL
    return 0


cdef double draw_all(
    Tokens* problem, float* word_topic, double* totals, double beta, bint collapsed
) except? -1:
    """Draw the topics of all tokens; return the sum of log p(w). Collapsed, totals go along."""
    cdef Py_ssize_t d, first, last = 0
    cdef int n_threads = problem.n_threads
    cdef bint is_over = False
    cdef double log_likelihood = 0
    cdef Arena arena = counting_arena()
    lay_out_sweep(problem, &arena)
    cdef void* scratch = allocate(&arena)
    lay_out_sweep(problem, &arena)
    with nogil:
        problem.alpha_sum = take_alpha(problem, NULL, problem.float_alpha)
        begin_counts(problem, word_topic, totals, beta)
        while last < problem.n and not is_over:
            first, last = last, end_of_piece(problem, last)
            for d in prange(first, last, schedule="dynamic", num_threads=n_threads,
                            use_threads_if=n_threads > 1):
                problem.log_likelihoods[d] = draw_document(
                    problem, d, collapsed,
                    arena_of(problem.threads, omp_get_thread_num(), &problem.counted))
            is_over = last < problem.n and is_interrupted()
        for d in range(last):
            log_likelihood += problem.log_likelihoods[d]
        if collapsed:
            memcpy(totals, problem.counts.totals, problem.P * sizeof(double))
    free(scratch)
    if is_over:
        raise_waiting()
    return log_likelihood


def sweep(
    const int[::1] tokens,                  # IN (N,): the word of each token
    const int64_t[::1] offsets,             # IN (n + 1,): where documents begin
    const unsigned char[:, ::1] allowed,    # IN (n, K) or (0, 0): topics a document may use
    int[::1] topics,                        # INOUT (N,); -1: none, and not counted
    const int64_t[::1] block_offsets,       # IN (n + 1,): where the blocks of documents begin
    const int[::1] block_words,             # IN (B,): the word of each block
    const float[::1] block_counts,          # IN (B,): its tokens, which are none of `tokens`
    float[:, ::1] block_topics,             # INOUT (B, P): of its tokens; 0: they have none
    float[:, ::1] word_topic,               # INOUT (V, P): n_kv, below 2^24
    double[::1] totals,                     # INOUT (P,): n_k
    float[:, ::1] new_word_topic,           # OUT (V, P); or None, for collapsed Gibbs sampling
    double[::1] new_totals,                 # OUT (P,), or None
    const double[::1] alpha,                # IN (K,)
    double beta,
    uint64_t seed,
    int n_threads,
):
    """Draw every token's topic from (n_dk + alpha_k) (n_kw + beta) / (n_k + V beta).

    In collapsed Gibbs sampling counts are those of all other tokens, which change with each draw.
    Tokens come one after another, so this is not for several threads. With new counts, it is a pass
    of an exponential stochastic cellular automaton (Zaheer et al. 2016): counts, the token's own
    too, are those of the pass before. Return the sum of the logarithms of what counts say of the
    tokens: of log p(w_n | all other tokens) in the first case.
    """
    cdef Tokens problem = tokens_of(
        topics, offsets, block_offsets, block_topics, allowed, alpha, -1)
    cdef Py_ssize_t i, k
    cdef int part
    cdef double log_likelihood
    cdef bint collapsed = new_word_topic is None
    add_words(&problem, tokens, block_words, block_counts, word_topic.shape[0])
    require(problem.V > 0 and n_threads > 0, "words, threads")
    require(word_topic.shape[1] == problem.P == totals.shape[0], "tables are of a row's topics")
    require(0 < beta <= most_prior(), "the prior's beta is positive, and at most 1e30")
    if not collapsed:
        require(new_totals is not None and new_totals.shape[0] == problem.P
                and new_word_topic.shape[0] == problem.V and new_word_topic.shape[1] == problem.P,
                "new tables are as the old ones")
        require(&new_word_topic[0, 0] != &word_topic[0, 0], "new counts are not the old ones")
    n_threads = problem.n_threads = 1 if collapsed else busy_threads(n_threads, problem.n)
    problem.seed = seed
    log_likelihood = draw_all(&problem, &word_topic[0, 0], &totals[0], beta, collapsed)
    if collapsed:
        return log_likelihood
    with nogil:
        memset(&new_word_topic[0, 0], 0, problem.V * problem.P * sizeof(float))
        for part in prange(n_threads, schedule="static", num_threads=n_threads,
                           use_threads_if=n_threads > 1):
            count_words(problem.tokens, problem.topics, problem.offsets[problem.n], problem.P,
                        part, n_threads, &new_word_topic[0, 0])
        for i in range(block_words.shape[0]):
            for k in range(problem.P):
                new_word_topic[block_words[i], k] += block_topics[i, k]
        sum_rows(&new_word_topic[0, 0], problem.V, problem.P, &new_totals[0])
    return log_likelihood


# Expected logarithms of proportions
# ----------------------------------
#
#     E log theta_k = psi(alpha_k + n_dk) - psi(alpha_0 + n_d)
#
# Most documents have few of all topics, so that no psi is evaluated for what they have, but what
# their tokens add to it: psi(alpha + n) = psi(alpha + 1) + sum_{0 < j < n} 1 / (alpha + j). The
# first token is counted apart: for small alpha it adds nearly all, and digits would be lost.

# Of a block of documents.
cdef struct Sums:
    double* present             # (K,) documents with tokens of a topic
    double* changes             # (K,) rises less shifts
    double* n                   # (K,) tokens of a document; 0 between documents
    double* rises               # (K,) what all tokens but their first add
    double* shifts              # (K,) psi(alpha_0 + n_d), or psi(alpha_0) if it is not allowed


cdef Sums lay_out_logs(Py_ssize_t K, double* present, Arena* arena) noexcept nogil:
    cdef Sums sums
    sums.present, sums.changes = present, present + K if present != NULL else NULL
    take_each(arena, K, &sums.n, &sums.rises, &sums.shifts)
    return sums


cdef void add_tokens(const Tokens* documents, Py_ssize_t d, const Sums* sums) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef double n, more
    for i in range(documents.offsets[d], documents.offsets[d + 1]):
        k = documents.topics[i]
        n = sums.n[k]
        sums.n[k] = n + 1
        sums.rises[k] += 1 / (documents.alpha[k] + n) if n > 0 else 0
    for i in range(documents.block_offsets[d], documents.block_offsets[d + 1]):
        for k in range(documents.K):
            n, more = sums.n[k], documents.block_topics[i * documents.P + k]
            sums.n[k] = n + more
            if n == 0:
                n, more = 1, more - 1
            if more > 0:
                sums.rises[k] += digamma_difference(documents.alpha[k] + n, more)
    for k in range(documents.K):
        sums.present[k] += sums.n[k] > 0
        sums.n[k] = 0


cdef void add_shifts(const Tokens* documents, Py_ssize_t d, const Sums* sums) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef const unsigned char* allowed = documents.allowed + d * documents.K
    cdef double n = documents.offsets[d + 1] - documents.offsets[d]
    cdef double shift, alpha_sum = documents.alpha_sum
    cdef bint is_allowed
    for i in range(documents.block_offsets[d], documents.block_offsets[d + 1]):
        for k in range(documents.K):
            n += documents.block_topics[i * documents.P + k]
    if documents.allowed != NULL:
        alpha_sum = 0
        for k in range(documents.K):
            alpha_sum += documents.alpha[k] if allowed[k] else 0
    # Shares are those among the topics that are allowed, whose sum is known by its prior alone.
    shift = polygamma(alpha_sum + n).digamma
    shift += documents.prior_shift - polygamma(alpha_sum).digamma
    for k in range(documents.K):
        # A topic that is not allowed has no part in this document, which says nothing of its prior.
        is_allowed = documents.allowed == NULL or allowed[k]
        sums.shifts[k] += shift if is_allowed else documents.prior_shift


def expected_logs(
    int[::1] topics,                        # IN (N,)
    const int64_t[::1] offsets,             # IN (n + 1,): where documents begin
    const int64_t[::1] block_offsets,       # IN (n + 1,): where the blocks of documents begin
    float[:, ::1] block_topics,             # IN (B, P): how many tokens of a block have each topic
    const unsigned char[:, ::1] allowed,    # IN (n, K) or (0, 0): topics a document may use
    const double[::1] alpha,                # IN (K,)
    double[::1] out,                        # OUT (K,)
    int n_threads,
):
    """out <- the sum over documents of E log theta_k = psi(alpha_k + n_dk) - psi(alpha_0 + n_d).

    Of topics that a document may not use, and of the sum of the others, it is that of the prior.
    """
    cdef Tokens documents = tokens_of(
        topics, offsets, block_offsets, block_topics, allowed, alpha, 0)
    cdef Py_ssize_t n = documents.n, K = documents.K, n_blocks, k
    require(out.shape[0] == K and n_threads > 0, "a sum for each topic; threads")
    documents.prior_shift = polygamma(documents.alpha_sum).digamma
    n_blocks = (n + DOCUMENTS - 1) // DOCUMENTS
    cdef Slabs slabs = slabs_of(n, DOCUMENTS, n_blocks, busy_threads(n_threads, n_blocks))
    cdef Arena counted = counting_arena(), arena = counting_arena()
    cdef double present
    lay_out_logs(K, NULL, &counted)
    lay_out_slabs(&slabs, &counted, 2 * K, &arena)
    cdef void* scratch = allocate(&arena)
    slabs = lay_out_slabs(&slabs, &counted, 2 * K, &arena)
    with nogil:
        walk_blocks(&slabs, add_block, &documents)
        for k in range(K):
            present, out[k] = slabs.sums[k], slabs.sums[K + k]
            if present < n:
                out[k] += (n - present) * polygamma(alpha[k]).digamma
            if present > 0:
                out[k] += present * polygamma(alpha[k] + 1).digamma
        free(scratch)


cdef double add_block(
    const void* of, Arena scratch, Py_ssize_t start, Py_ssize_t B, double* present
) noexcept nogil:
    cdef const Tokens* documents = <const Tokens*> of
    cdef Py_ssize_t K = documents.K, d, k
    cdef Sums sums = lay_out_logs(K, present, &scratch)
    memset(sums.n, 0, K * sizeof(double))
    memset(sums.rises, 0, K * sizeof(double))
    memset(sums.shifts, 0, K * sizeof(double))
    for d in range(start, start + B):
        add_tokens(documents, d, &sums)
        add_shifts(documents, d, &sums)
    for k in range(K):
        sums.changes[k] += sums.rises[k] - sums.shifts[k]
    return 0
