"""Numerical optimisation, which knows none of the formulas under test."""

from scipy.optimize import minimize


def minimiser(objective, start):
    """Minimise a smooth function, to where central differences can't tell any more."""
    for _ in range(3):
        found = minimize(objective, start, jac="3-point", options={"gtol": 1e-9})
        if found.success or found.nit == 0:
            break
        start = found.x
    return found.x
