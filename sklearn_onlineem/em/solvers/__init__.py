"""Solvers, one file each; `SOLVERS` translates the strings of estimators."""

from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.em.solvers.bayesian import BayesianOnline, RunningStatistics, running_step
from sklearn_onlineem.em.solvers.componentwise import Componentwise
from sklearn_onlineem.em.solvers.gibbs import Chains, Gibbs
from sklearn_onlineem.em.solvers.newton import Newton
from sklearn_onlineem.em.solvers.online import Auto, Batch, Online
from sklearn_onlineem.em.solvers.recursive import Recursive
from sklearn_onlineem.em.solvers.split_merge import SplitMerge
from sklearn_onlineem.em.solvers.stochastic import Stochastic

__all__ = [
    "SOLVERS",
    "Auto",
    "Batch",
    "BayesianOnline",
    "Chains",
    "Componentwise",
    "Gibbs",
    "Newton",
    "Online",
    "Plan",
    "Recursive",
    "RunningStatistics",
    "Solver",
    "SplitMerge",
    "Stochastic",
    "running_step",
]

SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "online": Online,
    "batch": Batch,
    "stochastic": Stochastic,
    "bayesian": BayesianOnline,
    "componentwise": Componentwise,
    "gibbs": Gibbs,
    "newton": Newton,
    "recursive": Recursive,
}
