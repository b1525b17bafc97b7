"""Quasi-Newton steps on the likelihood, from the E-steps of batch EM."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sklearn_onlineem._kernels._small_matrices import multiply_by_inverse
from sklearn_onlineem._python import cached_property, ours
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Progress
from sklearn_onlineem.em.stopping import StoppingRule
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.coordinates import coordinates_of, has_coordinates
from sklearn_onlineem.statistics import Statistics, combine

if TYPE_CHECKING:
    from sklearn_onlineem.models.coordinates import Coordinates

__all__ = ["Evaluation", "QuasiNewton", "suits"]

# Gains that tell how fast EM is.
_LEAST_GAINS = 3
# Passes that EM may still need, and those after which gains that do not fall are those of a slow
# fit, if a pass takes much longer than a quasi-Newton step alone. That takes about as long as a
# pass over so many rows, and a pass as long as one over 100 rows, at least.
_FEW_PASSES, _MANY_PASSES, _ROWS_OF_A_STEP, _LEAST_ROWS = 10, 30, 2000, 100
# Differences of gradients that are kept.
_MEMORY = 40
# An accepted step gains this share of what the gradient promises; others are cut by a factor, and
# after so many trials a step of EM is taken.
_SUFFICIENT, _SHORTER, _TRIALS = 1e-4, 0.25, 3
# Gains below this share of the objective are lost in its rounding errors.
_ROUNDING = 1e-14
# Longest step, by how far it changes the model, see `Coordinates.size`.
_LONGEST = 2.0


@dataclass(eq=False)
class Evaluation:
    """An E-step of all data, and what it says of the model.

    The log-likelihood is the mean per observation, in nats; `prior` are its terms in the sum of the
    M-step. `data`, or what stands for them, have their weight, rows, and lengths. `derivatives` are
    those that `Coordinates.climbed` ended with.
    """

    model: Model
    evidence: Statistics
    log_likelihood: float
    prior: Sequence[tuple[float, Statistics]]
    data: Batch
    derivatives: Floats | None = None

    @cached_property
    def statistics(self) -> Statistics:
        """The sum that the M-step maximises."""
        return combine([(1.0, self.evidence), *self.prior]) if self.prior else self.evidence

    @cached_property
    def stepped(self) -> Model:
        """The model after a step of EM."""
        return self.model.m_step(self.statistics)

    @cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates about the model; ValueError if it has none."""
        return coordinates_of(self.model, self.statistics, self.data)

    @cached_property
    def log_posterior(self) -> float:
        """Mean log-likelihood, and the log density of the prior."""
        if not self.prior:
            return self.log_likelihood
        with np.errstate(over="ignore", invalid="ignore"):
            terms = (a * self.model.expected_log_likelihood(term) for a, term in self.prior)
            return self.log_likelihood + sum(terms)

    @cached_property
    def objective(self) -> float:
        """What batch EM maximises: the log posterior, with floors of variances as pseudo-data."""
        return self.log_posterior + self.coordinates.floor_penalty(self.evidence)


def suits(here: Evaluation, now: bool = True) -> bool:
    """Return whether a model can take quasi-Newton steps towards the maximum.

    It needs coordinates about it, an exact E-step, and a prior that does not draw parameters to the
    bounds of their range, as one that empties components does. Unless `now` the next step is one,
    coordinates are made for a prior only.
    """
    if not has_coordinates(here.model) or not here.model.is_exact or here.model.draws:
        return False
    if not (now or here.prior):
        return True
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        try:
            for _, term in here.prior:
                if not here.coordinates.is_proper(term):
                    return False
            return here.coordinates.is_smooth and np.isfinite(here.log_posterior)
        except ours(ValueError, FloatingPointError):
            return False


class QuasiNewton:
    r"""L-BFGS in coordinates of unit information, in which a step of EM is a gradient step.

    By Fisher's identity the gradient of the likelihood is the score of the expected complete-data
    statistics. In coordinates in which the information of complete data is the unit matrix, a step
    along it is one of EM, to first order; differences of gradients tell the information that is
    missing, and so the longer steps that EM would need many passes for. Coordinates are those about
    the present model, so that they turn a little from step to step.

    A step is taken if it raises the objective, and shortened if not; after a few trials it is one
    of EM, which always does. Where it `is_open`, steps may take the place of those of EM, and where
    they do it `is_used`. `pairs` are the latest directions, (n,), and their products with the
    observed information.

    References
    ----------
    Jamshidian & Jennrich, "Acceleration of the EM algorithm by using quasi-Newton methods", JRSS-B
    1997; Lange, "A quasi-Newton acceleration of the EM algorithm", Statistica Sinica 1995; Nocedal
    & Wright, "Numerical Optimization", 2006, algorithm 7.4 and eq. (7.20).
    """

    def __init__(self, is_open: bool = False) -> None:
        self.is_open, self.is_used, self._values = is_open, False, deque(maxlen=_LEAST_GAINS + 2)
        self.pairs, self._last = deque(maxlen=_MEMORY), None

    def takes_over(self, here: Evaluation, rule: StoppingRule, progress: Progress) -> bool:
        """Return whether EM is slow, now or before, so that the next step is one of these."""
        if self.is_used or not self.is_open:
            return self.is_used
        self._values.append(here.log_posterior)
        self.is_open = math.isfinite(here.log_posterior)
        n_gains = len(self._values) - 1
        if not type(here.model).coordinates.gains_tell:
            # Where other systems are as likely, first steps may lead far away among these.
            is_slow = n_gains >= _LEAST_GAINS
            if n_gains <= 1 and suits(here) and (about := here.coordinates).are_determined:
                is_slow = n_gains == 1 or about.deviations is not None
        else:
            # To look takes a fourth of a pass over few rows, so that every third pass is enough.
            looks = n_gains >= _LEAST_GAINS and progress.state.counters.n_steps % 3 == 1
            is_slow = looks and self._is_slow(here, rule, len(progress.lower_bounds))
        if self.is_open and is_slow:
            self.is_used = self.is_open = suits(here)
        return self.is_used

    def _is_slow(self, here, rule, n_passes):
        """Return whether the passes of EM to come take much longer than these steps."""
        gains = [after - before for before, after in pairwise(self._values)]
        left = rule.outlook(gains).n_passes
        n_rows = max(here.model.size_of(here.data), here.data.n_rows, _LEAST_ROWS)
        cost = 1.0 + _ROWS_OF_A_STEP / n_rows
        # Early gains may rise.
        is_early = left == math.inf and n_passes < _MANY_PASSES * cost
        return left > _FEW_PASSES * cost and not is_early

    def step(
        self, here: Evaluation, evaluate: Callable[[Model], Evaluation]
    ) -> tuple[Evaluation, float]:
        """Return the evaluation of a model with a larger objective, and the gain that was promised.

        That is the gain up to the maximum of the quadratic model of the objective, in nats per
        observation. `evaluate` also takes how often the data have been read. Unless `here` is what
        was returned before, gradients are of another objective, and their difference tells nothing.
        """
        if not here.prior and (climbed := here.coordinates.climbed()) is not None:
            model, n_read, promised, derivatives = climbed
            there = evaluate(model, n_read + 1)
            if there.objective > here.objective:
                there.derivatives = derivatives
                return there, promised / here.data.total_weight
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            try:
                found = self._longer_step(here, evaluate)
            except FloatingPointError:
                found = None
        if found is not None:
            return found
        self.pairs.clear()
        self._last = None
        there = evaluate(here.stepped)
        # Where it is not higher, but by rounding, no step is.
        gain = there.objective - here.objective
        return (there, gain) if gain > 0.0 else (here, 0.0)

    def _longer_step(self, here, evaluate):
        coordinates = here.coordinates
        gradient = coordinates.unit_score(coordinates.score(here.statistics)).ravel()
        if self._last is not None and self._last[0] is here:
            _, step, before = self._last
            change = before - gradient
            if step.dot(change) > 1e-8 * math.sqrt(step.dot(step) * change.dot(change)):
                self.pairs.append((step, change))
        direction = self.product(gradient, coordinates)
        slope = float(gradient.dot(direction))
        if slope <= _ROUNDING * abs(here.objective):
            return None
        step = coordinates.direction(direction.reshape(coordinates.shape))
        size = coordinates.size(step)
        length = min(1.0, _LONGEST / size) if size > 0.0 else 1.0
        for _ in range(_TRIALS):
            try:
                there = evaluate(coordinates.moved(step if length == 1.0 else length * step))
                gain = there.objective - here.objective
            except ours(ValueError, FloatingPointError, np.linalg.LinAlgError):
                # There is no such model.
                gain = -np.inf
            if gain >= _SUFFICIENT * length * slope:
                self._last = there, length * direction, gradient
                return there, 0.5 * slope
            length *= _SHORTER
        return None

    def product(self, x: Floats, coordinates: Coordinates) -> Floats:
        """Return the inverse of the observed information times a vector (n,), by the pairs.

        That is in coordinates of unit information about the present model.
        """
        x = x.copy()
        if self.pairs:
            pairs = zip(*self.pairs, strict=True)
            multiply_by_inverse(*pairs, coordinates.are_determined, x)
        return x
