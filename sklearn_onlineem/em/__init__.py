"""The algorithm, loops included. It knows models only through their contract."""

from sklearn_onlineem.em.schedules import Constant, Forgetting, Harmonic, PowerDecay
from sklearn_onlineem.em.solvers import (
    Adaptive,
    Auto,
    Batch,
    BayesianOnline,
    Componentwise,
    Gibbs,
    Newton,
    Online,
    SplitMerge,
    Stochastic,
)
from sklearn_onlineem.em.state import Restart

__all__ = [
    "Adaptive", "Auto", "Batch", "BayesianOnline", "Componentwise", "Constant", "Forgetting",
    "Gibbs", "Harmonic", "Newton", "Online", "PowerDecay", "Restart", "SplitMerge",
    "Stochastic",
]  # fmt: skip
