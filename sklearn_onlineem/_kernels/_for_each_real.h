/* Includes TEMPLATE, the name of a header in quotes, for float and for double.
 *
 * A template `_x_real.h` says REAL, and NAMED(f) where f_float and f_double are meant. It is
 * included here only, on behalf of `_x.h`. No guard: every template needs this file once.
 */
#define REAL float
#define NAMED(name) name##_float
#include TEMPLATE
#undef REAL
#undef NAMED

#define REAL double
#define NAMED(name) name##_double
#include TEMPLATE
#undef REAL
#undef NAMED

#undef TEMPLATE
