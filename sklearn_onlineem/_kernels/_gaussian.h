/* Loops of centred Gaussians over the rows of a block, for float and double. */
#ifndef SKLEARN_ONLINEEM_GAUSSIAN_H
#define SKLEARN_ONLINEEM_GAUSSIAN_H

#include "_simd.h"

/* x - mean, correctly rounded but for the last bit, without leaving float for double.
 *
 * The mean is the sum of two floats. Taking off the first is exact where x is so close to it that
 * the second matters. */
SIMD_INLINE float residual_float(float x, double mean)
{
    return (x - (float)mean) - (float)(mean - (float)mean);
}

SIMD_INLINE double residual_double(double x, double mean) { return x - mean; }

#define TEMPLATE "_gaussian_real.h"
#include "_for_each_real.h"

#endif
