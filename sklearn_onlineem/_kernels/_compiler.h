/* What compilers have to be told, in words that all of them understand. */
#pragma once

/* `target_clones` compiles a function for several instruction sets, and the widest that the CPU has
 * is picked at load time: one binary serves all CPUs. Clones need ifunc, which glibc has and musl,
 * macOS and Windows have not. A portable build has none, as on other processors. */
#if !defined(SKLEARN_ONLINEEM_PORTABLE) && defined(__x86_64__) && defined(__linux__) \
    && defined(__GLIBC__) && defined(__GNUC__) \
    && (!defined(__clang__) || __clang_major__ >= 14)
#define SIMD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SIMD_CLONES
#endif

/* What GCC, clang and MSVC all know, in C and in C++. */
#define RESTRICT __restrict

#if defined(__GNUC__)
#define SIMD_INLINE static inline __attribute__((always_inline))
#define SIMD_UNUSED __attribute__((unused))
#define RARELY(x) __builtin_expect(!!(x), 0)
#define FETCH(x) __builtin_prefetch(x)
#else
#define SIMD_INLINE static inline
#define SIMD_UNUSED
#define RARELY(x) (x)
#define FETCH(x) ((void)0)
#endif

/* f_float or f_double, as x points to: a function of both types has its one name by a macro that says
 * this, and Cython knows it by that name, for `reals` (`_simd.pxd`). */
#define OF_REAL(f, x) _Generic(*(x), float: f##_float, double: f##_double)

/* Functions between OPTIMISE_BEGIN(option) and OPTIMISE_END are compiled with one more option,
 * which only GCC needs. Two such options are in use, and neither changes a value:
 *
 * - SELECTS: nobody looks at floating-point exception flags, and only for their sake would GCC
 *   refuse to turn `a < b ? c : d` into a select;
 * - WHOLE_TILES: loops over a tile are vectors as they stand, and GCC would rather put these
 *   together from pieces. */
#define SELECTS "no-trapping-math"
#define WHOLE_TILES "no-tree-slp-vectorize"

#if defined(__GNUC__) && !defined(__clang__)
#define COMPILER_PRAGMA(text) _Pragma(#text)
#define OPTIMISE_BEGIN(option) \
    COMPILER_PRAGMA(GCC push_options) COMPILER_PRAGMA(GCC optimize(option))
#define OPTIMISE_END COMPILER_PRAGMA(GCC pop_options)
/* Before a loop: how often it is unrolled before it is vectorised; that its rounds are independent,
 * which with many arrays GCC would not dare to assume. */
#define UNROLL(n) COMPILER_PRAGMA(GCC unroll n)
#define INDEPENDENT COMPILER_PRAGMA(GCC ivdep)
#else
#define OPTIMISE_BEGIN(option)
#define OPTIMISE_END
#define UNROLL(n)
#define INDEPENDENT
#endif
