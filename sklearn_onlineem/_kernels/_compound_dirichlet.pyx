r"""Compound Dirichlet (Dirichlet-multinomial) components, through counts of counts.

A document depends on its counts v only through the *events* "word j occurs c times" and "the
document has L words", as

    log p(v | alpha) = sum_j B(alpha_j, v_j) - B(alpha_0, L)
    B(a, c) = log Gamma(a + c) - log Gamma(a) - log c!

so documents become rows of indicators of events, for which `_counts` has the products, and each
event is evaluated once however many documents have it. The word of an event is its index j, and d
where it is about the length; alpha has its sum alpha_0 at the end, as alpha_d.

M-steps maximise F(a) = log Gamma(a_0) - sum_j log Gamma(a_j) + sum_j a_j t_j by Newton's method:
the Hessian is psi'(a_0) 11' - diag(psi'(a_j)), which is inverted in O(d).
"""

from cython cimport floating
from cython.parallel cimport prange
from libc.limits cimport INT_MAX
from libc.math cimport exp, fabs, fmax, fmin, log
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from ._arena cimport allocate_doubles, free
from ._arrays cimport extent, fits, ndarray, readable, readable_integers, require, writable
from ._gamma_functions cimport (
    Polygamma, digamma_difference, log_term, polygamma, trigamma_difference,
)
from ._openmp cimport busy_threads
from ._simd cimport restricted, simd_void

from _simd_h cimport log_double, small_counts, sum_of

cdef enum:
    LARGEST_TABLED = 64         # count of a word that may share its event
    LONGEST_TABLED = 1 << 16    # document, likewise
    AT_ONCE = 256               # counts that are converted to integers
    MOST_NEWTON_STEPS = 100
    MOST_HALVINGS = 60
    FEWEST_EVENTS_PER_THREAD = 2048

cdef double EULER = 0.57721566490153286061
# Relative change of a Newton step after which the next one would change nothing.
cdef double SETTLED = 1e-9
# The same for steps on the likelihood, whose own rounding is relative to it.
cdef double ASCENT_SETTLED = 1e-8, ROUNDING = 1e-15
# By which a step may change a parameter, and how short it may become.
cdef double MOST_GROWTH = 8, LEAST_LENGTH = 1e-12
cdef double LEAST_PRECISION = 1e-9, MOST_PRECISION = 1e12


# Events
# ------

cdef inline bint is_tabled(double count, Py_ssize_t largest) noexcept nogil:
    return 1 <= count <= largest and count == <int64_t> count


cdef int check_documents(
    const floating[::1] data, const int32_t[::1] indices, const int64_t[::1] indptr, bint is_dense,
    Py_ssize_t d,
) except -1:
    cdef Py_ssize_t n = indptr.shape[0] - 1, i
    require(n >= 0 and indptr[0] == 0 and indptr[n] == data.shape[0], "pointers of all non-zeros")
    if is_dense:
        require(indices.shape[0] == d and data.shape[0] == n * d, "each document has all words")
    else:
        require(indices.shape[0] == data.shape[0], "data and indices are of the same non-zeros")
    for i in range(n):
        require(indptr[i] <= indptr[i + 1] and not (is_dense and indptr[i] != i * d),
                "pointers are of one row after the other")
    return 0


def largest_counts(
    const floating[::1] data,       # IN (n_non_zeros,)
    const int32_t[::1] indices,     # IN (n_non_zeros,), or (d,) if they are those of every row
    const int64_t[::1] indptr,      # IN (n + 1,)
    bint is_dense,                  # every row has an entry for each word
    int64_t[::1] largest,           # INOUT (d + 1,), zeros
):
    """The largest tabled count of each word, and length of a document."""
    cdef Py_ssize_t i, j, e, d = largest.shape[0] - 1
    check_documents(data, indices, indptr, is_dense, d)
    cdef double length
    with nogil:
        for i in range(indptr.shape[0] - 1):
            length = 0
            for e in range(indptr[i], indptr[i + 1]):
                length += data[e]
                j = indices[e - indptr[i] if is_dense else e]
                if data[e] > largest[j] and is_tabled(data[e], LARGEST_TABLED):
                    largest[j] = <int64_t> data[e]
            if length > largest[d] and is_tabled(length, LONGEST_TABLED):
                largest[d] = <int64_t> length


def encode(
    const floating[::1] data,       # IN (n_non_zeros,)
    const int32_t[::1] indices,     # IN (n_non_zeros,), or (d,) if they are those of every row
    const int64_t[::1] indptr,      # IN (n + 1,)
    bint is_dense,                  # as before
    const int64_t[::1] first,       # IN (d + 2,): cumulated `largest`, from 0
    int64_t[::1] number,            # INOUT (first[d + 1],), zeros: 1 + event of a tabled count
    int32_t[::1] events,            # OUT (n_non_zeros + n,)
    int64_t[::1] pointers,          # OUT (n + 1,)
    int64_t[::1] words,             # OUT (n_non_zeros + n,), of the events
    double[::1] counts,             # OUT (n_non_zeros + n,), of the events
):
    """Rows of events, in CSR form; return the number of events."""
    cdef Py_ssize_t i, j, e, filled = 0, n_events = 0, d = first.shape[0] - 2
    cdef Py_ssize_t room = events.shape[0]
    check_documents(data, indices, indptr, is_dense, d)
    require(first[0] == 0 and number.shape[0] == first[d + 1], "a number for each tabled count")
    require(pointers.shape[0] == indptr.shape[0], "a pointer for each document")
    require(words.shape[0] == room == counts.shape[0], "words and counts of all events")
    cdef double length
    with nogil:
        pointers[0] = 0
        for i in range(indptr.shape[0] - 1):
            length = 0
            for e in range(indptr[i], indptr[i + 1]):
                if data[e] > 0:
                    length += data[e]
                    j = indices[e - indptr[i] if is_dense else e]
                    if filled < room:
                        events[filled] = <int32_t> event_of(
                            j, data[e], first, number, words, counts, &n_events)
                    filled += 1
            if length > 0:
                if filled < room:
                    events[filled] = <int32_t> event_of(
                        d, length, first, number, words, counts, &n_events)
                filled += 1
            pointers[i + 1] = filled
    require(filled <= room and n_events <= INT_MAX, "room for the events of all words and lengths")
    return n_events


cdef inline int64_t event_of(
    Py_ssize_t word, double count, const int64_t[::1] first, int64_t[::1] number,
    int64_t[::1] words, double[::1] counts, Py_ssize_t* n_events,
) noexcept nogil:
    """The event's index: a new one, unless this word had this count before."""
    cdef Py_ssize_t place = -1
    if 1 <= count <= first[word + 1] - first[word] and count == <int64_t> count:
        place = first[word] + <int64_t> count - 1
        if number[place] > 0:
            return number[place] - 1
    words[n_events[0]] = word
    counts[n_events[0]] = count
    n_events[0] += 1
    if place >= 0:
        number[place] = n_events[0]
    return n_events[0] - 1


def count_events(
    const floating[::1] data,       # IN (n_non_zeros,)
    const int32_t[::1] indices,     # IN (n_non_zeros,), or (d,) if they are those of every row
    const int64_t[::1] indptr,      # IN (n + 1,)
    bint is_dense,                  # every row has an entry for each word
    const double[::1] weights,      # IN (n,) or (0,)
    double[:, ::1] table,           # INOUT (most + 1, d), zeros: weight of counts 0, 1, ...
    double[::1] lengths,            # INOUT (longest,), zeros: likewise of lengths
    int64_t[::1] words,             # OUT (n_non_zeros + n,), of the other events
    double[::1] counts,             # OUT (n_non_zeros + n,), likewise
    double[::1] totals,             # OUT (n_non_zeros + n,), their weights
):
    """Weights of the documents with each event, of all events; return how many others there are."""
    cdef Py_ssize_t i, j, e, shift, stop, d = table.shape[1], most = table.shape[0] - 1
    cdef Py_ssize_t longest = lengths.shape[0], room = words.shape[0], n_others = 0
    cdef Py_ssize_t begin = 0, end = 0
    check_documents(data, indices, indptr, is_dense, d)
    require(most > 0 and d > 0, "counts and words")
    require(fits(weights.shape[0], indptr.shape[0] - 1), "weights of all documents")
    require(room == data.shape[0] + indptr.shape[0] - 1, "room for the events of all documents")
    require(counts.shape[0] == room and totals.shape[0] == room, "counts, weights of all events")
    cdef double length, weight = 1
    cdef double* cells = &table[0, 0]
    cdef int32_t whole[AT_ONCE]
    cdef bint are_columns = True
    with nogil:
        for i in range(indptr.shape[0] - 1):
            length, shift = 0, indptr[i] if is_dense else 0
            if weights.shape[0] > 0:
                weight = weights[i]
            e, stop = indptr[i], indptr[i + 1]
            while e < stop:
                if e == end:
                    begin, end = e, min(e + AT_ONCE, data.shape[0])
                    small_counts(&data[e], end - e, <int32_t> most, whole)
                for e in range(e, min(stop, end)):
                    j = indices[e - shift]
                    length += data[e]
                    if not 0 <= j < d:
                        are_columns = False
                    # Small counts are by far the most frequent, and have few cells, side by side.
                    elif whole[e - begin] == data[e]:
                        cells[whole[e - begin] * d + j] += weight
                    elif data[e] > 0:
                        words[n_others], counts[n_others], totals[n_others] = j, data[e], weight
                        n_others += 1
                e = min(stop, end)
            if is_tabled(length, longest):
                lengths[<Py_ssize_t> length - 1] += weight
            elif length > 0:
                words[n_others], counts[n_others], totals[n_others] = d, length, weight
                n_others += 1
    require(are_columns, "words are columns of the table")
    return n_others


cdef const int64_t* word_indices(ndarray words, Py_ssize_t n_events, Py_ssize_t d) except NULL:
    """The words of events, each from 0 to d; d stands for the length."""
    cdef const int64_t* word = readable_integers(words, n_events)
    cdef Py_ssize_t u
    cdef bint are_columns = True
    for u in range(n_events):
        are_columns &= 0 <= word[u] <= d
    require(are_columns, "words are columns of alpha")
    return word


def log_terms(
    ndarray words,      # IN (n_events,) int64
    ndarray counts,     # IN (n_events,)
    ndarray alpha,      # IN (K, d + 1)
    ndarray out,        # OUT (n_events, K)
    int n_threads,
):
    """What each event adds to the log density of each component."""
    cdef Py_ssize_t K = extent(alpha, 0), width = extent(alpha, 1), u, k, d = width - 1
    cdef Py_ssize_t n_events = extent(words, 0)
    require(width > 1 and n_threads > 0, "words, threads")
    cdef const double* a = readable(alpha, K * width)
    cdef const int64_t* word = word_indices(words, n_events, width - 1)
    cdef const double* count = readable(counts, n_events)
    cdef double* term = writable(out, n_events * K)
    cdef double sign
    n_threads = busy_threads(n_threads, n_events)
    for u in prange(n_events, nogil=True, schedule="static", num_threads=n_threads,
                    use_threads_if=n_threads > 1 and n_events > FEWEST_EVENTS_PER_THREAD):
        sign = -1 if word[u] == d else 1
        for k in range(K):
            term[u * K + k] = sign * log_term(a[k * width + word[u]], count[u])


def expected_logs(
    ndarray words,      # IN (n_events,) int64
    ndarray counts,     # IN (n_events,)
    ndarray shares,     # IN (n_events, K): weight of the documents with an event
    ndarray weight,     # IN (K,): weight of all documents
    ndarray alpha,      # IN (K, d + 1)
    ndarray out,        # OUT (K, d): sums of E[log h_j | v] = psi(a_j + v_j) - psi(a_0 + L)
    int n_threads,
):
    """The expected sufficient statistics of the Dirichlet distributions."""
    cdef Py_ssize_t K = extent(alpha, 0), width = extent(alpha, 1), k
    cdef Py_ssize_t n_events = extent(words, 0)
    require(width > 1 and n_threads > 0, "words, threads")
    cdef const double* a = readable(alpha, K * width)
    cdef const int64_t* word = word_indices(words, n_events, width - 1)
    cdef const double* count = readable(counts, n_events)
    cdef const double* share = readable(shares, n_events * K)
    cdef const double* total = readable(weight, K)
    cdef double* sums = writable(out, K * (width - 1))
    n_threads = busy_threads(n_threads, K)
    for k in prange(K, nogil=True, schedule="static", num_threads=n_threads,
                    use_threads_if=n_threads > 1 and n_events > FEWEST_EVENTS_PER_THREAD):
        add_expected_logs(a + k * width, word, count, share + k, K, n_events, total[k],
                          sums + k * (width - 1), width - 1)


cdef void add_expected_logs(
    const double* a, const int64_t* word, const double* count, const double* share, Py_ssize_t K,
    Py_ssize_t n_events, double total, double* sums, Py_ssize_t d,
) noexcept nogil:
    cdef Py_ssize_t u, j
    cdef double of_lengths = total * polygamma(a[d]).digamma
    for j in range(d):
        sums[j] = 0
    for u in range(n_events):
        if share[u * K] == 0:
            continue
        if word[u] == d:
            of_lengths += share[u * K] * digamma_difference(a[d], count[u])
        else:
            sums[word[u]] += share[u * K] * digamma_difference(a[word[u]], count[u])
    for j in range(d):
        sums[j] += total * polygamma(a[j]).digamma - of_lengths


cdef simd_void add_factors(
    const double* weights, const double* alpha, double c, Py_ssize_t n, restricted value,
    restricted slope, restricted curvature,
) noexcept nogil:
    """Those of log (a + c) / (1 + c), for n words"""
    cdef Py_ssize_t j
    cdef double inverse, scale = 1 / (1 + c)
    for j in range(n):
        inverse = 1 / (alpha[j] + c)
        value[j] += weights[j] * log_double((alpha[j] + c) * scale)
        slope[j] += weights[j] * inverse
        curvature[j] += weights[j] * inverse * inverse


# Data on which the likelihood of one component depends, see `ascend`.
cdef struct Documents:
    Py_ssize_t d, most, n_events
    const double* weight
    const double* count
    const double* share
    const int64_t* end
    const int64_t* word


cdef double derivatives(
    const Documents* documents, const double* a, double* value, double* slope, double* curvature
) noexcept nogil:
    """The log-likelihood at a (d + 1,), its terms, slopes, and minus the second derivatives."""
    # B(a, c) of a word is the sum of log (a + i) / (1 + i) for i < c.
    cdef Py_ssize_t i, j, u, d = documents.d
    cdef const int64_t* end = documents.end
    cdef double weight
    for j in range(d + 1):
        value[j] = slope[j] = curvature[j] = 0
    for i in range(documents.most):
        add_factors(documents.weight + end[i], a, i, end[i + 1] - end[i], value, slope, curvature)
    for u in range(documents.n_events):
        j = documents.word[u]
        weight = -documents.share[u] if j == d else documents.share[u]
        value[j] += weight * log_term(a[j], documents.count[u])
        slope[j] += weight * digamma_difference(a[j], documents.count[u])
        curvature[j] += weight * trigamma_difference(a[j], documents.count[u])
    return sum_of(value, d) + value[d]


cdef void project(double* a, Py_ssize_t d, double least, double most_precision) noexcept nogil:
    """Move a (d,) between floor and ceiling, and put its sum at the end."""
    cdef Py_ssize_t j
    cdef double sum = 0
    for j in range(d):
        a[j] = fmax(a[j], least)
        sum += a[j]
    a[d] = 0
    for j in range(d):
        a[j] = fmax(a[j] / fmax(sum / most_precision, 1), least)
        a[d] += a[j]


def ascend(
    ndarray weights,    # IN (ends[-1],): of documents with more than 0, 1, ... of a word
    ndarray ends,       # IN (most + 1,) int64, from 0; words with more of a word come first
    ndarray words,      # IN (n_events,) int64, of the other events
    ndarray counts,     # IN (n_events,)
    ndarray shares,     # IN (n_events,)
    ndarray alpha,      # IN (d,)
    double least,       # floor of alpha
    double most,        # ceiling of its sum
    ndarray out,        # OUT (d + 1,): alpha after the step, and its sum
):
    """Take a Newton step, halved until the likelihood does not fall (Minka 2000, section 3).

    Return the log-likelihood before it, and whether the next step would change nothing.
    """
    # The Hessian is a diagonal matrix plus a multiple of 11', and takes O(d) to invert. Where the
    # likelihood is not concave, the step changes the precision alone, if that is more likely, or
    # uses the diagonal part of the Hessian, which is always definite.
    cdef Py_ssize_t d = extent(alpha, 0), j
    cdef Documents documents
    documents.d, documents.most, documents.n_events = d, extent(ends, 0) - 1, extent(words, 0)
    require(d > 0 and documents.most >= 0, "words; ends begin with 0")
    documents.weight = readable(weights, extent(weights, 0))
    documents.end = readable_integers(ends, documents.most + 1)
    documents.word = word_indices(words, documents.n_events, d)
    documents.count = readable(counts, documents.n_events)
    documents.share = readable(shares, documents.n_events)
    require(documents.end[0] == 0 and documents.end[documents.most] == extent(weights, 0),
            "weights of all words and numbers")
    for j in range(documents.most):
        require(0 <= documents.end[j + 1] - documents.end[j] <= d, "weights of some words")
    cdef const double* given = readable(alpha, d)
    cdef double* new = writable(out, d + 1)
    cdef double* a = allocate_doubles(6 * (d + 1))
    cdef double* step = a + (d + 1)
    cdef double* lowest = step + (d + 1)
    cdef double* value = lowest + (d + 1)
    cdef double* slope = value + (d + 1)
    cdef double* curvature = slope + (d + 1)
    cdef double before, z, shift, inverses = 0, weighted = 0, change = 0, length = 1
    cdef double factor = 1 / MOST_GROWTH
    cdef bint is_done
    with nogil:
        memcpy(a, given, d * sizeof(double))
        a[d] = 0
        for j in range(d):
            a[d] += a[j]
        before = derivatives(&documents, a, value, slope, curvature)
        z = -curvature[d]
        for j in range(d):
            step[j] = slope[j] + slope[d]
            if curvature[j] > 0:
                inverses += 1 / curvature[j]
                weighted += step[j] / curvature[j]
        shift = z * weighted / (1 - z * inverses) if z * inverses < 1 else 0
        for j in range(d):
            # Words that never occur get the floor at once.
            lowest[j] = a[j] / MOST_GROWTH if curvature[j] > 0 else 0
            step[j] = (step[j] + shift) / curvature[j] if curvature[j] > 0 else -a[j]
        is_done = inverses == 0
        memcpy(new, a, (d + 1) * sizeof(double))
        while not is_done and not z * inverses < 1 and factor <= MOST_GROWTH:
            for j in range(d):
                new[j] = factor * a[j]
            project(new, d, least, most)
            is_done = derivatives(&documents, new, value, slope, curvature) > before
            factor, change = 4 * factor, 1
        while not is_done and length > LEAST_LENGTH:
            for j in range(d):
                new[j] = fmax(lowest[j], fmin(a[j] + length * step[j], MOST_GROWTH * a[j]))
            project(new, d, least, most)
            is_done = derivatives(&documents, new, value, slope, curvature) >= (
                before - ROUNDING * fabs(before))
            length, change = length / 2, 0
            for j in range(d):
                change = fmax(change, fabs(new[j] / a[j] - 1))
        if not is_done:
            memcpy(new, a, (d + 1) * sizeof(double))
            change = 0
        free(a)
    return before, change < ASCENT_SETTLED


# M-step
# ------

cdef struct Step:
    double value        # of F at the present point
    double magnitude    # of the terms of F, whose rounding F has
    double slope        # by which a Newton step would raise F at first
    double change       # largest of a Newton step, relative to a


cdef Step newton_step(
    const double* t, const double* a, Py_ssize_t d, double* step, double* trigammas
) noexcept nogil:
    """F at a, and the Newton step from there: (g_j - b) / psi'(a_j), b the same for all j."""
    cdef Polygamma own, total
    cdef double sum = 0, weighted = 0, inverses = 0, b
    cdef Py_ssize_t j
    cdef Step result
    for j in range(d):
        sum += a[j]
    total = polygamma(sum)
    result.value = total.log_gamma
    result.magnitude = fabs(total.log_gamma)
    result.slope = result.change = 0
    for j in range(d):
        own = polygamma(a[j])
        result.value += a[j] * t[j] - own.log_gamma
        result.magnitude += fabs(a[j] * t[j]) + fabs(own.log_gamma)
        step[j] = total.digamma - own.digamma + t[j]
        trigammas[j] = own.trigamma
        weighted += step[j] / own.trigamma
        inverses += 1 / own.trigamma
    b = -weighted / fmax(1 / total.trigamma - inverses, 1e-12 * inverses)
    for j in range(d):
        own.digamma = step[j]
        step[j] = (step[j] - b) / trigammas[j]
        result.slope += own.digamma * step[j]
        result.change = fmax(result.change, fabs(step[j]) / a[j])
    return result


cdef inline double inverse_digamma(double y) noexcept nogil:
    """Within some per cent of the x with psi(x) = y (Minka)."""
    return exp(y) + 0.5 if y >= -2.22 else -1 / (y + EULER)


cdef void start(const double* t, Py_ssize_t d, double* a) noexcept nogil:
    """a_j with psi(a_j) = t_j + psi(s), about, and s, about, their sum: Newton on log s alone."""
    cdef double s, ratio, slope, x, log_step = 1
    cdef double share = 0
    cdef Polygamma total
    cdef Py_ssize_t j
    for j in range(d):
        share += exp(t[j])
    s = 0.5 * d / fmax(1 - share, 1e-6)  # right where s is large
    for _ in range(50):
        total = polygamma(s)
        ratio = slope = 0
        for j in range(d):
            x = inverse_digamma(t[j] + total.digamma)
            a[j] = x
            ratio += x
            slope += 1 / (1 / (x * x) + 1 / (x + 0.6))  # psi'(x), within a per cent
        if fabs(log_step) < 1e-2 or not LEAST_PRECISION < s < MOST_PRECISION:
            return
        # d log(sum a) / d log s - 1, which is below 0 if not for the approximation.
        slope = slope * total.trigamma * s / ratio - 1
        log_step = log(ratio / s) / fmax(-slope, 1e-3)
        log_step = fmax(-3, -fmax(-3, -log_step))
        s *= exp(log_step)


cdef void maximise(const double* t, Py_ssize_t d, double* scratch, double* a) noexcept nogil:
    """Raise F from a to its maximum; a step is halved until a > 0 and F does not fall."""
    cdef double* step = scratch
    cdef double* trigammas = scratch + d
    cdef double* other = scratch + 2 * d
    cdef double* other_step = scratch + 3 * d
    cdef double length
    cdef bint is_positive
    cdef Py_ssize_t j
    cdef Step here = newton_step(t, a, d, step, trigammas), there
    for _ in range(MOST_NEWTON_STEPS):
        length = 1
        for _ in range(MOST_HALVINGS):
            is_positive = True
            for j in range(d):
                other[j] = a[j] + length * step[j]
                is_positive &= other[j] > 0
            if is_positive:
                if here.change < SETTLED:
                    for j in range(d):
                        a[j] = other[j]
                    return
                there = newton_step(t, other, d, other_step, trigammas)
                if there.value >= here.value - 1e-13 * here.magnitude:
                    break
            length /= 2
        else:
            return
        for j in range(d):
            a[j] = other[j]
            step[j] = other_step[j]
        here = there


def solve(
    ndarray mean_logs,  # IN (K, d): t = E log h
    ndarray alpha,      # INOUT (K, d): where to begin, or a row of zeros; where E log h = t
):
    """Maximise F for each component."""
    cdef Py_ssize_t K = extent(mean_logs, 0), d = extent(mean_logs, 1), _k
    cdef const double* t = readable(mean_logs, K * d)
    cdef double* a = writable(alpha, K * d)
    cdef double* scratch = allocate_doubles(4 * d)
    with nogil:
        for _k in range(K):
            # Newton's method is fast from nearby; a far start is worse than none.
            if not (a[0] > 0 and newton_step(t, a, d, scratch, scratch + d).change < 0.5):
                start(t, d, a)
            maximise(t, d, scratch, a)
            t, a = t + d, a + d
        free(scratch)
