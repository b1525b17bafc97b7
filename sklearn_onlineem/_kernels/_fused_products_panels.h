/* Included by `_fused_products.h` once for each kind of VECTOR.
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
