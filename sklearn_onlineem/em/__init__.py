"""The algorithm, loops included. It knows models only through their contract."""

from sklearn_onlineem.em.bayesian import BayesianOnline
from sklearn_onlineem.em.carried import Carried, carried_step
from sklearn_onlineem.em.chains import Chains
from sklearn_onlineem.em.componentwise import Componentwise
from sklearn_onlineem.em.convergence import Outlook, expected_passes
from sklearn_onlineem.em.forgetting import forgetting_factors, forgetting_step_sizes
from sklearn_onlineem.em.inertia import Exact, Inertia, Sampled, SampledInertia, exact_inertia
from sklearn_onlineem.em.recursive import Recursive
from sklearn_onlineem.em.schedules import (
    BETA_SCHEDULES,
    SCHEDULES,
    Bayesian,
    Constant,
    Forgetting,
    Harmonic,
    PowerDecay,
    PowerDecayInRows,
    Schedule,
    learning_rate,
    named_schedule,
    rate_of,
    step_size,
)
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.em.solver import Plan, Solver
from sklearn_onlineem.em.solvers import (
    SOLVERS,
    Auto,
    Batch,
    Gibbs,
    Newton,
    Online,
    Stochastic,
)
from sklearn_onlineem.em.split_merge import SplitMerge
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.em.steps import CarriedStep, Restart, Step, StructuralStep
from sklearn_onlineem.em.stopping import STOPPING_RULES, KLStopping, LikelihoodStopping
from sklearn_onlineem.em.training import Training, run

__all__ = [
    "BETA_SCHEDULES",
    "SCHEDULES",
    "SOLVERS",
    "STOPPING_RULES",
    "Auto",
    "Batch",
    "Chains",
    "Bayesian",
    "BayesianOnline",
    "Carried",
    "CarriedStep",
    "Componentwise",
    "Recursive",
    "Constant",
    "Exact",
    "Forgetting",
    "Gibbs",
    "Harmonic",
    "Inertia",
    "KLStopping",
    "LikelihoodStopping",
    "Newton",
    "Online",
    "Outlook",
    "Plan",
    "PowerDecay",
    "Restart",
    "PowerDecayInRows",
    "Sampled",
    "SampledInertia",
    "Schedule",
    "Settings",
    "Solver",
    "SplitMerge",
    "State",
    "Step",
    "Stochastic",
    "StructuralStep",
    "Training",
    "batch_step",
    "carried_step",
    "exact_inertia",
    "expected_passes",
    "forgetting_factors",
    "forgetting_step_sizes",
    "learning_rate",
    "named_schedule",
    "online_step",
    "rate_of",
    "run",
    "step_size",
]
