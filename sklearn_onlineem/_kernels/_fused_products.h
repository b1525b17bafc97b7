/* Matrix products with the features x_i x_j, i <= j, which are never stored; with i = 0 alone and
 * x_0 = 1 these are the x_j themselves.
 *
 * BLAS must be given all features, copies them into an order of its own, and has little to do with
 * each where components are few. Here a feature is formed in a register and used at once for a
 * panel of components, whose accumulators stay in registers too.
 *
 * Only fused multiply-adds make that worth while. They are asked for by name, in functions compiled
 * for CPUs that have them. As with BLAS, the last bits depend on the CPU.
 */
#ifndef SKLEARN_ONLINEEM_FUSED_PRODUCTS_H
#define SKLEARN_ONLINEEM_FUSED_PRODUCTS_H

#include <stddef.h>

/* Two of the widest vectors: the bytes of a row that are handled at a time. */
#define FUSED_STEP 128

/* MinGW cannot align vectors on its stack. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32) \
    && !defined(SKLEARN_ONLINEEM_PORTABLE)

#include <immintrin.h>

/* Of AVX-512's 32 registers the accumulators of a panel take 24, of AVX2's 16 they take 12. */
#define PANELS_OF_12(CASE) \
    PANELS_OF_6(CASE) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#define PANELS_OF_6(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)

#define TARGET __attribute__((target("avx512f")))
#define ACROSS OP(reduce_add)
#define MOST_PANEL 12
#define PANELS PANELS_OF_12

#define REAL float
#define VECTOR __m512
#define PER_VECTOR 16
#define OP(name) _mm512_##name##_ps
#define NAMED(name) name##_float_avx512
#include "_fused_products.h"

#define REAL double
#define VECTOR __m512d
#define PER_VECTOR 8
#define OP(name) _mm512_##name##_pd
#define NAMED(name) name##_double_avx512
#include "_fused_products.h"

#undef TARGET
#undef ACROSS
#undef MOST_PANEL
#undef PANELS
#define TARGET __attribute__((target("avx2,fma")))
#define ACROSS NAMED(across)
#define MOST_PANEL 6
#define PANELS PANELS_OF_6

#define REAL float
#define VECTOR __m256
#define PER_VECTOR 8
#define OP(name) _mm256_##name##_ps
#define NAMED(name) name##_float_avx2
#include "_fused_products.h"

#define REAL double
#define VECTOR __m256d
#define PER_VECTOR 4
#define OP(name) _mm256_##name##_pd
#define NAMED(name) name##_double_avx2
#include "_fused_products.h"

#undef TARGET
#undef ACROSS
#undef MOST_PANEL
#undef PANELS

static int can_fuse(void)
{
    return __builtin_cpu_supports("avx512f")
        || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}

/* Of a function, that for what x points to and for this CPU. */
#define OF_VECTOR(f, x, isa) _Generic(*(x), float: f##_float##isa, double: f##_double##isa)
#define WIDEST(f, x) \
    (__builtin_cpu_supports("avx512f") ? OF_VECTOR(f, x, _avx512) : OF_VECTOR(f, x, _avx2))

/* out (K, B) <- sum_{i<=j} parameters (ij, K) x_i x_j for i < n_left, x (d, B). Up to the end of a
 * step, columns beyond B are read and written. */
#define fused_forms(x, ...) WIDEST(fused_forms, x)(x, __VA_ARGS__)

/* sums (ij, K) += sum_b r_kb x_ib x_jb for i < n_left, x (d, B), r (K, B). Up to the end of a step,
 * columns beyond B must be zero. */
#define fused_sums(x, ...) WIDEST(fused_sums, x)(x, __VA_ARGS__)

#else

static int can_fuse(void) { return 0; }

#define fused_forms(...) ((void)0)
#define fused_sums(...) ((void)0)

#endif

#elif defined(VECTOR)

/* For each kind of VECTOR.
 *
 * A panel of P components has two vectors of accumulators for each. P is a constant wherever these
 * functions are inlined: their loops over it unroll, and their arrays become registers.
 */
#define INLINE static inline __attribute__((always_inline)) TARGET

/* Two vectors of columns, one panel of components. */
INLINE void NAMED(forms_of_panel)(
    const REAL *x, ptrdiff_t d, ptrdiff_t n_left, ptrdiff_t stride, const REAL *parameters,
    ptrdiff_t K, REAL *out,
    const int P)
{
    VECTOR sums[MOST_PANEL][2];
    for (int k = 0; k < P; k++) sums[k][0] = sums[k][1] = OP(setzero)();
    for (ptrdiff_t i = 0; i < n_left; i++) {
        VECTOR left[2] = {OP(loadu)(x + i * stride), OP(loadu)(x + i * stride + PER_VECTOR)};
        for (ptrdiff_t j = i; j < d; j++) {
            VECTOR first = OP(mul)(left[0], OP(loadu)(x + j * stride));
            VECTOR second = OP(mul)(left[1], OP(loadu)(x + j * stride + PER_VECTOR));
            for (int k = 0; k < P; k++) {
                VECTOR parameter = OP(set1)(parameters[k]);
                sums[k][0] = OP(fmadd)(parameter, first, sums[k][0]);
                sums[k][1] = OP(fmadd)(parameter, second, sums[k][1]);
            }
            parameters += K;
        }
    }
    for (int k = 0; k < P; k++) {
        OP(storeu)(out + k * stride, sums[k][0]);
        OP(storeu)(out + k * stride + PER_VECTOR, sums[k][1]);
    }
}

INLINE double NAMED(across)(VECTOR x)
{
    REAL partial[PER_VECTOR];
    OP(storeu)(partial, x);
    for (int half = PER_VECTOR / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) partial[l] += partial[l + half];
    return partial[0];
}

/* Two products of features, one panel of components. */
INLINE void NAMED(sums_of_panel)(
    const REAL *const *left, const REAL *const *right, ptrdiff_t B, ptrdiff_t stride,
    const REAL *r, ptrdiff_t K, double *out, const int n_products, const int P)
{
    VECTOR sums[2][MOST_PANEL], product[2];
    for (int q = 0; q < n_products; q++)
        for (int k = 0; k < P; k++) sums[q][k] = OP(setzero)();
    for (ptrdiff_t b = 0; b < B; b += PER_VECTOR) {
        for (int q = 0; q < n_products; q++)
            product[q] = OP(mul)(OP(loadu)(left[q] + b), OP(loadu)(right[q] + b));
        for (int k = 0; k < P; k++) {
            VECTOR share = OP(loadu)(r + k * stride + b);
            __asm__("" : "+v"(share));  /* or GCC loads it once for each product */
            for (int q = 0; q < n_products; q++)
                sums[q][k] = OP(fmadd)(product[q], share, sums[q][k]);
        }
    }
    for (int q = 0; q < n_products; q++)
        for (int k = 0; k < P; k++) out[q * K + k] += ACROSS(sums[q][k]);
}

INLINE void NAMED(sums_by_twos)(
    const REAL *x, ptrdiff_t d, ptrdiff_t n_left, ptrdiff_t B, ptrdiff_t stride, const REAL *r,
    ptrdiff_t K, double *out, const int P)
{
    const REAL *left[2], *right[2];
    int waiting = 0;
    for (ptrdiff_t i = 0; i < n_left; i++)
        for (ptrdiff_t j = i; j < d; j++) {
            left[waiting] = x + i * stride;
            right[waiting] = x + j * stride;
            waiting = 1 - waiting;
            if (waiting == 0) {
                NAMED(sums_of_panel)(left, right, B, stride, r, K, out, 2, P);
                out += 2 * K;
            }
        }
    if (waiting) NAMED(sums_of_panel)(left, right, B, stride, r, K, out, 1, P);
}

TARGET static void NAMED(fused_forms)(
    const REAL *x, ptrdiff_t d, ptrdiff_t n_left, ptrdiff_t B, ptrdiff_t stride,
    const REAL *parameters, ptrdiff_t K, REAL *out)
{
    for (ptrdiff_t k = 0, panels = (K + MOST_PANEL - 1) / MOST_PANEL; panels > 0; panels--) {
        ptrdiff_t width = (K - k) / panels;
        for (ptrdiff_t b = 0; b < B; b += 2 * PER_VECTOR)
            switch (width) {
#define CASE(P) case P: \
                NAMED(forms_of_panel)( \
                    x + b, d, n_left, stride, parameters + k, K, out + k * stride + b, P); \
                break;
                PANELS(CASE)
#undef CASE
            }
        k += width;
    }
}

TARGET static void NAMED(fused_sums)(
    const REAL *x, ptrdiff_t d, ptrdiff_t n_left, ptrdiff_t B, ptrdiff_t stride, const REAL *r,
    ptrdiff_t K, double *out)
{
    for (ptrdiff_t k = 0, panels = (K + MOST_PANEL - 1) / MOST_PANEL; panels > 0; panels--) {
        ptrdiff_t width = (K - k) / panels;
        switch (width) {
#define CASE(P) case P: \
            NAMED(sums_by_twos)(x, d, n_left, B, stride, r + k * stride, K, out + k, P); \
            break;
            PANELS(CASE)
#undef CASE
        }
        k += width;
    }
}

#undef INLINE
#undef REAL
#undef VECTOR
#undef PER_VECTOR
#undef OP
#undef NAMED

#endif
