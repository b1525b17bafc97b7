/* For each REAL, as `_small_forms.h` says. */

#if MOST_SMALL > 0

typedef REAL NAMED(vector)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));
#define VECTOR NAMED(vector)
#define PER_VECTOR (VECTOR_BYTES / (ptrdiff_t)sizeof(REAL))

/* out (B,) <- offset - |P' (x - mean)|^2 / 2, x (d, B), P (d, d) with zeros below the diagonal.
 * Columns up to a whole vector are read and written. */
SIMD_CLONES SIMD_UNUSED static void NAMED(small_forms)(
    const REAL *x, ptrdiff_t B, ptrdiff_t d, ptrdiff_t stride, const double *mean, const REAL *P,
    double offset, REAL *out)
{
    VECTOR y[MOST_SMALL];
    for (ptrdiff_t b = 0; b < B; b += PER_VECTOR) {
        VECTOR total = {0};
        ptrdiff_t i = 0;
        for (ptrdiff_t j = 0; j < d; j++)
            for (ptrdiff_t lane = 0; lane < PER_VECTOR; lane++)
                y[j][lane] = (REAL)(x[j * stride + b + lane] - mean[j]);
        for (; i + 4 <= d; i += 4) {
            VECTOR z0 = {0}, z1 = {0}, z2 = {0}, z3 = {0};
            const REAL *p = P + i;
            for (ptrdiff_t j = 0; j < i + 4; j++, p += d) {
                z0 += p[0] * y[j];
                z1 += p[1] * y[j];
                z2 += p[2] * y[j];
                z3 += p[3] * y[j];
            }
            total += (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3);
        }
        for (; i < d; i++) {
            VECTOR z = {0};
            for (ptrdiff_t j = 0; j <= i; j++) z += P[j * d + i] * y[j];
            total += z * z;
        }
        for (ptrdiff_t lane = 0; lane < PER_VECTOR; lane++)
            out[b + lane] = (REAL)(offset - 0.5 * total[lane]);
    }
}

/* sums (d, d) += x' x, x (n, d); the upper triangle, with some of the rest.
 * A vector past the end of x is read. */
SIMD_CLONES SIMD_UNUSED static void NAMED(small_products)(
    const REAL *x, ptrdiff_t n, ptrdiff_t d, double *sums)
{
    for (ptrdiff_t i = 0; i < d; i += 4)
        for (ptrdiff_t j = i / PER_VECTOR * PER_VECTOR; j < d; j += PER_VECTOR) {
            VECTOR tile[4] = {{0}};
            const REAL *row = x;
            for (ptrdiff_t b = 0; b < n; b++, row += d) {
                VECTOR right = *(const VECTOR *)(row + j);
                tile[0] += row[i] * right;
                tile[1] += row[i + 1] * right;
                tile[2] += row[i + 2] * right;
                tile[3] += row[i + 3] * right;
            }
            for (ptrdiff_t k = 0; k < 4 && i + k < d; k++)
                for (ptrdiff_t lane = 0; lane < PER_VECTOR && j + lane < d; lane++)
                    sums[(i + k) * d + j + lane] += tile[k][lane];
        }
}

#undef VECTOR
#undef PER_VECTOR

#else

static void NAMED(small_forms)(
    const REAL *x, ptrdiff_t B, ptrdiff_t d, ptrdiff_t stride, const double *mean, const REAL *P,
    double offset, REAL *out)
{
}

static void NAMED(small_products)(const REAL *x, ptrdiff_t n, ptrdiff_t d, double *sums) {}

#endif
