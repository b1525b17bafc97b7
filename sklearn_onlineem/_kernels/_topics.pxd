"""What kernels of topics share: the loops of `_topics.h`, and what is asked of arguments."""

from libc.float cimport FLT_MIN
from libc.stdint cimport uint64_t

from ._arena cimport Arena, take, take_doubles
from ._arrays cimport require

from _topic_draws_h cimport TOPIC_LANES, WORDS_AHEAD, BlockSpace, Scan, fetch_row, stream_of
from _topics_h cimport log_all, log_ratio, sum_rows

cdef enum:
    MOST_TOKENS = 1 << 24       # of a document: up to here counts in floats are exact

# The largest prior: its eighth power is a double, and the weight of a topic a float.
cdef inline double most_prior() noexcept nogil:
    return 1e30


cdef inline float* take_floats(Arena* arena, Py_ssize_t n) noexcept nogil:
    return <float*> take(arena, n, sizeof(float))


cdef inline BlockSpace take_block_space(Arena* arena, Py_ssize_t P) noexcept nogil:
    cdef BlockSpace space
    space.logs, space.weights = take_doubles(arena, P), take_doubles(arena, P)
    space.tails, space.counts = take_doubles(arena, P), take_floats(arena, P)
    space.shares = take_floats(arena, P)
    return space


cdef inline int check_lanes(Py_ssize_t K, Py_ssize_t P) except -1:
    return require(K <= P and P % TOPIC_LANES == 0, "rows of topics are padded to a multiple of 16")


cdef inline int check_allowed(
    const unsigned char[:, ::1] allowed, Py_ssize_t n, Py_ssize_t K
) except -1:
    cdef Py_ssize_t d, k
    cdef bint any_topic
    if allowed.shape[0] == 0:
        return 0
    require(allowed.shape[0] == n and allowed.shape[1] == K, "topics allowed are (n, K)")
    for d in range(n):
        any_topic = False
        for k in range(K):
            any_topic |= allowed[d, k] != 0
        require(any_topic, "each document has a topic that it may use")
    return 0


cdef inline double check_prior(const double[::1] alpha) except -1:
    """Return the sum of alpha."""
    cdef Py_ssize_t k
    cdef double total = 0
    for k in range(alpha.shape[0]):
        require(alpha[k] > 0, "the prior's alpha is positive")
        total += alpha[k]
    require(total <= most_prior(), "the prior's alpha adds up to at most 1e30")
    return total
