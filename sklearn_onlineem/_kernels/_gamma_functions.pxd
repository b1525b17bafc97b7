"""The gamma function's logarithm and derivatives, and their differences without lost digits.

Arguments are lifted to `ASYMPTOTIC` by the recurrences, and from there on Stirling's series have
the precision of a double.
"""

from libc.math cimport log, log1p

cdef extern from *:
    """
    #include <math.h>
    /* lgamma writes the sign to a variable that all threads share. */
    static inline double log_gamma(double x)
    {
    #if defined(__GNUC__) && !defined(_WIN32)
        int sign;
        return __builtin_lgamma_r(x, &sign);
    #else
        return lgamma(x);
    #endif
    }
    """
    double log_gamma(double x) noexcept nogil

cdef enum:
    ASYMPTOTIC = 10
    MOST_FACTORS = 16   # of a product, above which series are faster


# log Gamma and its first two derivatives.
cdef struct Polygamma:
    double log_gamma
    double digamma
    double trigamma


# log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2, from r = 1/x.
cdef inline double stirling(double r) noexcept nogil:
    cdef double s = r * r
    return r * (1 / 12. - s * (1 / 360. - s * (1 / 1260. - s * (1 / 1680. - s * (
        1 / 1188. - s * (691 / 360360. - s / 156.))))))


# log x - psi(x), from r = 1/x.
cdef inline double digamma_tail(double r) noexcept nogil:
    cdef double s = r * r
    return 0.5 * r + s * (1 / 12. - s * (1 / 120. - s * (1 / 252. - s * (1 / 240. - s * (
        1 / 132. - s * (691 / 32760. - s / 12.))))))


cdef inline double trigamma_series(double r) noexcept nogil:
    cdef double s = r * r
    return r + 0.5 * s + r * s * (1 / 6. - s * (1 / 30. - s * (1 / 42. - s * (1 / 30. - s * (
        5 / 66. - s * (691 / 2730. - s * (7 / 6.)))))))


cdef inline Polygamma polygamma(double x) noexcept nogil:
    """Of x > 0."""
    # With p = x (x + 1) ..., p'/p and (p'/p)^2 - p''/p are the sums of 1 / (x + i) and its square.
    cdef double p = 1, p1 = 0, p2 = 0, r, log_x
    cdef Polygamma result
    while x < ASYMPTOTIC:
        p2 = p2 * x + 2 * p1
        p1 = p1 * x + p
        p *= x
        x += 1
    r = 1 / p
    p1 *= r
    p2 *= r
    r = 1 / x
    log_x = log(x)
    result.log_gamma = (x - 0.5) * log_x - x + 0.91893853320467274178 + stirling(r) - log(p)
    result.digamma = log_x - digamma_tail(r) - p1
    result.trigamma = trigamma_series(r) + (p1 * p1 - p2)
    return result


cdef inline double log_rising(double x, double h) noexcept nogil:
    """log Gamma(x + h) - log Gamma(x), for x > 0 and x + h > 0."""
    cdef double product = 1
    while x < ASYMPTOTIC or x + h < ASYMPTOTIC:
        product *= x / (x + h)
        x += 1
    cdef double y = x + h
    return (x - 0.5) * log1p(h / x) + h * log(y) - h + stirling(1 / y) - stirling(1 / x) + log(
        product)


cdef inline double log_term(double a, double c) noexcept nogil:
    """log Gamma(a + c) - log Gamma(a) - log Gamma(c + 1), for a > 0 and c > 0."""
    cdef double product = a
    cdef int i
    if c <= MOST_FACTORS and c == <int> c:
        for i in range(1, <int> c):
            product *= (a + i) / (i + 1)
        return log(product)
    # The smaller of both is added to the larger, so that the digits of the difference are its own.
    if c <= a:
        return log_rising(a, c) - log_gamma(c + 1)
    return log_rising(c + 1, a - 1) - log_gamma(a)


cdef inline double digamma_difference(double a, double c) noexcept nogil:
    """psi(a + c) - psi(a), for a > 0 and c > 0."""
    cdef double result = 0
    cdef int i
    if c <= MOST_FACTORS and c == <int> c:
        for i in range(<int> c):
            result += 1 / (a + i)
        return result
    while a < ASYMPTOTIC:
        result += c / (a * (a + c))
        a += 1
    return result + log1p(c / a) + digamma_tail(1 / a) - digamma_tail(1 / (a + c))


cdef inline double trigamma_difference(double a, double c) noexcept nogil:
    """psi'(a) - psi'(a + c), for a > 0 and c > 0."""
    cdef double result = 0
    cdef int i
    if c <= MOST_FACTORS and c == <int> c:
        for i in range(<int> c):
            result += 1 / ((a + i) * (a + i))
        return result
    return polygamma(a).trigamma - polygamma(a + c).trigamma
