/* Sequences without gaps: covariances and gains do not depend on the data.
 *
 * They are tabulated once, up to where they no longer change; means of all sequences then follow
 * from products of rows with these tables. Sequences are walked side by side, one a lane; a long
 * one, whose steps at rest are all the same affine map, in stretches of equal lengths: a walk from
 * zero says what the true start of a stretch is, once that of the one before is known.
 */
#ifndef SKLEARN_ONLINEEM_KALMAN_SHARED_H
#define SKLEARN_ONLINEEM_KALMAN_SHARED_H

#include "_kalman_usage.h"

/* Loops over a tile are vectors as they stand; GCC would rather put these together from pieces. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

#define WIDEST_MEAN 512

typedef struct {
    ptrdiff_t n;       /* steps; the last one stands for all that follow */
    double *filtered;  /* (n, W, W), covariances */
    double *root;      /* (n, W, W): squares of root' u are the squared innovations */
    double *gain;      /* (n, W, W), transposed */
    double *rest;      /* (n, W, W), covariances given the next state */
    double *log_det;   /* (n,) */
} Tables;

/* Fills in at most n steps from `covariance`, that before the first row; returns whether the last
 * one stands for all that follow. `work` has room for 7 W W. */
SIMD_UNUSED static int tabulate(
    const System *system, const double *G, double *covariance, ptrdiff_t n, Update *update,
    double *work, double *now_memory, double *next_memory, Tables *tables)
{
    ptrdiff_t k = system->k, W = system->W, size = W * W;
    double *moved = work, *next_covariance = work + size, *shrink = work + 2 * size;
    double *product = work + 3 * size;
    Row row = row_at(now_memory, W), next = row_at(next_memory, W);
    factorise(covariance, k, W, row.upper, row.inverse);
    for (ptrdiff_t t = 0; t < n; t++) {
        double *gain = tables->gain + t * size, *rest = tables->rest + t * size;
        filter_covariance(G, k, W, &row, update);
        tables->log_det[t] = update->log_det;
        copy(row.covariance, size, tables->filtered + t * size);
        substitute_backward(update->M_upper, update->M_inverse, k, W, W, update->X);
        transpose(update->X, W, tables->root + t * size);
        predict_covariance(system, W, row.covariance, moved, next_covariance);
        factorise(next_covariance, k, W, next.upper, next.inverse);
        backward_gain(system, W, row.covariance, next.upper, next.inverse, gain, shrink);
        clear(rest, size);
        add_quadratic(shrink, row.covariance, k, W, product, rest);
        add_quadratic(gain, system->Q, k, W, product, rest);
        symmetrise(rest, k, W);
        tables->n = t + 1;
        if (is_at_rest(covariance, next_covariance, k, W)) return 1;
        copy(next_covariance, size, covariance);
        Row swap = row;
        row = next;
        next = swap;
    }
    return 0;
}

/* Sum over T rows of what is in log_det. */
SIMD_UNUSED static double sum_log_dets(const Tables *tables, ptrdiff_t T)
{
    const ptrdiff_t n = T < tables->n ? T : tables->n;
    double sum = (double)(T - n) * tables->log_det[tables->n - 1];
    for (ptrdiff_t t = 0; t < n; t++) sum += tables->log_det[t];
    return sum;
}

/* sums (N_SUMS, W, W) <- sums + count times those of a sequence of T rows. `work`: 8 W W. */
SIMD_UNUSED static void add_covariances(
    const Tables *tables, ptrdiff_t T, double count, ptrdiff_t k, ptrdiff_t W, double *work,
    double *sums)
{
    ptrdiff_t size = W * W, last = tables->n - 1;
    double *now = work, *before = work + size, *lag = work + 2 * size, *one = work + 3 * size;
    clear(one, N_SUMS * size);
    copy(tables->filtered + (T - 1 < last ? T - 1 : last) * size, size, now);
    add(now, size, one + EMITTING * size);
    if (T > 1) add(now, size, one + ARRIVING * size);
    for (ptrdiff_t t = T - 2; t >= 0; t--) {
        ptrdiff_t step = t < last ? t : last;
        double times = 1;
        multiply(now, tables->gain + step * size, k, W, lag);
        copy(tables->rest + step * size, size, before);
        add_product(tables->gain + step * size, lag, k, k, W, before);
        symmetrise(before, k, W);
        if (t > last && is_at_rest(before, now, k, W)) {
            times = (double)(t - last + 1);
            t = last;
        }
        for (ptrdiff_t i = 0; i < size; i++) {
            one[LAGGED * size + i] += times * lag[i];
            one[EMITTING * size + i] += times * before[i];
            one[DEPARTING * size + i] += times * before[i];
            one[ARRIVING * size + i] += (t > 0 ? times : times - 1) * before[i];
        }
        copy(before, size, now);
    }
    copy(now, size, one + FIRST * size);
    for (ptrdiff_t i = 0; i < N_SUMS * size; i++) sums[i] += count * one[i];
}

/* ---------------------------------------------------------------------------------- the means */

/* Stretches of rows that are walked side by side, one in each lane of the vectors. */
#define LANES 8

/* What turns rows into information about states, and states into residuals. */
typedef struct {
    ptrdiff_t d;
    const double *offset;    /* (d,) */
    const double *whitening; /* (d, d), L'^-1 with R = L L' */
    const double *seen;      /* (d, W), H = L^-1 C, and its transpose */
    const double *seen_t;    /* (W, d) */
    const double *G;         /* (W, W), H' H */
} Sight;

typedef struct {
    const System *system;
    const Tables *tables;
    const Sight *sight;
    const double *start;  /* (W,): mean of the first states */
    const void *X;        /* (n_rows, d), floats or doubles */
    int is_float;
    const double *centre; /* (d,): of rows */
} Shared;

typedef struct {
    ptrdiff_t T;             /* rows of the longest stretch */
    ptrdiff_t step;          /* rows of their sequences before them */
    int64_t begins[LANES];   /* first rows */
    int64_t lengths[LANES];
    int64_t goes_on[LANES];  /* whether the row after the last one is known, too */
    double *means;           /* (T, k, LANES): filtered */
} Walk;

/* Sums over rows, for each lane; of deviations of states from `centre`, and of rows from theirs */
typedef struct {
    double *squares; /* (1, LANES), of innovations */
    double *total;   /* (k, LANES): of filtered means, then of deviations of smoothed ones */
    double *rows;    /* (d, LANES) */
    double *states;  /* (k, k, LANES) */
    double *lags;    /* (k, k, LANES) */
    double *across;  /* (d, k, LANES) */
    double *centre;  /* (k,) */
} LaneSums;

SIMD_INLINE ptrdiff_t n_lane_sums(ptrdiff_t k, ptrdiff_t d)
{
    return 1 + k + d + 2 * k * k + d * k;
}

/* Vectors are those of GCC and clang, cut by the compiler to what the CPU has; others get loops. */
#if defined(__GNUC__)
typedef double Lanes __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t Bits __attribute__((vector_size(64), aligned(8), may_alias));
#define LANEWISE(type, out, x, op, y) \
    (*(type *)(out) = *(const type *)(x) op *(const type *)(y))
#define ADD_SCALED(sum, a, x) (*(Lanes *)(sum) += (a) * *(const Lanes *)(x))
#define ADD_PRODUCT(sum, x, y) (*(Lanes *)(sum) += *(const Lanes *)(x) * *(const Lanes *)(y))
#else
typedef struct { double lane[LANES]; } Lanes;
typedef struct { int64_t lane[LANES]; } Bits;
#define LANEWISE(type, out, x, op, y) \
    for (int l = 0; l < LANES; l++) \
        ((type *)(out))->lane[l] = ((const type *)(x))->lane[l] op ((const type *)(y))->lane[l]
#define ADD_SCALED(sum, a, x) \
    for (int l = 0; l < LANES; l++) ((Lanes *)(sum))->lane[l] += (a) * ((const Lanes *)(x))->lane[l]
#define ADD_PRODUCT(sum, x, y) \
    for (int l = 0; l < LANES; l++) \
        ((Lanes *)(sum))->lane[l] += ((const Lanes *)(x))->lane[l] * ((const Lanes *)(y))->lane[l]
#endif

/* out (n_x, n_y, LANES) <- out + x y' */
SIMD_INLINE void add_outer(
    const double *x, const double *y, const ptrdiff_t n_x, const ptrdiff_t n_y, double *out)
{
    for (ptrdiff_t i = 0; i < n_x; i++) {
        const Lanes here = *(const Lanes *)(x + i * LANES);
        for (ptrdiff_t j = 0; j < n_y; j++, out += LANES) ADD_PRODUCT(out, &here, y + j * LANES);
    }
}

SIMD_INLINE void put_lanes(const double *origin, const double sign, const Lanes *sum, double *out)
{
    Lanes result = *(const Lanes *)origin;
    ADD_SCALED(&result, sign, sum);
    *(Lanes *)out = result;
}

/* out (n_out, LANES) <- origin + sign table' x, x of n_in lanes. out may be origin. */
SIMD_INLINE void weigh_lanes(
    const double *table, const ptrdiff_t stride, const ptrdiff_t n_in, const ptrdiff_t n_out,
    const double *x, const double *origin, const double sign, double *out)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= n_out; i += 4) {
        Lanes a = {0}, b = {0}, c = {0}, e = {0};
        for (ptrdiff_t j = 0; j < n_in; j++) {
            const double *row = table + j * stride + i, *here = x + j * LANES;
            ADD_SCALED(&a, row[0], here);
            ADD_SCALED(&b, row[1], here);
            ADD_SCALED(&c, row[2], here);
            ADD_SCALED(&e, row[3], here);
        }
        put_lanes(origin + i * LANES, sign, &a, out + i * LANES);
        put_lanes(origin + (i + 1) * LANES, sign, &b, out + (i + 1) * LANES);
        put_lanes(origin + (i + 2) * LANES, sign, &c, out + (i + 2) * LANES);
        put_lanes(origin + (i + 3) * LANES, sign, &e, out + (i + 3) * LANES);
    }
    for (; i < n_out; i++) {
        Lanes a = {0};
        for (ptrdiff_t j = 0; j < n_in; j++) ADD_SCALED(&a, table[j * stride + i], x + j * LANES);
        put_lanes(origin + i * LANES, sign, &a, out + i * LANES);
    }
}

/* sum (n, LANES) <- sum + x, where mask is -1, and not where it is 0 */
SIMD_INLINE void add_kept(const int64_t *mask, const double *x, const ptrdiff_t n, double *sum)
{
    for (ptrdiff_t i = 0; i < n * LANES; i += LANES) {
        Lanes kept;
        LANEWISE(Bits, &kept, x + i, &, mask);
        LANEWISE(Lanes, sum + i, sum + i, +, &kept);
    }
}

/* out (n, LANES) <- x - y where mask is -1, and 0 where it is 0 */
SIMD_INLINE void subtract_kept(
    const int64_t *mask, const double *x, const double *y, const ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n * LANES; i += LANES) {
        Lanes difference;
        LANEWISE(Lanes, &difference, x + i, -, y + i);
        LANEWISE(Bits, out + i, &difference, &, mask);
    }
}

SIMD_INLINE void spread(const double *x, const ptrdiff_t n, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        for (int l = 0; l < LANES; l++) out[i * LANES + l] = x[i];
}

/* out (d, LANES) <- row t of each stretch (its last one if that is earlier), less `from` */
SIMD_INLINE void gather(
    const Shared *shared, const Walk *walk, ptrdiff_t t, const double *from, double *out)
{
    const ptrdiff_t d = shared->sight->d;
    for (int l = 0; l < LANES; l++) {
        ptrdiff_t last = walk->lengths[l] > 0 ? walk->lengths[l] - 1 : 0;
        ptrdiff_t row = (walk->begins[l] + (t < last ? t : last)) * d;
        if (shared->is_float)
            for (ptrdiff_t j = 0; j < d; j++)
                out[j * LANES + l] = ((const float *)shared->X)[row + j] - from[j];
        else
            for (ptrdiff_t j = 0; j < d; j++)
                out[j * LANES + l] = ((const double *)shared->X)[row + j] - from[j];
    }
}

/* -1 where t is below length (and what goes on), else 0 */
SIMD_INLINE void mask_below(
    const int64_t *lengths, const int64_t *goes_on, ptrdiff_t t, int64_t *mask)
{
    for (int l = 0; l < LANES; l++) mask[l] = -(t < lengths[l] + (goes_on ? goes_on[l] : 0));
}

/* walk->means <- filtered means; predicted (k, LANES): those of the first rows, and then of the
 * rows after the last ones. `sums` may be NULL. `work` has room for 4 d + 5 W lanes. */
SIMD_CLONES SIMD_UNUSED static void walk_forward(
    const Shared *shared, const Walk *walk, double *predicted, LaneSums *sums, double *work)
{
    const System *system = shared->system;
    const Tables *tables = shared->tables;
    const Sight *sight = shared->sight;
    const ptrdiff_t k = system->k, W = system->W, d = sight->d, last = tables->n - 1;
    double *v = work, *e = v + d * LANES, *rest = e + d * LANES, *zeros = rest + d * LANES;
    double *u = zeros + (d + W) * LANES, *move = u + W * LANES, *r = move + W * LANES;
    double *offset = r + W * LANES;
    int64_t mask[LANES];
    clear(zeros, (d + W) * LANES);
    spread(system->b, k, offset);
    for (ptrdiff_t t = 0; t < walk->T; t++) {
        const ptrdiff_t step = (walk->step + t < last ? walk->step + t : last) * W * W;
        double *mean = walk->means + t * k * LANES;
        gather(shared, walk, t, sight->offset, v);
        weigh_lanes(sight->whitening, d, d, d, v, zeros, 1, e);
        weigh_lanes(sight->seen_t, d, k, d, predicted, e, -1, e);
        weigh_lanes(sight->seen, W, d, k, e, zeros, 1, u);
        weigh_lanes(tables->filtered + step, W, k, k, u, zeros, 1, move);
        for (ptrdiff_t i = 0; i < k * LANES; i += LANES)
            LANEWISE(Lanes, mean + i, predicted + i, +, move + i);
        weigh_lanes(system->At, W, k, k, mean, offset, 1, predicted);
        if (!sums) continue;
        weigh_lanes(tables->root + step, W, k, k, u, zeros, 1, r);
        weigh_lanes(sight->seen_t, d, k, d, move, e, -1, rest);
        Lanes squares = {0};
        for (ptrdiff_t i = 0; i < k * LANES; i += LANES) ADD_PRODUCT(&squares, r + i, r + i);
        for (ptrdiff_t i = 0; i < d * LANES; i += LANES)
            ADD_PRODUCT(&squares, rest + i, rest + i);
        mask_below(walk->lengths, NULL, t, mask);
        add_kept(mask, (const double *)&squares, 1, sums->squares);
        add_kept(mask, mean, k, sums->total);
    }
}

/* later (k, LANES): smoothed means of the rows after the last ones where these are known, and then
 * of the first ones. `sums` may be NULL. `work` has room for d + 5 W lanes. */
SIMD_CLONES SIMD_UNUSED static void walk_backward(
    const Shared *shared, const Walk *walk, double *later, LaneSums *sums, double *work)
{
    const System *system = shared->system;
    const Tables *tables = shared->tables;
    const ptrdiff_t k = system->k, W = system->W, d = shared->sight->d, last = tables->n - 1;
    double *v = work, *offset = v + d * LANES, *rest = offset + W * LANES;
    double *now = rest + W * LANES, *next = now + W * LANES, *centre = next + W * LANES;
    int64_t mask[LANES];
    spread(system->b, k, offset);
    if (sums) spread(sums->centre, k, centre);
    for (ptrdiff_t t = walk->T - 1; t >= 0; t--) {
        const ptrdiff_t step = (walk->step + t < last ? walk->step + t : last) * W * W;
        const double *mean = walk->means + t * k * LANES;
        mask_below(walk->lengths, walk->goes_on, t + 1, mask);
        weigh_lanes(system->At, W, k, k, mean, offset, 1, rest);
        subtract_kept(mask, later, rest, k, rest);
        if (sums) subtract_kept(mask, later, centre, k, next);
        weigh_lanes(tables->gain + step, W, k, k, rest, mean, 1, later);
        if (!sums) continue;
        mask_below(walk->lengths, NULL, t, mask);
        subtract_kept(mask, later, centre, k, now);
        gather(shared, walk, t, shared->centre, v);
        add_kept(mask, now, k, sums->total);
        add_kept(mask, v, d, sums->rows);
        add_outer(now, now, k, k, sums->states);
        add_outer(next, now, k, k, sums->lags);
        add_outer(v, now, d, k, sums->across);
    }
}

/* ends (n, 2, k) <- means (k, LANES) of first or last rows of n sequences */
SIMD_UNUSED static void put_end(
    const double *means, ptrdiff_t n, ptrdiff_t k, ptrdiff_t which, double *ends)
{
    for (ptrdiff_t l = 0; l < n; l++)
        for (ptrdiff_t i = 0; i < k; i++) ends[(l * 2 + which) * k + i] = means[i * LANES + l];
}

SIMD_UNUSED static void put_last(const Walk *walk, ptrdiff_t n, ptrdiff_t k, double *ends)
{
    for (ptrdiff_t l = 0; l < n; l++)
        put_end(walk->means + ((walk->lengths[l] - 1) * k) * LANES + l, 1, k, 1, ends + l * 2 * k);
}

/* sums (n,) <- sums over lanes */
SIMD_UNUSED static void add_up_lanes(const double *lanes, ptrdiff_t n, double *sums)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *x = lanes + i * LANES;
        sums[i] = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    }
}

/* Sequences of a part, whose rows one thread walks. */
typedef struct {
    ptrdiff_t S;
    const int64_t *begins;  /* (n_sequences,) of all parts */
    const int64_t *lengths;
    const int64_t *order;   /* (S,): which of these, by falling length */
} Part;

/* A sequence is cut if its rows at rest fill so many steps of all lanes. */
#define FEWEST_STEPS 32

SIMD_INLINE ptrdiff_t cut_length(const Part *part, ptrdiff_t n_tables)
{
    ptrdiff_t length = (part->lengths[part->order[0]] - n_tables) / LANES;
    return part->S == 1 && length >= FEWEST_STEPS ? length : 0;
}

/* Steps of all walks of a part. */
SIMD_UNUSED static ptrdiff_t count_steps(const Part *part, ptrdiff_t n_tables)
{
    ptrdiff_t n = 0, length = cut_length(part, n_tables);
    if (length) return part->lengths[part->order[0]] - (LANES - 1) * length;
    for (ptrdiff_t s = 0; s < part->S; s += LANES) n += part->lengths[part->order[s]];
    return n;
}

SIMD_UNUSED static Walk walk_of(const Part *part, ptrdiff_t first, double *means)
{
    Walk walk = {0};
    for (int l = 0; l < LANES; l++) {
        int is_there = first + l < part->S;
        ptrdiff_t s = part->order[is_there ? first + l : first];
        walk.begins[l] = part->begins[s];
        walk.lengths[l] = is_there ? part->lengths[s] : 0;
    }
    walk.T = walk.lengths[0];
    walk.means = means;
    return walk;
}

SIMD_UNUSED static void start_from(const Shared *shared, double *state)
{
    spread(shared->start, shared->system->k, state);
}

/* The centre of deviations: the mean of the filtered means, which is near that of smoothed ones. */
SIMD_UNUSED static void take_centre(LaneSums *sums, ptrdiff_t k, double n_rows)
{
    add_up_lanes(sums->total, k, sums->centre);
    for (ptrdiff_t i = 0; i < k; i++) sums->centre[i] /= n_rows;
    clear(sums->total, k * LANES);
}

SIMD_UNUSED static void expect_abreast(
    const Shared *shared, const Part *part, double *means, LaneSums *sums, double *state,
    double *work, double *ends)
{
    ptrdiff_t k = shared->system->k, n_rows = 0;
    double *next = means;
    for (ptrdiff_t s = 0; s < part->S; s += LANES) {
        Walk walk = walk_of(part, s, next);
        start_from(shared, state);
        walk_forward(shared, &walk, state, sums, work);
        put_last(&walk, part->S - s < LANES ? part->S - s : LANES, k, ends + s * 2 * k);
        for (int l = 0; l < LANES; l++) n_rows += walk.lengths[l];
        next += walk.T * k * LANES;
    }
    take_centre(sums, k, (double)n_rows);
    for (ptrdiff_t s = 0; s < part->S; s += LANES) {
        Walk walk = walk_of(part, s, means);
        walk_backward(shared, &walk, state, sums, work);
        put_end(state, part->S - s < LANES ? part->S - s : LANES, k, 0, ends + s * 2 * k);
        means += walk.T * k * LANES;
    }
}

/* power <- table^n; overwrites table. `work` has room for W W. */
SIMD_UNUSED static void raise(
    double *table, ptrdiff_t n, ptrdiff_t k, ptrdiff_t W, double *work, double *power)
{
    clear(power, W * W);
    for (ptrdiff_t i = 0; i < k; i++) power[i * W + i] = 1;
    for (; n > 0; n /= 2) {
        if (n % 2) {
            multiply(power, table, k, W, work);
            copy(work, W * W, power);
        }
        multiply(table, table, k, W, work);
        copy(work, W * W, table);
    }
}

/* What a walk from zero ends with differs from its true end by a linear map of its true start.
 *
 * ends (k, LANES) <- true starts of stretches, in turn from the `first` lane, where it is `now` and
 * where the walk did begin there. */
SIMD_UNUSED static void join_stretches(
    const double *power, ptrdiff_t k, ptrdiff_t W, int first, double *now, double *ends)
{
    double next[WIDEST_MEAN];
    for (int i = 0; i < LANES; i++) {
        int l = first == 0 ? i : first - i;
        for (ptrdiff_t j = 0; j < k; j++) next[j] = ends[j * LANES + l];
        if (i > 0)
            for (ptrdiff_t j = 0; j < k; j++)
                for (ptrdiff_t h = 0; h < k; h++) next[j] += power[h * W + j] * now[h];
        for (ptrdiff_t j = 0; j < k; j++) ends[j * LANES + l] = now[j];
        copy(next, k, now);
    }
}

/* Forward through stretches that follow each other, from `state` of the first lane. `work` has room
 * for 3 W W, too. */
SIMD_UNUSED static void walk_linked_forward(
    const Shared *shared, const Walk *body, double *state, LaneSums *sums, double *work)
{
    const System *system = shared->system;
    ptrdiff_t k = system->k, W = system->W;
    double start[WIDEST_MEAN], *step = work, *power = work + W * W, *scratch = work + 2 * W * W;
    const double *filtered = shared->tables->filtered + (shared->tables->n - 1) * W * W;
    for (ptrdiff_t i = 0; i < k; i++) {
        start[i] = state[i * LANES];
        for (int l = 1; l < LANES; l++) state[i * LANES + l] = 0;
    }
    walk_forward(shared, body, state, NULL, work);
    multiply(shared->sight->G, filtered, k, W, scratch);
    for (ptrdiff_t i = 0; i < W * W; i++) scratch[i] = -scratch[i];
    for (ptrdiff_t i = 0; i < k; i++) scratch[i * W + i] += 1;
    multiply(scratch, system->At, k, W, step);
    raise(step, body->T, k, W, scratch, power);
    join_stretches(power, k, W, 0, start, state);
    walk_forward(shared, body, state, sums, work);
}

SIMD_UNUSED static void walk_linked_backward(
    const Shared *shared, const Walk *body, double *state, LaneSums *sums, double *work)
{
    ptrdiff_t k = shared->system->k, W = shared->system->W;
    double unknown[WIDEST_MEAN] = {0};
    double *step = work, *power = work + W * W, *scratch = work + 2 * W * W;
    clear(state, k * LANES);
    walk_backward(shared, body, state, NULL, work);
    copy(shared->tables->gain + (shared->tables->n - 1) * W * W, W * W, step);
    raise(step, body->T, k, W, scratch, power);
    join_stretches(power, k, W, LANES - 1, unknown, state);
    walk_backward(shared, body, state, sums, work);
}

/* A long sequence: a head, until gains are at rest, and a body that is cut. */
SIMD_UNUSED static void expect_cut(
    const Shared *shared, const Part *part, ptrdiff_t length, double *means, LaneSums *sums,
    double *state, double *work, double *ends)
{
    ptrdiff_t k = shared->system->k;
    Walk head = walk_of(part, 0, means), body = head;
    ptrdiff_t T = head.T;
    head.T = head.lengths[0] = T - LANES * length;
    head.goes_on[0] = 1;
    body.T = length;
    body.step = head.T;
    body.means = means + head.T * k * LANES;
    for (int l = 0; l < LANES; l++) {
        body.begins[l] = head.begins[0] + head.T + l * length;
        body.lengths[l] = length;
        body.goes_on[l] = l + 1 < LANES;
    }
    start_from(shared, state);
    walk_forward(shared, &head, state, sums, work);
    walk_linked_forward(shared, &body, state, sums, work);
    const double *last = body.means + (length - 1) * k * LANES + LANES - 1;
    put_end(last, 1, k, 1, ends);
    take_centre(sums, k, (double)T);
    walk_linked_backward(shared, &body, state, sums, work);
    walk_backward(shared, &head, state, sums, work);
    put_end(state, 1, k, 0, ends);
}

/* sums <- sums - deviation; products <- products - deviation deviation' */
SIMD_UNUSED static void take_out(
    const double *mean, const double *centre, ptrdiff_t k, double *sums, double *products)
{
    double deviation[WIDEST_MEAN];
    for (ptrdiff_t i = 0; i < k; i++) sums[i] -= deviation[i] = mean[i] - centre[i];
    for (ptrdiff_t i = 0; i < k; i++)
        for (ptrdiff_t j = 0; j < k; j++) products[i * k + j] -= deviation[i] * deviation[j];
}
/* From sums (n_lane_sums,) over the rows of a part, and the smoothed means at the ends of its
 * sequences (S, 2, k). `work` has room for 2 k k. */
SIMD_UNUSED static void finish_part(
    const Shared *shared, const Part *part, const double *sums, const double *centre,
    const double *ends, double *work, double *squares, Evidence *evidence)
{
    const ptrdiff_t k = shared->system->k, d = shared->sight->d, size = k * k;
    const double *total = sums + 1, *rows = total + k, *states = rows + d, *lags = states + size;
    double *departing = work, *arriving = work + size, n_rows = 0;
    Moments *moves = &evidence->transitions, *emissions = &evidence->emissions;
    *squares = sums[0];
    clear(evidence->initial.weight, evidence_size(k, d));
    clear(work, size);
    for (ptrdiff_t s = 0; s < part->S; s++) {
        add_moments(&evidence->initial, 1, ends + 2 * s * k, 0, work);
        n_rows += (double)part->lengths[part->order[s]];
    }
    for (int side = 0; side < 2; side++) {
        copy(total, k, moves->mean + side * k);
        copy(states, size, work + side * size);
    }
    for (ptrdiff_t s = 0; s < part->S; s++) {
        take_out(ends + (2 * s + 1) * k, centre, k, moves->mean, departing);
        take_out(ends + 2 * s * k, centre, k, moves->mean + k, arriving);
    }
    add_joint(departing, lags, k, arriving, k, k, k, moves->scatter);
    *moves->weight = n_rows - (double)part->S;
    centre_moments(moves, centre, k, centre);
    copy(total, k + d, emissions->mean);
    add_joint(states, lags + size, k, NULL, 0, k, d, emissions->scatter);
    *emissions->weight = n_rows;
    centre_moments(emissions, centre, k, shared->centre);
}

/* What comes before the filtered means is whole vectors. */
SIMD_INLINE ptrdiff_t means_at(ptrdiff_t k, ptrdiff_t W, ptrdiff_t d)
{
    return (4 * d + 6 * W + n_lane_sums(k, d)) * LANES + 4 * W * W;
}

SIMD_UNUSED static ptrdiff_t work_size(
    const Part *part, ptrdiff_t n_tables, ptrdiff_t k, ptrdiff_t W, ptrdiff_t d)
{
    ptrdiff_t n_ends = 2 * part->S * k, n_sums = n_lane_sums(k, d) + k;
    return means_at(k, W, d) + count_steps(part, n_tables) * k * LANES + n_ends + n_sums;
}

SIMD_UNUSED static void expect_part(
    const Shared *shared, const Part *part, double *work, double *squares, Evidence *evidence)
{
    ptrdiff_t k = shared->system->k, W = shared->system->W, d = shared->sight->d;
    ptrdiff_t n = n_lane_sums(k, d), length = cut_length(part, shared->tables->n);
    double *state = work + n * LANES, *scratch = state + W * LANES, *means = work + means_at(k, W, d);
    double *ends = means + count_steps(part, shared->tables->n) * k * LANES;
    double *sums = ends + 2 * part->S * k;
    LaneSums lanes;
    clear(work, n * LANES);
    lanes.squares = work;
    lanes.total = lanes.squares + LANES;
    lanes.rows = lanes.total + k * LANES;
    lanes.states = lanes.rows + d * LANES;
    lanes.lags = lanes.states + k * k * LANES;
    lanes.across = lanes.lags + k * k * LANES;
    lanes.centre = sums + n;
    if (length) expect_cut(shared, part, length, means, &lanes, state, scratch, ends);
    else expect_abreast(shared, part, means, &lanes, state, scratch, ends);
    add_up_lanes(work, n, sums);
    finish_part(shared, part, sums, lanes.centre, ends, scratch, squares, evidence);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
