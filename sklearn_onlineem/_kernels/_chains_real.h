/* For each REAL, as `_chains.h` says. */

/* max_k x_k */
SIMD_INLINE REAL NAMED(largest_of)(const REAL *x, ptrdiff_t K)
{
    REAL best[8], most = x[0];
    ptrdiff_t k = 0;
    if (K >= 8) {
        for (int l = 0; l < 8; l++) best[l] = x[l];
        for (k = 8; k + 8 <= K; k += 8)
            for (int l = 0; l < 8; l++) best[l] = x[k + l] > best[l] ? x[k + l] : best[l];
        for (int l = 0; l < 8; l++) most = best[l] > most ? best[l] : most;
    }
    for (; k < K; k++) most = x[k] > most ? x[k] : most;
    return most;
}

/* density (T, W) <- exp(x - largest_t), at least exp(LOWEST_LOG) unless x = -inf; largest_t, the
 * row's maximum, is 0 where all are -inf. */
SIMD_INLINE void NAMED(emissions_of)(
    const REAL *RESTRICT x, ptrdiff_t T, const ptrdiff_t K, const ptrdiff_t W,
    double *RESTRICT density, double *RESTRICT largest)
{
    for (ptrdiff_t t = 0; t < T; t++) {
        REAL most = NAMED(largest_of)(x + t * K, K);
        largest[t] = most == -INFINITY ? 0 : most;
        for (ptrdiff_t k = 0; k < K; k++) {
            double below = x[t * K + k] - largest[t];
            density[t * W + k] = below > LOWEST_LOG || below == -INFINITY ? below : LOWEST_LOG;
        }
        for (ptrdiff_t k = K; k < W; k++) density[t * W + k] = -INFINITY;
    }
    for (ptrdiff_t i = 0; i < T * W; i++) density[i] = exp_double(density[i]);
}

SIMD_CLONES SIMD_UNUSED static void NAMED(emissions)(
    const REAL *x, ptrdiff_t T, ptrdiff_t K, ptrdiff_t W, double *density, double *largest)
{
    switch (K) {
    case 2: NAMED(emissions_of)(x, T, 2, 4, density, largest); break;
    case 3: NAMED(emissions_of)(x, T, 3, 4, density, largest); break;
    case 4: NAMED(emissions_of)(x, T, 4, 4, density, largest); break;
    default: NAMED(emissions_of)(x, T, K, W, density, largest);
    }
}
