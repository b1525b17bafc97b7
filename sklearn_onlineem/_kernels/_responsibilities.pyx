"""From log joint densities to responsibilities, log-likelihoods and sampled assignments.

A block holds a column for each observation n and a row for each component k:

    log p(x_n) = log sum_k p(k, x_n),   r_kn = s_n p(k, x_n) / p(x_n)

with s_n the sample weight. A labelled observation has the joint density of its label alone. In
stochastic EM, r_n is replaced by a one-hot assignment drawn from it.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, log
from numpy cimport NPY_DOUBLE, ndarray

from ._arrays cimport extent, readable, require, writable

from _simd_h cimport add_log, exp_columns, scale_columns, transpose

cdef enum:
    UNLABELLED = -1
    BLOCK = 256


cdef double finish_block(
    floating* joint, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const Task* task,
    Py_ssize_t start, floating* scratch,
) noexcept nogil:
    cdef double log_likelihood = 0
    cdef Py_ssize_t k, b
    if task.given != NULL:
        transpose(<const floating*> task.given + start * K, B, K, K, joint, stride)
    if task.normalised:
        log_likelihood = normalise_columns(joint, K, B, stride, task, start, scratch)
    elif task.base != NULL:
        for k in range(K):
            for b in range(B):
                joint[k * stride + b] += <floating> task.base[start + b]
    if task.out != NULL:
        transpose(joint, K, B, stride, <floating*> task.out + start * K, K)
    return log_likelihood


cdef double normalise_columns(
    floating* log_joint, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const Task* task,
    Py_ssize_t start, floating* scratch,
) noexcept nogil:
    """Normalise over components; return sum_n s_n log p(x_n)."""
    cdef const int* labels = task.labels + start if task.labels != NULL else NULL
    cdef floating* maximum = scratch
    cdef floating* total = scratch + B
    cdef Py_ssize_t b
    cdef double weight
    if labels != NULL:
        keep_labels(log_joint, K, B, stride, labels)
    exp_columns(log_joint, K, B, stride, maximum, total)
    for b in range(B):
        if total[b] == 0:
            maximum[b] = -INFINITY
            total[b] = spread(log_joint + b, K, stride, labels[b] if labels != NULL else UNLABELLED)
    cdef floating* marginal = maximum
    add_log(marginal, total, B)
    if task.uniforms != NULL:
        draw(log_joint, K, B, stride, task.uniforms + start, total)
    cdef double result = weighted_sum(marginal, B, task, start)
    for b in range(B):
        weight = task.sample_weight[start + b] if task.sample_weight != NULL else 1.0
        total[b] = <floating> (weight / total[b])
    scale_columns(log_joint, K, B, stride, total)
    return result


cdef void keep_labels(
    floating* log_joint, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const int* labels
) noexcept nogil:
    cdef Py_ssize_t b, k
    for b in range(B):
        if labels[b] != UNLABELLED:
            for k in range(K):
                if k != labels[b]:
                    log_joint[k * stride + b] = -INFINITY


cdef Py_ssize_t spread(floating* column, Py_ssize_t K, Py_ssize_t stride, int label) noexcept nogil:
    """Share a column that nothing explains among all, or give it to its label; return its sum."""
    cdef Py_ssize_t k
    for k in range(K):
        column[k * stride] = label == UNLABELLED or label == k
    return K if label == UNLABELLED else 1


cdef void draw(
    floating* shares, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const double* uniforms,
    floating* total,
) noexcept nogil:
    """Replace columns of positive shares by one-hot ones, by inversion of their cumulative sums."""
    cdef Py_ssize_t b, k, drawn
    cdef double left
    for b in range(B):
        left = uniforms[b] * total[b]
        drawn = -1
        for k in range(K):
            # A share of zero is never drawn, not even where rounding leaves `left` beyond the last.
            if shares[k * stride + b] > 0 and (drawn < 0 or left >= 0):
                drawn = k
            left -= shares[k * stride + b]
            shares[k * stride + b] = 0
        # Nothing is drawn where no share is above 0: not a number, or a label of no component.
        if drawn >= 0:
            shares[drawn * stride + b] = 1
        total[b] = 1


cdef double weighted_sum(
    const floating* marginal, Py_ssize_t B, const Task* task, Py_ssize_t start
) noexcept nogil:
    cdef double log_likelihood, result = 0
    cdef Py_ssize_t b
    for b in range(B):
        log_likelihood = marginal[b]
        if task.base != NULL:
            log_likelihood += task.base[start + b]
        if task.log_likelihoods != NULL:
            task.log_likelihoods[start + b] = log_likelihood
        if task.sample_weight == NULL:
            result += log_likelihood
        elif task.sample_weight[start + b] != 0:  # 0 * -inf would be NaN
            result += task.sample_weight[start + b] * log_likelihood
    return result


def normalise(
    floating[:, ::1] log_joint,     # INOUT (n, K): log joint -> responsibilities
    tuple task,                     # IN, OUT: see `Task`
):
    """Normalise in place, for families written in Python; return sum_n s_n log p(x_n)."""
    cdef Py_ssize_t n = log_joint.shape[0], K = log_joint.shape[1]
    cdef Py_ssize_t i, start, B, stride = min(n, BLOCK)
    cdef floating[:, ::1] block = np.empty((K + 2, stride), np.asarray(log_joint).dtype)
    cdef double log_likelihood = 0
    cdef Task wanted = task_of(task, n, K, NPY_DOUBLE)
    require(K > 0 and wanted.normalised, "components; nothing else is given or wanted")
    wanted.out = &log_joint[0, 0]
    with nogil:
        for i in range((n + BLOCK - 1) // BLOCK):
            start = i * BLOCK
            B = min(n - start, BLOCK)
            transpose(&log_joint[start, 0], B, K, K, &block[0, 0], stride)
            log_likelihood += finish_block(&block[0, 0], K, B, stride, &wanted, start, &block[K, 0])
    return log_likelihood


def weights_from_counts(
    ndarray counts,     # IN (K,)
    ndarray before,     # IN (K,), weights until now
    ndarray weights,    # OUT (K,)
):
    """Weights of the M-step, shares of the counts; return False if there are no counts to share.

    A Dirichlet prior below 1 may take more than there is. The component of which it takes the most
    then loses its weight; others of which it takes too much keep theirs, as rows that were its own
    may become theirs. Those that have no weight get none of what is below 0.
    """
    cdef Py_ssize_t K = extent(counts, 0), k, weakest = -1
    cdef const double* count = readable(counts, K)
    cdef const double* old = readable(before, K)
    cdef double* weight = writable(weights, K)
    cdef double total = 0, kept = 0, share
    for k in range(K):
        if not count[k] < 0:
            total += count[k]
        elif old[k] > 0:
            kept += old[k]
            if weakest < 0 or count[k] < count[weakest]:
                weakest = k
    if weakest >= 0:
        kept -= old[weakest]
    # Where no count is above 0 those that are kept share all there is.
    if not (total > 0 or (total == 0 and kept > 0)):
        return False
    share = max(0.0, 1 - kept)
    for k in range(K):
        if count[k] > 0:
            weight[k] = share * count[k] / total
        elif count[k] < 0 and k != weakest:
            weight[k] = old[k] if total > 0 else old[k] / kept
        else:
            weight[k] = 0
    return True


def log_weights(
    ndarray weights,    # IN (K,)
    ndarray out,        # OUT (K,)
):
    """Logarithms of weights; -inf, without a warning, where there is none."""
    cdef Py_ssize_t K = extent(weights, 0), k
    cdef const double* weight = readable(weights, K)
    cdef double* logs = writable(out, K)
    for k in range(K):
        logs[k] = log(weight[k])


def joint_divergence(
    ndarray p,              # IN (K,), weights
    ndarray q,              # IN (K,), weights
    ndarray divergences,    # IN (K,), of the components
):
    """KL(p || q) jointly over components and observations: sum_k p_k (KL_k + log(p_k / q_k))."""
    cdef Py_ssize_t K = extent(p, 0), k
    cdef const double* left = readable(p, K)
    cdef const double* right = readable(q, K)
    cdef const double* divergence = readable(divergences, K)
    cdef double total = 0
    for k in range(K):
        if left[k] > 0:  # 0 log 0 = 0
            total += left[k] * (divergence[k] + log(left[k] / right[k]))
    return total
