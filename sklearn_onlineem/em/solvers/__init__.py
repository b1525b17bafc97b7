"""Solvers, one file each; `SOLVERS` translates the strings of estimators."""

from sklearn_onlineem.em.solvers.adaptive import Adaptive
from sklearn_onlineem.em.solvers.auto import Auto
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.solvers.batch import Batch
from sklearn_onlineem.em.solvers.bayesian import BayesianOnline, RunningStatistics, running_step
from sklearn_onlineem.em.solvers.componentwise import Componentwise
from sklearn_onlineem.em.solvers.gibbs import Chains, Gibbs
from sklearn_onlineem.em.solvers.newton import Newton
from sklearn_onlineem.em.solvers.online import Online
from sklearn_onlineem.em.solvers.split_merge import SplitMerge
from sklearn_onlineem.em.solvers.stochastic import Stochastic
from sklearn_onlineem.models import Model

__all__ = [
    "SOLVERS", "Adaptive", "Auto", "Batch", "BayesianOnline", "Chains", "Componentwise",
    "Gibbs", "Newton", "Online", "Plan", "RunningStatistics", "Solver", "SplitMerge",
    "Stochastic", "running_step", "solvers_for",
]  # fmt: skip

# By the names of the parameter `solver` of estimators.
SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "online": Online,
    "adaptive": Adaptive,
    "batch": Batch,
    "stochastic": Stochastic,
    "bayesian": BayesianOnline,
    "componentwise": Componentwise,
    "gibbs": Gibbs,
    "newton": Newton,
}


def solvers_for(kind: type[Model]) -> set[str]:
    """Return the names of the solvers that can fit models of a class."""
    return {
        name
        for name, solver in SOLVERS.items()
        if solver.requires is None or issubclass(kind, solver.requires)
    }
