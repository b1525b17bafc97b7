/* For each REAL, as `_counts.h` says: for 32-bit and 64-bit indices, and sums of double or REAL. */

#define INDEX int32_t
#define INDEXED(name) NAMED(name##_32)
#include "_counts_gather.h"
#define SUM double
#include "_counts_scatter.h"
#undef SUM
#undef INDEXED
#define INDEXED(name) NAMED(name##_single_32)
#define SUM REAL
#include "_counts_scatter.h"
#undef SUM
#undef INDEXED
#undef INDEX

#define INDEX int64_t
#define INDEXED(name) NAMED(name##_64)
#include "_counts_gather.h"
#define SUM double
#include "_counts_scatter.h"
#undef SUM
#undef INDEXED
#define INDEXED(name) NAMED(name##_single_64)
#define SUM REAL
#include "_counts_scatter.h"
#undef SUM
#undef INDEXED
#undef INDEX
