"""Valid objects of the layers below the estimators, and valid arguments for all that they can do.

A world has objects that fit each other: a family, its parameters, rows, statistics, a model of it.
Arguments are found by their names; those of one method alone as ``method.name``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from cases.chains import CHAINS
from cases.collapsed_cases import COLLAPSED
from cases.dynamical import DYNAMICAL
from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES, hyperparameters, name_of
from cases.mixture_cases import MIXTURES
from cases.regressions import REGRESSIONS
from cases.transducers import TRANSDUCERS
from scipy import sparse

from fuzz.benches import BENCHES
from sklearn_onlineem import GaussianMixture, KalmanFilter, combine_estimators, em
from sklearn_onlineem.data.documents import Documents
from sklearn_onlineem.data.rows import Rows, Wanted
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.diagnostics import (
    DriftWatch,
    EarlyStopping,
    StreamCertificate,
    convergence_certificate,
    forecast_moments,
    missing_information,
    standard_errors,
)
from sklearn_onlineem.diagnostics.certificates import step_certificate
from sklearn_onlineem.diagnostics.drift import Drift
from sklearn_onlineem.distributed import Round
from sklearn_onlineem.em.loop import Progress, run
from sklearn_onlineem.em.schedules import (
    PowerDecayInRows,
    learning_rate,
    named_schedule,
    rate_of,
    step_size,
)
from sklearn_onlineem.em.solvers import SOLVERS, Chains, Plan, RunningStatistics, running_step
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.outliers import Gate
from sklearn_onlineem.em.state import Carry, ComponentStep, Constants, History, State, Step, Update
from sklearn_onlineem.em.step import Exact, Sampled, batch_step, online_step
from sklearn_onlineem.em.stopping import (
    KLStopping,
    LikelihoodStopping,
    Outlook,
    StandardErrorStopping,
    expected_passes,
    remaining_gain,
)
from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.families import Diagonal, Full, Gaussian, Spherical, Tied
from sklearn_onlineem.families.capabilities import Means
from sklearn_onlineem.families.linear_gaussian import AffineGaussian
from sklearn_onlineem.models.kalman.regression import Regression
from sklearn_onlineem.models.live_filters import MomentFilter, RegressionFilter, StateFilter
from sklearn_onlineem.models.mixtures.conditional import conditional
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, MixtureStatistics
from sklearn_onlineem.models.topics.inference import LocalGibbs, MaximumAPosteriori
from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel, TopicStatistics
from sklearn_onlineem.persistence import load, save, trusted_types
from sklearn_onlineem.structure import Autoregression, Block, Cycle, Inputs, Level, Season, Trend

N_ROWS, N_COMPONENTS, N_FEATURES = 6, 2, 2


@dataclass(frozen=True)
class World:
    """Objects, and arguments by name.

    Parameters
    ----------
    name : str
    build : callable () -> (list of objects, dict of arguments)
    is_estimator : bool
        Whether the rules of estimators hold.
    """

    name: str
    build: Callable
    is_estimator: bool = False

    def __repr__(self):
        return self.name

    @property
    def objects(self):
        return _built(self.name)[0]

    @property
    def arguments(self):
        return _built(self.name)[1]


@cache
def _built(name):
    return WORLDS[name].build()


def common_arguments(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "rng": rng, "is_sparse": False, "with_rng.rng": rng, "n_threads": 1, "n": 3, "a": 0.5,
        "b": 2.0, "deep": True, "index": np.array([1, 0]), "first": 3, "log_likelihoods": None,
        "key": "key", "compute": list, "component.k": 1, "component.n": N_COMPONENTS,
    }  # fmt: skip


# --------------------------------------------------------------------------------------- families


def family_world(case):
    rng, family = np.random.default_rng(1), case.family
    p, q = (case.draw(rng, N_COMPONENTS, N_FEATURES) for _ in range(2))
    X = case.rows(rng, N_ROWS, N_FEATURES)
    posterior = rng.dirichlet(np.ones(N_COMPONENTS), N_ROWS)
    statistics = family.posterior_statistics(p, X, posterior)
    prior = case.prior(N_FEATURES)
    arguments = {
        **common_arguments(), **{name: None for name in hyperparameters(family)}, **prior,
        "X": X, "rows": Rows(X), "sample_weight": np.ones(N_ROWS), "parameters": p, "previous": p,
        "p": p, "q": q, "posterior": posterior, "responsibilities": posterior,
        "log_weights": np.log(np.full(N_COMPONENTS, 0.5)), "weights": np.full(N_COMPONENTS, 0.5),
        "uniforms": rng.random(N_ROWS), "wanted": Wanted(rng.random(N_ROWS)),
        "ends": np.array([2, N_ROWS], dtype=np.intc), "wants_statistics": True, "column": 0,
        "lists": np.array([[0, 1], [1, -1]], dtype=np.intc), "statistics": statistics,
        "components": rng.integers(0, N_COMPONENTS, N_ROWS), "other": statistics,
        "terms": [(0.5, statistics), (2.0, statistics)], "n_components": N_COMPONENTS,
        "n_features": X.shape[1], "numbers": [3] * X.shape[1], "lengths": np.full(N_ROWS, 4),
        "sample.lengths": np.full(N_ROWS, 4), "variances": np.ones(2), "shared": p, "reference": p,
        "means": family.means(p) if isinstance(family, Means)
        else np.full((2, *p.level.shape), 0.5),
        "collapsed_sweep.prior": statistics, "mean_form.prior": statistics, "learns_shares": True,
        "collapsed_sweep.concentration": np.full(N_COMPONENTS, 1.5),
        "fixed": (np.arange(N_COMPONENTS) < 1, p), "with_fixed.parameters": p,
        "with_fixed.components": np.arange(N_COMPONENTS) < 1,
        "labels": rng.integers(0, N_COMPONENTS, N_ROWS).astype(np.intc),
    }  # fmt: skip
    arguments |= {"prior_statistics." + name: value for name, value in prior.items()}
    arguments |= arguments_of_some(case, p, X, statistics)
    objects = [family, statistics]
    return objects + [p] * (type(p).__module__.startswith("sklearn_onlineem")), arguments


def arguments_of_some(case, p, X, statistics):
    """Those of methods that not all families have."""
    family, arguments = case.family, {}
    if hasattr(family, "to_natural"):
        arguments |= {"natural": family.to_natural(p), "regularise.mean": family.mean_statistics(p)}
    if case.is_gaussian:
        arguments |= {
            "gaussians.mean": p.mean, "gaussians.covariance": p.covariance,
            "matrices": p.covariance_matrices, "pseudo_moments.mean": 0.5, "mean_weight": 2.0,
            "pseudo_moments.scatter": np.array(1.0), "pseudo_moments.degrees": 3.0,
            "weight": statistics.weight, "moments.degrees": statistics.degrees,
            "moments.mean": statistics.mean, "moments.scatter": statistics.scatter,
        }  # fmt: skip
    if case.n_inputs:
        arguments |= {
            "inputs": X[:, : case.n_inputs], "rest.inputs": X[0, :0], "component": 0,
            "n_outputs": X.shape[1] - case.n_inputs,
            "covariances_given.means": np.full((*p.offset.shape,), 0.5),
        }  # fmt: skip
    if hasattr(p, "alpha"):
        arguments |= {"dirichlets.alpha": p.alpha, "length": p.length}
    return arguments


def regression_world(case):
    rng, family = np.random.default_rng(2), case.family.regressions
    n_inputs, n_outputs = 1, 2
    p, q = (case.draw(rng, N_COMPONENTS, n_inputs + n_outputs) for _ in range(2))
    X = case.rows(rng, N_ROWS, n_inputs + n_outputs)
    posterior = rng.dirichlet(np.ones(N_COMPONENTS), N_ROWS)
    weights = np.full(N_COMPONENTS, 0.5)
    moments = case.family.inputs(weights)
    statistics = family.expected_statistics(X, posterior)
    single = AffineGaussian.single(p.matrix[0], p.offset[0], p.covariance[0])
    regression = Regression(family, single)
    arguments = {
        **family_world(REGRESSION_LIKE)[1], **common_arguments(), "X": X, "rows": Rows(X),
        "parameters": p, "previous": p, "p": p, "q": q, "posterior": posterior,
        "responsibilities": posterior, "statistics": statistics, "inputs": moments,
        "sample.inputs": X[:, :n_inputs], "components": np.zeros(N_ROWS, dtype=np.intp),
        "in_coordinates.inputs": np.eye(n_inputs), "outputs": np.eye(n_outputs),
        "learnt": frozenset({"matrix", "offset"}), "other": regression,
        "predicted.means": np.zeros((3, n_inputs)), "covariances": np.ones((3, n_inputs, n_inputs)),
        "matrix": p.matrix[0], "offset": p.offset[0], "covariance": p.covariance[0],
        "n_inputs": n_inputs, "n_outputs": n_outputs, "matrix_precision": 2.0,
        "offset_precision": 2.0, "degrees_of_freedom": 6.0, "prior_statistics.matrix": 0.3,
        "prior_statistics.offset": 0.5, "prior_statistics.covariance": 1.5,
        "prior_statistics.n_features": n_outputs, "learns.name": "matrix",
    }  # fmt: skip
    return [family, regression, p, *SHAPES, Tied()], arguments


SHAPES = [Full(), Diagonal(), Spherical()]
REGRESSION_LIKE = FAMILIES[0]


# ----------------------------------------------------------------------------------------- models


def model_world(case):
    rng = np.random.default_rng(3)
    model, other = (case.draw(rng, N_COMPONENTS, N_FEATURES) for _ in range(2))
    data, n = case.data(rng, N_ROWS, N_FEATURES), getattr(model, "n_components", 2)
    evidence, _ = model.e_step(data)
    arguments = {
        **common_arguments(), "data": data, "like": data, "other": other, "merge.other": evidence,
        "__add__.other": evidence, "reference": other, "models": [model, other],
        "shares": [0.5, 0.5], "statistics": evidence, "terms": [(0.5, evidence), (2.0, evidence)],
        "weight": np.ones(len(data)), "n_steps": 2, "return_cov": False, "quantiles": [0.1, 0.9],
        "batches": [data, data], "rows": np.array([0]), "n_rows": 2, "draw_lengths.n": 3,
        "with_rows.rows": data.rows if isinstance(data, Sequences) else None,
        "offsets": data.offsets if isinstance(data, Sequences) else None,
        "prior": evidence, "n_merges": 2, "price": 2.0, "n_candidates": 2, "known": None,
        "fixed": True, "prior_terms": [(0.5, evidence)], "n_remembered": 100.0, "move": None,
        "moved": None, "collapsed": False, "order": "gain", "dispersed": False,
        "renumbered.order": np.arange(n)[::-1],
        "before": np.full(n, 1.0 / n) if not isinstance(case, type(DYNAMICAL[0])) else None,
    }  # fmt: skip
    objects = [model, data, evidence]
    for extra in (
        chain_objects, conditional_objects, dynamical_objects, mixture_objects, string_objects,
        topic_objects,
    ):  # fmt: skip
        more, values = extra(model, data, evidence)
        objects, arguments = objects + more, arguments | values
    return objects, arguments


def chain_objects(model, data, evidence):
    if not hasattr(model, "transmat"):
        return [], {}
    end = model.filtered_end(data)
    values = {
        "start": model.start, "transmat": model.transmat, "forecast.inputs": None,
        "transitions": model.termination.transitions(model.transmat), "last": model.start,
        "like": data, "row": data.X[0], "model": model, "states": end[None], "end": end,
        "before": end, "n_segments": 2.0, "chain_statistics.transitions": evidence.transitions,
        "emissions": evidence.emissions, "counts": np.ones((len(model.start), 5)),
        "running": np.zeros(len(model.start)), "table": getattr(model, "table", None),
    }  # fmt: skip
    values["tangents.counts"] = values["counts"], values["running"]
    lengths = data.length_distribution
    live, n_inputs = StateFilter(model), getattr(model.family, "n_inputs", None)
    if n_inputs is not None:
        values["row"], values["inputs"] = data.X[0, n_inputs:], data.X[0, :n_inputs]
        values["forecast.inputs"] = data.X[:2, :n_inputs]
        live = RegressionFilter(model)
    objects = [model.termination, live, lengths, data.rows]
    objects += [model.durations] if hasattr(model, "durations") else []
    return objects, values | {"merge.other": lengths}


def conditional_objects(model, data, evidence):
    if not (isinstance(model, MixtureModel) and isinstance(model.family, Gaussian)):
        return [], {}
    X = data.X.copy()
    X[::2, 0], X[1, :] = np.nan, np.nan
    values = {"log_density.X": data.X, "quantile.q": 0.3, "level": 0.8}
    return [conditional(model, X)], values


def dynamical_objects(model, data, evidence):
    if not hasattr(model, "transitions"):
        return [], {}
    k, m = model.n_components, model.n_inputs
    known = data.X[:, m : 2 * m]
    future = np.zeros((len(data), 2, m))
    values = {
        "row": data.X[0, 2 * m :], "inputs": known[0] if m else None,
        "forecast.inputs": future[0] if m else None, "future": future if m else None,
        "ahead.inputs": (known[0], future[0]) if m else None, "sequences": data, "n_inputs": 2 * m,
        "model": model, "state": (np.zeros(k), np.eye(k)), "mean": np.zeros(k),
        "covariance": np.eye(k), "before": (np.zeros(k), np.eye(k)),
    }  # fmt: skip
    return [MomentFilter(model), data.length_distribution], values


def string_objects(model, data, evidence):
    if not hasattr(model, "operations"):
        return [], {}
    operations, p = model.operations, model.probabilities
    values = {
        "sources": data.sources, "targets": data.targets, "best": False, "vector": p,
        "spread.kinds": [0.5, 0.1, 0.1, 0.1, 0.2], "n_pairs": 3,
        "drawn": np.zeros(3, dtype=np.intp), "symbols": data.sources.symbols, "log": False,
        "parts": [data.sources, data.targets],
    }  # fmt: skip
    return [operations, data.sources], values


# ------------------------------------------------------------------------------------------ topics


@dataclass(frozen=True)
class TopicCase:
    """A topic model, and documents with topics that they may have."""

    inference: object
    has_topics: bool = False

    def draw(self, rng, n_components, n_words):
        topics_T = np.ascontiguousarray(rng.dirichlet(np.ones(n_words), n_components).T)
        alpha, length = rng.uniform(0.5, 2.0, n_components), np.array([9.0])
        return LatentDirichletModel(topics_T, alpha, length, self.inference)

    def data(self, rng, n, n_words):
        X = sparse.csr_array(rng.multinomial(9, np.full(n_words, 1.0 / n_words), n).astype(float))
        allowed = np.eye(N_COMPONENTS, dtype=np.uint8)[np.arange(n) % N_COMPONENTS]
        return Documents(Rows(X), allowed=allowed if self.has_topics else None)


TOPICS = [
    TopicCase(LocalGibbs(4, 2)),
    TopicCase(LocalGibbs(3, 0, takes_draw=True), has_topics=True),
    TopicCase(MaximumAPosteriori(2)),
]


def topic_objects(model, data, evidence):
    if not hasattr(model, "inference"):
        return [], {}
    prior = TopicStatistics(None, 0.5, 0.0, np.zeros(model.n_components))
    chain = model.chain(data, prior, np.random.default_rng(0))
    values = {
        "prior": prior, "model": model, "n_sweeps": 4, "sample.lengths": np.full(3, 4),
        "topics_T": model.topics_T, "alpha": model.alpha, "__call__.seed": 3, "__call__.scale": 0.5,
        "totals_T": np.empty_like(model.topics_T),
        "proportions": np.empty((len(data), model.n_components)),
    }  # fmt: skip
    return [model.inference, chain, data.rows, swept], values


def mixture_objects(model, data, evidence):
    if not isinstance(model, MixtureModel):
        return [], {}
    values = {"model": model, "chain.collapsed": True}
    hyperparameters = COLLAPSED.get(name_of(model.family))
    if hyperparameters is None:
        return [drawn, refreshed], {**values, "refreshed.prior": None}
    prior = model.family.prior_statistics(
        model.n_components, n_features=data.n_features, **hyperparameters
    )
    prior = MixtureStatistics(np.full(model.n_components, 0.5), prior)
    chain = model.chain(data, prior, np.random.default_rng(0))
    chain.average_in()
    return [drawn, refreshed, chain], {**values, "prior": prior, "chains": [chain]}


def drawn(model, data, prior, rng, dispersed):
    """The model that a chain of components comes to, and one drawn from the posterior."""
    chain = model.chain(data, prior, rng, dispersed=dispersed)
    chain.sweep(rng)
    chain.average_in()
    return chain.model(), chain.draw(rng)


def refreshed(model, data, prior, order):
    """The model that steps of one component at a time come to."""
    steps = model.component_steps(data, prior, order)
    for _ in range(2):
        steps.sweep()
    return steps.model()


def swept(model, data, prior, rng, collapsed):
    """The model that a chain of draws comes to."""
    chain = model.chain(data, prior, rng, collapsed)
    for _ in range(2):
        chain.sweep(rng)
        chain.average_in()
    return chain.model()


# ----------------------------------------------------------------------------------- the algorithm


def algorithm_world(case):
    objects, arguments = model_world(case)
    model, data = objects[:2]
    state = State(model, seed=(1, 2), constants=Constants(3.0))
    progress = Progress(state)
    schedule = em.PowerDecay()
    plan = Plan(schedule, 2, lambda is_exact=True: KLStopping(1e-3), np.random.default_rng(0), True)
    values = {
        "model": model, "batch": data, "like": data, "schedule": schedule, "kind": Opening,
        "starts": None, "plan": plan, "progress": progress, "prior": [(0.5, objects[2])],
        "resumed.prior": objects[2], "update": Update(model, 0.5, -1.0, data, 3.0),
        "after_pass.model": model, "changes": {}, "carrying.carry": Carry(), "score.data": data,
        "prior_of.prior": objects[2], "state": state, "solver": em.BayesianOnline(),
        "running": RunningStatistics(4.0, objects[2]), "evidence": objects[2], "kept": 0.9,
        "mass": 3.0, "of_model.model": model, "step": Step(0.5, -1.0, 0.1, 10), "move": None,
        "inertia": Exact(), "pseudo_statistics": objects[2], "n_passes": 2, "eta": 0.5,
        "gamma": 0.5, "t": 3, "n_seen": 10.0, "size": 20.0, "total_size": 40.0, "mean_size": 1.0,
        "new_model": arguments["other"], "found": None, "n_left_out": 0, "q": 0.5,
        "after.log_likelihoods": np.array([-1.0, -9.0]),
        "outliers.log_likelihoods": np.array([-1.0, -9.0]), "log_likelihood": -1.0, "value": -1.0,
        "kl_divergence": 0.1, "promised": 0.1, "gain": 0.1, "gains": [0.8, 0.4, 0.2, 0.1],
        "lengths": None, "repeats": None, "sampled": False, "callbacks": (), "seed": (1, 2),
        "name": "power", "eta0": 1.0, "beta": 0.6, "observations_needed": 3.0,
        "passes": [(-1.0, False), (-0.5, True)], "max_iter": 3, "report": None, "deep": True,
        "values": [0.4, 0.2, 0.1], "share": 0.5, "tol": 1e-3,
    }  # fmt: skip
    values_of = [
        *[solver() for solver in SOLVERS.values()],
        em.SplitMerge(), em.SplitMerge(n_components="fixed"), em.BayesianOnline("mean", 0.5, 0.9),
        em.Constant(), em.Harmonic(), em.PowerDecay(), em.Forgetting(), PowerDecayInRows(3.0),
        Exact(), Sampled(5), KLStopping(1e-3), LikelihoodStopping(1e-3), Outlook(0.5, 3),
        StandardErrorStopping(20.0, 3), RunningStatistics(4.0, objects[2]), plan, state, progress,
        Gate().after(-np.linspace(1.0, 2.0, 200)), Step(*[1.0] * len(Step._fields)),
        History().with_step(Step(0.5, -1.0, 0.1, 10)), Round(*[1.0] * len(Round._fields)),
        ComponentStep(*[1.0] * len(Step._fields), np.ones(2)),
        ComponentStep(*[1.0] * len(Step._fields), None, 2, 1, 0),
        Chains(*np.random.default_rng(2).normal(size=(2, 2, 8)), 1),
    ]  # fmt: skip
    functions = [
        batch_step, online_step, learning_rate, named_schedule,
        rate_of, run, step_size, running_step, expected_passes, remaining_gain,
    ]  # fmt: skip
    return [*values_of, *functions], {**arguments, **values}


def merging_world(name):
    estimators = [BENCHES[name].fitted(), BENCHES[name].fitted("partial_fit")]
    arguments = {
        "estimators": estimators, "weights": np.array([1.0, 2.0]), "method": "entropic",
        "align": True, "base": estimators[0], "n_pseudo_samples": 20, "random_state": 0,
    }  # fmt: skip
    return [combine_estimators], arguments


def diagnostics_world(name):
    bench = BENCHES[name]
    arguments = bench.arguments(np.random.default_rng(4))
    return [convergence_certificate], {"estimator": bench.fitted(), "X": arguments["X"]}


def certificates_world(case):
    objects, arguments = model_world(case)
    model, data, evidence = objects[:3]
    certificate, watch = StreamCertificate(half_life=2), DriftWatch(warm_up=2)
    for n in range(1, 10):
        step = Step(0.5, -1.0, 0.1, 10 * n)
        certificate(step)
        watch(step)
    values = {"model": model, "data": data, "prior": evidence, "step": step, "n_errors": 2.0}
    values["new"] = model
    values |= {"history": [step, step], "half_life": 3.0, "n_rows": 3}
    found, drift = step_certificate(model, data), Drift(3, 2, "certificate")
    mixture = GaussianMixture(1).fit(np.arange(5.0)[:, None])
    stopping, values["estimator"] = EarlyStopping(np.ones((5, 1))), mixture
    return [step_certificate, found, certificate, watch, drift, stopping, em.Restart(3)], values


def _named(kind, cases, build, **options):
    return [World(f"{kind}: {case!r}", partial(build, case), **options) for case in cases]


def _determined(fitted, X):
    """A fitted estimator; Kalman filters without a structure learn what the data determine."""
    if not isinstance(fitted, KalmanFilter) or fitted.structure is not None:
        return fitted
    learnt = ["transition_covariance", "observation_covariance"]
    known = np.eye(*fitted.observation_matrices_.shape)
    return fitted.set_params(em_vars=learnt, observation_matrices=known).fit(X)


def information_world(name):
    bench = BENCHES[name]
    mixture = GaussianMixture(2, random_state=0, solver="batch", tol=1e-12, max_iter=5000)
    X = np.random.default_rng(0).normal(size=(40, 2))
    mixture.fit(X)
    information = missing_information(mixture, X)
    arguments = {
        "estimator": _determined(bench.fitted(), bench.first["X"]), "X": bench.first["X"],
        "n_values": 2, "n_steps": 2, "tol": 1e-3, "robust": True, "level": 0.9,
    }  # fmt: skip
    forecasts = [forecast_moments] if isinstance(bench.fitted(), KalmanFilter) else []
    functions = [*forecasts, missing_information, standard_errors]
    return [
        *functions,
        information,
        information.directions[0],
        functions[-1](mixture, X),
    ], arguments


# Removed as the process ends.
FOLDER = tempfile.TemporaryDirectory()


def files_world():
    path, estimator = Path(FOLDER.name, "saved"), BENCHES["PoissonMixture"].fitted()
    save(estimator, path)
    return [save, load, trusted_types], {"estimator": estimator, "path": path}


def structure_world():
    parts = [Level(), Trend(), Season(3), Autoregression(2), Inputs(), Cycle(5.5)]
    return [*parts, *(type(part) for part in parts), Trend(True).block(), Block], {
        "other": parts[0], "fixed": True, "damped": True, "period": 3, "order": 2, "deep": True,
        **Level().block()._asdict(),
    }  # fmt: skip


ONE_OF_EACH = [MIXTURES[0], MIXTURES[-1], CHAINS[0], DYNAMICAL[0], TRANSDUCERS[0]]
LEARNERS = [name for name, bench in BENCHES.items() if isinstance(bench.make(), OnlineEM)]
WORLDS = {
    world.name: world
    for world in [
        *_named("family", [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES], family_world),
        *_named("family", REGRESSIONS, regression_world),
        *_named("model", [*MIXTURES, *CHAINS, *DYNAMICAL, *TRANSDUCERS, *TOPICS], model_world),
        *_named("algorithm", [*ONE_OF_EACH, TOPICS[0]], algorithm_world),
        *_named("certificates", ONE_OF_EACH, certificates_world),
        *_named("diagnostics", LEARNERS, diagnostics_world, is_estimator=True),
        *_named("merging", LEARNERS, merging_world, is_estimator=True),
        *_named("information", list(BENCHES), information_world, is_estimator=True),
        World("structure", structure_world),
        World("files", files_world, is_estimator=True),
    ]
}
