"""The algorithm. It knows models only through their contract."""

from sklearn_onlineem.em.inertia import SampledInertia, exact_inertia
from sklearn_onlineem.em.schedules import (
    Batch,
    Bayesian,
    Constant,
    Forgetting,
    Harmonic,
    PowerDecay,
    PowerDecayInRows,
    learning_rate,
    rate_of,
    step_size,
)
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.em.stopping import STOPPING_RULES, KLStopping, LikelihoodStopping

__all__ = [
    "STOPPING_RULES",
    "Batch",
    "Bayesian",
    "Constant",
    "Forgetting",
    "Harmonic",
    "KLStopping",
    "LikelihoodStopping",
    "PowerDecay",
    "PowerDecayInRows",
    "SampledInertia",
    "batch_step",
    "exact_inertia",
    "learning_rate",
    "online_step",
    "rate_of",
    "step_size",
]
