"""Valid objects of the layers below the estimators, and valid arguments for all that they can do.

A world has objects that fit each other: a family, its parameters, rows, statistics, a model of it.
Arguments are found by their names; those of one method alone as ``method.name``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from cases.chains import CHAINS
from cases.dynamical import DYNAMICAL
from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES, hyperparameters
from cases.mixture_cases import MIXTURES
from cases.regressions import REGRESSIONS
from cases.transducers import TRANSDUCERS

from fuzz.benches import BENCHES
from sklearn_onlineem import combine_estimators, em
from sklearn_onlineem.data import Rows
from sklearn_onlineem.distributed import Round
from sklearn_onlineem.families import (
    AffineGaussian,
    DiagonalCovariance,
    FullCovariance,
    SphericalCovariance,
)
from sklearn_onlineem.models import MomentFilter, Regression, StateFilter

__all__ = ["WORLDS", "World"]

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
        "rng": rng,
        "with_rng.rng": rng,
        "n_threads": 1,
        "n": 3,
        "a": 0.5,
        "b": 2.0,
        "deep": True,
        "index": np.array([1, 0]),
        "key": "key",
        "compute": list,
    }


# --------------------------------------------------------------------------------------- families


def family_world(case):
    rng, family = np.random.default_rng(1), case.family
    p, q = (case.draw(rng, N_COMPONENTS, N_FEATURES) for _ in range(2))
    X = case.rows(rng, N_ROWS, N_FEATURES)
    posterior = rng.dirichlet(np.ones(N_COMPONENTS), N_ROWS)
    statistics = family.posterior_statistics(p, X, posterior)
    prior = case.prior(N_FEATURES)
    arguments = {
        **common_arguments(),
        **{name: None for name in hyperparameters(family)},
        **prior,
        "X": X,
        "rows": Rows(X),
        "sample_weight": np.ones(N_ROWS),
        "parameters": p,
        "previous": p,
        "p": p,
        "q": q,
        "posterior": posterior,
        "responsibilities": posterior,
        "log_weights": np.log(np.full(N_COMPONENTS, 0.5)),
        "weights": np.full(N_COMPONENTS, 0.5),
        "uniforms": rng.random(N_ROWS),
        "components": rng.integers(0, N_COMPONENTS, N_ROWS),
        "statistics": statistics,
        "other": statistics,
        "terms": [(0.5, statistics), (2.0, statistics)],
        "n_components": N_COMPONENTS,
        "n_features": X.shape[1],
        "lengths": np.full(N_ROWS, 4),
        "sample.lengths": np.full(N_ROWS, 4),
        "means": family.means(p),
    }
    arguments |= {"prior_statistics." + name: value for name, value in prior.items()}
    if hasattr(family, "to_natural"):
        arguments |= {
            "natural": family.to_natural(p),
            "regularise.mean": family.mean_statistics(p),
        }
    if case.is_gaussian:
        arguments |= {
            "gaussians.mean": p.mean,
            "gaussians.covariance": p.covariance,
            "matrices": family.covariance_matrices(p),
            "pseudo_moments.mean": 0.5,
            "mean_weight": 2.0,
            "pseudo_moments.scatter": np.array(1.0),
            "pseudo_moments.degrees": 3.0,
            "weight": statistics.weight,
            "moments.degrees": statistics.degrees,
            "moments.mean": statistics.mean,
            "moments.scatter": statistics.scatter,
        }
    if hasattr(p, "alpha"):
        arguments |= {"dirichlets.alpha": p.alpha, "length": p.length}
    objects = [family, statistics]
    return objects + [p] * (type(p).__module__.startswith("sklearn_onlineem")), arguments


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
        **family_world(REGRESSION_LIKE)[1],
        **common_arguments(),
        "X": X,
        "rows": Rows(X),
        "parameters": p,
        "previous": p,
        "p": p,
        "q": q,
        "posterior": posterior,
        "responsibilities": posterior,
        "statistics": statistics,
        "inputs": moments,
        "sample.inputs": X[:, :n_inputs],
        "components": np.zeros(N_ROWS, dtype=np.intp),
        "in_coordinates.inputs": np.eye(n_inputs),
        "outputs": np.eye(n_outputs),
        "learnt": frozenset({"matrix", "offset"}),
        "other": regression,
        "predicted.means": np.zeros((3, n_inputs)),
        "covariances": np.ones((3, n_inputs, n_inputs)),
        "matrix": p.matrix[0],
        "offset": p.offset[0],
        "covariance": p.covariance[0],
        "n_inputs": n_inputs,
        "n_outputs": n_outputs,
        "matrix_precision": 2.0,
        "offset_precision": 2.0,
        "degrees_of_freedom": 6.0,
        "prior_statistics.matrix": 0.3,
        "prior_statistics.offset": 0.5,
        "prior_statistics.covariance": 1.5,
        "prior_statistics.n_features": n_outputs,
    }
    return [family, regression, p, *SHAPES], arguments


SHAPES = [FullCovariance(), DiagonalCovariance(), SphericalCovariance()]
REGRESSION_LIKE = FAMILIES[0]


# ----------------------------------------------------------------------------------------- models


def model_world(case):
    rng = np.random.default_rng(3)
    model, other = (case.draw(rng, N_COMPONENTS, N_FEATURES) for _ in range(2))
    data, n = case.data(rng, N_ROWS, N_FEATURES), getattr(model, "n_components", 2)
    evidence, _ = model.e_step(data)
    arguments = {
        **common_arguments(),
        "data": data,
        "like": data,
        "other": other,
        "merge.other": evidence,
        "__add__.other": evidence,
        "reference": other,
        "models": [model, other],
        "shares": [0.5, 0.5],
        "statistics": evidence,
        "terms": [(0.5, evidence), (2.0, evidence)],
        "n_steps": 2,
        "batches": [data, data],
        "n_rows": 2,
        "draw_lengths.n": 3,
        "before": np.full(n, 1.0 / n) if not isinstance(case, type(DYNAMICAL[0])) else None,
    }
    objects = [model, data, evidence]
    for extra in (chain_objects, dynamical_objects, string_objects):
        more, values = extra(model, data, evidence)
        objects, arguments = objects + more, arguments | values
    return objects, arguments


def chain_objects(model, data, evidence):
    if not hasattr(model, "transmat"):
        return [], {}
    values = {
        "start": model.start,
        "transmat": model.transmat,
        "transitions": model.termination.moves(model.transmat),
        "last": model.start,
        "like": data,
        "row": data.X[0],
        "model": model,
    }
    lengths = data.length_distribution
    live = StateFilter(model)
    return [model.termination, live, lengths, data.rows], values | {"merge.other": lengths}


def dynamical_objects(model, data, evidence):
    if not hasattr(model, "transitions"):
        return [], {}
    k = model.n_components
    values = {
        "row": data.X[0],
        "model": model,
        "mean": np.zeros(k),
        "covariance": np.eye(k),
        "before": (np.zeros(k), np.eye(k)),
    }
    return [MomentFilter(model), data.length_distribution], values


def string_objects(model, data, evidence):
    if not hasattr(model, "operations"):
        return [], {}
    operations, p = model.operations, model.probabilities
    kinds, sums = operations.results(N_ROWS)
    values = {
        "sources": data.sources,
        "targets": data.targets,
        "best": False,
        "vector": p,
        "spread.kinds": [0.5, 0.1, 0.1, 0.1, 0.2],
        "kinds": np.zeros_like(kinds),
        "sums": np.zeros_like(sums),
        "n_pairs": 3,
        "drawn": np.zeros(3, dtype=np.intp),
        "symbols": data.sources.symbols,
        "log": False,
        "parts": [data.sources, data.targets],
    }
    return [operations, data.sources], values


# ----------------------------------------------------------------------------------- the algorithm


def algorithm_world(case):
    objects, arguments = model_world(case)
    model, data = objects[:2]
    state = em.State(model, seed=(1, 2))
    training = em.Training(state, observations_needed=3.0)
    schedule = em.PowerDecay()
    plan = em.Plan(
        schedule, 2, partial(em.STOPPING_RULES["kl"], 1e-3), np.random.default_rng(0), True
    )
    values = {
        "model": model,
        "batch": data,
        "like": data,
        "schedule": schedule,
        "plan": plan,
        "training": training,
        "prior": [(0.5, objects[2])],
        "resumed.prior": objects[2],
        "inertia": em.exact_inertia,
        "update.inertia": em.Exact(),
        "pseudo_statistics": objects[2],
        "n_passes": 2,
        "eta": 0.5,
        "gamma": 0.5,
        "t": 3,
        "n_seen": 10.0,
        "size": 20.0,
        "mean_size": 1.0,
        "new_model": arguments["other"],
        "log_likelihood": -1.0,
        "kl_divergence": 0.1,
        "lengths": None,
        "sampled": False,
        "callbacks": (),
        "seed": (1, 2),
        "name": "power",
        "eta0": 1.0,
        "beta": 0.6,
        "observations_needed": 3.0,
        "pseudo_count": None,
        "passes": [(-1.0, False), (-0.5, True)],
        "max_iter": 3,
        "report": None,
        "deep": True,
    }
    values_of = [
        *[solver() for solver in em.SOLVERS.values()],
        *[em.Constant(), em.Harmonic(), em.PowerDecay(), em.Forgetting(), em.Bayesian()],
        *[
            em.PowerDecayInRows(3.0),
            em.Exact(),
            em.Sampled(5),
            em.SampledInertia(5, values["plan"].rng),
        ],
        *[em.KLStopping(1e-3), em.LikelihoodStopping(1e-3), plan, state, training],
        em.Step(*[1.0] * len(em.Step._fields)),
        Round(*[1.0] * len(Round._fields)),
    ]
    functions = [
        em.batch_step, em.online_step, em.exact_inertia, em.learning_rate, em.named_schedule,
        em.rate_of, em.run, em.step_size,
    ]  # fmt: skip
    return [*values_of, *functions], {**arguments, **values}


def merging_world(name):
    estimators = [BENCHES[name].fitted(), BENCHES[name].fitted("partial_fit")]
    arguments = {
        "estimators": estimators,
        "weights": np.array([1.0, 2.0]),
        "method": "entropic",
        "align": True,
        "n_pseudo_samples": 20,
        "random_state": 0,
    }
    return [combine_estimators], arguments


def _named(kind, cases, build, **options):
    return [World(f"{kind}: {case!r}", partial(build, case), **options) for case in cases]


WORLDS = {
    world.name: world
    for world in [
        *_named("family", [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES], family_world),
        *_named("family", REGRESSIONS, regression_world),
        *_named("model", [*MIXTURES, *CHAINS, *DYNAMICAL, *TRANSDUCERS], model_world),
        *_named(
            "algorithm",
            [MIXTURES[0], MIXTURES[-1], CHAINS[0], DYNAMICAL[0], TRANSDUCERS[0]],
            algorithm_world,
        ),
        *_named(
            "merging",
            [
                name
                for name, bench in BENCHES.items()
                if hasattr(bench.make(), "partial_fit") and name != "PerSequence"
            ],
            merging_world,
            is_estimator=True,
        ),
    ]
}
