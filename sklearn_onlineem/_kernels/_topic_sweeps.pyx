"""Latent Dirichlet allocation: sweeps over the topics of all tokens.

The topics' words are integrated out. Tokens come document by document; random numbers depend on the
seed, the document's number and the token. Of a word that a document has very often its tokens are a
block, whose topics are drawn as counts, see `_topic_draws.h`.
"""

from cython.parallel cimport prange
from libc.limits cimport INT_MAX
from libc.math cimport fmax
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from ._arena cimport Arena, allocate, arena_of, counting_arena, take_arenas, take_doubles
from ._arrays cimport require
from ._openmp cimport busy_threads, is_interrupted, omp_get_thread_num, raise_waiting
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
    const float* float_alpha        # (P,), 0 in the padding
    double alpha_sum

# The scratch memory of a thread.
cdef struct TokenSpace:
    float* alpha                # (P,) of the topics that the document may use
    Shares shares
    Scan scan
    double* probabilities       # (most_tokens,)
    BlockSpace blocks

# The scratch memory of a sweep.
cdef struct TokenMemory:
    Arena counted
    char* threads
    float* alpha                # (P,)
    float* inverses             # (P,)
    float* raised               # (P,)
    double* totals              # (P,)
    double* log_likelihoods     # (n,)


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


cdef TokenMemory lay_out_sweep(const Tokens* problem, Arena* arena) noexcept nogil:
    cdef TokenMemory memory
    memory.counted = counting_arena()
    lay_out_tokens(problem, &memory.counted)
    memory.threads = take_arenas(arena, problem.n_threads, &memory.counted)
    memory.alpha = take_floats(arena, problem.P)
    memory.inverses = take_floats(arena, problem.P)
    memory.raised = take_floats(arena, problem.P)
    memory.totals = take_doubles(arena, problem.P)
    memory.log_likelihoods = take_doubles(arena, problem.n)
    return memory


cdef TopicCounts counts_of(
    const Tokens* problem, const float* word_topic, const double* totals, double beta,
    const TokenMemory* memory,
) noexcept nogil:
    cdef TopicCounts counts
    cdef Py_ssize_t k
    counts.P, counts.beta_sum = problem.P, problem.V * beta
    counts.word_topic = <float*> word_topic
    counts.beta, counts.totals = <float> fmax(beta, FLT_MIN), memory.totals
    counts.inverses, counts.raised = memory.inverses, memory.raised
    for k in range(problem.P):
        counts.totals[k] = totals[k]
        counts.inverses[k] = inverse_total(&counts, k, 0)
        counts.raised[k] = inverse_total(&counts, k, 1)
    return counts


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
    const Tokens* problem, Py_ssize_t d, const TopicCounts* counts, bint collapsed, Arena arena
) noexcept nogil:
    """Draw the topics of a document's tokens; return the sum of log p(w | the others)."""
    cdef TokenSpace space = lay_out_tokens(problem, &arena)
    cdef TokenList document = token_list(problem, d, &space)
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


cdef int check_tokens(
    Tokens* problem, const int[::1] tokens, const int64_t[::1] offsets,
    const unsigned char[:, ::1] allowed, int[::1] topics, const int64_t[::1] block_offsets,
    const int[::1] block_words, const float[::1] block_counts, float[:, ::1] block_topics,
    const double[::1] totals, const double[::1] alpha, double beta,
) except -1:
    cdef Py_ssize_t d, i, k, n_blocks = block_words.shape[0]
    cdef double n
    cdef int V, K
    cdef bint present = True, valid = True
    problem.n, problem.K = offsets.shape[0] - 1, alpha.shape[0]
    require(problem.n > 0 and problem.K > 0 and problem.V > 0 and problem.n_threads > 0,
            "documents, topics, words, threads")
    check_lanes(problem.K, problem.P)
    require(topics.shape[0] == tokens.shape[0] and offsets[0] == 0
            and offsets[problem.n] == tokens.shape[0], "offsets of all tokens and topics")
    problem.most_tokens = 0
    for d in range(problem.n):
        require(offsets[d] <= offsets[d + 1], "offsets do not fall")
        problem.most_tokens = max(problem.most_tokens, offsets[d + 1] - offsets[d])
    require(problem.most_tokens < MOST_TOKENS, "a document has less than 2^24 tokens")
    check_allowed(allowed, problem.n, problem.K)
    V, K = <int> min(problem.V, INT_MAX), <int> min(problem.K, INT_MAX)
    for i in range(tokens.shape[0]):
        present &= 0 <= tokens[i] < V
        valid &= -1 <= topics[i] < K
    for d in range(problem.n if valid and allowed.shape[0] > 0 else 0):
        for i in range(offsets[d], offsets[d + 1]):
            valid &= topics[i] < 0 or allowed[d, topics[i]] != 0
    require(block_offsets.shape[0] == problem.n + 1 and block_offsets[0] == 0
            and block_offsets[problem.n] == n_blocks == block_counts.shape[0]
            == block_topics.shape[0] and block_topics.shape[1] == problem.P,
            "offsets of all blocks, counts, rows of topics")
    for d in range(problem.n):
        require(block_offsets[d] <= block_offsets[d + 1] <= n_blocks,
                "offsets of blocks do not fall")
        n = offsets[d + 1] - offsets[d]
        for i in range(block_offsets[d], block_offsets[d + 1]):
            present &= 0 <= block_words[i] < V
            valid &= 0 <= block_counts[i] < MOST_TOKENS and block_counts[i] == <int> block_counts[i]
            n += block_counts[i]
            for k in range(problem.P):
                valid &= 0 <= block_topics[i, k] <= block_counts[i]
                if k >= K or allowed.shape[0] > 0 and not allowed[d, k]:
                    valid &= block_topics[i, k] == 0
        require(n < MOST_TOKENS, "a document has less than 2^24 tokens")
    require(present, "words are rows of the table")
    require(valid, "topics are among those that the document may use, or -1; blocks have counts")
    require(totals.shape[0] == problem.P, "totals are of a row's topics")
    check_prior(alpha)
    require(0 < beta <= most_prior(), "the prior's beta is positive, and at most 1e30")
    problem.tokens = &tokens[0] if tokens.shape[0] > 0 else NULL
    problem.topics = &topics[0] if tokens.shape[0] > 0 else NULL
    problem.block_words = &block_words[0] if n_blocks > 0 else NULL
    problem.block_counts = &block_counts[0] if n_blocks > 0 else NULL
    problem.block_topics = &block_topics[0, 0] if n_blocks > 0 else NULL
    problem.offsets, problem.block_offsets = &offsets[0], &block_offsets[0]
    problem.alpha = &alpha[0]
    problem.allowed = &allowed[0, 0] if allowed.shape[0] > 0 else NULL
    return 0


cdef double draw_all(
    Tokens* problem, const float* word_topic, double* totals, double beta, bint collapsed
) except? -1:
    """Draw the topics of all tokens; return the sum of log p(w). Collapsed, totals go along."""
    cdef Py_ssize_t d, first, last = 0
    cdef int n_threads = problem.n_threads
    cdef bint is_over = False
    cdef double log_likelihood = 0
    cdef Arena arena = counting_arena()
    lay_out_sweep(problem, &arena)
    cdef void* scratch = allocate(&arena)
    cdef TokenMemory memory = lay_out_sweep(problem, &arena)
    cdef TopicCounts counts
    with nogil:
        problem.float_alpha = memory.alpha
        problem.alpha_sum = take_alpha(problem, NULL, memory.alpha)
        counts = counts_of(problem, word_topic, totals, beta, &memory)
        while last < problem.n and not is_over:
            first, last = last, end_of_piece(problem, last)
            for d in prange(first, last, schedule="dynamic", num_threads=n_threads,
                            use_threads_if=n_threads > 1):
                memory.log_likelihoods[d] = draw_document(
                    problem, d, &counts, collapsed,
                    arena_of(memory.threads, omp_get_thread_num(), &memory.counted))
            is_over = last < problem.n and is_interrupted()
        for d in range(last):
            log_likelihood += memory.log_likelihoods[d]
        if collapsed:
            memcpy(totals, memory.totals, problem.P * sizeof(double))
    free(scratch)
    if is_over:
        raise_waiting()
    return log_likelihood


def collapsed_sweep(
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
    const double[::1] alpha,                # IN (K,)
    double beta,
    uint64_t seed,
):
    """A sweep of collapsed Gibbs sampling; return sum_n log p(w_n | all other tokens).

    p(z_n = k) ~ (n_dk + alpha_k) (n_kw + beta) / (n_k + V beta), without the token itself. Tokens
    come one after another, so this is not for several threads.
    """
    cdef Tokens problem
    problem.V, problem.P, problem.n_threads = word_topic.shape[0], word_topic.shape[1], 1
    problem.seed = seed
    check_tokens(&problem, tokens, offsets, allowed, topics, block_offsets, block_words,
                 block_counts, block_topics, totals, alpha, beta)
    return draw_all(&problem, &word_topic[0, 0], &totals[0], beta, True)


def esca_sweep(
    const int[::1] tokens,                  # IN (N,): the word of each token
    const int64_t[::1] offsets,             # IN (n + 1,): where documents begin
    const unsigned char[:, ::1] allowed,    # IN (n, K) or (0, 0): topics a document may use
    int[::1] topics,                        # INOUT (N,); -1: none
    const int64_t[::1] block_offsets,       # IN (n + 1,): where the blocks of documents begin
    const int[::1] block_words,             # IN (B,): the word of each block
    const float[::1] block_counts,          # IN (B,): its tokens, which are none of `tokens`
    float[:, ::1] block_topics,             # INOUT (B, P): of its tokens; 0: they have none
    const float[:, ::1] word_topic,         # IN (V, P): n_kv, below 2^24
    const double[::1] totals,               # IN (P,): n_k
    float[:, ::1] new_word_topic,           # OUT (V, P)
    double[::1] new_totals,                 # OUT (P,)
    const double[::1] alpha,                # IN (K,)
    double beta,
    uint64_t seed,
    int n_threads,
):
    """A pass of an exponential stochastic cellular automaton (Zaheer et al. 2016).

    Every token's topic is drawn from (n_dk + alpha_k) (n_kw + beta) / (n_k + V beta), in which all
    counts, the token's own too, are those of the pass before. Return the sum of the logarithms of
    what these say of the tokens.
    """
    cdef Tokens problem
    cdef Py_ssize_t i, k
    cdef int part
    cdef double log_likelihood
    problem.V, problem.P, problem.n_threads = word_topic.shape[0], word_topic.shape[1], n_threads
    problem.seed = seed
    check_tokens(&problem, tokens, offsets, allowed, topics, block_offsets, block_words,
                 block_counts, block_topics, totals, alpha, beta)
    require(new_totals.shape[0] == problem.P and new_word_topic.shape[0] == problem.V
            and new_word_topic.shape[1] == problem.P, "new tables are as the old ones")
    require(&new_word_topic[0, 0] != &word_topic[0, 0], "new counts are not the old ones")
    n_threads = problem.n_threads = busy_threads(n_threads, problem.n)
    log_likelihood = draw_all(&problem, &word_topic[0, 0], <double*> &totals[0], beta, False)
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
