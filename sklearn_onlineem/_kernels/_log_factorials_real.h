/* For each REAL: integers up to a limit. */

/* out (n,) <- x, cut to [0, largest]; return whether nothing was lost. NaN is cut to 0,
 * and lost. */
SIMD_CLONES SIMD_UNUSED static int NAMED(small_counts)(
    const REAL *RESTRICT x, ptrdiff_t n, int32_t largest, int32_t *RESTRICT out)
{
    int32_t lost = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        REAL count = x[i] > 0 ? x[i] : 0;
        count = count < (REAL)largest ? count : (REAL)largest;
        out[i] = (int32_t)count;
        lost |= (REAL)out[i] != x[i];
    }
    return !lost;
}
