"""Linear dynamical systems: against brute force and textbook formulas."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from cases import kalman
from cases.comparing import assert_close
from cases.coordinates import DynamicalCoordinates, minimiser
from cases.dynamical import ALL, PARAMETERS, changed, draw_data, draw_model, value
from cases.joint_gaussian import assert_inference, divergence, given_rows, joint
from numpy.testing import assert_allclose

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.families import Diagonal
from sklearn_onlineem.families.linear_gaussian import LinearGaussian
from sklearn_onlineem.models.kalman.linear_dynamical import VARYING, Varying


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("k, d", [(1, 1), (2, 5), (5, 10), (9, 4), (17, 3)])
def test_kernels_agree_with_the_textbook(k, d, missing, rng):
    model, data = draw_model(rng, k, d), draw_data(rng, [1, 30, 7], d, missing)
    rows = kalman.filtered(model, data.X, data.offsets)
    assert_allclose(model.row_log_likelihoods(data), rows.log_likelihood, rtol=1e-9, atol=1e-9)
    assert_close(model.filtered(data), (rows.mean, rows.covariance), rtol=1e-9, atol=1e-9)
    expected = kalman.smoothed(model, rows, data.offsets)
    assert_close(model.smoothed(data), expected, rtol=1e-9, atol=1e-9)
    means, covariances = model.predicted(data)
    C = model.emissions.matrix
    assert_allclose(means, rows.predicted @ C.T + model.emissions.offset, rtol=1e-8, atol=1e-9)
    expected = C @ rows.predicted_covariance @ C.T + model.emissions.covariance
    assert_allclose(covariances, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_drawn_pairs_leave_first_moments_exact(missing, rng):
    """They are antithetic, so that chance is in second moments of the states alone."""
    model, data = draw_model(rng, 3, 4), draw_data(rng, [1, 2, 30], 4, missing)
    expected, _ = model.e_step(data)
    drawn, _ = model.e_step(data, rng)
    for part in ("initial", "transitions", "emissions"):
        found, wanted = getattr(drawn, part), getattr(expected, part)
        assert_allclose(found.mean, wanted.mean, rtol=1e-9, atol=1e-10)
    if not missing:
        across = np.s_[0, :3, 3:]
        assert_allclose(drawn.emissions.scatter[across], expected.emissions.scatter[across])


def test_a_drawn_state_comes_with_what_is_expected_of_the_one_before(rng):
    """The formula: draws go backward, and of a pair the former is averaged over."""
    model, data = draw_model(rng, 2, 3), draw_data(rng, [6], 3)
    rows = kalman.filtered(model, data.X, data.offsets)
    means, *_ = model.smoothed(data)
    noise = np.random.default_rng(5).standard_normal((6, 2))
    pairs = np.concatenate([means[:-1], means[1:]], axis=1)
    scatter = (pairs - pairs.mean(axis=0)).T @ (pairs - pairs.mean(axis=0))
    deviation = np.linalg.cholesky(rows.covariance[5]) @ noise[5]
    for t in range(4, -1, -1):
        ahead = rows.predicted_covariance[t + 1]
        gain, rest = kalman.backward_gain(model, rows.covariance[t], ahead)
        pair = np.concatenate([gain @ deviation, deviation])
        scatter += np.outer(pair, pair)
        scatter[:2, :2] += rest
        first = rest + np.outer(pair[:2], pair[:2])
        deviation = pair[:2] + np.linalg.cholesky(rest) @ noise[t]
    drawn, _ = model.e_step(data, np.random.default_rng(5))
    assert_allclose(drawn.transitions.scatter[0], scatter, rtol=1e-9)
    assert_allclose(drawn.initial.scatter[0], first, rtol=1e-9)


def test_a_single_sequence_leaves_drawn_covariances_as_large_as_expected_ones(rng):
    """A variance that is 0 once would stay so, as states are then drawn from nothing."""
    truth = draw_model(rng, 2, 3)
    data = truth.pseudo_data(1, rng, like=draw_data(rng, [80], 3))
    expected = drawn = changed(truth, ALL - {"transitions__offset"})
    for _ in range(100):
        expected = expected.m_step(expected.e_step(data)[0])
        drawn = drawn.m_step(drawn.e_step(data, rng)[0])
    exact, found = (model.log_likelihood(data).mean() / 80 for model in (expected, drawn))
    assert abs(exact - found) < 0.05
    for name in ("initial__covariance", "transitions__covariance", "emissions__covariance"):
        least, reference = (np.linalg.eigvalsh(value(m, name))[0] for m in (drawn, expected))
        assert least > 0.1 * reference


# -------------------------------------------------------------------------- one step, numerically


def bound(evidence, new):
    """U of the old model at the new one, up to what the new one does not change, and KL."""
    total = -_expected_log(evidence.initial, new.initial)
    total -= _expected_log(evidence.transitions, new.transitions)
    return total - _expected_log(evidence.emissions, new.emissions)


def _expected_log(moments, parameters):
    n_inputs = parameters.matrix.shape[1]
    contrast = np.hstack([-parameters.matrix, np.eye(len(parameters.offset))])
    mean = contrast @ moments.mean[0] - parameters.offset
    spread = contrast @ moments.scatter[0] @ contrast.T
    spread += moments.weight[0] * np.outer(mean, mean)
    assert contrast.shape[1] == n_inputs + len(parameters.offset)
    log_det = np.linalg.slogdet(parameters.covariance)[1]
    trace = np.trace(np.linalg.solve(parameters.covariance, spread))
    return -0.5 * (moments.weight[0] * log_det + trace)


SUBSETS = [
    frozenset(subset)
    for group in (PARAMETERS[:2], PARAMETERS[2:5], PARAMETERS[5:])
    for size in range(1, len(group) + 1)
    for subset in itertools.combinations(group, size)
]


SIZES = itertools.cycle([(1, 2, 0.7), (2, 1, 3.0)])


@pytest.mark.parametrize(
    ("learnt", "k", "d", "eta"),
    [(learnt, *next(SIZES)) for learnt in (*SUBSETS, ALL, ALL)],
    ids=lambda value: ",".join(sorted(value)) if isinstance(value, frozenset) else None,
)
def test_online_step_minimises_bound_plus_divergence(learnt, k, d, eta, rng):
    model = draw_model(rng, k, d, learnt=learnt)
    data = draw_data(rng, [3, 1, 4], d, missing=0.2)
    evidence, _ = model.e_step(data)
    space = DynamicalCoordinates(model, [name for name in PARAMETERS if name in learnt])

    def objective(vector):
        new = space.decode(vector)
        return bound(evidence, new) + model.kl_divergence(new, data) / eta

    step, _ = online_step(model, data, eta)
    start = space.encode(step)
    found = minimiser(objective, start + 0.02 * rng.standard_normal(len(start)))
    assert objective(start) <= objective(found) + 1e-10
    found = space.decode(found)
    for name in PARAMETERS:
        assert_allclose(value(step, name), value(found, name), rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------------------------ robustness


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_large_offset_costs_no_digits(missing, rng):
    model = draw_model(rng, 2, 3, learnt=ALL - {"transitions__offset"})
    X = np.round(draw_data(rng, [80], 3, missing).X * 2.0**20) / 2.0**20
    offsets = np.array([0, 80])
    far = changed(model, emissions__offset=model.emissions.offset + 2.0**27)
    for _ in range(5):
        model, _ = batch_step(model, Sequences(Rows(X), offsets))
        far, _ = batch_step(far, Sequences(Rows(X + 2.0**27), offsets))
    far = changed(far, emissions__offset=far.emissions.offset - 2.0**27)
    assert_close(far, model, rtol=1e-5, atol=1e-6)


def is_covariance(matrices, slack=0.0):
    values = np.linalg.eigvalsh(matrices)
    return np.isfinite(values).all() and (values >= -slack * values.max()).all()


def test_covariances_stay_positive_at_condition_numbers_of_1e10(rng):
    model = draw_model(rng, 4, 5)
    scale = np.logspace(0, -10, 4)
    model = changed(
        model,
        transitions__matrix=0.99 * np.eye(4),
        transitions__covariance=np.diag(scale),
        emissions__covariance=np.diag(np.logspace(0, -10, 5)),
        initial__covariance=np.diag(scale[::-1]),
    )
    data = draw_data(rng, [20_000], 5, missing=0.05)
    means, covariances, _ = model.smoothed(data)
    assert np.isfinite(means).all() and is_covariance(covariances, slack=1e-15)
    assert is_covariance(model.filtered(data)[1], slack=1e-15)
    np.testing.assert_array_equal(covariances, covariances.transpose(0, 2, 1))
    new, _ = batch_step(model, data)
    assert is_covariance(new.transitions.covariance) and is_covariance(new.emissions.covariance)


@pytest.mark.slow
def test_a_million_rows_stay_finite(rng):
    model, data = draw_model(rng, 2, 1), draw_data(rng, [1_000_000], 1)
    new, log_likelihood = batch_step(model, data)
    assert np.isfinite(log_likelihood) and is_covariance(new.transitions.covariance)
    gaps, _ = batch_step(model, draw_data(rng, [1_000_000], 1, missing=0.1))
    assert is_covariance(gaps.transitions.covariance)


def test_known_singular_covariances_are_fine(rng):
    """An autoregression of order 2 in companion form, from a known state."""
    model = draw_model(rng, 2, 1, learnt=frozenset({"emissions__covariance"}))
    model = changed(
        model,
        initial__covariance=np.zeros((2, 2)),
        transitions__matrix=np.array([[0.5, 0.3], [1.0, 0.0]]),
        transitions__covariance=np.diag([1.0, 0.0]),
    )
    data = draw_data(rng, [12, 5], 1, missing=0.2)
    regular = changed(
        model, initial__covariance=1e-9 * np.eye(2), transitions__covariance=np.diag([1.0, 1e-9])
    )
    assert_allclose(model.log_likelihood(data), regular.log_likelihood(data), rtol=1e-6)
    assert_close(model.smoothed(data), regular.smoothed(data), rtol=1e-5, atol=1e-5)
    step, _ = online_step(model, data, 1.0)
    assert 0.0 < model.kl_divergence(step, data) < np.inf


def test_the_covariance_of_observations_must_be_positive_definite(rng):
    with pytest.raises(ValueError, match="observations is not positive definite"):
        changed(draw_model(rng, 2, 2), emissions__covariance=np.diag([1.0, 0.0]))


def test_parts_of_other_dimensions_are_refused(rng):
    model, other = draw_model(rng, 2, 3), draw_model(rng, 1, 3)
    for name in ("initial", "transitions", "emissions"):
        with pytest.raises(ValueError, match="matrices of"):
            replace(model, **{name: getattr(other, name)})
    with pytest.raises(ValueError, match="matrices of"):
        replace(model, initial=model.transitions)


# ------------------------------------------------------------------------------- linear-Gaussian


def test_the_floor_is_added_and_taken_off_again(rng):
    family = LinearGaussian(Diagonal(), floor=np.array([0.3, 0.5]))
    model = draw_model(rng, 2, 2, Diagonal())
    model = changed(model, emissions__covariance=model.emissions.covariance + np.eye(2))
    model = replace(model, emissions=replace(model.emissions, family=family))
    assert_close(model.m_step(model.own_statistics(draw_data(rng, [4], 2))), model)
    constant = Sequences(Rows(np.ones((6, 2))), np.array([0, 6]))
    for _ in range(30):
        model, _ = batch_step(model, constant)
    assert (np.diag(model.emissions.covariance) >= [0.3, 0.5]).all()


def test_a_model_says_how_many_parameters_it_learns(rng):
    # Turns of the coordinates of the state take up four, and shifts two.
    assert draw_model(rng, 2, 3).n_parameters() == 2 + 3 + 4 + 2 + 3 + 6 + 3 + 6 - 4 - 2
    assert draw_model(rng, 2, 3, learnt=frozenset({PARAMETERS[2]})).n_parameters() == 4
    # What is known is left by turns about a round first state, and by scales of modes.
    start = {"initial__offset": np.zeros(2), "initial__covariance": np.eye(2)}
    of_start = changed(draw_model(rng, 2, 3), ALL - {*start}, **start)
    assert of_start.n_parameters() == 4 + 2 + 3 + 6 + 3 + 6 - 1
    modes, names = np.diag([0.9, 0.5]), ALL - {"transitions__matrix", "transitions__offset"}
    of_modes = changed(draw_model(rng, 2, 3), names, transitions__matrix=modes)
    assert of_modes.n_parameters() == 2 + 3 + 3 + 6 + 3 + 6 - 2


def test_without_data_it_says_that_lengths_are_unknown(rng):
    model = draw_model(rng, 2, 3)
    for wanted in (model.own_statistics, partial(model.kl_divergence, draw_model(rng, 2, 3))):
        with pytest.raises(ValueError, match="lengths of sequences are given"):
            wanted()


K, D, T = 2, 3, 5
PLACES = {
    "transition_matrices": "transitions__matrix",
    "transition_offsets": "transitions__offset",
    "observation_matrices": "emissions__matrix",
    "observation_offsets": "emissions__offset",
}
KINDS = {"none": [], "all": [*VARYING], **{name: [name] for name in VARYING}}
all_kinds = pytest.mark.parametrize("names", KINDS.values(), ids=KINDS)


def draw(rng, names, n=T):
    model = draw_model(rng, K, D)
    shapes = {"transition_matrices": (K, K), "transition_offsets": (K,)}
    shapes |= {"observation_matrices": (D, K), "observation_offsets": (D,)}
    given = {name: rng.standard_normal((n, *shapes[name])) for name in names}
    zeros = {PLACES[name]: np.zeros(shapes[name]) for name in names}
    model = changed(model, ALL - {PLACES[name] for name in names}, **zeros)
    return replace(model, varying=Varying(**given) if names else None)


def moments_by_hand(model, n, mean, S):
    """Second moments about 0 of states and what is left of the next one and of the row."""
    second = np.pad(S, (0, 1)) + np.outer(*[np.append(mean, 1.0)] * 2)
    one, found = len(mean), []
    for size, steps, matrices, offsets in (
        (K, n - 1, "transition_matrices", "transition_offsets"),
        (D, n, "observation_matrices", "observation_offsets"),
    ):
        total = np.zeros((K + size, K + size))
        for t in range(steps):
            pick = np.zeros((K + size, one + 1))
            begin = (t + 1) * K if size == K else n * K + t * D
            pick[:K, t * K : t * K + K] = np.eye(K)
            pick[K:, begin : begin + size] = np.eye(size)
            if getattr(model.varying, matrices, None) is not None:
                pick[K:, t * K : t * K + K] -= getattr(model.varying, matrices)[t]
            if getattr(model.varying, offsets, None) is not None:
                pick[K:, one] -= getattr(model.varying, offsets)[t]
            total += pick @ second @ pick.T
        found.append(total)
    return found


def about_zero(moments):
    return moments.scatter[0] + moments.weight[0] * np.outer(moments.mean, moments.mean)


@all_kinds
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_inference_is_that_of_the_joint_gaussian(names, missing, rng):
    model, data = draw(rng, names), draw_data(rng, [T], D, missing)
    mean, S, _ = joint(model, T)
    posterior, rest = assert_inference(model, data, partial(given_rows, mean, S, data.X))
    evidence, log_likelihood = model.e_step(data)
    assert_allclose(log_likelihood, model.log_likelihood(data)[0], rtol=1e-9)
    if not missing:
        transitions, emissions = moments_by_hand(model, T, posterior, rest)
        assert_allclose(about_zero(evidence.emissions), emissions, rtol=1e-8, atol=1e-8)
        assert_allclose(about_zero(evidence.transitions), transitions, rtol=1e-8, atol=1e-8)


@all_kinds
def test_own_statistics_and_divergences_are_those_of_the_joint_gaussian(names, rng):
    p, q = draw(rng, names), draw(rng, names)
    q = replace(q, varying=p.varying)
    own, like = p.own_statistics(draw_data(rng, [T, 2], D)), draw_data(rng, [T, 2], D)
    found = [np.zeros((K + K, K + K)), np.zeros((K + D, K + D))]
    expected = 0.0
    for n in (T, 2):
        mean, S, _ = joint(p, n)
        for total, part in zip(found, moments_by_hand(p, n, mean, S), strict=True):
            total += 0.5 * part
        expected += 0.5 * divergence(p, q, n)
    assert_allclose(about_zero(own.transitions), found[0], rtol=1e-9, atol=1e-9)
    assert_allclose(about_zero(own.emissions), found[1], rtol=1e-9, atol=1e-9)
    assert_allclose(p.kl_divergence(q, like), expected, rtol=1e-8)
    assert_close(p.m_step(own), p, rtol=1e-10, atol=1e-12)


@all_kinds
@pytest.mark.parametrize("eta", [0.3, 3.0])
def test_steps_never_lower_the_likelihood_and_shards_add_up(names, eta, rng):
    model, data = draw(rng, names), draw_data(rng, [5, 1, 3, 4, 2, 5], D, missing=0.3)
    for new, before in (online_step(model, data, eta), batch_step(model, data)):
        assert new.log_likelihood(data).mean() > before - 1e-12
        assert new.varying is model.varying
    shards = [data[:2], data[2:]]
    evidence = [(len(part) / 6.0, model.e_step(part)[0]) for part in shards]
    (a, first), (b, second) = evidence
    assert_close(first * a + second * b, model.e_step(data)[0], rtol=1e-9, atol=1e-10)


def test_arrays_of_equal_entries_are_one_that_all_rows_share(rng):
    """With gaps, where missing values are expected given the others of their row."""
    still, data = draw_model(rng, K, D), draw_data(rng, [T, 3, 1], D, missing=0.4)
    parts = [PLACES[name] for name in VARYING]
    arrays = {}
    for name in VARYING:
        part, what = PLACES[name].split("__")
        arrays[name] = np.repeat(getattr(getattr(still, part), what)[None], T, axis=0)
    zeros = {PLACES[name]: np.zeros_like(array[0]) for name, array in arrays.items()}
    moving = replace(changed(still, ALL - set(parts), **zeros), varying=Varying(**arrays))
    known = changed(still, ALL - set(parts))
    for one, other in zip(
        (still.smoothed(data), still.predicted(data)),
        (moving.smoothed(data), moving.predicted(data)), strict=True,
    ):  # fmt: skip
        assert_close(one, other, rtol=1e-9, atol=1e-10)
    steps = [batch_step(model, data)[0] for model in (known, moving)]
    for part in ("initial", "transitions", "emissions"):
        found, expected = (getattr(model, part).covariance for model in steps[::-1])
        assert_allclose(found, expected, rtol=1e-8)


def test_forecasts_need_and_use_the_arrays_of_the_future(rng):
    model, data = draw(rng, KINDS["all"], T + 3), draw_data(rng, [T, 3], D)
    means, covariances = model.forecast(data, 3)
    X = np.concatenate([data.X[:T], np.full((3, D), np.nan)])
    longer = Sequences(Rows(X), np.array([0, T + 3]))
    expected = model.predicted(longer)
    assert_allclose(means[0], expected[0][T:], rtol=1e-10)
    assert_allclose(covariances[0], expected[1][T:], rtol=1e-10)
    assert means.shape == (2, 3, D) and covariances.shape == (2, 3, D, D)
    with pytest.raises(ValueError, match="transition_matrices varies in time and has 8 entries"):
        model.forecast(data, 5)


def test_draws_have_the_moments_of_the_system(rng):
    model = draw(rng, KINDS["all"], 3)
    data, states = model.sample(20_000, rng, draw_data(rng, [3], D))
    mean, S, _ = joint(model, 3)
    found = np.hstack([states.reshape(-1, 3 * K), data.X.reshape(-1, 3 * D)])
    spread = np.sqrt(np.diag(S) / 20_000)
    assert (np.abs(found.mean(axis=0) - mean) < 5.0 * spread).all()
    assert_allclose(np.cov(found.T), S, atol=0.05 * np.diag(S).max())
