"""The algorithm, loops included. It knows models only through their contract."""

from sklearn_onlineem.em.inertia import Exact, Inertia, Sampled, SampledInertia, exact_inertia
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
from sklearn_onlineem.em.solvers import (
    SOLVERS,
    Auto,
    Batch,
    Newton,
    Online,
    Plan,
    Solver,
    Stochastic,
)
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.em.stopping import STOPPING_RULES, KLStopping, LikelihoodStopping
from sklearn_onlineem.em.training import State, Step, Training, run

__all__ = [
    "BETA_SCHEDULES",
    "SCHEDULES",
    "SOLVERS",
    "STOPPING_RULES",
    "Auto",
    "Batch",
    "Bayesian",
    "Constant",
    "Exact",
    "Forgetting",
    "Harmonic",
    "Inertia",
    "KLStopping",
    "LikelihoodStopping",
    "Newton",
    "Online",
    "Plan",
    "PowerDecay",
    "PowerDecayInRows",
    "Sampled",
    "SampledInertia",
    "Schedule",
    "Settings",
    "Solver",
    "State",
    "Step",
    "Stochastic",
    "Training",
    "batch_step",
    "exact_inertia",
    "learning_rate",
    "named_schedule",
    "online_step",
    "rate_of",
    "run",
    "step_size",
]
