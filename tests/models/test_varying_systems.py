"""Linear dynamical systems, also with known arrays that vary in time, against brute force."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from cases.comparing import assert_close
from cases.dynamical import ALL, changed, draw_data, draw_model
from cases.joint_gaussian import assert_inference, divergence, given_rows, joint
from numpy.testing import assert_allclose

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.models.kalman.linear_dynamical import VARYING, Varying

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
