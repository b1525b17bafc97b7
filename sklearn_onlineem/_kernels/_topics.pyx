"""Latent Dirichlet allocation: what documents say of their topics.

    theta_d ~ Dirichlet(alpha),   z_dn ~ theta_d,   w_dn ~ phi_{z_dn}

A document is a row of counts of words. Words have rows of topics, (V, P), with zeros from K on.
Random numbers depend on the seed, the document's number, the sweep and the token, and on nothing
else.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, exp, fmax, log
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from ._arena cimport (
    Arena, allocate, arena_of, counting_arena, free, take, take_arenas, take_doubles, take_each,
)
from ._arrays cimport fits, require
from ._gamma_functions cimport log_rising, polygamma
from ._openmp cimport busy_threads, is_interrupted, omp_get_thread_num, raise_waiting

from _topics_h cimport (
    Chain, Document, add_expected_logs, add_rows_of_words, begin_chain, begin_sweep,
    bound_of_topics, count_topics, end_sweep, gibbs_sweep, share_words, sum_variances,
)

cdef enum:
    MOST_ROW_BYTES = 1 << 21    # of rows that wait to be added to the totals, for one thread
    MORE_ROUNDS = 4             # that each of several threads does at once
    MOST_DOCUMENTS = 1 << 10    # of a round
    ROUNDS_PER_SWEEP = 4        # of EM, instead of a burn-in
    MOST_RATIO = 16             # by which proportions go beyond a round of EM
    MOST_WEIGHTS = 1 << 26      # of topics, in which draws go on without a look for Ctrl-C

# A document, and how long it takes.
cdef struct Length:
    Py_ssize_t document
    Py_ssize_t length

cdef struct Problem:
    Py_ssize_t n                # documents
    Py_ssize_t K                # topics
    Py_ssize_t P                # ... of a row, with padding
    Py_ssize_t V                # words of the vocabulary
    Py_ssize_t most_words       # that differ, of a document
    Py_ssize_t most_tokens      # of a document, in no block
    Py_ssize_t most_blocks      # of a document
    Py_ssize_t n_rows           # of a round, each of a document's word
    Py_ssize_t n_documents      # of a round
    int n_sweeps
    int burn_in
    int n_rounds
    int most_single             # tokens of a word that are in no block,
    int most_tokens_singly      # ... in a document of no more tokens
    bint draws
    bint wants_totals
    int n_threads
    uint64_t seed
    const float* counts
    const int* words
    const int64_t* offsets
    const double* weights       # of documents, or NULL
    const unsigned char* allowed    # (n, K) or NULL
    const float* table
    const double* alpha
    const int64_t* ids
    volatile bint* is_over      # whether Ctrl-C has come, so that nothing that follows matters
    double alpha_sum
    # Tables of the prior, filled by `fill_prior`.
    double* padded_alpha        # (P,), 1 in the padding
    float* float_alpha          # (P,), 0 in the padding
    double* log_gammas          # (P,) log Gamma(alpha)
    double* prior_logs          # (P,) E log theta of no token
    double prior_shift          # what they are less than digamma(alpha)
    # Other scratch problem.
    Arena counted               # what a thread needs
    char* threads
    float* rows                 # (n_rows, P)
    double* logs                # (n_documents, P)
    double* bounds              # (n_documents,)
    Length* lengths             # (n_documents,)

# The scratch memory of a document; a thread has two at a time.
cdef struct Workspace:
    Chain chain                 # rows are (most_words, P), if they are not kept
    float* alpha                # (P,) of the topics that the document may use
    double alpha_sum
    float* theta                # (P,), up to a factor; or tokens that a chain starts from
    float* shared               # (P,)
    double* mean_n              # (P,)
    double* terms               # (P,)
    double* sums                # (most_words,)
    double* logs                # (P,)
    double n_tokens
    double shift                # psi(alpha_0 + N), and more where topics are not allowed


cdef Workspace lay_out_workspace(const Problem* problem, Arena* arena) noexcept nogil:
    cdef Workspace space
    cdef Py_ssize_t P = problem.P
    space.alpha = take_floats(arena, P)
    space.theta = take_floats(arena, P)
    space.shared = take_floats(arena, P)
    space.chain.n = take_floats(arena, P)
    space.chain.scan.weights = take_floats(arena, P)
    space.chain.scan.running = take_floats(arena, P)
    space.chain.rows = take_floats(arena, 0 if problem.wants_totals else problem.most_words * P)
    take_each(arena, P, &space.mean_n, &space.terms)
    space.sums = take_doubles(arena, problem.most_words)
    space.chain.tokens = <int*> take(arena, problem.most_tokens, sizeof(int))
    space.chain.topics = <int*> take(arena, problem.most_tokens, sizeof(int))
    space.chain.blocks = <int*> take(arena, problem.most_blocks, sizeof(int))
    space.chain.block_topics = take_floats(arena, problem.most_blocks * P)
    space.chain.block_space = take_block_space(arena, P)
    return space


cdef void lay_out(Problem* problem, Arena* arena) noexcept nogil:
    problem.counted = counting_arena()
    lay_out_workspace(problem, &problem.counted)
    lay_out_workspace(problem, &problem.counted)
    problem.threads = take_arenas(arena, problem.n_threads, &problem.counted)
    problem.rows = take_floats(arena, problem.n_rows * problem.P if problem.wants_totals else 0)
    problem.logs = take_doubles(arena, problem.n_documents * problem.P)
    problem.bounds = take_doubles(arena, problem.n_documents)
    problem.lengths = <Length*> take(arena, problem.n_documents, sizeof(Length))
    take_each(arena, problem.P, &problem.padded_alpha, &problem.log_gammas, &problem.prior_logs)
    problem.float_alpha = take_floats(arena, problem.P)


cdef void fill_prior(Problem* problem) noexcept nogil:
    """What depends on alpha alone; in floats no topic's alpha is rounded to 0."""
    cdef Py_ssize_t k, P = problem.P
    cdef double shift = polygamma(problem.alpha_sum).digamma
    problem.prior_shift = shift
    for k in range(P):
        problem.padded_alpha[k] = problem.alpha[k] if k < problem.K else 1
        problem.float_alpha[k] = <float> fmax(problem.alpha[k], FLT_MIN) if k < problem.K else 0
        problem.prior_logs[k] = 0
    # With no token at all, what is left of a document's terms is theirs.
    cdef float* none = <float*> problem.threads
    memset(none, 0, P * sizeof(float))
    add_expected_logs(problem.padded_alpha, none, P, 1, shift, problem.prior_logs)
    bound_of_topics(problem.padded_alpha, none, problem.float_alpha, P, problem.log_gammas)


cdef double take_prior(
    const Problem* problem, const unsigned char* allowed, float* alpha
) noexcept nogil:
    """alpha (P,) <- alpha, 0 of topics that are not allowed; return its sum."""
    cdef Py_ssize_t k
    cdef double total = 0
    for k in range(problem.P):
        alpha[k] = problem.float_alpha[k]
    if allowed == NULL:
        return problem.alpha_sum
    for k in range(problem.K):
        if allowed[k]:
            total += problem.alpha[k]
        else:
            alpha[k] = 0
    return total


cdef inline int most_single_of(const Problem* problem, double n_tokens) noexcept nogil:
    """The most tokens of a word that are in no block, of a document of so many tokens."""
    return problem.most_single if n_tokens <= problem.most_tokens_singly else 0


cdef Workspace space_of(
    const Problem* problem, Py_ssize_t d, Py_ssize_t first, Arena* arena
) noexcept nogil:
    """Where a document's results go, and what is known of it; no words if d is none (-1)."""
    cdef Workspace space = lay_out_workspace(problem, arena)
    cdef Document* document = &space.chain.document
    cdef Py_ssize_t i, start = problem.offsets[d] if d >= 0 else 0
    document.n_words = problem.offsets[d + 1] - start if d >= 0 else 0
    document.words, document.counts = problem.words + start, problem.counts + start
    document.table, document.P, document.alpha = problem.table, problem.P, space.alpha
    space.logs = NULL
    if d < 0:
        return space
    if problem.wants_totals:
        space.chain.rows = problem.rows + (start - problem.offsets[first]) * problem.P
    space.chain.key = stream_of(problem.seed, problem.ids[d])
    space.logs = problem.logs + (d - first) * problem.P
    memset(space.logs, 0, problem.P * sizeof(double))
    space.alpha_sum = take_prior(
        problem, problem.allowed + d * problem.K if problem.allowed != NULL else NULL, space.alpha)
    space.n_tokens = 0
    for i in range(document.n_words):
        space.n_tokens += document.counts[i]
    space.chain.most_single = most_single_of(problem, space.n_tokens)
    # Shares are those among the topics that are allowed, whose sum is known by its prior alone.
    space.shift = polygamma(space.alpha_sum + space.n_tokens).digamma
    space.shift += problem.prior_shift - polygamma(space.alpha_sum).digamma
    return space


cdef void look_for_interruption(const Problem* problem) noexcept nogil:
    """By the thread that Python called, which is the only one that may."""
    if omp_get_thread_num() == 0 and is_interrupted():
        problem.is_over[0] = True


cdef void go_beyond(Py_ssize_t P, double n_tokens, const float* old, float* new) noexcept nogil:
    """new (P,) <- as far beyond itself as it is from old, in ratios; these add up to n_tokens.

    EM over-relaxed: rounds of EM shrink small proportions slowly, and where these have not settled,
    documents seem to have more topics than they have, and alpha is learnt too large.
    """
    cdef Py_ssize_t k
    cdef double total = 0
    cdef float scale
    for k in range(P):
        if old[k] > 0:
            new[k] *= min(new[k] / old[k], <float> MOST_RATIO)
        total += new[k]
    scale = <float> (n_tokens / total) if total > 0 else 1
    for k in range(P):
        new[k] *= scale


cdef float* settle(
    const Problem* problem, Workspace* space, int n_rounds, float* rows
) noexcept nogil:
    """Return n (P,) after rounds of EM on the mean of theta; rows <- those of the last, or NULL."""
    cdef const Document* document = &space.chain.document
    cdef Py_ssize_t k, n_topics = 0
    cdef int i
    cdef float* old = space.chain.n
    cdef float* new = space.shared
    for k in range(problem.P):
        n_topics += document.alpha[k] > 0
    for k in range(problem.P):
        old[k] = <float> (space.n_tokens / n_topics) if document.alpha[k] > 0 else 0
    for i in range(n_rounds):
        share_words(document, old, &space.chain.scan, new, rows if i == n_rounds - 1 else NULL,
                    NULL)
        if 0 < i < n_rounds - 1:
            go_beyond(document.P, space.n_tokens, old, new)
        old, new = new, old
    return old


cdef void start_chain(const Problem* problem, Workspace* space) noexcept nogil:
    """Begin the chain of a document; that of a long one with rounds of EM instead of a burn-in."""
    cdef float* n
    begin_chain(&space.chain)
    space.chain.first, space.chain.start = 0, NULL
    if space.logs != NULL and space.n_tokens > problem.most_tokens_singly:
        space.chain.first = problem.burn_in // 2
        n = settle(problem, space, ROUNDS_PER_SWEEP * problem.burn_in, NULL)
        memcpy(space.theta, n, problem.P * sizeof(float))
        memset(space.chain.n, 0, problem.P * sizeof(float))
        space.chain.start = space.theta


cdef void sample(const Problem* problem, Workspace* first, Workspace* second) noexcept nogil:
    """rows, logs <- averages over the kept sweeps of Gibbs samplers of two documents."""
    cdef int sweep
    cdef Py_ssize_t begin, end, n_tokens, n_weights = 0
    cdef double share = 1. / (problem.n_sweeps - problem.burn_in)
    cdef float scale
    start_chain(problem, first)
    start_chain(problem, second)
    n_tokens = max(first.chain.n_tokens, second.chain.n_tokens)
    # The sweep before the first one gives each token a topic, given those before it.
    for sweep in range(problem.n_sweeps + 1):
        scale = share if sweep > problem.burn_in else 0
        begin_sweep(&first.chain, sweep, scale)
        begin_sweep(&second.chain, sweep, scale)
        begin = 0
        while begin < n_tokens:
            end = min(n_tokens, begin + max(1, MOST_WEIGHTS // problem.P))
            gibbs_sweep(&first.chain, &second.chain, sweep, begin, end, scale)
            n_weights += (end - begin) * problem.P
            begin = end
            if n_weights >= MOST_WEIGHTS:
                n_weights = 0
                look_for_interruption(problem)
                if problem.is_over[0]:
                    return
        end_sweep(&first.chain)
        end_sweep(&second.chain)
        if sweep > problem.burn_in:
            add_logs(problem, first, first.chain.n, share)
            add_logs(problem, second, second.chain.n, share)


cdef void add_logs(
    const Problem* problem, const Workspace* space, const float* n, double scale
) noexcept nogil:
    if space.logs != NULL:
        add_expected_logs(problem.padded_alpha, n, problem.P, scale, space.shift, space.logs)


cdef void iterate(const Problem* problem, Workspace* space) noexcept nogil:
    """rows, logs <- those of the mean of theta, after some rounds."""
    settle(problem, space, problem.n_rounds, space.chain.rows)
    expect_logs(problem, space)


cdef void expect_logs(const Problem* problem, Workspace* space) noexcept nogil:
    """logs (P,) <- E log theta, where a topic's number of tokens n is known by mean and variance.

    E psi(alpha + n) = p psi(alpha) + (1 - p) E[psi(alpha + n) | n > 0], where the last is close to
    that of the mean, and p = P(n = 0) = (1 - q)^c as of c equal tokens. At the mean of n itself,
    which says that each topic has some of each document, alpha would grow without end.
    """
    cdef const Document* document = &space.chain.document
    cdef Py_ssize_t k
    cdef double mean, spread, none
    sum_rows(space.chain.rows, document.n_words, problem.P, space.mean_n)
    sum_variances(space.chain.rows, document.counts, document.n_words, problem.P, space.terms)
    for k in range(problem.K):
        mean, none = space.mean_n[k], 1
        if mean > 0:
            spread = min(max(space.terms[k] / mean, 0.), 1.)
            if spread > 0.999:
                none = exp(-mean)
            else:
                none = exp(mean * log(spread) / (1 - spread)) if spread > 0 else 0
        space.logs[k] = (problem.prior_logs[k] + problem.prior_shift) * none - space.shift
        if none < 1:
            space.logs[k] += (1 - none) * polygamma(problem.alpha[k] + mean / (1 - none)).digamma


cdef double lower_bound(const Problem* problem, const Workspace* space) noexcept nogil:
    """A lower bound of log p(words), from any theta: that of the mean n of tokens of topics.

    With q_wk = theta_k phi_kw / s_w and nbar_k = sum_w c_w q_wk, log E[prod theta_k^nbar_k] is
    known, and log Gamma is convex. A factor of theta cancels.
    """
    cdef const Document* document = &space.chain.document
    cdef Py_ssize_t i, k
    cdef double bound = -log_rising(space.alpha_sum, space.n_tokens) if space.n_tokens > 0 else 0
    cdef float* n = space.chain.n
    for k in range(problem.P):
        n[k] = <float> space.mean_n[k]
        space.theta[k] = n[k] + document.alpha[k]
    share_words(document, n, &space.chain.scan, space.shared, NULL, space.sums)
    for i in range(document.n_words):
        if document.counts[i] > 0 and space.sums[i] == 0:
            return -INFINITY
        if space.sums[i] == 0:
            space.sums[i] = 1
    bound_of_topics(problem.padded_alpha, space.shared, space.theta, problem.P, space.terms)
    log_all(space.sums, document.n_words)
    for k in range(problem.K):
        bound += space.terms[k] - problem.log_gammas[k]
    for i in range(document.n_words):
        bound += document.counts[i] * space.sums[i]
    return bound


cdef void mean_proportions(
    const Problem* problem, const Document* document, const double* mean_n, double* out
) noexcept nogil:
    """out (K,) <- (alpha + n) / their sum"""
    cdef Py_ssize_t k
    cdef double total = 0
    for k in range(problem.K):
        out[k] = mean_n[k] + (problem.alpha[k] if document.alpha[k] > 0 else 0)
        total += out[k]
    for k in range(problem.K):
        out[k] /= total


cdef double finish(
    const Problem* problem, Py_ssize_t d, const Workspace* space, double* proportions
) noexcept nogil:
    """Return the bound; proportions (K,) <- E theta, unless NULL; rows <- draws, if wanted."""
    cdef const Document* document = &space.chain.document
    cdef Py_ssize_t k
    # A topic that is not allowed has no part in this document, which says nothing of its prior.
    if problem.allowed != NULL:
        for k in range(problem.K):
            if not problem.allowed[d * problem.K + k]:
                space.logs[k] = problem.prior_logs[k]
    sum_rows(space.chain.rows, document.n_words, problem.P, space.mean_n)
    if proportions != NULL:
        mean_proportions(problem, document, space.mean_n, proportions + d * problem.K)
    if problem.draws and problem.wants_totals:
        count_topics(&space.chain)
    return lower_bound(problem, space)


cdef void e_step_pair(
    const Problem* problem, Py_ssize_t d, Py_ssize_t e, Py_ssize_t first, Arena arena,
    double* proportions,
) noexcept nogil:
    """Rows, logs, bounds and proportions of two documents, or of one where e is none (-1)."""
    if problem.is_over[0]:
        return
    cdef Workspace one = space_of(problem, d, first, &arena)
    cdef Workspace other = space_of(problem, e, first, &arena)
    if problem.n_sweeps > 0:
        sample(problem, &one, &other)
    else:
        iterate(problem, &one)
        if e >= 0:
            iterate(problem, &other)
    problem.bounds[d - first] = finish(problem, d, &one, proportions)
    if e >= 0:
        problem.bounds[e - first] = finish(problem, e, &other, proportions)


cdef int by_length(const void* a, const void* b) noexcept nogil:
    cdef Py_ssize_t difference = (<const Length*> b).length - (<const Length*> a).length
    return (difference > 0) - (difference < 0)


cdef Py_ssize_t length_of(const Problem* problem, Py_ssize_t d) noexcept nogil:
    """The tokens of a document; a block takes no longer than as many as it needs to be one."""
    cdef Py_ssize_t i, length = 0
    if problem.n_sweeps == 0:
        return problem.offsets[d + 1] - problem.offsets[d]
    for i in range(problem.offsets[d], problem.offsets[d + 1]):
        length += <Py_ssize_t> min(problem.counts[i], problem.most_single)
    return length


cdef void order_round(const Problem* problem, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """The longest documents come first, so that the two of a pair are about as long."""
    cdef Py_ssize_t d
    for d in range(first, last):
        problem.lengths[d - first].document = d
        problem.lengths[d - first].length = length_of(problem, d)
    qsort(problem.lengths, last - first, sizeof(Length), by_length)


cdef void add_words(
    const Problem* problem, Py_ssize_t first, Py_ssize_t last, int part, double* totals_T
) noexcept nogil:
    """Add the rows of documents to the totals of every n_threads-th word, in their order."""
    cdef Py_ssize_t d, start
    for d in range(first, last):
        start = problem.offsets[d]
        add_rows_of_words(problem.rows + (start - problem.offsets[first]) * problem.P,
                          problem.words + start, problem.offsets[d + 1] - start, problem.P,
                          problem.K, problem.weights[d] if problem.weights != NULL else 1, part,
                          problem.n_threads, totals_T)


cdef Py_ssize_t end_of_round(const Problem* problem, Py_ssize_t first) noexcept nogil:
    """The documents of a round are as many as there is memory and time for, and at least one."""
    cdef Py_ssize_t last = first, n_weights = 0
    cdef Py_ssize_t most_weights = MOST_WEIGHTS * <Py_ssize_t> problem.n_threads
    while (last < problem.n and last - first < problem.n_documents
           and problem.offsets[last + 1] - problem.offsets[first] <= problem.n_rows):
        n_weights += length_of(problem, last) * problem.P * (problem.n_sweeps + 1)
        if last > first and n_weights > most_weights:
            break
        last += 1
    return max(last, first + 1)


cdef double add_round(
    const Problem* problem, Py_ssize_t first, Py_ssize_t last, double bound, double* totals_T,
    double* mean_logs,
) noexcept nogil:
    """Add what the documents of a round say, in their order, and return the bound of all so far."""
    cdef Py_ssize_t d, k
    cdef int part
    cdef double weight
    if problem.wants_totals:
        for part in prange(problem.n_threads, schedule="static", num_threads=problem.n_threads,
                           use_threads_if=problem.n_threads > 1):
            add_words(problem, first, last, part, totals_T)
    for d in range(first, last):
        weight = problem.weights[d] if problem.weights != NULL else 1
        if weight != 0:
            bound += weight * problem.bounds[d - first]
            for k in range(problem.K):
                mean_logs[k] += weight * problem.logs[(d - first) * problem.P + k]
    return bound


cdef int check_documents(
    Problem* problem, const float[::1] counts, const int[::1] words, const int64_t[::1] offsets
) except -1:
    """Look at every word and count; fill in what documents have at most."""
    cdef Py_ssize_t d, i, n_single, n_blocks
    cdef int most_single
    cdef double n_tokens
    cdef bint whole = True, present = True, valid = True
    require(offsets.shape[0] == problem.n + 1 and words.shape[0] == counts.shape[0]
            and offsets[0] == 0 and offsets[problem.n] == counts.shape[0],
            "offsets of all counts and words")
    problem.most_words = problem.most_tokens = problem.most_blocks = 0
    for d in range(problem.n):
        require(offsets[d] <= offsets[d + 1], "offsets do not fall")
    for d in range(problem.n):
        n_tokens = n_single = n_blocks = 0
        for i in range(offsets[d], offsets[d + 1]):
            valid &= 0 <= counts[i] < INFINITY
            present &= 0 <= words[i] < problem.V
            whole &= counts[i] < MOST_TOKENS and counts[i] == <int> counts[i]
            n_tokens += counts[i]
        most_single = most_single_of(problem, n_tokens)
        for i in range(offsets[d], offsets[d + 1]):
            if counts[i] > most_single:
                n_blocks += 1
            elif whole:
                n_single += <Py_ssize_t> counts[i]
        whole &= n_tokens < MOST_TOKENS
        problem.most_words = max(problem.most_words, offsets[d + 1] - offsets[d])
        problem.most_tokens = max(problem.most_tokens, n_single)
        problem.most_blocks = max(problem.most_blocks, n_blocks)
    require(present, "words are rows of the table")
    require(valid, "counts are numbers from 0 on")
    if problem.n_sweeps == 0:
        problem.most_tokens = problem.most_blocks = 0
    else:
        require(whole, "counts are whole where topics are drawn, and less than 2^24 in all")
    return 0


# The rows of one thread stay in its cache. Several threads meet after each round, and wait for each
# other on a busy machine, so theirs are longer.
cdef inline Py_ssize_t row_bytes(int n_threads) noexcept nogil:
    return MOST_ROW_BYTES * (MORE_ROUNDS * n_threads if n_threads > 1 else 1)


cdef inline bint is_table(Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t n, Py_ssize_t K):
    return rows == 0 or (rows == n and columns == K)


def e_step(
    const float[::1] counts,                # IN (nnz,); whole numbers where n_sweeps > 0
    const int[::1] words,                   # IN (nnz,)
    const int64_t[::1] offsets,             # IN (n + 1,)
    const double[::1] sample_weight,        # IN (n,) or (0,)
    const unsigned char[:, ::1] allowed,    # IN (n, K) or (0, 0): topics a document may use
    const float[:, ::1] table,              # IN (V, P): phi, 0 from K on
    const double[::1] alpha,                # IN (K,)
    const int64_t[::1] ids,                 # IN (n,): numbers of the documents
    uint64_t seed,
    int n_sweeps,                           # of local Gibbs sampling; 0: the mean form of MAP
    int burn_in,                            # sweeps that are not kept
    int n_rounds,                           # of MAP
    int most_single,                        # tokens of a word; those of one with more are a block,
    int most_tokens_singly,                 # ... and those of each word of a document with more
    bint draws,                             # totals are those of the last sweep's topics
    double[:, ::1] totals_T,                # OUT (V, K) or (0, 0): sum_d s_d E[n_kv]
    double[::1] mean_logs,                  # OUT (K,): sum_d s_d E[log theta_dk]
    double[::1] bounds,                     # OUT (n,) or (0,)
    double[:, ::1] proportions,             # OUT (n, K) or (0, 0): E[theta]
    int n_threads,
):
    """Expected statistics of documents; return sum_d s_d bound_d, bound_d <= log p(w_d).

    Local Gibbs sampling averages each token's conditional law over the sweeps that are kept, and
    psi(alpha_k + n_k) - psi(alpha_0 + N) likewise. Blocks are drawn given proportions that are
    drawn from their posterior, see `_topic_draws.h`. MAP shares each word in proportion to
    (alpha_k + n_k) phi_kw, where n is N/K at first, and then the sum of the shares of the round
    before: from the third round on, as far beyond that as it is from the n before, in ratios.

    The bound is that of theta = E[theta]; it is -inf where no topic, of those allowed, explains a
    word, which these then have in equal shares. Topics that are not allowed have alpha_k = 0 in
    that document, and their log theta is that of the prior: it says nothing of them.
    """
    cdef Problem problem
    cdef volatile bint is_over = False
    cdef Py_ssize_t n = ids.shape[0], K = alpha.shape[0], V = table.shape[0], first, last, d, i
    problem.n, problem.K, problem.V, problem.P = n, K, V, table.shape[1]
    problem.n_sweeps, problem.burn_in, problem.n_rounds = n_sweeps, burn_in, n_rounds
    problem.most_single, problem.most_tokens_singly = most_single, most_tokens_singly
    problem.is_over = &is_over
    problem.draws, problem.wants_totals = draws and n_sweeps > 0, totals_T.shape[0] > 0
    problem.n_threads, problem.seed = n_threads, seed
    require(n > 0 and K > 0 and V > 0 and n_threads > 0, "documents, topics, words, threads")
    check_lanes(K, problem.P)
    require(0 <= most_single < MOST_TOKENS, "blocks have more than no tokens")
    require(0 <= burn_in < n_sweeps or n_sweeps == 0 and n_rounds > 0, "some sweep or round counts")
    require(fits(sample_weight.shape[0], n) and fits(bounds.shape[0], n),
            "weights and bounds are of n documents")
    require(mean_logs.shape[0] == K and is_table(totals_T.shape[0], totals_T.shape[1], V, K)
            and is_table(proportions.shape[0], proportions.shape[1], n, K),
            "logs are of K topics, totals (V, K), proportions (n, K)")
    check_documents(&problem, counts, words, offsets)
    check_allowed(allowed, n, K)
    problem.alpha_sum = check_prior(alpha)
    problem.counts = &counts[0] if counts.shape[0] > 0 else NULL
    problem.words = &words[0] if counts.shape[0] > 0 else NULL
    problem.offsets, problem.ids = &offsets[0], &ids[0]
    problem.weights = &sample_weight[0] if sample_weight.shape[0] > 0 else NULL
    problem.allowed = &allowed[0, 0] if allowed.shape[0] > 0 else NULL
    problem.table, problem.alpha = &table[0, 0], &alpha[0]
    n_threads = problem.n_threads = busy_threads(n_threads, (n + 1) // 2)
    problem.n_documents = min(n, MOST_DOCUMENTS)
    problem.n_rows = min(counts.shape[0], max(
        problem.most_words,
        row_bytes(n_threads) // (problem.P * <Py_ssize_t> sizeof(float))))
    cdef double* totals_or_null = &totals_T[0, 0] if problem.wants_totals else NULL
    cdef double* bounds_or_null = &bounds[0] if bounds.shape[0] > 0 else NULL
    cdef double* proportions_or_null = &proportions[0, 0] if proportions.shape[0] > 0 else NULL
    cdef double bound = 0
    cdef Arena arena = counting_arena()
    lay_out(&problem, &arena)
    cdef void* scratch = allocate(&arena)
    lay_out(&problem, &arena)
    with nogil:
        fill_prior(&problem)
        memset(&mean_logs[0], 0, K * sizeof(double))
        if problem.wants_totals:
            # The first to touch new memory waits for it.
            for i in prange(n_threads, schedule="static", num_threads=problem.n_threads,
                            use_threads_if=problem.n_threads > 1):
                memset(totals_or_null + i * V // n_threads * K, 0,
                       ((i + 1) * V // n_threads - i * V // n_threads) * K * sizeof(double))
        first = 0
        while first < n and not is_over:
            last = end_of_round(&problem, first)
            order_round(&problem, first, last)
            for i in prange((last - first + 1) // 2, schedule="dynamic",
                            num_threads=problem.n_threads, use_threads_if=problem.n_threads > 1):
                e_step_pair(
                    &problem, problem.lengths[2 * i].document,
                    problem.lengths[2 * i + 1].document if 2 * i + 1 < last - first else -1, first,
                    arena_of(problem.threads, omp_get_thread_num(), &problem.counted),
                    proportions_or_null,
                )
            for d in range(first, last if bounds_or_null != NULL else first):
                bounds_or_null[d] = problem.bounds[d - first]
            bound = add_round(&problem, first, last, bound, totals_or_null, &mean_logs[0])
            first = last
            if first < n and not is_over:
                look_for_interruption(&problem)
    free(scratch)
    if is_over:
        raise_waiting()
    return bound
