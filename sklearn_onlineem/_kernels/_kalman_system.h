/* A linear dynamical system as the kernels of the Kalman filter take it,
 *
 *     h_t = A h_t-1 + b + N(0, Q),    v_t = C h_t + offset + N(0, R).
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_SYSTEM_H
#define SKLEARN_ONLINEEM_KALMAN_SYSTEM_H

#include "_kalman_matrices.h"

typedef struct {
    ptrdiff_t k, W, d;    /* states; what they are padded to; values of a row */
    const double *A;      /* (W, W), and its transpose */
    const double *At;
    const double *b;      /* (W,) */
    const double *Q;      /* (W, W) */
    const double *C;      /* (d, W) */
    const double *offset; /* (d,) */
    const double *R;      /* (d, d) */
} System;

/* Doubles of a mean and its covariance, one after the other. */
SIMD_INLINE ptrdiff_t state_size(ptrdiff_t W) { return W + W * W; }

#endif
