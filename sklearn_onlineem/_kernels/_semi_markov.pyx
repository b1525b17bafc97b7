"""Hidden semi-Markov chains: posteriors, expected durations, filtered states, paths, occupancies.

A segment of state j lasts s rows with probability p_j(s), s = 1..D, and a segment of another state
follows. With the log densities y of rows, segments end and begin with

    end_t(j) = log sum_s p_j(s) exp(begin_t-s+1(j) + y_t-s+1(j) + ... + y_t(j))
    begin_t+1(k) = log sum_j exp(end_t(j)) a_jk

and the same holds backward in time; `_semi_markov.h` has the sums over s. These logarithms are
relative to a reference, which each row changes, so that they stay small in long sequences. Arrays
of a sequence have T x K numbers, and windows D x K. The first segment may have begun earlier:
`first` has p(state, rows that are left to it), from 0 rows on, and `going` the same of these or
more. Tables of durations are reversed, from D down to 1, as the last term of a window is for s = 1.
The last segment ends with the last row if the chain has probabilities of that, else it may go on.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, exp, fabs, log
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from ._arena cimport Arena, allocate, counting_arena, free, take, take_doubles, take_each
from ._arrays cimport longest_of, require

from _semi_markov_h cimport (
    Window, add_exp, add_multiple, best_of, clear_window, grow, lay_out_window, log_product,
    log_sum_of, logs_of, numbers_in, push,
)

# The reference moves where logarithms are so far from 0.
cdef double FARTHEST = 50.0
# Renewals are stationary where D rows change none by more, in parts of the largest.
cdef double LEAST_CHANGE = 1e-15
# Expected numbers below exp(-700) are 0.
cdef double NOTHING = -700.0


# A chain, and scratch memory of the present sequence.
cdef struct Run:
    Py_ssize_t K, D
    const double* moves         # (K, K)
    const double* log_moves
    const double* back          # (K, K), transposed
    const double* log_back
    const double* durations     # (K, D), p(S = s)
    const double* log_durations
    const double* at_least      # (K, D), p(S >= s)
    const double* log_at_least
    const double* log_final     # (K,), of ends after the last row; NULL: its segment may go on
    Py_ssize_t T, R
    const double* first     # (K, R + 1), logarithms; R >= min(T, D)
    const double* going     # (K, R + 1)
    Window* windows         # (K,)
    double* y               # (T, K), log densities relative to the change of the reference
    double* begin           # (T, K), segments that begin, but for the first
    double* end             # (T, K), segments that end
    double* first_end       # (D, K), ... the first ones among them
    double* alive           # (K,), the sum of y so far
    double* first_mass      # (K,)
    double* state           # (K,), and another
    double* after
    double* scratch         # (K,)
    double log_likelihood   # relative to the reference
    double reference


cdef struct Sums:
    double* moves       # (K, K)
    double* products    # (K, D), durations without p
    double* durations   # (K, D)
    double* open        # (K, D), segments that go on to the last row, by their rows
    double* left        # (K, R + 1), first segments by the rows that are left
    double* beyond      # (K, R + 1), first segments that go on to the last row, by the rows


cdef class Chain:
    """A chain, and scratch memory of its sequences.

    That is, transitions (K, K); durations (K, D); p(the sequence ends after a segment) (K,), or
    None; `first` and `going` (K, R + 1) as logarithms, of the first sequence, and of the others.
    """

    cdef Run run
    cdef list held
    cdef object durations, firsts
    cdef void* memory

    def __cinit__(self, Py_ssize_t most_rows, transmat, durations, final, *firsts):
        cdef Py_ssize_t K = transmat.shape[0], D = durations.shape[1]
        cdef Arena arena
        cdef int i
        require(K > 0 and D > 0 and transmat.shape[1] == K and durations.shape[0] == K,
                "transitions and durations of K states")
        require(final is None or final.shape == (K,), "ends of K states")
        self.held, self.durations, self.firsts = [], durations, firsts
        at_least = np.cumsum(durations[:, ::-1], axis=1)
        self.run.K, self.run.D = K, D
        self.run.moves = self.hold(transmat)
        self.run.back = self.hold(transmat.T)
        self.run.durations = self.hold(durations[:, ::-1])
        self.run.at_least = self.hold(at_least)
        self.run.log_moves = self.hold(_log(transmat))
        self.run.log_back = self.hold(_log(transmat.T))
        self.run.log_durations = self.hold(_log(durations[:, ::-1]))
        self.run.log_at_least = self.hold(_log(at_least))
        self.run.log_final = NULL
        if final is not None:
            self.run.log_final = self.hold(_log(np.asarray(final)[None]))
        for i in range(2):
            arena = counting_arena() if i == 0 else arena
            if i == 1:
                self.memory = allocate(&arena)
            lay_out(&self.run, most_rows, &arena)

    cdef const double* hold(self, table) except NULL:
        cdef const double[:, ::1] rows = np.ascontiguousarray(table, dtype=np.float64)
        self.held.append(rows)
        return &rows[0, 0]

    cdef int begin_with(self, Py_ssize_t s, Py_ssize_t T) except -1:
        self.run.T = T
        if s < 2:
            log_first, log_going = self.firsts[2 * s], self.firsts[2 * s + 1]
            self.run.R = log_first.shape[1] - 1
            require(log_first.shape == log_going.shape and len(log_first) == self.run.K,
                    "first segments of K states")
            self.run.first, self.run.going = self.hold(log_first), self.hold(log_going)
        return require(self.run.R >= min(T, self.run.D), "rows that are left to first segments")

    def __dealloc__(self):
        free(self.memory)


cdef void lay_out(Run* run, Py_ssize_t T, Arena* arena) noexcept nogil:
    cdef Py_ssize_t K = run.K, D = run.D, k
    cdef Window window
    run.windows = <Window*> take(arena, K, sizeof(Window))
    for k in range(K):
        window = lay_out_window(D, arena)
        if run.windows != NULL:
            run.windows[k] = window
    take_each(arena, T * K, &run.y, &run.begin, &run.end)
    run.first_end = take_doubles(arena, D * K)
    take_each(arena, K, &run.alive, &run.first_mass, &run.state, &run.after, &run.scratch)


cdef void clear(Run* run) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(run.K):
        clear_window(run.windows + k)
        run.alive[k] = 0.0


cdef inline double log_add(double a, double b) noexcept nogil:
    """log(exp(a) + exp(b))"""
    cdef double most = max(a, b)
    return most if most == -INFINITY else most + log(exp(a - most) + exp(b - most))


cdef double log_sum(const double* x, Py_ssize_t n) noexcept nogil:
    cdef double most = -INFINITY, total = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        most = max(most, x[i])
    if most == -INFINITY:
        return most
    for i in range(n):
        total += exp(x[i] - most)
    return most + log(total)


cdef inline double of_first(
    const double* table, Py_ssize_t k, Py_ssize_t r, const Run* run
) noexcept nogil:
    return table[k * (run.R + 1) + r] if r <= run.R else -INFINITY


cdef double change_of(const floating* x, Py_ssize_t t, const Run* run) noexcept nogil:
    """What a row changes the reference by: its largest density, and how far windows are from it."""
    cdef double most = -INFINITY, far = -INFINITY
    cdef Py_ssize_t k
    for k in range(run.K):
        most = max(most, <double> x[k])
        far = max(far, run.windows[k].shift + run.windows[k].scale)
        far = max(far, run.alive[k] + of_first(run.going, k, t, run))
    most = 0.0 if most == -INFINITY else most
    return most + far if far > -INFINITY and fabs(far) > FARTHEST else most


cdef inline double over_durations(
    const double* table, const double* log_table, Py_ssize_t k, Run* run,
    bint is_best, double first, double* as_product,
) noexcept nogil:
    """log sum_s p(s) exp(term_s), or the largest term, with that of a first segment among them"""
    if is_best:
        return max(first, best_of(run.windows + k, log_table + k * run.D))
    return log_add(first, log_sum_of(
        run.windows + k, table + k * run.D, log_table + k * run.D, as_product))


cdef void open_segments(Py_ssize_t n, Run* run, bint is_best, double* out) noexcept nogil:
    """out (K,) <- log p(the n rows so far, a segment of k goes on to the last or beyond)"""
    cdef double unused
    cdef Py_ssize_t k
    for k in range(run.K):
        out[k] = over_durations(run.at_least, run.log_at_least, k, run, is_best,
                                run.alive[k] + of_first(run.going, k, n, run), &unused)


cdef void ended(Py_ssize_t n, Run* run, double* out) noexcept nogil:
    """out (K,) <- log p(the n rows, a segment of k ends with the last, and the sequence)"""
    cdef Py_ssize_t k
    for k in range(run.K):
        out[k] = run.end[(n - 1) * run.K + k] + run.log_final[k]


cdef void best_product(
    const double* x, const double* log_table, Py_ssize_t K, double* out
) noexcept nogil:
    cdef Py_ssize_t j, k
    for k in range(K):
        out[k] = -INFINITY
        for j in range(K):
            out[k] = max(out[k], x[j] + log_table[j * K + k])


cdef void forward_row(const floating* x, Py_ssize_t t, Run* run, bint is_best) noexcept nogil:
    """y, begin and end of a row"""
    cdef Py_ssize_t K = run.K, k
    cdef double change = change_of(x, t, run), unused, first
    cdef double* begin = run.begin + t * K
    cdef const double* before = run.end + (t - 1) * K
    if t == 0:
        for k in range(K):
            run.state[k] = of_first(run.first, k, 0, run)
        before = run.state
    if is_best:
        best_product(before, run.log_moves, K, begin)
    else:
        log_product(before, run.moves, run.log_moves, K, run.scratch, begin)
    run.reference += change
    for k in range(K):
        push(run.windows + k, begin[k])
        run.y[t * K + k] = x[k] - change
        grow(run.windows + k, run.y[t * K + k])
        run.alive[k] += run.y[t * K + k]
        first = run.alive[k] + of_first(run.first, k, t + 1, run)
        if t < run.D:
            run.first_end[t * K + k] = first
        run.end[t * K + k] = over_durations(
            run.durations, run.log_durations, k, run, is_best, first, &unused)


cdef void forward(const floating* x, Run* run, bint is_best) noexcept nogil:
    """All rows, and the log-likelihood, or that of the best path."""
    cdef Py_ssize_t t, k
    clear(run)
    run.reference = 0.0
    for t in range(run.T):
        forward_row(x + t * run.K, t, run, is_best)
    if run.log_final != NULL:
        ended(run.T, run, run.state)
    else:
        open_segments(run.T, run, is_best, run.state)
    if is_best:
        run.log_likelihood = -INFINITY
        for k in range(run.K):
            run.log_likelihood = max(run.log_likelihood, run.state[k])
    else:
        run.log_likelihood = log_sum(run.state, run.K)


cdef void count_moves(
    const double* end, const double* onward, const Run* run, Sums* sums
) noexcept nogil:
    """Add the expected moves from segments that end to those that begin at the next row."""
    cdef Py_ssize_t K = run.K, j, k
    cdef double weight
    for j in range(K):
        for k in range(K):
            weight = end[j] + run.log_moves[j * K + k] + onward[k]
            if weight > NOTHING:
                sums.moves[j * K + k] += exp(weight)


cdef void count_durations(
    double begin, double value, double product, Py_ssize_t k, Run* run, Sums* sums
) noexcept nogil:
    """Add the expected durations of segments that begin at a row, and end before the last one."""
    cdef Py_ssize_t D = run.D
    if begin + value <= NOTHING:
        return
    if product > 0.0:
        add_multiple(exp(begin + value) / product, numbers_in(run.windows + k), D,
                     sums.products + k * D)
    else:
        add_exp(begin + run.windows[k].shift, logs_of(run.windows + k),
                run.log_durations + k * D, D, sums.durations + k * D)


cdef void backward(Run* run, Sums* sums) noexcept nogil:
    """begin and end become expected numbers of segments that begin at, and end with, each row."""
    cdef Py_ssize_t K = run.K, D = run.D, T = run.T, t, k, n
    cdef bint is_open = run.log_final == NULL
    cdef double value, product, tail, weight
    # Logarithms of what follows a segment that ends with the row, or begins at it.
    cdef double* after = run.after
    cdef double* onward = run.state
    cdef double* begin
    cdef double* end
    for k in range(K):
        run.first_mass[k] = 0.0 if not is_open else exp(
            run.alive[k] + of_first(run.going, k, T, run) - run.log_likelihood)
        if T <= run.R:
            sums.beyond[k * (run.R + 1) + T] += run.first_mass[k]
    clear(run)
    for t in range(T - 1, -1, -1):
        begin, end = run.begin + t * K, run.end + t * K
        for k in range(K):
            after[k] = -INFINITY if is_open else run.log_final[k] - run.log_likelihood
        if t < T - 1:
            count_moves(end, onward, run, sums)
            log_product(onward, run.back, run.log_back, K, run.scratch, after)
        for k in range(K):
            end[k] = exp(end[k] + after[k])
            if t < min(D, run.R):
                weight = exp(run.first_end[t * K + k] + after[k])
                sums.left[k * (run.R + 1) + t + 1] += weight
                run.first_mass[k] += weight
            push(run.windows + k, after[k])
            grow(run.windows + k, run.y[t * K + k])
            run.alive[k] += run.y[t * K + k]
            value = log_sum_of(
                run.windows + k, run.durations + k * D, run.log_durations + k * D, &product)
            count_durations(begin[k], value, product, k, run, sums)
            n = T - t
            if is_open and n <= D:
                tail = run.alive[k] + run.log_at_least[k * D + D - n] - run.log_likelihood
                sums.open[k * D + n - 1] += exp(begin[k] + tail)
                value = log_add(value, tail)
            onward[k] = value
            begin[k] = exp(begin[k] + value)
    # Segments that ended before the first row.
    for k in range(K):
        after[k] = of_first(run.first, k, 0, run)
    count_moves(after, onward, run, sums)
    log_product(onward, run.back, run.log_back, K, run.scratch, after)
    for k in range(K):
        sums.left[k * (run.R + 1)] += exp(of_first(run.first, k, 0, run) + after[k])


cdef void posteriors(floating* x, Run* run) noexcept nogil:
    """p(state | all rows): those that were there, without segments that ended, with new ones."""
    cdef Py_ssize_t K = run.K, t, k
    cdef double* mass = run.first_mass
    cdef double total
    for t in range(run.T):
        total = 0.0
        for k in range(K):
            mass[k] += run.begin[t * K + k] - (run.end[(t - 1) * K + k] if t > 0 else 0.0)
            # Where nothing is possible, the rest is rounding.
            if mass[k] < 0.0 or run.y[t * K + k] == -INFINITY:
                mass[k] = 0.0
            total += mass[k]
        for k in range(K):
            # Where densities are too far apart for digits, all is rounding: nothing changes.
            if total > 0.0:
                x[t * K + k] = <floating> (mass[k] / total)
            else:
                x[t * K + k] = x[(t - 1) * K + k] if t > 0 else <floating> (1.0 / K)


# Sequences
# ---------

def forward_backward(
    floating[:, ::1] log_densities,     # INOUT (n, K): log p(v_t | h) -> p(h_t | v)
    const int64_t[::1] offsets,         # IN (S + 1,)
    tuple chain,                        # IN, see `Chain`
    double[::1] log_likelihoods,        # OUT (S,)
    double[:, ::1] moves,               # OUT (K, K)
    double[:, ::1] counts,              # OUT (K, D), durations of segments that begin and end
    double[:, ::1] open,                # OUT (K, D), segments that go on to the last row
    lefts,                              # INOUT, two pairs of (K, R + 1): `left` and `beyond`
    const double[:, ::1] uniforms=None,     # IN (n, 2), to draw paths with; None: expectations
    int64_t[::1] states=None,           # OUT (n,), if drawn
):
    """Posteriors, and expected numbers of segments; or drawn paths, and numbers of theirs.

    No path is drawn if a sequence is impossible, and log densities stay as they are.
    """
    cdef Py_ssize_t S = log_likelihoods.shape[0], s, K = counts.shape[0], D = counts.shape[1]
    cdef Py_ssize_t most = longest_of(&offsets[0], offsets.shape[0], S, log_densities.shape[0])
    cdef Chain walked = Chain(most, *chain)
    cdef Run* run = &walked.run
    cdef Sums sums
    cdef double[:, ::1] products = np.zeros((K, D)), reversed_counts = np.zeros((K, D))
    cdef double[:, ::1] left, beyond
    cdef floating* x
    cdef Py_ssize_t n = log_densities.shape[0]
    cdef bint draws = uniforms is not None
    require(D == run.D and K == run.K == log_densities.shape[1]
            and moves.shape[0] == K == moves.shape[1] and open.shape[0] == K
            and open.shape[1] == D, "sums of K states and D durations")
    require(not draws or uniforms.shape[0] == n == states.shape[0] and uniforms.shape[1] == 2,
            "states and uniform numbers of all rows")
    moves[:, :] = 0
    open[:, :] = 0
    sums.moves, sums.open = &moves[0, 0], &open[0, 0]
    sums.products, sums.durations = &products[0, 0], &reversed_counts[0, 0]
    if draws:
        counts[:, :] = 0
        sums.durations = &counts[0, 0]
    for s in range(S):
        walked.begin_with(s, offsets[s + 1] - offsets[s])
        left, beyond = lefts[0 if s == 0 else 2], lefts[1 if s == 0 else 3]
        require(left.shape[0] == K == beyond.shape[0]
                and left.shape[1] == run.R + 1 == beyond.shape[1], "first segments")
        sums.left, sums.beyond = &left[0, 0], &beyond[0, 0]
        x = &log_densities[offsets[s], 0]
        with nogil:
            forward(x, run, False)
            log_likelihoods[s] = run.log_likelihood + run.reference
            if run.log_likelihood == -INFINITY and not draws:
                memset(x, 0, run.T * K * sizeof(floating))
            elif run.log_likelihood > -INFINITY and draws:
                trace(run, False, &uniforms[offsets[s], 0], &states[offsets[s]], &sums)
            elif run.log_likelihood > -INFINITY:
                backward(run, &sums)
                posteriors(x, run)
    if not draws:
        in_order = np.asarray(products) * walked.durations[:, ::-1] + reversed_counts
        np.asarray(counts)[:, ::-1] = in_order


def filtered(
    floating[:, ::1] log_densities,     # INOUT (n, K): log p(v_t | h) -> p(h_t | v_1..t)
    const int64_t[::1] offsets,         # IN (S + 1,)
    tuple chain,                        # IN, see `Chain`
    double[::1] log_likelihoods,        # OUT (S,)
    double[::1] rows,                   # OUT (n,): log p(v_t | v_1..t-1)
    double[:, ::1] elapsed,             # OUT (K, D): of the last row of all, p(state, the rows of
    #                                     its segment so far), but for the first segment
    double[::1] beyond,                 # OUT (K,): ... and of the first segment
    bint only_likelihoods=False,        # whether only the first of these are wanted
):
    """Filtered probabilities, 0 from where a sequence is impossible, and log-likelihoods."""
    cdef Py_ssize_t S = log_likelihoods.shape[0], s, t, k, n, K = elapsed.shape[0]
    cdef Py_ssize_t D = elapsed.shape[1]
    cdef Py_ssize_t most = longest_of(&offsets[0], offsets.shape[0], S, log_densities.shape[0])
    cdef Chain walked = Chain(most, *chain)
    cdef Run* run = &walked.run
    cdef double total, before
    cdef const double* logs
    cdef floating* x
    require(D == run.D and K == run.K == log_densities.shape[1] and K == beyond.shape[0]
            and rows.shape[0] == log_densities.shape[0], "states and durations")
    for s in range(S):
        walked.begin_with(s, offsets[s + 1] - offsets[s])
        x = &log_densities[offsets[s], 0]
        if only_likelihoods:
            with nogil:
                forward(x, run, False)
                log_likelihoods[s] = run.log_likelihood + run.reference
            continue
        with nogil:
            clear(run)
            run.reference = before = total = 0.0
            for t in range(run.T):
                forward_row(x + t * K, t, run, False)
                open_segments(t + 1, run, False, run.state)
                run.log_likelihood = log_sum(run.state, K)
                total = run.log_likelihood + run.reference
                rows[offsets[s] + t] = total - before if total > -INFINITY else total
                before = total
                for k in range(K):
                    x[t * K + k] = <floating> (
                        exp(run.state[k] - run.log_likelihood) if total > -INFINITY else 0.0)
            log_likelihoods[s] = total
            if run.log_final != NULL and total > -INFINITY:
                ended(run.T, run, run.state)
                log_likelihoods[s] = log_sum(run.state, K) + run.reference
                rows[offsets[s] + run.T - 1] += log_likelihoods[s] - total
            for k in range(K):
                logs = logs_of(run.windows + k)
                for n in range(D):
                    elapsed[k, n] = 0.0
                    if n < run.T and total > -INFINITY:
                        elapsed[k, n] = exp(
                            run.windows[k].shift + logs[D - 1 - n]
                            + run.log_at_least[k * D + D - 1 - n] - run.log_likelihood)
                beyond[k] = 0.0 if total == -INFINITY else exp(
                    run.alive[k] + of_first(run.going, k, run.T, run) - run.log_likelihood)


# Paths
# -----

cdef struct Choice:
    bint is_best        # the best one, or a drawn one
    double uniform
    double best, below
    Py_ssize_t chosen


cdef inline Choice choice_of(bint is_best, double uniform) noexcept nogil:
    cdef Choice choice
    choice.is_best, choice.uniform = is_best, uniform
    choice.best, choice.below, choice.chosen = -INFINITY, 0.0, -1
    return choice


cdef inline bint consider(Choice* choice, Py_ssize_t i, double log_weight) noexcept nogil:
    """Take i into account; whether it is chosen for good."""
    if log_weight == -INFINITY:
        return False
    if choice.is_best:
        if log_weight > choice.best:
            choice.best, choice.chosen = log_weight, i
        return False
    choice.chosen = i
    choice.below += exp(log_weight)
    return choice.below > choice.uniform


cdef Py_ssize_t choose_state(const Run* run, Choice choice) noexcept nogil:
    """A state with log weights `after`."""
    cdef double total = log_sum(run.after, run.K)
    cdef Py_ssize_t k
    for k in range(run.K):
        if consider(&choice, k, run.after[k] - total):
            break
    return choice.chosen


cdef Py_ssize_t choose_rows(
    Py_ssize_t t, Py_ssize_t k, const double* log_table, double first, double total,
    Run* run, Choice choice,
) noexcept nogil:
    """The rows up to t of a segment of k with probabilities from D down to 1; 0: the first one."""
    cdef Py_ssize_t K = run.K, D = run.D, s
    cdef double sum = 0.0
    for s in range(1, min(D, t + 1) + 1):
        sum += run.y[(t + 1 - s) * K + k]
        if sum == -INFINITY or consider(
            &choice, s, run.begin[(t + 1 - s) * K + k] + sum + log_table[k * D + D - s] - total
        ):
            break
    if choice.is_best or choice.chosen < 0 or not choice.below > choice.uniform:
        consider(&choice, 0, first - total)
    return choice.chosen


cdef void trace(
    Run* run, bint is_best, const double* uniforms, int64_t* states, Sums* sums
) noexcept nogil:
    """The segments of a path from the last to the first; they are counted if it is drawn."""
    cdef Py_ssize_t K = run.K, T = run.T, t = T - 1, k, n, later = -1, last
    cdef bint is_open
    cdef Choice choice
    while True:
        is_open = later < 0 and run.log_final == NULL
        choice = choice_of(is_best, uniforms[2 * t] if uniforms != NULL else 0.0)
        for k in range(K):
            if later < 0:
                run.after[k] = run.state[k]
            else:
                run.after[k] = run.end[t * K + k] + run.log_moves[k * K + later]
        k = choose_state(run, choice)
        if later >= 0 and not is_best:
            sums.moves[k * K + later] += 1
        choice = choice_of(is_best, uniforms[2 * t + 1] if uniforms != NULL else 0.0)
        if is_open:
            n = choose_rows(t, k, run.log_at_least, run.alive[k] + of_first(run.going, k, T, run),
                            run.state[k], run, choice)
        else:
            n = choose_rows(t, k, run.log_durations,
                            run.first_end[t * K + k] if t < run.D else -INFINITY,
                            run.end[t * K + k], run, choice)
        if not is_best:
            if n > 0 and is_open:
                sums.open[k * run.D + n - 1] += 1
            elif n > 0:
                sums.durations[k * run.D + n - 1] += 1
            elif is_open:
                sums.beyond[k * (run.R + 1) + T] += 1
            else:
                sums.left[k * (run.R + 1) + t + 1] += 1
        later, last = k, t - n if n > 0 else -1
        while t > last:
            states[t] = k
            t -= 1
        if n == 0:
            return
        if t < 0:
            break
    # The segment that ended before the first row.
    choice = choice_of(is_best, uniforms[0] if uniforms != NULL else 0.0)
    for k in range(K):
        run.after[k] = of_first(run.first, k, 0, run) + run.log_moves[k * K + later]
    k = choose_state(run, choice)
    if not is_best:
        sums.moves[k * K + later] += 1
        sums.left[k * (run.R + 1)] += 1


def viterbi(
    const floating[:, ::1] log_densities,   # IN (n, K)
    const int64_t[::1] offsets,             # IN (S + 1,)
    tuple chain,                            # IN, see `Chain`
    double[::1] log_probabilities,          # OUT (S,): log p(v, best path)
    int64_t[::1] states,                    # OUT (n,), 0 where a sequence is impossible
):
    """The most probable path of segments, whatever an open one has after the last row."""
    cdef Py_ssize_t S = log_probabilities.shape[0], s
    cdef Py_ssize_t most = longest_of(&offsets[0], offsets.shape[0], S, log_densities.shape[0])
    cdef Chain walked = Chain(most, *chain)
    cdef Run* run = &walked.run
    require(run.K == log_densities.shape[1] and states.shape[0] == log_densities.shape[0],
            "states of all rows")
    for s in range(S):
        walked.begin_with(s, offsets[s + 1] - offsets[s])
        with nogil:
            forward(&log_densities[offsets[s], 0], run, True)
            log_probabilities[s] = run.log_likelihood + run.reference
            if run.log_likelihood > -INFINITY:
                trace(run, True, NULL, &states[offsets[s]], NULL)
            else:
                memset(&states[offsets[s]], 0, run.T * sizeof(int64_t))


# Under the model itself
# ----------------------

def renewals(
    const double[:, ::1] first,         # IN (K, R + 1), p(state, rows left to the first segment)
    const double[::1] going,            # IN (K,), p(state, at least one row is left)
    const double[:, ::1] transmat,      # IN (K, K)
    const double[:, ::1] durations,     # IN (K, D)
    const int64_t[::1] lengths,         # IN (L,), in order: different lengths of sequences
    const double[::1] shares,           # IN (L,), of the sequences with at least these
    double[::1] left,                   # INOUT (K,): segments that end before the last row
    double[::1] rows,                   # INOUT (K,): rows
):
    """Add how often segments of each state end, and how many rows are theirs, a sequence."""
    cdef Py_ssize_t K = durations.shape[0], D = durations.shape[1], R = first.shape[1] - 1
    cdef Py_ssize_t L = lengths.shape[0], t = 0, i = 0, k, r, head = 0, still = 0
    require(K > 0 and R <= D and first.shape[0] == K == transmat.shape[0] == transmat.shape[1]
            and left.shape[0] == K == rows.shape[0] == going.shape[0] and shares.shape[0] == L,
            "states")
    # Numbers of segments by the rows that are left, of the present row from `head` on.
    cdef double[:, ::1] rest = np.zeros((K, 2 * D + 1))
    cdef double[::1] mass = np.zeros(K), begin = np.zeros(K), end = np.zeros(K), last = np.zeros(K)
    cdef double share, change, most
    if L == 0:
        return
    with nogil:
        for k in range(K):
            end[k] = first[k, 0]
            left[k] += shares[0] * first[k, 0]
            for r in range(R):
                rest[k, r] = first[k, r + 1]
            mass[k] = going[k]
        while i < L:
            # The share of the sequences that have this row, and the next one.
            share = shares[i]
            change = most = 0.0
            for k in range(K):
                begin[k] = 0.0
                for r in range(K):
                    begin[k] += end[r] * transmat[r, k]
                change = max(change, fabs(begin[k] - last[k]))
                most = max(most, begin[k])
                last[k] = begin[k]
            still = still + 1 if change <= LEAST_CHANGE * most else 0
            if head == D:
                head = 0
                for k in range(K):
                    memcpy(&rest[k, 0], &rest[k, D], D * sizeof(double))
                    memset(&rest[k, D], 0, (D + 1) * sizeof(double))
            for k in range(K):
                if begin[k] > 0.0:
                    add_multiple(begin[k], &durations[k, 0], D, &rest[k, head])
                mass[k] = max(mass[k] + begin[k], 0.0)
                rows[k] += share * mass[k]
                end[k] = rest[k, head]
                mass[k] -= end[k]
            t, head = t + 1, head + 1
            if t == lengths[i]:
                i += 1
            if i == L:
                break
            for k in range(K):
                left[k] += shares[i] * end[k]
            if still > D:
                # Nothing changes: rows from here on, and segments that end before the last one.
                share = -shares[i]
                for r in range(i, L):
                    share += shares[r] * (lengths[r] - max(t, lengths[r - 1] if r > 0 else 0))
                for k in range(K):
                    left[k] += share * end[k]
                    rows[k] += (share + shares[i]) * (mass[k] + begin[k])
                break


def _log(probabilities):
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
