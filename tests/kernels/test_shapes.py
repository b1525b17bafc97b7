"""Every kernel refuses arrays that do not fit each other, instead of reading beyond them.

Each case is a call that is right. One axis of one array at a time is made longer or shorter by one,
which has to be a ValueError, but where the case says that it only makes another problem.
"""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass, field

import numpy as np
import pytest

import sklearn_onlineem._kernels as kernels

pytestmark = pytest.mark.whole

N, D, K, S, W = 6, 2, 3, 2, 4
PRODUCTS = 2 + 3
LABELS = np.array([-1, 0, 1, 2, -1, 0], np.intc)
ASSIGNED = np.array([0, 0, 1, 2, 1, 0], np.intc)
OFFSETS = np.array([0, 2, N])
# Look at rows as users have them, or take any length.
ANY_SHAPES = {
    "_rows.are_codes", "_rows.are_finite", "_rows.are_ready", "_rows.largest_magnitude",
    "_rows.csr_form", "_centred_moments.merge", "_centred_moments.scaled_rows",
    "_kalman.width", "_kalman.longest_batched",
    "_openmp.effective_n_threads", "_openmp.walk",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call of a kernel; `free` are axes that any length will do for."""

    name: str
    arguments: tuple
    free: set = field(default_factory=set)

    def __repr__(self):
        return self.name

    @property
    def function(self):
        module, _, name = self.name.partition(".")
        return getattr(importlib.import_module(f"{kernels.__name__}.{module}"), name)

    @property
    def named(self):
        # By Cython 3.1, a function of several types does not know its parameters.
        of_type = getattr(self.function, "__signatures__", {None: self.function})
        names = inspect.signature(next(iter(of_type.values()))).parameters
        return dict(zip(names, self.arguments, strict=True))


def ones(*shape, dtype=np.float64):
    return np.ones(shape, dtype)


def eyes(n, d):
    return np.tile(np.eye(d), (n, 1, 1))


def shares(*shape):
    return np.full(shape, 1.0 / shape[-1])


X = np.random.default_rng(0).normal(size=(N, D))
CSR = (ones(4), np.array([0, 1, 0, 1], np.int32), np.array([0, 1, 2, 2, 3, 3, 4]))
TASK = (ones(N), LABELS, shares(N), ones(N), ones(N), None, None)
GIVEN, DENSITIES = (*[None] * 5, shares(N, K), None), (*[None] * 4, ones(N), None, ones(N, K))
MOMENTS = ones(K), ones(K), ones(K, D), eyes(K, D)
AXIS_MOMENTS = ones(K), ones(K), ones(K, D), ones(K, D)
CHAIN = shares(K), shares(K), shares(K, K), ones(K)
MOVES = np.eye(W), np.eye(W), ones(W), np.eye(W)
SYSTEM = (*MOVES, ones(D, W), ones(D), np.eye(D))
START = np.concatenate([ones(W), np.eye(W).ravel()])
ROWS_OF_STATES = (
    *2 * (ones(N, K), ones(N, K, K)), ones(N), ones(N, K), *2 * (ones(N, K, K),), ones(N, D)
)  # fmt: skip
TABLES = (*(eyes(S, W) for _ in range(5)), ones(S))
REGRESSIONS = ones(K, D, 1), ones(K, D), eyes(K, D)
ONE_REGRESSION = tuple(array[:1] for array in REGRESSIONS)
ABOUT = ones(1), np.eye(1), 1.0, 1.0, True
MAPS = ones(D), np.eye(D), np.eye(W), np.eye(W)
SYSTEM_OF_NOISE = (
    (np.eye(K), ones(K), ones(D, K), ones(D)), (np.zeros(K), np.zeros((K, K))), np.array([1])
)  # fmt: skip


def evidence(k=K, d=D):
    return tuple(ones(1 + n + n * n) for n in (k, 2 * k, k + d))


EVENTS = np.array([0, 1, 2]), ones(3)
STRINGS = np.array([0, 1, 1], np.intc), np.array([0, 1, 3])
PAIRS = np.array([[0, 0], [1, 1]])
TABLE = shares(2, 2), -ones(2), -ones(2)
TWO = shares(1, 2), -ones(1), -ones(1)
DOCUMENTS = ones(4, dtype=np.float32), np.array([0, 1, 0, 1], np.intc), np.array([0, 2, 4])
PER_DOCUMENT = ones(S), ones(S, K, dtype=np.uint8)
TOPICS = ones(D, 16, dtype=np.float32)
TOKENS, COUNTS = DOCUMENTS[1:], (TOPICS, ones(16))
BLOCKS = (
    np.array([0, 1, 2]),
    np.array([0, 1], np.intc),
    3 * ones(2, dtype=np.float32),
    np.zeros((2, 16), np.float32),
)

SEGMENTS = shares(K, K), shares(K, W), ones(K), *4 * (-ones(K, W + 1),)
CALLS = [
    Call("_natural.mixture_pass",
         (X, None, ones(D), 3, ones(K, PRODUCTS), ones(K), TASK, ones(K), ones(K, PRODUCTS), 1)),
    Call("_natural.mixture_pass",
         (X, np.ones((2, N), np.uint8), ones(D), 0, ones(K, D + 2), ones(K), TASK, ones(K),
          ones(K, D + 2), 1)),
    Call("_natural.mixture_pass",
         (X, None, ones(D), 0, ones(K, D), ones(K), DENSITIES, None, None, 1)),
    Call("_natural.mixture_pass",
         (X, None, ones(D), 2, None, None, GIVEN, ones(K), ones(K, D + 1), 1)),
    Call("_natural.gaussian_e_step",
         (X, ones(K, D), eyes(K, D), eyes(K, D), ones(K), ones(K), TASK, 6.0, 1e6, *MOMENTS[1:],
          1)),
    Call("_natural.gaussian_e_step",
         (X, ones(K, D), ones(K, D), ones(0), ones(K), ones(K), TASK, 6.0, 1e6, ones(K),
          ones(K, D), ones(K, D), 1)),
    Call("_natural.gaussian_e_step",
         (X, ones(K, D), ones(K, 1), ones(0), ones(K), ones(K), TASK, 6.0, 1e6, ones(K),
          ones(K, D), ones(K, 1), 1)),
    Call("_natural.natural_form",
         (X, ones(K, D), ones(K, D), ones(K), ones(D), ones(K, 2 * D), ones(K)), {("X", 0)}),
    Call("_natural.natural_form",
         (X, ones(K, D), eyes(K, D), ones(0), ones(D), ones(K, PRODUCTS), ones(K)), {("X", 0)}),
    Call("_natural.moments_about",
         (ones(D), ones(K), ones(K, 2 * D), ones(K, D), ones(K, D))),
    Call("_natural.moments_about",
         (ones(D), ones(K), ones(K, PRODUCTS), ones(K, D), eyes(K, D))),
    Call("_gaussian.mixture_pass",
         (X, ones(K, D), eyes(K, D), ones(K), TASK, ones(K), ones(K, D), eyes(K, D), 1)),
    Call("_gaussian.mixture_pass",
         (X, ones(K, D), eyes(1, D), ones(K), TASK, ones(K), ones(K, D), eyes(1, D), 1)),
    Call("_gaussian.mixture_pass",
         (X, ones(K, D), ones(K, D), ones(K), TASK, ones(K), ones(K, D), ones(K, D), 1)),
    Call("_gaussian.mixture_pass",
         (X, ones(K, D), eyes(K, D), ones(K), DENSITIES, None, None, None, 1)),
    Call("_gaussian.mixture_pass",
         (X, ones(K, D), ones(K, D), ones(K), DENSITIES, None, None, None, 1)),
    Call("_gaussian.mixture_pass",
         (X, ones(K, D), None, None, GIVEN, ones(K), ones(K, D), eyes(K, D), 1)),
    Call("_gaussian.mixture_pass",
         (X, ones(K, D), None, None, GIVEN, ones(K), ones(K, D), ones(K, D), 1)),
    Call("_gaps.mixture_pass",
         (X, (ones(K, D), eyes(K, D), eyes(K, D), eyes(K, D), ones(K)), ones(K), TASK, ones(D),
          ones(K), ones(K, D), eyes(K, D), None, 1)),
    Call("_gaps.mixture_pass",
         (X, (ones(K, D), ones(K, D), ones(0), ones(K, D), ones(K)), ones(K), DENSITIES,
          *[None] * 5, 1)),
    Call("_gaps.mixture_pass",
         (X, (ones(K, D), eyes(1, D), eyes(1, D), eyes(1, D), ones(1)), None, GIVEN, ones(D),
          ones(K), ones(K, D), eyes(1, D), None, 1)),
    Call("_gaps.mixture_pass",
         (X, (ones(K, D), ones(K, D), ones(0), ones(K, D), ones(K)), None, GIVEN, *[None] * 4,
          ones(N, D), 1)),
    Call("_counts.mixture_pass",
         (*CSR, ones(D, K), ones(K), TASK, ones(K), ones(D, K), 1)),
    Call("_counts.mixture_pass", (*CSR, ones(D, K), ones(K), DENSITIES, None, None, 1),
         {("natural_T", 0)}),
    Call("_counts.mixture_pass", (*CSR, None, None, GIVEN, ones(K), ones(D, K), 1),
         {("totals_T", 0)}),
    Call("_counts.log_factorial_sums", (CSR[0], CSR[2], True, ones(N), 1)),
    Call("_collapsed_counts.collapsed_sweep",
         (*CSR, False, 3, D, ones(D, K), ones(D, K), 2.0 * ones(K), 1.0, ones(K), shares(N),
          np.zeros(N, np.intc), True, np.zeros(1, int), ones(N, 1))),
    Call("_compound_dirichlet.largest_counts", (*CSR, False, np.zeros(D + 1, int)),
         {("largest", 0)}),
    Call("_compound_dirichlet.encode",
         (*CSR, False, np.array([0, 1, 2, 3]), np.zeros(3, int), np.zeros(8, np.int32),
          np.zeros(N + 1, int), np.zeros(8, int), ones(8))),
    Call("_compound_dirichlet.count_events",
         (*CSR, False, ones(N), np.zeros((3, D)), np.zeros(5), np.zeros(N + 4, int), ones(N + 4),
          ones(N + 4)),
         {("table", 0), ("table", 1), ("lengths", 0)}),
    Call("_compound_dirichlet.log_terms", (*EVENTS, ones(K, D + 1), ones(3, K), 1),
         {("alpha", 1)}),
    Call("_compound_dirichlet.expected_logs",
         (*EVENTS, ones(3, K), ones(K), ones(K, D + 1), ones(K, D), 1)),
    Call("_compound_dirichlet.ascend",
         (ones(3), np.array([0, 2, 3]), *EVENTS, ones(3), ones(D), 0.1, 9.0, ones(3)),
         {("alpha", 0)}),
    Call("_compound_dirichlet.solve", (-2.0 * ones(K, D), ones(K, D))),
    Call("_student_t.weigh",
         (ones(N, K), ones(K), D, ones(K), ones(K), TASK, ones(K), ones(K))),
    Call("_responsibilities.normalise", (ones(N, K), TASK), {("log_joint", 1)}),
    Call("_centred_moments.means_of_sums", (ones(K, D), ones(K), ones(K, D), ones(K, D))),
    Call("_forward_backward.largest_of_rows", (ones(N, K), ones(N)), {("values", 1)}),
    Call("_responsibilities.weights_from_counts", (ones(K), ones(K), ones(K))),
    Call("_responsibilities.log_weights", (ones(K), ones(K))),
    Call("_responsibilities.joint_divergence", (shares(K), shares(K), ones(K))),
    Call("_centred_moments.recentre",
         (ones(K, D), eyes(K, D), ones(K, D), 1.0, ones(K), ones(K, D), eyes(K, D))),
    Call("_centred_moments.merge_centred", (1.0, MOMENTS, 1.0, MOMENTS, *MOMENTS)),
    Call("_centred_moments.merge_centred",
         (1.0, AXIS_MOMENTS, 1.0, AXIS_MOMENTS, *AXIS_MOMENTS)),
    Call("_centred_moments.covariances_from_scatter",
         (eyes(K, D), ones(K), ones(D), eyes(K, D), eyes(K, D))),
    Call("_centred_moments.scatters_from_covariances",
         (eyes(K, D), ones(K), ones(D), eyes(K, D))),
    Call("_centred_moments.variances_from_scatter",
         (ones(K, D), ones(K), ones(D), ones(K, D), 0.0, ones(K, D))),
    Call("_centred_moments.scatters_from_covariances",
         (ones(K, D), ones(K), ones(D), ones(K, D))),
    Call("_small_matrices.multiply_by_inverse", ((ones(D),), (ones(D),), True, ones(D))),
    Call("_small_matrices.invert_variances", (ones(K, D), D, ones(K, D), ones(K))),
    Call("_small_matrices.invert_variances", (ones(K, 1), D, ones(K, 1), ones(K))),
    Call("_small_matrices.factorise", (eyes(K, D), eyes(K, D), eyes(K, D), ones(K))),
    Call("_small_matrices.kl_divergences",
         (ones(K, D), eyes(K, D), ones(K), ones(K, D), eyes(K, D), ones(K), ones(K))),
    Call("_small_matrices.kl_divergences",
         (ones(K, D), eyes(1, D), ones(1), ones(K, D), eyes(1, D), ones(1), ones(K))),
    Call("_small_matrices.kl_divergences",
         (ones(K, D), ones(K, 1), ones(K), ones(K, D), ones(K, 1), ones(K), ones(K))),
    Call("_forward_backward.forward_backward",
         (-ones(N, K), OFFSETS, *CHAIN, ones(S), ones(K, K), 1, ones(S), None)),
    Call("_forward_backward.forward_backward",
         (-ones(N, K), OFFSETS, *CHAIN, ones(S), ones(K, K), 1, ones(S), shares(N))),
    Call("_forward_backward.filtered", (-ones(N, K), OFFSETS, *CHAIN, ones(S), 1, True)),
    Call("_forward_backward.forward",
         (-ones(N, K), OFFSETS, shares(K, K), shares(2 * S, K), ones(S, K), ones(S), True)),
    Call("_forward_backward.backward",
         (-ones(N, K), OFFSETS, shares(K, K), shares(2 * S, K), ones(S, 2, K), ones(S, K, K),
          True, True)),
    Call("_forward_backward.occupancies",
         (shares(K), shares(K, K), OFFSETS[1:], ones(S), ones(K), ones(K))),
    Call("_forward_backward.visits", (shares(K), shares(K, K), 0.5, ones(K))),
    Call("_forward_backward.normalise_rows", (shares(K, S), shares(K, S), shares(K, S))),
    Call("_forward_backward.joint_divergence",
         (shares(K), shares(K, S), shares(K), shares(K, S), 1.0, ones(K), ones(K), ones(K))),
    Call("_log_chains.forward",
         (-ones(N, K), OFFSETS, -ones(K, K), -ones(2 * S, K), ones(S, K), ones(S), True)),
    Call("_log_chains.backward",
         (-ones(N, K), OFFSETS, -ones(K, K), -ones(2 * S, K), -ones(S, 2, K), ones(S, K, K),
          True, True)),
    Call("_log_chains.best_moves", (-ones(N, K), -ones(K, K), -ones(K)), {("log_densities", 0)}),
    Call("_log_chains.common_origin", (np.zeros((N, K), np.intc), -ones(K)),
         {("origins", 0), ("origins", 1), ("best", 0)}),
    Call("_log_chains.trace", (np.zeros((N, K), np.intc), 0, np.zeros(N, int)), {("origins", 1)}),
    Call("_log_chains.forward_backward",
         (-ones(N, K), shares(K), shares(K, K), ones(K), ones(K, K), 1.0), {("log_densities", 0)}),
    Call("_log_chains.filtered", (-ones(N, K), shares(K), shares(K, K), ones(K)),
         {("log_densities", 0)}),
    Call("_log_chains.draw_path",
         (-ones(N, K), shares(K), shares(K, K), ones(K), shares(N), ones(K, K), 1.0)),
    Call("_log_chains.viterbi",
         (-ones(N, K), OFFSETS, *CHAIN, ones(S), np.zeros(N, int), 1)),
    Call("_semi_markov.forward_backward",
         (-ones(N, K), OFFSETS, SEGMENTS, ones(S), ones(K, K), ones(K, W), ones(K, W),
          4 * (ones(K, W + 1),), None, None)),
    Call("_semi_markov.forward_backward",
         (-ones(N, K), OFFSETS, SEGMENTS, ones(S), ones(K, K), ones(K, W), ones(K, W),
          4 * (ones(K, W + 1),), ones(N, 2), np.zeros(N, int))),
    Call("_semi_markov.filtered",
         (-ones(N, K), OFFSETS, SEGMENTS, ones(S), ones(N), ones(K, W), ones(K), False)),
    Call("_semi_markov.viterbi", (-ones(N, K), OFFSETS, SEGMENTS, ones(S), np.zeros(N, int)),
         {("chain", 1)}),
    Call("_semi_markov.renewals",
         (shares(K, W + 1), ones(K), shares(K, K), shares(K, W), np.array([2, 4]), ones(S),
          ones(K), ones(K)), {("first", 1), ("durations", 1)}),
    Call("_kalman.filter_pass",
         (X, OFFSETS, SYSTEM, K, ones(S, W + W * W), ROWS_OF_STATES, None, None, ones(S), 1),
         {("start", 0)}),
    Call("_kalman.filter_pass",
         (X, OFFSETS, SYSTEM, K, START, (*4 * (None,), ones(N), *4 * (None,)), ones(N, K),
          evidence(), ones(S), 1)),
    Call("_kalman.expected_in_batches",
         (X, np.array([[2, 0], [4, 2], [0, 0], [4, 2]]), SYSTEM, K, START, True, evidence(),
          ones(S, 2, 2, K + K * K), ones(N), ones(S), 1)),
    Call("_kalman.fill_tables", (np.eye(W), MOVES, K, np.eye(W), TABLES)),
    Call("_kalman.covariances",
         (np.array([2, 4]), np.array([1, 1]), TABLES, K, ones(5, W, W))),
    Call("_kalman.expected_by_tables",
         (X, OFFSETS[:-1].copy(), np.array([2, 4]), np.array([1, 0]), np.array([0, 2]), ones(D),
          MOVES, K, TABLES, MAPS, ones(S, W), 0, 0.0, True, evidence(), ones(S, K), ones(N), 1)),
    Call("_kalman.add_occupancies",
         (OFFSETS[1:], ones(S), np.eye(K), ones(K), np.eye(K), ones(K), np.eye(K),
          ones(1 + K + K * K), ones(1 + K + K * K))),
    Call("_kalman.forgetting_steps", (np.eye(K),)),
    Call("_disturbances.smoothed_noise",
         (ones(N, D, S), *SYSTEM_OF_NOISE, ones(K + D), ones(K + D), ones(S), None, None),
         {("X", 0), ("diffuse", 0)}),
    Call("_disturbances.smoothed_noise",
         (ones(N, D, S), *SYSTEM_OF_NOISE, ones(K + D), ones(K + D), ones(S), ones(K),
          ones(K, 2 * K + 2)), {("X", 0), ("diffuse", 0)}),
    Call("_disturbances.likeliest_noise",
         (ones(N, D, S), *SYSTEM_OF_NOISE, ones(K + D), np.arange(K + D) - 1,
          (ones(K + D - 1), ones(K + D - 1), ones(1, K, K), np.eye(1)), ones(K + D),
          np.eye(K + D), 9), {("X", 0), ("X", 2), ("diffuse", 0)}),
    Call("_regressions.maximise",
         ((ones(K), ones(K), ones(K, 1 + D), eyes(K, 1 + D)), ones(D), True, True, True,
          REGRESSIONS)),
    Call("_regressions.expected_moments",
         (REGRESSIONS, ones(D), (ones(K), ones(K, 1), eyes(K, 1)), ones(K, 1 + D),
          eyes(K, 1 + D))),
    Call("_regressions.largest_square",
         (X, ONE_REGRESSION, (ones(1), ones(1, 1), eyes(1, 1))), {("Y", 0)}),
    Call("_regressions.kl_divergences",
         (REGRESSIONS, REGRESSIONS, (ones(K), ones(K, 1), eyes(K, 1)), ones(K))),
    Call("_regressions.unit_score",
         ((ones(1), ones(1), ones(1, 1 + D), eyes(1, 1 + D)), ones(D), ONE_REGRESSION, *ABOUT,
          ones(7)), {("score", 0)}),
    Call("_regressions.move", (ONE_REGRESSION, *ABOUT, ones(7)), {("v", 0)}),
    Call("_edit_lattice.lattice_pass",
         (*STRINGS, *STRINGS, PAIRS, *TABLE, False, True, ones(2), ones(0, 4), ones(8), shares(7),
          np.array([0, 2]), 1), {("uniforms", 0)}),
    Call("_edit_lattice.lattice_pass",
         (*STRINGS, *STRINGS, PAIRS, *TWO, False, True, ones(2), *4 * (None,), 1)),
    Call("_edit_lattice.best_path",
         (STRINGS[0], STRINGS[0], -TABLE[0], ones(3, 3, dtype=np.int8)),
         {("log_weights", 0)}),
    Call("_topic_tables.normalise_columns", (ones(D, K), 0.5, ones(D, K), ones(K))),
    Call("_collapsed_gaussian.sweep",
         (X, ones(D), ones(K), ones(K), ones(K, D), eyes(K, D), ones(K), shares(N), ASSIGNED,
          True)),
    Call("_collapsed_gaussian.sweep",
         (X, ones(D), ones(K), ones(K), ones(K, D), ones(K, D), ones(K), shares(N), ASSIGNED,
          True),
         {("scatter", 1)}),
    Call("_topic_tables.scale_columns", (ones(D, K), ones(K), ones(D, K), 1)),
    Call("_topic_tables.column_divergences", (shares(D, K), shares(D, K), ones(K), 1)),
    Call("_topic_tables.shift_divergences",
         (ones(D, K), np.arange(D), ones(K), ones(K), ones(K), 1),
         {("rows", 0), ("places", 0)}),
    Call("_topic_tables.inverse_powers",
         (ones(D, K), np.arange(D), ones(K), ones(3, K)), {("rows", 0), ("places", 0), ("out", 0)}),
    Call("_topic_tables.pad_rows", (ones(D, K), ones(D, 16, dtype=np.float32), 1),
         {("table", 1)}),
    Call("_topic_sweeps.sweep",
         (*TOKENS, PER_DOCUMENT[1], np.zeros(4, np.intc), *BLOCKS, *COUNTS, None, None, ones(K),
          0.1, 0, 1), {("word_topic", 0)}),
    Call("_topic_sweeps.sweep",
         (*TOKENS, PER_DOCUMENT[1], np.zeros(4, np.intc), *BLOCKS, *COUNTS, *COUNTS, ones(K), 0.1,
          0, 1)),
    Call("_topic_sweeps.expected_logs",
         (np.zeros(4, np.intc), TOKENS[1], BLOCKS[0], BLOCKS[3], PER_DOCUMENT[1], ones(K), ones(K),
          1)),
    Call("_topics.e_step",
         (*DOCUMENTS, *PER_DOCUMENT, TOPICS, ones(K), np.arange(S), 0, 2, 1, 0, 9, 9, False,
          ones(D, K), ones(K), ones(S), ones(S, K), 1)),
]  # fmt: skip

by_call = pytest.mark.parametrize("call", CALLS, ids=repr)


def public_functions():
    for module in pkgutil.iter_modules(kernels.__path__):
        loaded = importlib.import_module(f"{kernels.__name__}.{module.name}")
        for name, value in vars(loaded).items():
            own = getattr(value, "__globals__", None) is vars(loaded)
            if own and not name.startswith("_"):
                yield f"{module.name}.{name}"


def test_every_public_kernel_has_a_case():
    assert set(public_functions()) == {call.name for call in CALLS} | ANY_SHAPES


def resized(array, axis, change):
    """A copy with one axis longer, by zeros, or shorter."""
    if change > 0:
        padding = [(0, change if a == axis else 0) for a in range(array.ndim)]
        return np.pad(array, padding)
    return np.ascontiguousarray(np.delete(array, -1, axis=axis))


def variants(call):
    """Arguments with one axis of one array another, be it in a tuple of arrays."""
    for name, value in call.named.items():
        parts = value if isinstance(value, tuple) else (value,)
        for i, part in enumerate(parts):
            for axis in range(np.ndim(part)):
                if part.size == 0 or (name, axis) in call.free:
                    continue
                for change in (1, -1):
                    other = resized(part, axis, change)
                    # None at all stands for what is left out.
                    if other.size > 0:
                        changed = (*parts[:i], other, *parts[i + 1 :])
                        yield name, changed if isinstance(value, tuple) else other


def copied(value):
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def call_with(call, **changes):
    arguments = {name: copied(value) for name, value in {**call.named, **changes}.items()}
    return call.function(*arguments.values())


@by_call
def test_the_call_is_right(call):
    call_with(call)


@by_call
def test_arrays_that_do_not_fit_are_refused(call):
    for name, value in variants(call):
        shapes = [np.shape(a) for a in (value if isinstance(value, tuple) else (value,))]
        try:
            call_with(call, **{name: value})
        except ValueError:
            continue
        pytest.fail(f"{call} takes {name} of shape {shapes}")


@by_call
def test_no_threads_are_refused(call):
    if "n_threads" in call.named:
        with pytest.raises(ValueError, match="threads"):
            call_with(call, n_threads=0)


@by_call
def test_no_more_threads_are_started_than_have_work(call):
    """OpenMP ends the process where it cannot start as many as it is asked for."""
    if "n_threads" in call.named:
        call_with(call, n_threads=2**31 - 1)


@by_call
def test_other_types_are_refused(call):
    for name, value in call.named.items():
        if isinstance(value, np.ndarray) and value.size > 0:
            # Functions of several types find none that matches: a TypeError, as Cython has it.
            with pytest.raises((TypeError, ValueError), match="mismatch|kernel|signature|types"):
                call_with(call, **{name: value.astype(np.int16)})


OFFSET_CALLS = [call for call in CALLS if "offsets" in call.named]


@pytest.mark.parametrize("offsets", [[0, 0, N], [0, N + 4, N], [1, 2, N], [0, -3, N]], ids=str)
@pytest.mark.parametrize("call", OFFSET_CALLS, ids=repr)
def test_offsets_that_are_none_are_refused(call, offsets):
    with pytest.raises(ValueError, match="kernel"):
        call_with(call, offsets=np.array(offsets))


POINTERS = ("offsets", "indptr", "source_offsets", "target_offsets")


@by_call
@pytest.mark.parametrize(("place", "change"), [(0, 1), (0, -1), (-1, 1), (-1, -1), (-1, 10**6)])
def test_pointers_that_leave_arrays_are_refused(call, place, change):
    for name in POINTERS:
        if name in call.named:
            pointers = call.named[name].copy()
            pointers[place] += change
            with pytest.raises(ValueError, match="kernel"):
                call_with(call, **{name: pointers})


# Messages, arguments, and values of these: of arrays that fit each other, by which kernels would
# read and write elsewhere.
SWEEP_FAULTS = [
    ("words", "tokens", [0, 1, 0, 2], [-1, 1, 0, 1]),
    ("topics", "topics", [0, 3, 0, 0], [0, -2, 0, 0]),
    ("may use", "topics allowed", ([0, 0, 1, 0], [[1, 1, 1], [1, 0, 1]])),
    ("may use", "allowed", [[0, 0, 0], [0, 0, 0]]),
    ("alpha", "alpha", [1.0, 1.0, -1.0]),
    ("beta", "beta", 0.0, np.nan, 1e31),
    ("words", "block_words", [0, 2], [0, -1]),
    ("counts", "block_counts", [3.0, 1.5]),
    ("counts|2.24", "block_counts", [3.0, np.nan], [3.0, 2.0**24]),
    ("topics", "block_topics", np.full((2, 16), -1.0), np.full((2, 16), np.nan)),
    ("may use", "block_topics allowed", (np.eye(2, 16, 1), [[1, 0, 1], [1, 0, 1]])),
    ("offsets", "block_offsets", [0, 3, 2], [0, 0, 0]),
]
FAULTS = {
    "_kalman.expected_by_tables": [
        ("kernel", "begins", [0, 4], [-2, 2], [0, 10**7], [0, 2**63 - 2]),
        ("kernel", "lengths", [2, 5], [2, 10**7], [0, 4], [-2, 4]),
        ("kernel", "order", [2, 0], [-1, 0]),
        ("kernel", "bounds", [0, -1, 2], [0, 3, 2], [0, 10**7, 2]),
    ],
    "_edit_lattice.lattice_pass": [
        ("pairs of strings", "pairs", [[0, 2], [1, 1]], [[-1, 0], [1, 1]])
    ],
    "_topics.e_step": [
        ("whole", "counts", [1.5, 1, 1, 1], [2.0**24, 1, 1, 1]),
        ("counts", "counts", [-1, 1, 1, 1], [np.nan, 1, 1, 1], [np.inf, 1, 1, 1]),
        ("words", "words", [0, 1, 0, 2], [-1, 1, 0, 1]),
        ("alpha", "alpha", [1.0, 1.0, 0.0], [1.0, 1.0, np.nan], [1.0, 1.0, 1e31]),
        ("may use", "allowed", [[0, 1, 1], [0, 0, 0]]),
        ("multiple", "table", np.ones((2, 8)), np.ones((2, 0))),
        ("sweep", "burn_in", 3, -1),
        ("sweep", "n_sweeps", -1),
        ("round", "n_sweeps burn_in n_rounds", (0, 0, 0)),
        ("blocks", "most_single", -1),
    ],
    "_topic_sweeps.expected_logs": [("topic", "topics", [0, 0, -1, 0], [0, 0, 3, 0])],
    "_topic_sweeps.sweep": SWEEP_FAULTS,
}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (name, dict(zip(names.split(), value if " " in names else [value], strict=True)), message)
        for name, faults in FAULTS.items()
        for message, names, *values in faults
        for value in values
    ],
)
def test_values_that_are_none_are_refused(name, changes, message):
    for call in CALLS:
        if repr(call) == name:
            others = {
                name: np.array(value, call.named[name].dtype) if np.ndim(value) else value
                for name, value in changes.items()
            }
            with pytest.raises(ValueError, match=message):
                call_with(call, **others)
