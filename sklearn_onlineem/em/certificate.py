"""Certificates of a local maximum: Newton decrements, by conjugate gradients from E-steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.em.quasi_newton import Evaluation, QuasiNewton
from sklearn_onlineem.em.stopping import StandardErrorStopping
from sklearn_onlineem.models import Model

__all__ = ["Certificate", "NewtonStep", "newton_step"]

# Shares of the gain that `tol` allows: what may be left before the last step, what may be left
# where there is none, as of EM alone, and what makes another model the better one. The share of
# its promise by which the gain of a step may differ if that has led to the maximum.
_BAR, _LAST_BAR, _BETTER, _AGREES = 0.02, 0.25, 0.002, 0.02
# Products of conjugate gradients: the most, and the fewest, which see a saddle; the residual, and
# the share of `tol`, that end them.
_PRODUCTS, _FEWEST, _RESIDUAL, _REST = 40, 4, 1e-2, 1e-3
# Square of a random score, as a share of `tol`; curvature that is a rounding error.
_NOISE, _FLAT = 1e-6, 1e-6
# Of standard deviations: the share of `tol` that those are worth which hardly matter, the step of
# differences, the least factor of a step, and that of one that rises from almost 0.
_WEAK, _LONG_STEP, _LEAST_FACTOR, _RISE = 0.25, 1e-2, 0.1, 30.0
# Steps of differences of scores, by the bytes of a value.
_STEPS, _STEP = {8: 1e-5, 4: 1e-3}, 1e-4
# Lengths of steps along negative curvature. Whether only the entry near zero that rises fastest is
# raised, and to what share of its row's mean.
_LENGTHS = 1.0, 0.3, 0.1, 0.03, 0.003
_RISES = tuple(product((False, True), (0.5, 0.05, 0.005)))
# Passes before the next certificate, for each product of one that has failed: of EM, and of others
# one more for each few that have failed, so that they are a small part of a long fit.
_PASSES, _FEW = 10, 4
_ERRORS = ValueError, FloatingPointError, np.linalg.LinAlgError


class NewtonStep(NamedTuple):
    """A step of Newton's method.

    `gain` is the Newton decrement, which it promises, in nats per observation; infinity where that
    has not been found. `direction` is one of negative curvature at a saddle; None: there is none.
    `pairs` are directions, and their products with the share of the information that is observed.
    """

    gain: float
    direction: Floats | None
    is_saddle: bool
    pairs: list[tuple[Floats, Floats]]


def newton_step(
    here: Evaluation,
    evaluate: Callable[[Model], Evaluation],
    newton: QuasiNewton,
    tol: float,
    fewest: int = _FEWEST,
) -> NewtonStep:
    r"""Return the step of Newton's method from a model, by E-steps alone.

    In coordinates in which the information of complete data is the unit matrix let g be the score,
    and H the share of the information that is observed. Conjugate gradients solve :math:`H x = g`;
    a product with H is a difference of scores. The step promises :math:`\tfrac12 g' x`, whose size
    does not matter above `tol`. Pairs of `newton` precondition; the `fewest` products look for
    negative curvature.
    """

    def unit_score(statistics):
        return coordinates.unit_score(coordinates.score(statistics)).ravel()

    coordinates, pairs = here.coordinates, []
    if coordinates.deviations is not None:
        return _small_step(here, evaluate, tol)
    score = unit_score(here.statistics)
    expected = unit_score(here.evidence) if here.prior else score
    # At an exact saddle the score does not see where to leave it.
    noise = np.random.default_rng(0).standard_normal(coordinates.shape)
    noise = coordinates.unit_score(coordinates.direction(noise)).ravel()
    residual = score + math.sqrt(_NOISE * tol / max(noise.dot(noise), _NOISE)) * noise
    enough = _RESIDUAL**2 * residual.dot(residual)
    length = _STEPS.get(getattr(getattr(here.data, "dtype", None), "itemsize", 0), _STEP)
    total, unsolved, along = np.zeros_like(score), score, 0.0
    before, gain, least = 1.0, 0.0, 1.0
    while (rest := residual.dot(residual)) > enough and gain < tol:
        if len(pairs) >= fewest and rest < _REST * tol * least:
            break
        if len(pairs) == _PRODUCTS:
            gain = math.inf
            break
        towards = newton.product(residual, coordinates)
        slope = residual.dot(towards)
        along, before = towards + slope / before * along, slope
        direction = coordinates.direction(along.reshape(coordinates.shape))
        step = length / coordinates.size(direction)
        there = evaluate(coordinates.moved(step * direction))
        change = along - (unit_score(there.evidence) - expected) / step
        square, curvature = along.dot(along), along.dot(change)
        if curvature < -_FLAT * square:
            return NewtonStep(math.inf, direction, True, pairs)
        if curvature <= _FLAT * square:
            break
        pairs.append((along, change))
        residual, least = residual - slope / curvature * change, min(least, curvature / square)
        # The random score says where to look, not how far to go: not where data tell nothing.
        share = unsolved.dot(along) / curvature
        total, unsolved = total + share * along, unsolved - share * change
        gain = 0.5 * abs(score.dot(total))
    step = coordinates.direction(total.reshape(coordinates.shape)) if pairs else None
    return NewtonStep(gain, step, False, pairs)


def _small_step(here, evaluate, tol):
    r"""Return the step of Newton's method for a few standard deviations, and coefficients.

    The likelihood is an even function of deviations. So one that goes to 0 is at an ordinary
    maximum, in a finite step; it is infinitely far for logarithms x. The information H is what a
    climb has left of it, or from products with all units.

    One that hardly matters, or whose H is a rounding error, has its step without H: to 0 if the
    likelihood falls with it, and far up if that is better, as nothing tells how far.
    """
    coordinates, (units, rounding, added) = here.coordinates, here.coordinates.deviations
    score, no_step = coordinates.score(here.statistics)[0], np.zeros(len(units))
    if here.derivatives is None:
        H = _information(here, evaluate, score)
    else:
        H = coordinates.information(here.derivatives, score)
    least = np.maximum(2.0 * _WEAK * tol * units**2, 3.0 * rounding / _LONG_STEP)
    is_weak, is_variance = np.abs(H.diagonal()) < least, units > 0.0
    falls = is_weak & (score < -2.0 * _WEAK * _BAR * tol * units)
    rises = is_weak & (score * units > 5.0 * rounding + 0.5 * added)
    if rises.any():
        up = np.divide(math.log(_RISE), units, out=no_step.copy(), where=rises)[None]
        if evaluate(coordinates.moved(up)).objective > here.objective + _BETTER * tol:
            return NewtonStep(math.inf, up, False, [])
    own = np.flatnonzero(~is_weak)
    step = np.divide(-1.0, units, out=no_step.copy(), where=falls)
    H = H[np.ix_(own, own)]
    if len(own):
        values, vectors = np.linalg.eigh(H)
        if values[0] < -_FLAT:
            no_step[own] = vectors[:, 0]
            return NewtonStep(math.inf, no_step[None], True, [])
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > _FLAT)
        step[own] = vectors @ (inverse * (score[own] @ vectors))
    gain = 0.5 * float(np.abs(score * step).sum())
    logs = np.log(np.maximum(1.0 + units * step, _LEAST_FACTOR))
    step = np.divide(logs, units, out=step, where=is_variance)
    return NewtonStep(gain, step[None], False, [])


def _information(here, evaluate, score):
    """Return the observed information of deviations and coefficients, from all products.

    These are differences of scores g by natural parameters. Where a unit moves the logarithm x of a
    deviation by u, the information of x is H + 2 u g, and that of the deviation is H + 3 u g.
    """
    coordinates, (units, *_) = here.coordinates, here.coordinates.deviations
    one, expected = np.eye(len(units)), coordinates.score(here.evidence)[0]
    H = one.copy()
    for i, unit in enumerate(one):
        length = _LONG_STEP / coordinates.size(unit[None])
        there = evaluate(coordinates.moved(length * unit[None]))
        # Scores are nearly linear in variances.
        length = 0.5 * math.expm1(_LONG_STEP) / units[i] if units[i] > 0.0 else length
        H[i] -= (coordinates.score(there.evidence)[0] - expected) / length
    return 0.5 * (H + H.T) + 3.0 * np.diag(units * score)


@dataclass
class Certificate:
    """Whether a fit is at a local maximum, and what it still gains up to it.

    It is, if a step of Newton's method promises hardly anything, no curvature is negative, and no
    entry near zero is one that EM would raise. The fit goes on from a saddle along the negative
    curvature, and from zeros where these are raised.

    The estimate by `rule` of what is left says when to ask, and its `tol` what may be left. Pairs
    of `newton` precondition, and it receives those of the products, so that its next step is one of
    Newton's method. None of those is the last where passes are EM's alone, `is_plain`.
    """

    rule: StandardErrorStopping
    newton: QuasiNewton
    is_plain: bool = False
    # What is left, in nats per observation.
    gain: float = math.inf
    # A better model than the one that was asked about; and the same, which is asked about at once,
    # if a step of Newton's method has gained what it promised; in few dimensions, after every one.
    ahead: Evaluation | None = None
    sure: Evaluation | None = None
    _wait: int = field(default=0, repr=False)
    _n_failed: int = field(default=0, repr=False)

    def is_due(self) -> bool:
        """Return whether to ask for it after a pass; each pass asks once."""
        self._wait -= 1
        bar = _LAST_BAR if self.is_plain else 1.0
        return self._wait < 0 and self.rule.left < bar * self.rule.tol

    def holds(
        self, here: Evaluation, evaluate: Callable[[Model], Evaluation], is_last: bool = False
    ) -> tuple[bool, Evaluation]:
        """Return whether a model is at a local maximum, and it, or a better one to go on from.

        `is_last` says whether no step raises the objective any more, by its rounding errors.
        """
        # A pass that has gained nothing is the last where there is no certificate, or nothing
        # better along a negative curvature, perhaps a rounding error.
        has_stalled, tol = self.rule.left == 0.0, self.rule.tol
        self.newton.is_used = self.newton.is_open
        # The certificate of the pass before has seen that there is no saddle.
        fewest = 1 if self.gain < tol else _FEWEST
        self.gain, self.ahead, self.sure, is_near = math.inf, None, None, False
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            try:
                found = newton_step(here, evaluate, self.newton, tol, fewest)
                is_last |= has_stalled and found.is_saddle
                has_stalled = False
                self.newton.pairs.extend(found.pairs)
                self._n_failed += 1
                wait = _PASSES if self.is_plain else 1 + self._n_failed // _FEW
                self._wait = wait * len(found.pairs)
                self.ahead = self._better(here, evaluate, found)
                is_small = here.coordinates.deviations is not None
                if self.ahead is None and (found.gain < tol or is_small):
                    bar = tol * (_LAST_BAR if self.is_plain or is_last else _BAR)
                    is_near = found.gain < bar
                    self._finish(here, evaluate, found)
                    # A step that gains what it promised has led to the maximum.
                    is_near |= is_small and found.gain < tol and self.gain < bar
            except ours(*_ERRORS):
                pass
        ends = is_near or ((is_last or has_stalled) and self.ahead is None)
        return ends, self.ahead or here

    def _better(self, here, evaluate, found):
        """Return a model past a saddle, or with entries near zero raised, if it is better."""
        coordinates, tries = here.coordinates, []
        if found.is_saddle:
            slope = np.vdot(coordinates.score(here.statistics), found.direction)
            along = math.copysign(1.0 / coordinates.size(found.direction), slope) * found.direction
            tries = [(coordinates.moved, [length * along for length in _LENGTHS])]
        # The curvature along the logarithm of an entry near zero is negative if EM raises it.
        if found.is_saddle or found.gain < self.rule.tol:
            tries.append((partial(coordinates.raised, here.stepped), _RISES))
        for go, ways in tries:
            for way in ways:
                try:
                    if (model := go(way)) is None:
                        return None
                    there = evaluate(model)
                    if there.objective > here.objective + _BETTER * self.rule.tol:
                        return there
                except ours(*_ERRORS):
                    continue  # Other lengths may have models.
        return None

    def _finish(self, here, evaluate, found):
        """Take the step, if it is worth it and passes are not those of EM; set what is left."""
        self.gain, self._wait, self._n_failed = found.gain, 0, 0
        is_small = here.coordinates.deviations is not None
        is_worth_it = found.gain > (_REST if is_small else _BETTER) * self.rule.tol
        if found.direction is None or self.is_plain or not is_worth_it:
            return
        for length in (1.0, 0.5)[: 1 + is_small]:
            there = evaluate(here.coordinates.moved(length * found.direction))
            rise = there.objective - here.objective
            if rise > 0.0:
                # An error of the gain that was promised is as large as what is left.
                self.ahead, self.gain = there, abs(found.gain - rise)
                if self.gain < (self.rule.tol if is_small else _AGREES * found.gain):
                    self.sure = there
                break
