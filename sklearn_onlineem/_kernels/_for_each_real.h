/* Includes TEMPLATE, the name of a header in quotes, for float and for double.
 *
 * A header with functions for both names itself, and has them below `#elif defined(REAL)`: they say
 * REAL, and NAMED(f) where f_float and f_double are meant. No guard: every such header needs this
 * file once.
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
