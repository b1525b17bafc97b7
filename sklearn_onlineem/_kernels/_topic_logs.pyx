"""Latent Dirichlet allocation: expected logarithms of proportions, given the topics of tokens.

    E log theta_k = psi(alpha_k + n_dk) - psi(alpha_0 + n_d)

Most documents have few of all topics, so that no psi is evaluated for what they have, but what
their tokens add to it: psi(alpha + n) = psi(alpha + 1) + sum_{0 < j < n} 1 / (alpha + j). The first
token is counted apart: for small alpha it adds nearly all, and digits would be lost.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from ._arena cimport Arena, allocate, counting_arena, take_doubles
from ._arrays cimport require
from ._gamma_functions cimport digamma_difference, polygamma
from ._openmp cimport Slabs, busy_threads, lay_out_slabs, slabs_of, walk_blocks
from ._topics cimport check_allowed, check_prior

cdef enum:
    BLOCK = 64      # documents, whose sums are made by one thread

cdef struct Documents:
    Py_ssize_t n
    Py_ssize_t K
    const int* topics
    const int64_t* offsets
    const int64_t* block_offsets
    const float* block_topics       # (blocks, P)
    Py_ssize_t P
    const unsigned char* allowed    # (n, K) or NULL
    const double* alpha
    double shift                    # psi(alpha_0)
    double alpha_sum

# Of a block of documents.
cdef struct Sums:
    double* present             # (K,) documents with tokens of a topic
    double* changes             # (K,) rises less shifts
    double* n                   # (K,) tokens of a document; 0 between documents
    double* rises               # (K,) what all tokens but their first add
    double* shifts              # (K,) psi(alpha_0 + n_d), or psi(alpha_0) if it is not allowed


cdef Sums lay_out(Py_ssize_t K, double* present, Arena* arena) noexcept nogil:
    cdef Sums sums
    sums.present, sums.changes = present, present + K if present != NULL else NULL
    sums.n = take_doubles(arena, K)
    sums.rises, sums.shifts = take_doubles(arena, K), take_doubles(arena, K)
    return sums


cdef void add_tokens(const Documents* documents, Py_ssize_t d, const Sums* sums) noexcept nogil:
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


cdef void add_shifts(const Documents* documents, Py_ssize_t d, const Sums* sums) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef const unsigned char* allowed = documents.allowed + d * documents.K
    cdef double n = documents.offsets[d + 1] - documents.offsets[d]
    cdef double shift, alpha_sum = documents.alpha_sum
    for i in range(documents.block_offsets[d], documents.block_offsets[d + 1]):
        for k in range(documents.K):
            n += documents.block_topics[i * documents.P + k]
    if documents.allowed != NULL:
        alpha_sum = 0
        for k in range(documents.K):
            alpha_sum += documents.alpha[k] if allowed[k] else 0
    shift = polygamma(alpha_sum + n).digamma
    for k in range(documents.K):
        # A topic that is not allowed has no part in this document, which says nothing of its prior.
        sums.shifts[k] += shift if documents.allowed == NULL or allowed[k] else documents.shift


def expected_logs(
    const int[::1] topics,                  # IN (N,)
    const int64_t[::1] offsets,             # IN (n + 1,): where documents begin
    const int64_t[::1] block_offsets,       # IN (n + 1,): where the blocks of documents begin
    const float[:, ::1] block_topics,       # IN (B, P): how many tokens of a block have each topic
    const unsigned char[:, ::1] allowed,    # IN (n, K) or (0, 0): topics a document may use
    const double[::1] alpha,                # IN (K,)
    double[::1] out,                        # OUT (K,)
    int n_threads,
):
    """out <- the sum over documents of E log theta_k = psi(alpha_k + n_dk) - psi(alpha_0 + n_d).

    Of topics that a document may not use it is that of the prior.
    """
    cdef Documents documents
    cdef Py_ssize_t n = offsets.shape[0] - 1, K = alpha.shape[0], n_blocks, d, i, k
    cdef bint valid = True
    require(n > 0 and K > 0 and n_threads > 0, "documents, topics, threads")
    require(out.shape[0] == K and offsets[0] == 0 and offsets[n] == topics.shape[0],
            "offsets of all topics, a sum for each")
    require(block_offsets.shape[0] == n + 1 and block_offsets[0] == 0
            and block_offsets[n] == block_topics.shape[0] and block_topics.shape[1] >= K,
            "offsets of all blocks, rows of topics")
    for d in range(n):
        require(offsets[d] <= offsets[d + 1] and block_offsets[d] <= block_offsets[d + 1],
                "offsets do not fall")
    for i in range(topics.shape[0]):
        valid &= 0 <= topics[i] < K
    for i in range(block_topics.shape[0]):
        for k in range(K):
            valid &= 0 <= block_topics[i, k] < INFINITY
    require(valid, "every token has a topic")
    check_allowed(allowed, n, K)
    documents.n, documents.K, documents.alpha_sum = n, K, check_prior(alpha)
    documents.shift = polygamma(documents.alpha_sum).digamma
    documents.topics = &topics[0] if topics.shape[0] > 0 else NULL
    documents.offsets, documents.alpha = &offsets[0], &alpha[0]
    documents.block_offsets, documents.P = &block_offsets[0], block_topics.shape[1]
    documents.block_topics = &block_topics[0, 0] if block_topics.shape[0] > 0 else NULL
    documents.allowed = &allowed[0, 0] if allowed.shape[0] > 0 else NULL
    n_blocks = (n + BLOCK - 1) // BLOCK
    cdef Slabs slabs = slabs_of(n, BLOCK, n_blocks, busy_threads(n_threads, n_blocks))
    cdef Arena counted = counting_arena(), arena = counting_arena()
    cdef double present
    lay_out(K, NULL, &counted)
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
    cdef const Documents* documents = <const Documents*> of
    cdef Py_ssize_t K = documents.K, d, k
    cdef Sums sums = lay_out(K, present, &scratch)
    memset(sums.n, 0, K * sizeof(double))
    memset(sums.rises, 0, K * sizeof(double))
    memset(sums.shifts, 0, K * sizeof(double))
    for d in range(start, start + B):
        add_tokens(documents, d, &sums)
        add_shifts(documents, d, &sums)
    for k in range(K):
        sums.changes[k] += sums.rises[k] - sums.shifts[k]
    return 0
