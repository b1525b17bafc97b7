r"""Changes of the coordinates of states, which no data of a linear dynamical system see.

With :math:`h \to (I + E) h + s` the parts of a system change, to first order, by

.. math::
    dm_1 = E m_1 + s, \quad dV_1 = E V_1 + V_1 E', \quad dA = E A - A E, \quad
    db = E b + s - A s, \quad dQ = E Q + Q E', \quad dC = -C E, \quad dd = -C s

and the likelihood stays. Where all that moves is learnt, it is not determined.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import null_space

from sklearn_onlineem.models.linear_dynamical import LinearDynamicalModel

__all__ = ["unseen_changes"]

# Relative changes below are none.
_NONE = 1e-9


def unseen_changes(model, sizes, told=()):
    """Return how many changes of the states' coordinates leave all that is known as it is.

    Parameters
    ----------
    model : LinearDynamicalModel
    sizes : ndarray of shape (n_components,)
        How large each state is, as states may be in units of any size.
    told : collection of (str, str), default=()
        What is learnt that a prior tells something of: names of a part, and of its parameter.

    Returns
    -------
    n_changes : int
        Dimension of the space of these changes, at most k * k + k.
    moved : list of (str, str)
        What is learnt that they change: names of a part of the model, and of its parameter.
    """
    model, k = _in_units(model, sizes), model.n_components
    units = np.eye(k * k + k)
    every = [_changes(model, unit[: k * k].reshape(k, k), unit[k * k :], told) for unit in units]
    known, learnt = (
        {name: np.array([pair[i][name].ravel() for pair in every]).T for name in every[0][i]}
        for i in (0, 1)
    )
    free = null_space(np.concatenate([*known.values(), np.zeros((1, len(units)))]), rcond=_NONE)
    moved = [
        name for name, changes in learnt.items() if np.abs(changes @ free).max(initial=0) > _NONE
    ]
    return free.shape[1], moved


def _in_units(model, sizes):
    """The model of states of size 1."""
    return LinearDynamicalModel(
        model.initial.in_coordinates(outputs=np.diag(1.0 / sizes)),
        model.transitions.in_coordinates(inputs=np.diag(sizes), outputs=np.diag(1.0 / sizes)),
        model.emissions.in_coordinates(inputs=np.diag(sizes)),
    )


def _changes(model, E, s, told):
    """Relative changes of what is known or told, and of what is learnt, by part and parameter."""
    first, step, reading = model.initial, model.transitions, model.emissions
    A, C, b = step.matrix, reading.matrix, step.offset
    # Rows and their noise may be in units of any size.
    C = C / np.maximum(np.linalg.norm(C, axis=1, keepdims=True), np.finfo(float).tiny)
    every = {
        ("initial", "offset"): E @ first.offset + s,
        ("initial", "covariance"): _congruent(E, first.covariance),
        ("transitions", "matrix"): E @ A - A @ E,
        ("transitions", "offset"): E @ b + s - A @ s,
        ("transitions", "covariance"): _congruent(E, step.covariance),
        ("emissions", "matrix"): -C @ E,
        ("emissions", "offset"): -C @ s,
    }
    known, learnt = {}, {}
    for (part, what), change in every.items():
        regression = getattr(model, part)
        if what not in regression.learnt or (part, what) in told:
            known[part, what] = change
            continue
        learnt[part, what] = change
        if what == "covariance":
            # Of a diagonal that is learnt it is known that the rest is 0.
            known[part, what] = change - regression.family.shape.nearest(change)
    return known, learnt


def _congruent(E, covariance):
    """Change of a covariance, relative to the largest variance."""
    largest = np.diag(covariance).max(initial=np.finfo(float).tiny)
    change = E @ covariance / largest
    return change + change.T
