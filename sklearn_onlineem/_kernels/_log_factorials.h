/* Counts that are small integers, for float and double. */
#ifndef SKLEARN_ONLINEEM_LOG_FACTORIALS_H
#define SKLEARN_ONLINEEM_LOG_FACTORIALS_H

#include "_simd.h"

OPTIMISE_BEGIN(SELECTS)

#define TEMPLATE "_log_factorials_real.h"
#include "_for_each_real.h"

OPTIMISE_END

#endif
