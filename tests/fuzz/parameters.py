"""Values of parameters: what their constraints allow, what these just exclude, and more."""

import math

import numpy as np
from sklearn.utils._param_validation import Interval, Options

from fuzz.arrays import Refusal
from fuzz.choosing import one_of
from fuzz.hostile import hostile, junk, patient
from sklearn_onlineem.em import Constant, Online, Stochastic
from sklearn_onlineem.em.step import Exact, Sampled


def raising(*arguments):
    raise Refusal


CALLABLES = [
    lambda *arguments: None, lambda *arguments: True, lambda *arguments: 0.5,
    lambda *arguments: 0.0, lambda *arguments: -1.0, lambda *arguments: math.nan,
    lambda *arguments: math.inf, lambda *arguments: 1e308, lambda *arguments: 5e-324,
    lambda *arguments: "a", lambda *arguments: np.array([1.0, 2.0]), raising, len, dict,
]  # fmt: skip
OBJECTS = [Constant(0.5), Online(), Online(inertia=Sampled(10)), Stochastic(), Exact()]


def valid_parameter(rng, constraint):
    """Return a value that a constraint allows, or None."""
    if isinstance(constraint, Options):
        return one_of(rng, sorted(constraint.options, key=repr))
    if isinstance(constraint, Interval):
        return one_of(rng, [v for v in around(constraint) if v in constraint] or [None])
    plain = {
        "boolean": [True, False], "verbose": [0, 1], "random_state": [0, None], dict: [{}],
        str: ["ste", "wp", "s", ""], int: [2], float: [1.5],
    }  # fmt: skip
    return one_of(rng, plain.get(constraint, [None]))


def around(interval):
    """The ends of an interval, and numbers on both sides of them."""
    for end in (interval.left, interval.right):
        if end is not None:
            step = 1 if "Integral" in interval.type.__name__ else 1e-9
            yield from (end, end - step, end + step, float(end), np.float32(end))
            yield np.int64(end) if abs(end) < 2**63 else int(end)
    yield from (1, 2, np.int8(3), np.uint8(2), np.int64(2), 2.0, np.float32(0.3), 0.5, True, 100)


def hostile_parameter(rng, name, constraints, valid=None):
    """Return a value for a parameter that its constraints may allow or not.

    Parameters
    ----------
    rng : numpy.random.Generator
    name : str
    constraints : list
        As scikit-learn takes them.
    valid : object, default=None
        A value that makes sense, of which relatives are made.
    """
    options = [lambda: junk(rng), lambda: one_of(rng, CALLABLES), lambda: one_of(rng, OBJECTS)]
    options += [lambda: hostile(rng, valid)] * 4
    for constraint in constraints:
        options += [lambda constraint=constraint: valid_parameter(rng, constraint)] * 2
        if isinstance(constraint, Interval):
            options += [lambda constraint=constraint: one_of(rng, [*around(constraint)])] * 4
    if name == "callbacks":
        options += [lambda: [one_of(rng, CALLABLES), one_of(rng, CALLABLES)]] * 8
    value = one_of(rng, options)()
    return patient(name, value)
