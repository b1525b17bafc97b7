"""What an estimator says while it learns: progress where `verbose` asks for it, and warnings."""

from __future__ import annotations

import math

from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem.em.convergence import expected_passes
from sklearn_onlineem.em.schedules import BETA_SCHEDULES
from sklearn_onlineem.estimators._warnings import warn_user

__all__ = [
    "report_end",
    "report_pass",
    "report_update",
    "say",
    "warn_of_passes",
    "warn_of_revival",
    "warn_of_unused_rates",
]

# ---------------------------------------------------------------------------------------- progress


def say(estimator, what):
    """Print a line, if the estimator is to say what it does."""
    if estimator.verbose:
        print(f"{type(estimator).__name__}: {what}", flush=True)


def report_pass(estimator, n_iter, log_likelihood):
    """Say how far a fit is, every `verbose_interval` passes."""
    if n_iter % estimator.verbose_interval == 0:
        say(estimator, f"pass {n_iter}, log-likelihood {log_likelihood:.6f}")


def report_end(estimator, progress):
    """Say why a fit has ended."""
    if progress.n_iter == 0:
        say(estimator, "max_iter=0, so that nothing is learnt")
        return
    reason = "converged" if progress.converged else "max_iter is reached"
    reason = "stopped by a callback" if progress.stopped else reason
    last = progress.lower_bounds[-1]
    say(estimator, f"{reason} after pass {progress.n_iter}, log-likelihood {last:.6f}")


def report_update(estimator, state):
    """Say how far a stream is, at first and every `verbose_interval` updates."""
    if state.n_steps == 1 or state.n_steps % estimator.verbose_interval == 0:
        what = f"update {state.n_steps}, {state.n_rows} rows, log-likelihood"
        say(estimator, f"{what} {state.step.log_likelihood:.6f}")


# ---------------------------------------------------------------------------------------- warnings


def warn_of_passes(estimator, progress, may_converge=True):
    """Warn if a fit has not converged though it may, or ended before it averaged."""
    solver, name = estimator._solver(), type(estimator).__name__
    may_converge &= estimator.tol > 0 and not solver.is_stochastic
    if may_converge and not (progress.converged or progress.stopped):
        warn_user(
            f"{name} did not converge within max_iter={estimator.max_iter} passes:"
            f" {_outlook(estimator, progress)}. Raise max_iter or tol.",
            ConvergenceWarning,
        )
    average_from = getattr(solver, "average_from", None)
    if average_from is not None and progress.n_iter < average_from and not progress.stopped:
        warn_user(
            f"{name} made {progress.n_iter} passes, so that none was averaged:"
            f" average_from={average_from}."
        )


def _outlook(estimator, progress):
    """What the last passes say of those that are lacking."""
    gains, divergences = progress.latest_gains(), progress.latest_divergences()
    values = divergences if estimator.stopping == "kl" else gains
    parts = [f"changed the log-likelihood by {gains[-1]:.2g} nats"] if gains else []
    parts += [f"had KL(new || old) = {divergences[-1]:.2g} nats"] if divergences else []
    if not parts:
        return "one pass tells no rate"
    found, tol = f"the last {' and '.join(parts)}", estimator.tol
    if len(values) < 2:
        return found
    rate, n_passes = expected_passes(values, tol)
    if n_passes == math.inf:
        return f"{found}, and tol={tol:g} is not in sight"
    return f"{found}, and at a rate of {rate:.3g} tol={tol:g} needs some {n_passes} more"


def warn_of_unused_rates(estimator, progress):
    """Warn of parameters of learning rates that were set, and that no step has used."""
    has_own_rates = estimator._solver().has_own_rates
    used = _used_rates(estimator) if progress.used_rates and not has_own_rates else set()
    unused = [
        name
        for name in ("eta0", "beta", "schedule")
        if name not in used and getattr(estimator, name) != estimator._defaults[name]
    ]
    if unused:
        names, why = " or ".join(unused), _why_unused(estimator, progress, has_own_rates)
        whose = f"{type(estimator).__name__} took no step that depends on {names}, though set"
        warn_user(f"{whose}: {why}")


def _why_unused(estimator, progress, has_own_rates):
    if has_own_rates:
        return "rates come from its running statistics."
    if progress.used_rates:
        return f"schedule={estimator.schedule!r} makes its rates without."
    return (
        f"there was no online step, with solver={estimator.solver!r}, eta0={estimator.eta0!r} and"
        f" batch_size={estimator.batch_size}. Online EM is solver='online', and solver='auto'"
        " where eta0 is a number."
    )


def _used_rates(estimator):
    """Names of the parameters that learning rates are made of."""
    if not isinstance(estimator.schedule, str):
        return {"schedule"}
    used = {"schedule", "beta"} if estimator.schedule in BETA_SCHEDULES else {"schedule"}
    has_count = estimator.schedule == "bayesian" and estimator._pseudo_count is not None
    return used if has_count else used | {"eta0"}


def warn_of_revival(estimator, step):
    """Warn that a starved component has come back."""
    warn_user(
        f"{type(estimator).__name__}: component {step.revived} had starved, and has come back as"
        f" half of component {step.half_of}: the source of the rows may have changed."
    )
