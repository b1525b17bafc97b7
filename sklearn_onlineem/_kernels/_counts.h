/* The loops of `_counts_rows.h` for float and double, 32-bit and 64-bit indices. */
#ifndef SKLEARN_ONLINEEM_COUNTS_H
#define SKLEARN_ONLINEEM_COUNTS_H

#include "_simd.h"

/* Components that a register of 512 bits holds. */
#define COUNTS_TILE 8

#define REAL float
#define INDEX int32_t
#define NAMED(name) name##_float_32
#include "_counts_rows.h"
#undef INDEX
#undef NAMED

#define INDEX int64_t
#define NAMED(name) name##_float_64
#include "_counts_rows.h"
#undef REAL
#undef INDEX
#undef NAMED

#define REAL double
#define INDEX int32_t
#define NAMED(name) name##_double_32
#include "_counts_rows.h"
#undef INDEX
#undef NAMED

#define INDEX int64_t
#define NAMED(name) name##_double_64
#include "_counts_rows.h"
#undef REAL
#undef INDEX
#undef NAMED

#endif
