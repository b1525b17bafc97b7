"""Numerical optimisation, which knows none of the formulas under test."""

from scipy.optimize import minimize


def minimiser(objective, start):
    """Minimise a smooth function, to where central differences can hardly tell any more."""
    found = minimize(objective, start, jac="2-point", options={"gtol": 1e-5})
    for _ in range(3):
        options = {"gtol": 1e-8, "hess_inv0": 0.5 * (found.hess_inv + found.hess_inv.T)}
        found = minimize(objective, found.x, jac="3-point", options=options)
        if found.success or found.nit == 0:
            break
    return found.x
