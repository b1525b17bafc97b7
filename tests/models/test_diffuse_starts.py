"""Linear dynamical systems with exact diffuse starts, against joint Gaussians with a flat prior."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from cases.dynamical import PARAMETERS, changed, draw_data, draw_model, value
from cases.joint_gaussian import assert_inference, joint
from numpy.testing import assert_allclose
from scipy.linalg import block_diag
from scipy.optimize import minimize

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import LengthDistribution, Sequences
from sklearn_onlineem.em.certificate import _information
from sklearn_onlineem.em.quasi_newton import Evaluation
from sklearn_onlineem.families import Diagonal
from sklearn_onlineem.families.linear_gaussian import LinearGaussian
from sklearn_onlineem.models.fixed import FixedEntries
from sklearn_onlineem.models.kalman import _diffuse
from sklearn_onlineem.models.kalman._filter import Prepared
from sklearn_onlineem.models.kalman._varying import Varying, expected_moments, known_of
from sklearn_onlineem.statistics import combine

K, T = 3, 6
# Which variables are diffuse, columns, the share of missing values, whether arrays vary in time.
KINDS = {
    "one of three": ([0], 2, 0.0, False),
    "gaps": ([0, 2], 2, 0.4, False),
    "all": ([0, 1, 2], 1, 0.0, False),
    "all, gaps": ([0, 1, 2], 1, 0.3, False),
    "in time": ([1, 2], 2, 0.4, True),
}
all_kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def draw(rng, kind):
    """A system without noise of the last state, and a sequence that determines its start."""
    states, d, missing, varies = kind
    model, diffuse = draw_model(rng, K, d), np.isin(np.arange(K), states)
    apart = diffuse | diffuse[:, None]
    last = np.arange(K) == K - 1
    Q = np.where(last | last[:, None], 0.0, model.transitions.covariance)
    V = np.where(apart, 0.0, model.initial.covariance)
    model = changed(model, initial__covariance=V, transitions__covariance=Q)
    model = replace(model, diffuse=diffuse)
    if varies:
        given = Varying(observation_matrices=rng.standard_normal((T, d, K)))
        model = replace(changed(model, emissions__matrix=np.zeros((d, K))), varying=given)
    data = draw_data(rng, [T], d)
    X = np.where(rng.random(data.X.shape) < missing, np.nan, data.X)
    return model, replace(data, rows=replace(data.rows, X=X))


def flat(model, data, n_rows=T):
    """Log-likelihood of first rows, and mean and covariance of (h_1, .., h_T, v_1, .., v_T)."""
    mean, S, maps = joint(model, T)
    G = maps[:, model.diffuse]
    values = data.X.ravel()
    seen = np.flatnonzero(~np.isnan(values) & (np.arange(data.X.size) < n_rows * model.n_features))
    places, values = seen + T * K, values[seen]
    inverse, Z = np.linalg.inv(S[np.ix_(places, places)]), G[places]
    information = Z.T @ inverse @ Z
    W = np.linalg.inv(information)
    start = W @ Z.T @ inverse @ (values - mean[places])
    rest = values - mean[places] - Z @ start
    log_det = np.linalg.slogdet(information)[1] - np.linalg.slogdet(inverse)[1]
    log_likelihood = -0.5 * (len(seen) * np.log(2 * np.pi) + log_det + rest @ inverse @ rest)
    gain = S[:, places] @ inverse
    left = G - gain @ Z
    covariance = S - gain @ S[places] + left @ W @ left.T
    return log_likelihood, mean + G @ start + gain @ rest, covariance


@all_kinds
def test_inference_is_that_of_the_joint_gaussian(kind, rng):
    model, data = draw(rng, kind)
    assert_inference(model, data, partial(flat, model, data), rtol=1e-8)
    filtered, predicted = model.filtered(data), model.predicted(data)
    determined = int((~np.isnan(data.X[0])).sum()) >= len(kind[0])
    assert np.isfinite(filtered[1][0]).all() == determined
    assert np.isinf(np.diagonal(predicted[1][0])).all()


@all_kinds
def test_evidence_is_that_of_smoothed_moments(kind, rng):
    model, data = draw(rng, kind)
    log_likelihood, mean, S = flat(model, data)
    statistics, found = model.e_step(data)
    assert_allclose(found, log_likelihood, rtol=1e-9)
    moments = [mean[: T * K].reshape(T, K), *np.zeros((2, T, K, K))]
    for t in range(T):
        h = slice(K * t, K * t + K)
        moments[1][t] = S[h, h]
        moments[2][t] = S[h, h.start - K : h.start] if t else 0.0
    rows, known = Prepared(data.X, data.offsets, None), known_of(model, data)
    for ours, part in zip(
        statistics.parts, expected_moments(model, rows, known, *moments), strict=True
    ):
        for name in ("weight", "degrees", "mean", "scatter"):
            assert_allclose(getattr(ours, name), getattr(part, name), rtol=1e-8, atol=1e-8)


def test_each_sequence_has_a_start_of_its_own(rng):
    model, data = draw(rng, KINDS["all"])
    other = draw_data(rng, [T], 1)
    both = Sequences.concatenate([data, other])
    expected = np.append(model.log_likelihood(data), model.log_likelihood(other))
    assert_allclose(model.log_likelihood(both), expected)
    pieces = Sequences.concatenate([data, other]).continued(model.filtered_end(data))
    end = replace(model, diffuse=None).filtered_end(both[:1].continued(model.filtered_end(data)))
    assert_allclose(model.filtered(pieces)[0][T - 1], end[0])
    sums = [model.e_step(part) for part in (data, other)]
    statistics, log_likelihood = model.e_step(both)
    assert_allclose(log_likelihood, expected.mean())
    assert_allclose(
        statistics.transitions.scatter, sums[0][0].merge(0.5, sums[1][0], 0.5).transitions.scatter
    )


@all_kinds
@pytest.mark.parametrize("lengths", [[T] * 5, [T, 2 * T, 3 * T, 2 * T, T, 4 * T]], ids=str)
@pytest.mark.parametrize("n_later", [0, 1])
def test_sequences_with_equal_gaps_at_first_share_covariances(kind, lengths, n_later, rng):
    model, data = draw(rng, kind)
    if model.varying is not None:
        matrices = np.concatenate([model.varying.observation_matrices] * 4)
        model = replace(model, varying=Varying(observation_matrices=matrices))
    sequences = draw_data(rng, lengths, model.n_features)
    X = sequences.X.copy()
    for begin in sequences.offsets[:-1]:
        X[begin : begin + T][np.isnan(data.X)] = np.nan
    # Gaps in the rest of some.
    X[sequences.offsets[1 : 1 + n_later] - 1] = np.nan
    sequences = replace(sequences, rows=replace(sequences.rows, X=X))
    statistics, log_likelihood = model.e_step(sequences)
    one_by_one = [model.e_step(sequences[i : i + 1]) for i in range(len(lengths))]
    total = combine([(1.0 / len(lengths), statistics) for statistics, _ in one_by_one])
    assert_allclose(log_likelihood, np.mean([found for _, found in one_by_one]), rtol=1e-9)
    for ours, part in zip(statistics.parts, total.parts, strict=True):
        for name in ("weight", "degrees", "mean", "scatter"):
            assert_allclose(getattr(ours, name), getattr(part, name), rtol=1e-8, atol=1e-8)
    for name in ("smoothed", "filtered", "predicted", "row_log_likelihoods"):
        infer = getattr(model, name)
        parts = [infer(sequences[i : i + 1]) for i in range(len(lengths))]
        if name == "row_log_likelihoods":
            parts, found = [(part,) for part in parts], [infer(sequences)]
        else:
            found = infer(sequences)
        for ours, theirs in zip(found, zip(*parts, strict=True), strict=True):
            assert_allclose(ours, np.concatenate(theirs), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if not kind[-1]], ids=str)
@pytest.mark.parametrize("lengths", [[2 * T], [70 * T], [2 * T, T, T, T, 2 * T]], ids=str)
def test_variances_are_learnt_from_smoothed_noise(kind, lengths, rng, monkeypatch):
    monkeypatch.setattr(_diffuse, "_MOST_ABREAST", 2)
    model, data = draw(rng, kind)
    sequences = draw_data(rng, lengths, model.n_features)
    X = sequences.X.copy()
    X[:T][np.isnan(data.X)] = np.nan
    X[2 * T - 1], X[-2, :1] = np.nan, np.nan
    data = replace(sequences, rows=replace(sequences.rows, X=X))
    variances = ["transitions__covariance", "emissions__covariance"]
    noise = {name: np.diag(value(model, name).diagonal()) for name in variances}
    families = {"transitions": np.full(K, 1e-3), "emissions": None}
    families = {
        name: replace(getattr(model, name), family=LinearGaussian(Diagonal(), floor))
        for name, floor in families.items()
    }
    model = changed(replace(model, **families), **noise)
    alone = changed(model, learnt=variances)
    (found, log_likelihood), (whole, expected) = (each.e_step(data) for each in (alone, model))
    # States are in those of all that is learnt.
    assert not found.transitions.mean[:, :K].any()
    assert whole.transitions.mean[:, :K].any()
    assert_allclose(log_likelihood, expected, rtol=1e-9)
    ours, theirs = alone.m_step(found), alone.m_step(whole)
    for name in variances:
        assert_allclose(value(ours, name), value(theirs, name), rtol=1e-8, atol=1e-9)
    for name in ("transitions", "emissions"):
        parts = getattr(found, name), getattr(whole, name)
        assert_allclose(*(part.weight for part in parts))
        assert_allclose(*(getattr(model, name).expected_log_density(part) for part in parts))


# What is learnt of transitions with a state without noise: entries, and others that are tied.
ENTRIES = np.array([[False, True, False], [True, True, False], [False, False, False]])
TURN = np.array(
    [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0] * 3], [[0.0, 1, 0], [-1.0, 0, 0], [0.0] * 3]]
)


def learning_transitions(model, tied, floor=0.0):
    """The model, of which independent noise and entries of the transitions are learnt, if any."""
    mask = TURN.any(axis=0) if tied else ENTRIES & (tied is not None)
    fixed = FixedEntries(~mask, np.ones(K, bool), ~np.eye(K, dtype=bool), TURN if tied else None)
    names = "transitions__matrix", "transitions__covariance", "emissions__covariance"
    noise = {name: np.diag(value(model, name).diagonal()) for name in names[1:]}
    if tied:
        noise["transitions__covariance"] = np.diag([0.3, 0.3, 0.0])
    model = changed(model, learnt=names if tied is not None else names[1:], **noise)
    diagonal = [LinearGaussian(Diagonal(), np.full(n, floor)) for n in (K, model.n_features)]
    moves = replace(model.transitions, family=diagonal[0], fixed=fixed)
    return replace(model, transitions=moves, emissions=replace(model.emissions, family=diagonal[1]))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if not kind[-1]], ids=str)
@pytest.mark.parametrize("lengths", [[2 * T], [70 * T], [2 * T, T, T, T, 2 * T]], ids=str)
def test_transitions_are_learnt_from_smoothed_noise(kind, tied, lengths, rng, monkeypatch):
    monkeypatch.setattr(_diffuse, "_MOST_ABREAST", 2)
    model, data = draw(rng, kind)
    model, sequences = learning_transitions(model, tied), draw_data(rng, lengths, model.n_features)
    X = 3.0 + sequences.X
    X[:T][np.isnan(data.X)] = np.nan
    X[2 * T - 1] = np.nan
    data = replace(sequences, rows=replace(sequences.rows, X=X))
    found, log_likelihood = model.e_step(data)
    monkeypatch.setattr(_diffuse, "_has_independent_noise", lambda model: False)
    whole, expected = model.e_step(data)
    # Rows are those of known coefficients.
    assert not found.emissions.mean[:, :K].any()
    assert whole.emissions.mean[:, :K].any()
    assert_allclose(log_likelihood, expected, rtol=1e-9)
    assert_allclose(found.transitions.mean, whole.transitions.mean, rtol=1e-8, atol=1e-9)
    of_states = [part.transitions.scatter[:, :, :K] for part in (found, whole)]
    assert_allclose(*of_states, rtol=1e-7, atol=1e-7)
    ours, theirs = model.m_step(found), model.m_step(whole)
    for name in ("transitions__matrix", "transitions__covariance", "emissions__covariance"):
        assert_allclose(value(ours, name), value(theirs, name), rtol=1e-7, atol=1e-9)
    parts = found.transitions, whole.transitions
    assert_allclose(*map(model.transitions.expected_log_density, parts))


@pytest.mark.parametrize(("tied", "floor"), [(None, 0.0), (None, 0.5), (False, 0.0), (True, 0.0)])
@pytest.mark.parametrize(("is_known", "n_sequences"), [(0, 1), (0, 3), (1, 1), (1, 3)])
def test_a_climb_ends_at_a_maximum_and_knows_its_curvature(is_known, n_sequences, tied, floor, rng):
    model = learning_transitions(draw(rng, KINDS["all"])[0], tied, floor)
    A = np.array([[0.8, 0.3, 0.0], [-0.3, 0.8, 0.0], [0.0, 0.0, 1.0]])
    start = {"initial__covariance": np.diag([4.0, 4.0, is_known]), "transitions__matrix": A}
    start["emissions__matrix"] = np.array([[1.0, 0.2, 1.0]])
    model = replace(changed(model, **start), diffuse=None if is_known else np.arange(K) == 2)
    like = LengthDistribution((np.array([150]), np.ones(1)))
    data, _ = model.sample(n_sequences, rng, like)
    X = data.X.reshape(n_sequences, 150)
    X[:, [1, 20, 21]] = np.nan

    def evaluation(model):
        return Evaluation(model, *model.e_step(data), [], data)

    about = evaluation(model).coordinates
    there, n_read, promised, derivatives = about.climbed()
    here = evaluation(there)
    assert n_read > 2
    # Within a tenth of a standard error.
    assert 0.0 <= promised < 1e-2
    # The score is the derivative of the likelihood, and the curvature that of the score.
    v = rng.standard_normal(about.shape)
    ahead, behind = (evaluation(about.moved(s * v)).objective for s in (1e-5, -1e-5))
    assert_allclose((about.score(evaluation(model).statistics) * v).sum(), (ahead - behind) / 2e-5,
                    rtol=1e-5, atol=1e-7)  # fmt: skip
    score = here.coordinates.score(here.statistics)[0]
    found = here.coordinates.information(derivatives, score)
    if np.linalg.eigvalsh(found)[0] < 1e-3:
        return  # a saddle, from which certificates go on, or a variance of 0
    assert_allclose(found, _information(here, evaluation, score), rtol=0.05, atol=0.02)
    assert 0.5 * score @ np.linalg.solve(found, score) < 1e-2

    def value_at(v):
        return -n_sequences * evaluation(here.coordinates.moved(v[None])).objective

    best = minimize(value_at, np.zeros(len(score)), method="Nelder-Mead", options={"fatol": 1e-7})
    assert value_at(np.zeros(len(score))) < best.fun + 1e-2


@pytest.mark.parametrize("rate", [1.1, 5.0])
def test_noise_of_states_that_grow_is_that_of_the_other_filter(rate, rng):
    model = learning_transitions(draw(rng, KINDS["all"])[0], tied=True)
    turn = rate * np.array([[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0 / rate]])
    start = {"initial__covariance": np.diag([4.0, 4.0, 0.0]), "transitions__matrix": turn}
    model = replace(changed(model, **start), diffuse=np.array([False, False, True]))
    data = draw_data(rng, [300], 1)
    found, log_likelihood = model.e_step(data)
    assert_allclose(log_likelihood, model.row_log_likelihoods(data).sum(), rtol=1e-9)
    mean = model.smoothed(data)[0]
    expected = np.append(mean[:-1].mean(axis=0), mean[1:].mean(axis=0))
    assert_allclose(found.transitions.mean[0], expected, rtol=1e-6)


def test_a_column_that_begins_late_is_read_as_by_itself(rng):
    parts = [changed(draw_model(rng, 1, 1), initial__covariance=np.zeros((1, 1))) for _ in "ab"]
    values = {name: [value(part, name) for part in parts] for name in PARAMETERS}
    values = {
        name: np.concatenate(own) if name.endswith("offset") else block_diag(*own)
        for name, own in values.items()
    }
    whole = replace(changed(draw_model(rng, 2, 2), **values), diffuse=np.ones(2, dtype=bool))
    X = draw_data(rng, [900], 2).X.copy()
    # Long after, nothing is left of the first state.
    X[:600, 1] = np.nan
    data = Sequences(Rows(X), np.array([0, 900]))
    means, covariances, lags = whole.smoothed(data)
    filtered, log_likelihood = whole.filtered(data), 0.0
    for i, part in enumerate(parts):
        part, own = replace(part, diffuse=np.ones(1, dtype=bool)), X[:, i : i + 1]
        own = Sequences(Rows(own.copy()), data.offsets)
        log_likelihood += part.log_likelihood(own)
        found = means[:, i, None], covariances[:, i, i, None, None], lags[:, i, i, None, None]
        for ours, theirs in zip(found, part.smoothed(own), strict=True):
            assert_allclose(ours, theirs, rtol=1e-9)
        found = filtered[0][:, i, None], filtered[1][:, i, i, None, None]
        for ours, theirs in zip(found, part.filtered(own), strict=True):
            assert_allclose(ours, theirs, rtol=1e-9)
    assert_allclose(whole.log_likelihood(data), log_likelihood, rtol=1e-12)


def test_rows_that_do_not_determine_the_start_are_refused(rng):
    model, _ = draw(rng, KINDS["all"])
    short = draw_data(rng, [2], 1)
    assert np.isinf(model.filtered(short)[1].diagonal(axis1=1, axis2=2)).all()
    assert np.isfinite(model.log_likelihood(short)).all()
    for call in (model.smoothed, model.e_step, model.filtered_end, lambda x: model.forecast(x, 1)):
        with pytest.raises(ValueError, match="do not determine a diffuse start"):
            call(short)
