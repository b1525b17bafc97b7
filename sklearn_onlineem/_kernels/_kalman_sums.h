/* What an E-step of linear dynamical systems sums: moments of vectors, those of which it returns
 * (its evidence), and their sums over rows, from the smoothed moments of states. */
#pragma once

#include <string.h>

#include "_arena.h"
#include "_small_matrices.h"

/* Moments of vectors: a weight, the mean, and the scatter about it. */
typedef struct {
    ptrdiff_t n;
    double *weight;  /* (1,) */
    double *mean;    /* (n,) */
    double *scatter; /* (n, n) */
} Moments;

/* Moments in the array of a caller are a weight, a mean and a scatter, one after the other. */
SIMD_INLINE ptrdiff_t moments_size(ptrdiff_t n) { return 1 + n + n * n; }

SIMD_UNUSED static Moments moments_at(double *memory, ptrdiff_t n)
{ return (Moments){n, memory, memory + 1, memory + 1 + n}; }

SIMD_UNUSED static void clear_moments(const Moments *moments)
{
    memset(moments->weight, 0, (size_t)moments_size(moments->n) * sizeof(double));
}

/* Adds vectors of the given weight and mean, whose scatter is `scale` times what is given, by the
 * parallel-axis theorem. */
SIMD_CLONES SIMD_UNUSED static void add_moments(
    double weight, const double *mean, double scale, const double *scatter, Moments *total)
{
    const ptrdiff_t n = total->n;
    if (!(weight > 0)) return;
    const double share = weight / (*total->weight + weight), factor = *total->weight * share;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double shift = mean[i] - total->mean[i];
        double *RESTRICT out = total->scatter + i * n;
        for (ptrdiff_t j = 0; j < n; j++)
            out[j] += scale * scatter[i * n + j] + factor * (shift * (mean[j] - total->mean[j]));
    }
    for (ptrdiff_t i = 0; i < n; i++) total->mean[i] += share * (mean[i] - total->mean[i]);
    *total->weight += weight;
}

/* Adds moments of vectors that were padded, without what is padding, which they lose. */
SIMD_UNUSED static void add_unpadded(const Moments *part, ptrdiff_t k, Moments *total)
{
    unpad(part->scatter, k, k, part->n, part->scatter);
    add_moments(*part->weight, part->mean, 1, part->scatter, total);
}

/* Vectors on their way to a total: moments are taken of many at a time, about their own mean. They
 * are columns, so that sums over them are sums of whole vectors. Until `finish_buffer`, the mean of
 * the total is less an origin near it, as differences of means far from 0 would lose digits. */
typedef struct {
    Moments total;
    double *origin;  /* (n,) */
    ptrdiff_t n_rows;
    double *columns; /* (n, BUFFER_STRIDE), of which BUFFER_ROWS are in use */
    double *mean;    /* (n,) */
    double *scatter; /* (n, n) */
} MomentsBuffer;

#define BUFFER_ROWS 128
/* Columns that were powers of two apart would share their places in the cache. */
#define BUFFER_STRIDE (BUFFER_ROWS + LANES)

SIMD_UNUSED static MomentsBuffer lay_out_moments_buffer(ptrdiff_t n, Arena *arena)
{
    MomentsBuffer buffer = {{n, NULL, NULL, NULL}, NULL, 0, NULL, NULL, NULL};
    take_each(arena, n, &buffer.origin, &buffer.mean);
    buffer.columns = take_doubles(arena, n * BUFFER_STRIDE);
    buffer.scatter = take_doubles(arena, n * n);
    return buffer;
}

SIMD_INLINE double mean_of(const double *column, ptrdiff_t n_rows)
{
    double sum = 0, partial[LANES] = {0};
    ptrdiff_t t = 0;
    for (; t + LANES <= n_rows; t += LANES) EACH_SEGMENT partial[s] += column[t + s];
    for (; t < n_rows; t++) partial[0] += column[t];
    for (int s = 0; s < LANES; s++) sum += partial[s];
    return sum / (double)n_rows;
}

SIMD_CLONES SIMD_UNUSED static void add_buffer(MomentsBuffer *buffer)
{
    const ptrdiff_t n = buffer->total.n, n_rows = buffer->n_rows;
    if (n_rows == 0) return;
    for (ptrdiff_t i = 0; i < n; i++) {
        double *column = buffer->columns + i * BUFFER_STRIDE;
        ptrdiff_t t;
        if (*buffer->total.weight == 0) buffer->origin[i] = mean_of(column, n_rows);
        for (t = 0; t < n_rows; t++) column[t] -= buffer->origin[i];
        const double mean = buffer->mean[i] = mean_of(column, n_rows);
        for (t = 0; t < n_rows; t++) column[t] -= mean;
        /* What is left of the last vector counts for nothing. */
        for (; t % LANES > 0; t++) column[t] = 0;
        for (ptrdiff_t j = 0; j <= i; j++) {
            const double *other = buffer->columns + j * BUFFER_STRIDE;
            double sum = 0, squares[LANES] = {0};
            for (t = 0; t < n_rows; t += LANES)
                EACH_SEGMENT squares[s] += column[t + s] * other[t + s];
            for (int s = 0; s < LANES; s++) sum += squares[s];
            buffer->scatter[i * n + j] = buffer->scatter[j * n + i] = sum;
        }
    }
    add_moments((double)n_rows, buffer->mean, 1, buffer->scatter, &buffer->total);
    buffer->n_rows = 0;
}

SIMD_UNUSED static void finish_buffer(MomentsBuffer *buffer)
{
    add_buffer(buffer);
    if (*buffer->total.weight > 0) add(buffer->origin, buffer->total.n, buffer->total.mean);
}

/* Room for n <= LANES more vectors, of which element i of number r is at i * BUFFER_STRIDE + r */
SIMD_INLINE double *next_rows(ptrdiff_t n, MomentsBuffer *buffer)
{
    if (buffer->n_rows + n > BUFFER_ROWS) add_buffer(buffer);
    buffer->n_rows += n;
    return buffer->columns + buffer->n_rows - n;
}

/* Element i of such a vector and those after it <- x (n,) */
SIMD_INLINE void put_elements(const double *x, ptrdiff_t i, ptrdiff_t n, double *vector)
{
    for (ptrdiff_t j = 0; j < n; j++) vector[(i + j) * BUFFER_STRIDE] = x[j];
}

/* From sums of deviations of (x, y) from a centre (in the place of the mean), and of their
 * products; x has n_x variables. */
SIMD_UNUSED static void centre_moments(
    const double *centre_x, ptrdiff_t n_x, const double *centre_y, Moments *moments)
{
    const ptrdiff_t n = moments->n;
    const double weight = *moments->weight;
    if (!(weight > 0)) return;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < n; j++)
            moments->scatter[i * n + j] -= moments->mean[i] * moments->mean[j] / weight;
    for (ptrdiff_t i = 0; i < n; i++)
        moments->mean[i] =
            (i < n_x ? centre_x[i] : centre_y[i - n_x]) + moments->mean[i] / weight;
}

/* What an E-step makes of sequences. */
typedef struct {
    Moments initial;     /* of first states */
    Moments transitions; /* of states, and the ones after them */
    Moments emissions;   /* of states and rows */
} Evidence;

/* That of n slabs. */
SIMD_UNUSED static Evidence *lay_out_evidence(ptrdiff_t n, ptrdiff_t k, ptrdiff_t d, Arena *arena)
{
    Evidence *slabs = (Evidence *)take(arena, n, sizeof(Evidence));
    for (ptrdiff_t i = 0; i < n; i++) {
        const ptrdiff_t first = moments_size(k), second = moments_size(2 * k);
        double *own = take_doubles(arena, first + second + moments_size(k + d));
        if (slabs)
            slabs[i] = (Evidence){moments_at(own, k), moments_at(own + first, 2 * k),
                                  moments_at(own + first + second, k + d)};
    }
    return slabs;
}

SIMD_UNUSED static void clear_evidence(const Evidence *evidence)
{
    clear_moments(&evidence->initial);
    clear_moments(&evidence->transitions);
    clear_moments(&evidence->emissions);
}

SIMD_UNUSED static void add_all(const Moments *part, Moments *total)
{
    add_moments(*part->weight, part->mean, 1, part->scatter, total);
}

SIMD_UNUSED static void add_evidence(const Evidence *part, Evidence *total)
{
    add_all(&part->initial, &total->initial);
    add_all(&part->transitions, &total->transitions);
    add_all(&part->emissions, &total->emissions);
}

/* out (n_x + n_y, n_x + n_y) <- out + (xx, yx' / yx, yy), where yy may be NULL, for 0. Rows of xx
 * and yx are `stride` apart, those of yy `stride_y`. */
SIMD_UNUSED static void add_joint(
    const double *xx, const double *yx, ptrdiff_t stride, const double *yy, ptrdiff_t stride_y,
    ptrdiff_t n_x, ptrdiff_t n_y, double *out)
{
    const ptrdiff_t n = n_x + n_y;
    for (ptrdiff_t i = 0; i < n_x; i++)
        for (ptrdiff_t j = 0; j < n_x; j++) out[i * n + j] += xx[i * stride + j];
    for (ptrdiff_t i = 0; i < n_y; i++) {
        double *row = out + (n_x + i) * n;
        for (ptrdiff_t j = 0; j < n_x; j++) {
            row[j] += yx[i * stride + j];
            out[j * n + n_x + i] += yx[i * stride + j];
        }
        for (ptrdiff_t j = 0; j < n_y; j++) row[n_x + j] += yy ? yy[i * stride_y + j] : 0;
    }
}

OPTIMISE_BEGIN(WHOLE_TILES)

/* Whose covariances are summed: those of first states, of states with one after them, of states
 * with one before them, and of states whose row is observed; and those of a state with the one
 * before. */
enum { FIRST, DEPARTING, ARRIVING, EMITTING, LAGGED, N_SUMS };

/* Sums over rows: of covariances, and of means in blocks. */
typedef struct {
    double *states; /* (N_SUMS, W, W) */
    double *across; /* (d, W), of missing values with the state */
    double *within; /* (d, d), of missing values */
    double *after;  /* (k,), mean of the state after */
    double *filled; /* (d,), the row with its missing values imputed */
    double *zeros;  /* (k, k) */
    MomentsBuffer transitions;
    MomentsBuffer emissions;
    Moments initial;
} Sums;

SIMD_UNUSED static Sums lay_out_sums(ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, Arena *arena)
{
    Sums sums;
    sums.states = take_doubles(arena, N_SUMS * W * W);
    sums.across = take_doubles(arena, d * W);
    sums.within = take_doubles(arena, d * d);
    sums.after = take_doubles(arena, k);
    sums.filled = take_doubles(arena, d);
    sums.zeros = take_doubles(arena, k * k);
    sums.transitions = lay_out_moments_buffer(2 * k, arena);
    sums.emissions = lay_out_moments_buffer(k + d, arena);
    return sums;
}

/* Sums of nothing yet, which end in `total`. */
SIMD_UNUSED static void start_sums(
    ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, const Evidence *total, Sums *sums)
{
    set_zero(N_SUMS * W * W, sums->states);
    set_zero(d * W, sums->across);
    set_zero(d * d, sums->within);
    set_zero(k * k, sums->zeros);
    clear_evidence(total);
    sums->initial = total->initial;
    sums->transitions.total = total->transitions;
    sums->emissions.total = total->emissions;
    sums->transitions.n_rows = sums->emissions.n_rows = 0;
}

/* Adds state t of T; `arriving` is its covariance as the state after another one. */
SIMD_UNUSED static void sum_state(
    const double *mean, const double *covariance, const double *arriving, ptrdiff_t t, ptrdiff_t T,
    ptrdiff_t k, ptrdiff_t W, Sums *sums)
{
    const ptrdiff_t n = W * W;
    if (t > 0) add(arriving, n, sums->states + ARRIVING * n);
    if (t + 1 < T) {
        double *pair = next_rows(1, &sums->transitions);
        put_elements(mean, 0, k, pair);
        put_elements(sums->after, k, k, pair);
        add(covariance, n, sums->states + DEPARTING * n);
    }
    if (t == 0) {
        add_moments(1, mean, 0, sums->zeros, &sums->initial);
        add(covariance, n, sums->states + FIRST * n);
    }
    copy(mean, k, sums->after);
}

/* Adds a state and its row, of which something is observed. */
SIMD_UNUSED static void sum_row(
    const double *mean, const double *covariance, ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, Sums *sums)
{
    double *pair = next_rows(1, &sums->emissions);
    put_elements(mean, 0, k, pair);
    put_elements(sums->filled, k, d, pair);
    add(covariance, W * W, sums->states + EMITTING * W * W);
}

/* Adds what is in buffers, and covariances. */
SIMD_UNUSED static void finish_sums(ptrdiff_t k, ptrdiff_t W, ptrdiff_t d, Sums *sums)
{
    const double *states = sums->states;
    finish_buffer(&sums->transitions);
    finish_buffer(&sums->emissions);
    add_joint(states + FIRST * W * W, NULL, W, NULL, 0, k, 0, sums->initial.scatter);
    add_joint(
        states + DEPARTING * W * W, states + LAGGED * W * W, W, states + ARRIVING * W * W, W, k, k,
        sums->transitions.total.scatter);
    add_joint(states + EMITTING * W * W, sums->across, W, sums->within, d, k, d,
              sums->emissions.total.scatter);
}

OPTIMISE_END
