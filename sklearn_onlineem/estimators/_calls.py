"""Calls with wrong arguments: refused in the name of the user's class, with what to do.

Python names the class that defines a method, which may be a base that no user has heard of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps

from sklearn.base import BaseEstimator

from sklearn_onlineem._typing import Method

__all__ = ["by_name", "naming_calls", "unknown_parameter"]

_FORGETTING = "schedule='forgetting' forgets, by the factor 'beta'"
_START_VALUES = (
    "start values are parameters whose names end in '_init', and 'params' says what is learnt"
)
_NO_MIXTURE = "a state has no mixture of emissions; more states stand in for one"
_HYPERPARAMETERS = """means_prior means_weight covars_prior covars_weight beta_prior dof_prior
    scale_prior mean_prior mean_precision_prior degrees_of_freedom_prior covariance_prior""".split()
# From which similarity on one name is a slip of another: 'params' is none of 'init_params'.
_CLOSE = 0.75
# What hmmlearn, pykalman, scikit-learn and river call something, what it is called here if the
# class has that, and what to say instead of this.
_ELSEWHERE = [
    ("n_iter", "max_iter", None),
    ("min_covar", "reg_covar", None),
    ("init_params", "startprob_init", _START_VALUES),
    ("init_params", "init", None),
    ("implementation", None, "there is one implementation only"),
    ("n_trials", None, "the data say how many trials each row has"),
    ("n_mix", "startprob_init", _NO_MIXTURE),
    ("n_dim_obs", None, "the data say how many features there are"),
    ("n_dim_state", "n_components", None),
    ("n_components", "n_dim_state", None),
    ("em_vars", "params", None),
    ("params", "em_vars", None),
    *((name, "prior", "'prior' is a dict of hyper-parameters") for name in _HYPERPARAMETERS),
    ("weights_prior", "weight_concentration_prior", None),
    ("weights_prior", "startprob_init", _NO_MIXTURE),
    ("weight_concentration_prior_type", None, "the prior of the weights is a Dirichlet"),
    ("learning_method", "solver", None),
    ("learning_decay", "beta", None),
    ("learning_offset", "eta0", "'eta0' sets the first learning rates"),
    ("max_doc_update_iter", "n_sweeps", None),
    ("mean_change_tol", "n_sweeps", "the E-step ends after 'n_sweeps'"),
    ("perp_tol", "tol", None),
    ("evaluate_every", "callbacks", "'callbacks' may score, such as diagnostics.EarlyStopping"),
    ("total_samples", None, "the size of a stream need not be known"),
    ("n_clusters", "n_components", None),
    ("seed", "random_state", None),
    ("learning_rate", "eta0", None),
    ("halflife", "schedule", _FORGETTING),
    ("fading_factor", "schedule", _FORGETTING),
]


def by_name(remedy: str) -> Callable[[Method], Method]:
    """Let a method say what to do where users of other libraries pass one argument too many.

    Parameters
    ----------
    remedy : str
        Which arguments are passed by name.
    """

    def decorated(method):
        method.remedy = remedy
        return method

    return decorated


def naming_calls(cls: Method) -> Method:
    """Let public methods and the constructor of a class refuse wrong arguments in its own name."""
    for name, method in inspect.getmembers_static(cls, inspect.isfunction):
        is_public = name == "__init__" or not name.startswith("_")
        is_ours = getattr(BaseEstimator, name, None) is not method
        if is_public and is_ours and not hasattr(method, "names_calls"):
            setattr(cls, name, with_named_calls(method))
    return cls


def with_named_calls(method: Method) -> Method:
    """Decorate a method that refuses wrong arguments in the name of the class of its instance."""

    @wraps(method)
    def called(self, /, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        except TypeError:
            # Only now, as it takes longer than some methods do.
            refusal = _refusal(method, self, args, kwargs)
            if refusal is None:
                raise
        raise TypeError(refusal)

    called.names_calls = True
    return called


def _refusal(method, instance, args, kwargs):
    """What is wrong with arguments, or None if a method takes them."""
    signature = inspect.signature(method)
    try:
        signature.bind(instance, *args, **kwargs)
    except TypeError as error:
        found = error
    else:
        return None
    kind, parameters = type(instance), list(signature.parameters.values())[1:]
    is_constructor = method.__name__ == "__init__"
    whose = kind.__name__ if is_constructor else f"{kind.__name__}.{method.__name__}"
    kinds = [parameter.kind for parameter in parameters]
    most = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    plain = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    takes = f"its arguments are {inspect.Signature(plain)}"
    if len(args) > most:
        remedy = "pass the others by name" if is_constructor else getattr(method, "remedy", takes)
        return f"{whose} takes {most} by position, got {len(args)}: {remedy}."
    unknown = [name for name in kwargs if name not in signature.parameters]
    if unknown and is_constructor:
        return unknown_parameter(kind, unknown[0], [p.name for p in parameters])
    of_estimator = set(unknown) & set(inspect.signature(kind).parameters)
    if of_estimator and inspect.Parameter.VAR_KEYWORD not in kinds:
        return f"{whose} does not take {min(of_estimator)}, a parameter of the estimator."
    return f"{whose}() {found}; {takes}."


def unknown_parameter(kind, name, known):
    """Say that a class has no such parameter, and what it is called here.

    Parameters
    ----------
    kind : type
    name : str
        As another library calls it, or misspelt.
    known : sequence of str
        Parameters of the class.

    Examples
    --------
    >>> from sklearn_onlineem import GaussianHMM
    >>> unknown_parameter(GaussianHMM, "n_iter", ["max_iter", "tol"])
    "GaussianHMM has no parameter 'n_iter': it is called 'max_iter' here."
    """
    whose = f"{kind.__name__} has no parameter {name!r}"
    for elsewhere, here, remedy in _ELSEWHERE:
        if elsewhere == name and (here is None or here in known):
            return f"{whose}: {remedy or f'it is called {here!r} here'}."
    close = get_close_matches(name, known, n=1, cutoff=_CLOSE)
    if close:
        return f"{whose}; did you mean {close[0]!r}?"
    return f"{whose}; it has {', '.join(sorted(known))}."
