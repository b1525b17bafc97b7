/* What one core can do: see floors.py. */
#include <stdint.h>
#include <string.h>

#if defined __AVX512F__
#define N_BYTES 64
#elif defined __AVX__
#define N_BYTES 32
#else
#define N_BYTES 16
#endif
#define N_SUMS 12 /* independent ones, so that no multiplication waits for another */

typedef double vector __attribute__((vector_size(N_BYTES)));

/* Multiply and add in so many rounds; returns how many times, in numbers. */
double multiply_add(int64_t n_rounds, double *result)
{
    vector sums[N_SUMS], factor, term;
    for (int i = 0; i < N_BYTES / 8; i++) {
        factor[i] = 0.999 + *result;
        term[i] = 1e-3 + *result;
    }
    for (int j = 0; j < N_SUMS; j++)
        sums[j] = term * j;
    for (int64_t n = 0; n < n_rounds; n++)
        for (int j = 0; j < N_SUMS; j++)
            sums[j] = sums[j] * factor + term;
    for (int j = 1; j < N_SUMS; j++)
        sums[0] += sums[j];
    *result = sums[0][0];
    return (double)n_rounds * N_SUMS * (N_BYTES / 8);
}

/* exp(x) = 2^n exp(r), by a polynomial of degree 11, for x in [-700, 700]. */
static inline double exponential(double x)
{
    const double magic = 6755399441055744.0;
    double shifted = x * 1.4426950408889634 + magic, n = shifted - magic;
    double r = (x - n * 0.6931471803691238) - n * 1.9082149292705878e-10;
    double q = 2.505210838544172e-08;
    q = q * r + 2.755731922398589e-07;
    q = q * r + 2.755731922398589e-06;
    q = q * r + 2.48015873015873e-05;
    q = q * r + 1.984126984126984e-04;
    q = q * r + 1.388888888888889e-03;
    q = q * r + 8.333333333333333e-03;
    q = q * r + 4.1666666666666664e-02;
    q = q * r + 1.6666666666666666e-01;
    q = q * r + 0.5;
    int64_t bits;
    memcpy(&bits, &shifted, 8);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    double power;
    memcpy(&power, &bits, 8);
    return (1.0 + (r + r * r * q)) * power;
}

void exponentials(int64_t n_rounds, int64_t n, const double *restrict x, double *restrict y)
{
    for (int64_t round = 0; round < n_rounds; round++) {
        for (int64_t i = 0; i < n; i++)
            y[i] = exponential(x[i]);
        __asm__ volatile("" : : "r"(y) : "memory");
    }
}

void copy(int64_t n, const double *restrict x, double *restrict y)
{
    memcpy(y, x, n * sizeof *x);
    __asm__ volatile("" : : "r"(y) : "memory");
}
