"""Latent Dirichlet allocation: sweeps over the topics of all tokens.

The topics' words are integrated out. Tokens come document by document; random numbers depend on the
seed, the document's number and the token.
"""

from cython.parallel cimport prange
from libc.math cimport fmax
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from ._arena cimport (
    Arena,
    allocate,
    arena_in,
    arena_of,
    counting_arena,
    take_arenas,
    take_doubles,
)
from ._arrays cimport require
from ._gamma_functions cimport polygamma
from ._openmp cimport busy_threads, omp_get_thread_num
from ._topics cimport (
    FLT_MIN,
    MOST_TOKENS,
    TOPIC_LANES,
    Scan,
    check_allowed,
    check_lanes,
    check_prior,
    log_all,
    most_prior,
    stream_of,
    sum_rows,
    take_floats,
)

cdef extern from "_topics.h" nogil:
    void add_expected_logs(const double* alpha, const float* n, Py_ssize_t P, double scale,
                           double shift, double* out)

cdef extern from "_topic_sweeps.h" nogil:
    ctypedef struct TokenList:
        Py_ssize_t n_tokens
        const int* tokens
        int* topics
        const float* alpha
        double alpha_sum
        uint64_t key
    ctypedef struct TopicCounts:
        Py_ssize_t P
        float* word_topic
        double* totals
        float* inverses
        float* raised
        const float* betas
        double beta_sum
    void collapsed_document(const TokenList* document, const TopicCounts* counts,
                            const Scan* scan, float* n, double* probabilities)
    void stochastic_document(const TokenList* document, const TopicCounts* counts,
                             const Scan* scan, float* n, float* theta, double* probabilities)
    float inverse_total(const TopicCounts* counts, Py_ssize_t k, double more)
    void count_words(const int* tokens, const int* topics, Py_ssize_t n_tokens, Py_ssize_t P,
                     int part, int n_parts, float* word_topic)

cdef enum:
    BLOCK = 64      # documents, whose sums are made by one thread

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
    const double* alpha
    double alpha_sum

# The scratch memory of a thread.
cdef struct TokenSpace:
    float* alpha                # (P,)
    float* n                    # (P,)
    float* theta                # (P,)
    Scan scan
    double* probabilities       # (most_tokens,)

# The scratch memory of a sweep.
cdef struct TokenMemory:
    Arena counted
    char* threads
    float* inverses             # (P,)
    float* raised               # (P,)
    float* betas                # (P,)
    double* totals              # (P,)
    double* log_likelihoods     # (n,)


cdef TokenSpace lay_out_tokens(const Tokens* problem, Arena* arena) noexcept nogil:
    cdef TokenSpace space
    space.alpha = take_floats(arena, problem.P)
    space.n = take_floats(arena, problem.P)
    space.theta = take_floats(arena, problem.P)
    space.scan.weights = take_floats(arena, problem.P)
    space.scan.running = take_floats(arena, problem.P)
    space.probabilities = take_doubles(arena, problem.most_tokens)
    return space


cdef TokenMemory lay_out_sweep(const Tokens* problem, Arena* arena) noexcept nogil:
    cdef TokenMemory memory
    memory.counted = counting_arena()
    lay_out_tokens(problem, &memory.counted)
    memory.threads = take_arenas(arena, problem.n_threads, &memory.counted)
    memory.inverses = take_floats(arena, problem.P)
    memory.raised = take_floats(arena, problem.P)
    memory.betas = take_floats(arena, problem.P)
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
    counts.totals, counts.betas = memory.totals, memory.betas
    counts.inverses, counts.raised = memory.inverses, memory.raised
    for k in range(problem.P):
        counts.totals[k] = totals[k]
        counts.inverses[k] = inverse_total(&counts, k, 0)
        counts.raised[k] = inverse_total(&counts, k, 1)
        memory.betas[k] = <float> fmax(beta, FLT_MIN)
    return counts


cdef TokenList token_list(
    const Tokens* problem, Py_ssize_t d, const TokenSpace* space
) noexcept nogil:
    cdef TokenList document
    cdef Py_ssize_t k, start = problem.offsets[d]
    document.n_tokens = problem.offsets[d + 1] - start
    document.tokens, document.topics = problem.tokens + start, problem.topics + start
    document.alpha, document.alpha_sum = space.alpha, 0
    document.key = stream_of(problem.seed, d)
    for k in range(problem.P):
        space.alpha[k] = 0
        if k < problem.K and (problem.allowed == NULL or problem.allowed[d * problem.K + k]):
            space.alpha[k] = <float> fmax(problem.alpha[k], FLT_MIN)
            document.alpha_sum += space.alpha[k]
    return document


cdef double sum_of_logs(double* probabilities, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0
    log_all(probabilities, n)
    for i in range(n):
        total += probabilities[i]
    return total


cdef double draw_document(
    const Tokens* problem, Py_ssize_t d, const TopicCounts* counts, bint collapsed, Arena arena
) noexcept nogil:
    """Draw the topics of a document's tokens; return the sum of log p(w | the others)."""
    cdef TokenSpace space = lay_out_tokens(problem, &arena)
    cdef TokenList document = token_list(problem, d, &space)
    if collapsed:
        collapsed_document(&document, counts, &space.scan, space.n, space.probabilities)
    else:
        stochastic_document(&document, counts, &space.scan, space.n, space.theta,
                            space.probabilities)
    return sum_of_logs(space.probabilities, document.n_tokens)


cdef int check_tokens(
    Tokens* problem, const int[::1] tokens, const int64_t[::1] offsets,
    const unsigned char[:, ::1] allowed, int[::1] topics, const double[::1] alpha,
) except -1:
    cdef Py_ssize_t d, i
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
    for d in range(problem.n):
        for i in range(offsets[d], offsets[d + 1]):
            present &= 0 <= tokens[i] < problem.V
            valid &= -1 <= topics[i] < problem.K
            if valid and allowed.shape[0] > 0 and topics[i] >= 0:
                valid = allowed[d, topics[i]] != 0
    require(present, "words are rows of the table")
    require(valid, "topics are among those that the document may use, or -1")
    problem.alpha_sum = check_prior(alpha)
    problem.tokens = &tokens[0] if tokens.shape[0] > 0 else NULL
    problem.topics = &topics[0] if tokens.shape[0] > 0 else NULL
    problem.offsets, problem.alpha = &offsets[0], &alpha[0]
    problem.allowed = &allowed[0, 0] if allowed.shape[0] > 0 else NULL
    return 0


def collapsed_sweep(
    const int[::1] tokens,                  # IN (N,): the word of each token
    const int64_t[::1] offsets,             # IN (n + 1,): where documents begin
    const unsigned char[:, ::1] allowed,    # IN (n, K) or (0, 0): topics a document may use
    int[::1] topics,                        # INOUT (N,); -1: none, and not counted
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
    cdef Py_ssize_t d
    cdef double log_likelihood = 0
    problem.V, problem.P, problem.n_threads = word_topic.shape[0], word_topic.shape[1], 1
    problem.seed = seed
    check_tokens(&problem, tokens, offsets, allowed, topics, alpha)
    require(totals.shape[0] == problem.P, "totals are of a row's topics")
    require(0 < beta <= most_prior(), "the prior's beta is positive, and at most 1e30")
    cdef Arena arena = counting_arena()
    lay_out_sweep(&problem, &arena)
    cdef void* scratch = allocate(&arena)
    arena = arena_in(scratch)
    cdef TokenMemory memory = lay_out_sweep(&problem, &arena)
    cdef TopicCounts counts
    with nogil:
        counts = counts_of(&problem, &word_topic[0, 0], &totals[0], beta, &memory)
        for d in range(problem.n):
            log_likelihood += draw_document(
                &problem, d, &counts, True, arena_of(memory.threads, 0, &memory.counted))
        memcpy(&totals[0], memory.totals, problem.P * sizeof(double))
    free(scratch)
    return log_likelihood


def esca_sweep(
    const int[::1] tokens,                  # IN (N,): the word of each token
    const int64_t[::1] offsets,             # IN (n + 1,): where documents begin
    const unsigned char[:, ::1] allowed,    # IN (n, K) or (0, 0): topics a document may use
    int[::1] topics,                        # INOUT (N,); -1: none
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
    cdef Py_ssize_t d
    cdef int part
    cdef double log_likelihood = 0
    problem.V, problem.P, problem.n_threads = word_topic.shape[0], word_topic.shape[1], n_threads
    problem.seed = seed
    check_tokens(&problem, tokens, offsets, allowed, topics, alpha)
    require(totals.shape[0] == problem.P and new_totals.shape[0] == problem.P
            and new_word_topic.shape[0] == problem.V and new_word_topic.shape[1] == problem.P,
            "totals are of a row's topics, new tables as the old ones")
    require(0 < beta <= most_prior(), "the prior's beta is positive, and at most 1e30")
    require(&new_word_topic[0, 0] != &word_topic[0, 0], "new counts are not the old ones")
    n_threads = problem.n_threads = busy_threads(n_threads, problem.n)
    cdef Arena arena = counting_arena()
    lay_out_sweep(&problem, &arena)
    cdef void* scratch = allocate(&arena)
    arena = arena_in(scratch)
    cdef TokenMemory memory = lay_out_sweep(&problem, &arena)
    cdef TopicCounts counts
    with nogil:
        counts = counts_of(&problem, &word_topic[0, 0], &totals[0], beta, &memory)
        for d in prange(problem.n, schedule="dynamic", num_threads=n_threads,
                        use_threads_if=n_threads > 1):
            memory.log_likelihoods[d] = draw_document(
                &problem, d, &counts, False,
                arena_of(memory.threads, omp_get_thread_num(), &memory.counted))
        memset(&new_word_topic[0, 0], 0, problem.V * problem.P * sizeof(float))
        for part in prange(n_threads, schedule="static", num_threads=n_threads,
                           use_threads_if=n_threads > 1):
            count_words(problem.tokens, problem.topics, problem.offsets[problem.n], problem.P,
                        part, n_threads, &new_word_topic[0, 0])
        sum_rows(&new_word_topic[0, 0], problem.V, problem.P, &new_totals[0])
        for d in range(problem.n):
            log_likelihood += memory.log_likelihoods[d]
    free(scratch)
    return log_likelihood


# What blocks of documents need for their sums.
cdef struct LogMemory:
    double* alpha               # (P,), 1 in the padding
    double* prior_logs          # (P,)
    float* counts               # (n_blocks, P)
    double* logs                # (n_blocks, P)
    double* sums                # (n_blocks, P)


cdef LogMemory lay_out_logs(Py_ssize_t n_blocks, Py_ssize_t P, Arena* arena) noexcept nogil:
    cdef LogMemory memory
    memory.alpha = take_doubles(arena, P)
    memory.prior_logs = take_doubles(arena, P)
    memory.counts = take_floats(arena, n_blocks * P)
    memory.logs = take_doubles(arena, n_blocks * P)
    memory.sums = take_doubles(arena, n_blocks * P)
    return memory


cdef void add_document_logs(
    const Tokens* problem, Py_ssize_t d, const double* alpha, const double* prior_logs, float* n,
    double* logs, double* sums,
) noexcept nogil:
    """sums (P,) <- sums + E log theta of a document; n, logs (P,) are scratch."""
    cdef Py_ssize_t i, k
    cdef const unsigned char* allowed = NULL
    cdef double alpha_sum = problem.alpha_sum
    if problem.allowed != NULL:
        allowed = problem.allowed + d * problem.K
        alpha_sum = 0
        for k in range(problem.K):
            alpha_sum += alpha[k] if allowed[k] else 0
    memset(n, 0, problem.P * sizeof(float))
    for i in range(problem.offsets[d], problem.offsets[d + 1]):
        n[problem.topics[i]] += 1
    memset(logs, 0, problem.P * sizeof(double))
    add_expected_logs(
        alpha, n, problem.P, 1,
        polygamma(alpha_sum + (problem.offsets[d + 1] - problem.offsets[d])).digamma, logs)
    for k in range(problem.K):
        # What is not allowed has no part in this document, which so says nothing of its prior.
        sums[k] += prior_logs[k] if allowed != NULL and not allowed[k] else logs[k]


def expected_logs(
    const int[::1] topics,                  # IN (N,)
    const int64_t[::1] offsets,             # IN (n + 1,): where documents begin
    const unsigned char[:, ::1] allowed,    # IN (n, K) or (0, 0): topics a document may use
    const double[::1] alpha,                # IN (K,)
    double[::1] out,                        # OUT (K,)
    int n_threads,
):
    """out <- the sum over documents of E log theta_k = psi(alpha_k + n_dk) - psi(alpha_0 + n_d).

    Of topics that a document may not use it is that of the prior.
    """
    cdef Tokens problem
    cdef Py_ssize_t n = offsets.shape[0] - 1, K = alpha.shape[0], block, n_blocks, d, i, k, P
    cdef bint valid = True
    P = (K + TOPIC_LANES - 1) // TOPIC_LANES * TOPIC_LANES
    require(n > 0 and K > 0 and n_threads > 0, "documents, topics, threads")
    require(out.shape[0] == K and offsets[0] == 0 and offsets[n] == topics.shape[0],
            "offsets of all topics, a sum for each")
    for d in range(n):
        require(offsets[d] <= offsets[d + 1], "offsets do not fall")
    for i in range(topics.shape[0]):
        valid &= 0 <= topics[i] < K
    require(valid, "every token has a topic")
    check_allowed(allowed, n, K)
    problem.n, problem.K, problem.P, problem.alpha_sum = n, K, P, check_prior(alpha)
    problem.topics = <int*> &topics[0] if topics.shape[0] > 0 else NULL
    problem.offsets = &offsets[0]
    problem.allowed = &allowed[0, 0] if allowed.shape[0] > 0 else NULL
    n_blocks = (n + BLOCK - 1) // BLOCK
    n_threads = busy_threads(n_threads, n_blocks)
    cdef LogMemory memory
    cdef Arena arena = counting_arena()
    lay_out_logs(n_blocks, P, &arena)
    cdef void* scratch = allocate(&arena)
    arena = arena_in(scratch)
    memory = lay_out_logs(n_blocks, P, &arena)
    with nogil:
        memset(memory.prior_logs, 0, P * sizeof(double))
        memset(memory.counts, 0, P * sizeof(float))
        memset(memory.sums, 0, n_blocks * P * sizeof(double))
        for k in range(P):
            memory.alpha[k] = alpha[k] if k < K else 1
        add_expected_logs(memory.alpha, memory.counts, P, 1, polygamma(problem.alpha_sum).digamma,
                          memory.prior_logs)
        for block in prange(n_blocks, schedule="static", num_threads=n_threads,
                            use_threads_if=n_threads > 1):
            for d in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
                add_document_logs(&problem, d, memory.alpha, memory.prior_logs,
                                  memory.counts + block * P, memory.logs + block * P,
                                  memory.sums + block * P)
        memset(&out[0], 0, K * sizeof(double))
        for block in range(n_blocks):
            for k in range(K):
                out[k] += memory.sums[block * P + k]
    free(scratch)
