"""What holds for every model, and for one step of EM on it."""

import math
from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np
import pytest
from cases.chains import CHAINS
from cases.comparing import assert_close, assert_identical
from cases.coordinates import minimiser
from cases.dynamical import DYNAMICAL
from cases.enumeration import LogDensities
from cases.mixture_cases import MIXTURES
from cases.transducers import TRANSDUCERS
from numpy.testing import assert_allclose
from scipy.special import softmax

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em.step import Sampled, batch_step, online_step
from sklearn_onlineem.families import Multinomial, Poisson
from sklearn_onlineem.families.capabilities import Marginals
from sklearn_onlineem.models.mixtures.mixture import MixtureModel
from sklearn_onlineem.models.terminations import AbsorbingStates
from sklearn_onlineem.statistics import combine

MODELS = [*MIXTURES, *CHAINS, *DYNAMICAL, *TRANSDUCERS]
all_models = pytest.mark.parametrize("case", MODELS, ids=repr)
all_mixtures = pytest.mark.parametrize("case", MIXTURES, ids=repr)
all_chains = pytest.mark.parametrize("case", CHAINS, ids=repr)
# Where hidden variables can be known.
labelled_models = pytest.mark.parametrize(
    "case", [case for case in MODELS if case.has_labels], ids=repr
)
# Where the statistics of any data are those of some model.
regular_models = pytest.mark.parametrize("case", [m for m in MODELS if m.regular], ids=repr)
# States are not drawn beside inputs, nor inputs.
drawn_models = pytest.mark.parametrize(
    "case", [case for case in MODELS if not getattr(case, "n_inputs", 0)], ids=repr
)
RATES = [1e-3, 1.0, math.inf]


@all_models
def test_m_step_of_own_statistics_is_the_identity(case, rng):
    model, like = case.draw(rng, 5, 3), case.data(rng, 20, 3)
    assert_close(model.m_step(model.own_statistics(like)), model, rtol=1e-12)


@all_mixtures
def test_m_step_of_own_statistics_keeps_an_empty_component(case, rng):
    model = replace(case.draw(rng, 3, 3), weights=np.array([0.4, 0.0, 0.6]))
    assert_close(model.m_step(model.own_statistics()), model, rtol=1e-12)


@all_chains
def test_m_step_of_own_statistics_keeps_a_state_that_is_never_entered(case, rng):
    model, like = case.draw(rng), case.data(rng, 20)
    start, transmat = model.start.copy(), model.transmat.copy()
    start[0] = transmat[:, 0] = 0.0
    transmat /= transmat.sum(axis=1, keepdims=True)
    model = replace(model, start=start / start.sum(), transmat=transmat)
    assert_close(model.m_step(model.own_statistics(like)), model, rtol=1e-12)


@all_models
def test_e_step_gives_the_mean_log_likelihood(case, rng):
    model, data = case.draw(rng), case.rich_data(rng, 80)
    _, log_likelihood = model.e_step(data)
    assert_allclose(log_likelihood, case.mean_log_likelihood(model, data), rtol=1e-10)
    data = case.data(rng, 80)
    found = model.log_likelihood(data).mean()
    assert_allclose(found, case.mean_log_likelihood(model, data), rtol=1e-10)


@all_mixtures
def test_posterior_is_bayes_rule(case, rng):
    model, X = case.draw(rng), case.rows(rng, 60)
    log_joint = model.family.log_density(model.parameters, X) + np.log(model.weights)
    assert_allclose(model.posterior(Rows(X)), softmax(log_joint, axis=1), rtol=1e-8, atol=1e-12)


@all_chains
def test_rows_of_a_chain_count_by_what_was_observed_of_them(case, rng):
    """By marginals of what they have; those that have nothing are steps alone."""
    model, data = case.draw(rng), case.with_gaps(case.data(rng, 60), rng)
    family, seen = model.family, ~np.isnan(data.X).all(axis=1)
    log_density, statistics_of = family.log_density, family.posterior_statistics
    if isinstance(family, Marginals):
        log_density, statistics_of = family.marginal_log_density, family.marginal_statistics
    densities = np.zeros((len(data.X), 3))
    densities[seen] = log_density(model.parameters, data.X[seen])
    plain = replace(model, family=LogDensities(3), parameters=None)
    of_rows = replace(data, rows=Rows(densities))
    assert_allclose(model.log_likelihood(data), plain.log_likelihood(of_rows), rtol=1e-10)
    posterior = plain.posterior(of_rows)
    assert_allclose(model.posterior(data), posterior, rtol=1e-8, atol=1e-12)
    evidence, expected = model.e_step(data)[0], plain.e_step(of_rows)[0]
    assert_close(evidence.transitions, expected.transitions, rtol=1e-8)
    statistics = statistics_of(model.parameters, data.X[seen], posterior[seen])
    both = evidence.emissions, statistics.scale(1.0 / len(data))
    assert_close(*map(family.effective_counts, both), rtol=1e-8)
    found, expected = (family.m_step(each, model.parameters) for each in both)
    assert_close(found, expected, rtol=1e-8, atol=1e-10)


@all_models
def test_shards_add_up_to_the_whole(case, rng):
    model, data = case.draw(rng), case.rich_data(rng, 300)
    shards = [data[:70], data[70:71], data[71:]]
    evidence = [model.e_step(shard) for shard in shards]
    shares = [shard.total_weight / data.total_weight for shard in shards]
    whole, log_likelihood = model.e_step(data)
    assert_close(combine((a, e) for a, (e, _) in zip(shares, evidence, strict=True)), whole)
    total = sum(a * shard for a, (_, shard) in zip(shares, evidence, strict=True))
    assert_allclose(total, log_likelihood, rtol=1e-12)


@all_mixtures
def test_labelled_rows_belong_to_their_component(case, rng):
    model, X, labels = case.draw(rng), case.rows(rng, 90), np.arange(90, dtype=np.int32) % 3
    evidence, log_likelihood = model.e_step(Rows(X, labels=labels))
    assert_allclose(evidence.counts, 1.0 / 3.0)
    assert_close(
        evidence.emissions,
        model.family.posterior_statistics(model.parameters, X, np.eye(3)[labels]).scale(1 / 90),
    )
    log_joint = model.family.log_density(model.parameters, X) + np.log(model.weights)
    assert_allclose(log_likelihood, log_joint[np.arange(90), labels].mean(), rtol=1e-10)


@all_models
def test_eta_to_infinity_is_a_step_of_batch_em(case, rng):
    model, data = case.draw(rng), case.data(rng, 60)
    evidence, _ = model.e_step(data)
    batch, _ = batch_step(model, data)
    assert_close(batch, model.m_step(evidence), rtol=1e-12)
    limit, _ = online_step(model, data, 1e12)
    assert_close(limit, batch, rtol=1e-8, atol=1e-8)


@all_models
def test_eta_to_zero_changes_nothing(case, rng):
    model, data = case.draw(rng), case.data(rng, 60)
    assert_close(online_step(model, data, 1e-12)[0], model, rtol=1e-9, atol=1e-9)


@all_models
@pytest.mark.parametrize("eta", RATES)
def test_a_step_never_lowers_the_likelihood_of_its_own_batch(case, eta, rng):
    for n in (30, 1) if eta < math.inf else (30,):
        for _ in range(2):
            model, data = case.draw(rng), case.data(rng, n)
            new, before = online_step(model, data, eta)
            assert case.mean_log_likelihood(new, data) >= before - 1e-11 * abs(before)


@pytest.mark.parametrize(
    ("case", "eta"), [*zip(MIXTURES, cycle([0.3, 5.0]), strict=False)], ids=repr
)
def test_online_step_minimises_bound_plus_divergence(case, eta, rng):
    """U + KL / eta, minimised numerically over all parameters."""
    model = case.draw(rng, 2, 2)
    rows = Rows(case.rows(rng, 6))
    family, like = model.family, model.parameters
    responsibilities = model.posterior(rows)

    def model_of(vector):
        log_odds = np.append(vector[0], 0.0)
        return MixtureModel(family, softmax(log_odds), case.case.decode(vector[1:], like))

    def objective(vector):
        new = model_of(vector)
        log_joint = case.case.expected_log_density(like, new.parameters, rows.X)
        log_joint = log_joint + np.log(new.weights)
        kl = model.weights @ (
            np.log(model.weights / new.weights) + family.kl_divergence(like, new.parameters)
        )
        return kl / eta - (responsibilities * log_joint).sum(axis=1).mean()

    log_odds = math.log(model.weights[0] / model.weights[1])
    vector = minimiser(objective, np.append(log_odds, case.case.encode(like)))
    found = model_of(vector)
    step, _ = online_step(model, rows, eta)
    if not case.case.is_smooth:
        log_odds = math.log(step.weights[0] / step.weights[1])
        best = np.append(log_odds, case.case.encode(step.parameters))
        assert objective(best) <= objective(vector) + 1e-12
        for scale in 10.0 ** -np.arange(8.0).repeat(10):
            near = best + scale * rng.standard_normal(len(best))
            assert objective(best) <= objective(near) + 1e-12
        return
    assert_allclose(step.weights, found.weights, atol=1e-6)
    identified = case.case.identified
    if case.case.is_shortened:
        # Each component goes a part of the way, in a straight line, and no more than all of it.
        old, near, far = (
            np.hstack([part.reshape(2, -1) for part in identified(p)])
            for p in (like, step.parameters, found.parameters)
        )
        parts = ((near - old) * (far - old)).sum(axis=1) / ((far - old) ** 2).sum(axis=1)
        assert (parts > 0.1).all() and (parts <= 1.0 + 1e-6).all()
        assert_allclose(near - old, parts[:, None] * (far - old), atol=1e-6)
        return
    assert_close(identified(step.parameters), identified(found.parameters), rtol=1e-6, atol=1e-6)


def test_the_mean_length_of_documents_is_carried_as_any_mean(rng):
    """Equation (3) of the derivations: mean counts, not probabilities, are averaged."""
    model = MixtureModel(Multinomial(), np.array([0.3, 0.7]), np.array([[8.0, 2.0], [1.0, 3.0]]))
    X, eta = np.array([[4.0, 1.0], [0.0, 20.0], [1.0, 1.0]]), 0.7
    responsibilities = model.posterior(Rows(X))
    inertia = model.weights / eta
    weight = inertia + responsibilities.mean(axis=0)
    total = inertia[:, None] * model.parameters + responsibilities.T @ X / 3.0
    step, _ = online_step(model, Rows(X), eta)
    assert_allclose(step.parameters, total / weight[:, None], rtol=1e-12)


@regular_models
@pytest.mark.parametrize("eta", [0.2, math.inf])
def test_three_machines_equal_the_pooled_batch(case, eta, rng):
    model, data = case.draw(rng), case.data(rng, 120)
    parts = [data[:20], data[20:70], data[70:]]
    steps = [online_step(model, part, eta)[0] for part in parts]
    own = [(len(p), s.own_statistics()) for p, s in zip(parts, steps, strict=True)]
    merged = model.m_step(combine(own))
    assert_close(merged, online_step(model, data, eta)[0], rtol=1e-10, atol=1e-10)


@all_models
def test_results_do_not_depend_on_the_number_of_threads(case, rng):
    model, seed = case.draw(rng, 4, 5), rng.integers(1 << 30)
    one, four = (
        model.e_step(case.data(np.random.default_rng(seed), 1500, 5, n_threads))
        for n_threads in (1, 4)
    )
    assert_identical(four, one)


@all_models
def test_single_precision_is_close_to_double(case, rng):
    model, data = case.draw(rng), case.data(rng, 200)
    single, double = model.e_step(case.single(data)), model.e_step(data)
    assert_allclose(single[1], double[1], rtol=1e-4)
    assert_close(model.m_step(single[0]), model.m_step(double[0]), rtol=1e-3, atol=1e-3)


@all_models
def test_batch_em_with_a_prior_never_lowers_the_posterior(case, rng):
    model, data = case.draw(rng), case.data(rng, 60)
    n_features = data.X.shape[1] if hasattr(data, "X") else 0  # strings have none
    prior = case.prior(model, n_features, concentration=1.5)

    def objective(model):
        return case.mean_log_likelihood(model, data) + case.log_prior(model, 1.5) / len(data)

    before = objective(model)
    for _ in range(4):
        model, _ = batch_step(model, data, [(1.0 / len(data), prior)])
        after = objective(model)
        assert after >= before - 1e-11 * abs(before)
        before = after


@regular_models
def test_divergence_of_a_batch_step_is_at_most_its_gain(case, rng):
    """Kunstner, Kumar & Schmidt 2021: what makes the divergence a certificate."""
    model, data = case.draw(rng), case.data(rng, 60)
    for _ in range(8):
        new, before = batch_step(model, data)
        gain = case.mean_log_likelihood(new, data) - before
        assert 0.0 <= new.kl_divergence(model) <= gain + 1e-11 * abs(before)
        model = new


def test_kl_divergence_to_a_model_without_one_of_the_components_is_infinite():
    parameters = np.array([[1.0], [2.0]])
    p = MixtureModel(Poisson(), np.array([0.5, 0.5]), parameters)
    q = MixtureModel(Poisson(), np.array([1.0, 0.0]), parameters)
    assert p.kl_divergence(q) == math.inf
    assert_allclose(q.kl_divergence(p), math.log(2.0))


@labelled_models
def test_a_sample_whose_hidden_values_are_known_has_the_statistics_of_the_model(case, rng):
    model = case.draw(rng)
    like = None if case.is_mixture else case.data(rng, 50)
    visible, hidden = model.sample(20_000, rng, like)
    evidence, _ = model.e_step(case.labelled(visible, hidden))
    own = model.own_statistics(like)
    assert_close(case.occupancies(evidence), case.occupancies(own), atol=0.05)
    durations = (getattr(statistics, "durations", np.empty(0)) for statistics in (evidence, own))
    assert_close(*durations, atol=0.05)
    assert_close(model.m_step(evidence), model, rtol=0.1, atol=0.1)
    model.family.check(visible if case.is_mixture else visible.X)


@drawn_models
def test_sampled_inertia_comes_close_to_the_exact_one(case, rng):
    model, data = case.draw(rng), case.data(rng, 50)
    exact, _ = online_step(model, data, 0.5)
    sampled, _ = online_step(model, data, 0.5, inertia=partial(Sampled(20_000), rng=rng))
    assert 0.0 < exact.kl_divergence(sampled, data) < 0.02


def test_a_model_of_many_rows_is_walked_in_chunks(rng):
    """More rows than one chunk, with weights, labels and an uneven end."""
    model = MixtureModel(Poisson(), np.array([0.5, 0.5]), np.array([[2.0], [9.0]]))
    n = (1 << 16) + 77
    rows = Rows(rng.poisson(5.0, (n, 1)).astype(float), rng.random(n))
    evidence, log_likelihood = model.e_step(rows)
    responsibilities = model.posterior(rows) * rows.sample_weight[:, None]
    counts = responsibilities.sum(axis=0) / rows.total_weight
    assert_allclose(evidence.counts, counts, rtol=1e-10)
    assert_allclose(log_likelihood, MIXTURES[0].mean_log_likelihood(model, rows), rtol=1e-10)


@pytest.mark.parametrize("case", [*MIXTURES, *CHAINS], ids=repr)
def test_renumbered_models_are_the_same_distribution(case, rng):
    model, data, order = case.draw(rng, 3, 3), case.data(rng, 20, 3), np.array([2, 0, 1])
    if isinstance(getattr(model, "termination", None), AbsorbingStates):
        with pytest.raises(ValueError, match="states in which sequences end"):
            model.renumbered(order)
        return
    found = model.renumbered(order)
    assert_allclose(found.log_likelihood(data), model.log_likelihood(data), rtol=1e-9, atol=1e-9)
    assert_allclose(found.posterior(data), model.posterior(data)[:, order], atol=1e-9)
    for wrong in ([0, 0, 1], [0, 1], [5, 0, 1]):
        with pytest.raises(ValueError, match="once"):
            model.renumbered(np.array(wrong))
