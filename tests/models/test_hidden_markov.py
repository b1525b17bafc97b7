"""One online step of a tiny hidden Markov model against numerical minimisation over everything.

The objective is U + KL / eta. Both terms are taken from joint densities p(h, v) of whole sequences,
all paths enumerated, and all symbols too in the divergence.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases.chains import ChainCase, with_known
from cases.comparing import assert_close
from cases.coordinates import ComponentCoordinates, minimiser
from cases.enumeration import Enumeration, all_paths, log_prior_of
from cases.family_cases import case_of
from numpy.testing import assert_allclose

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.families import Categorical, Full, Gaussians, Poisson
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState, GivenLength

TERMINATIONS = [GivenLength(), EndState(), AbsorbingStates((1,))]
N_STATES = 2
# Absorbed so soon that longer sequences have less than 1e-9 of all probability.
STAYS, LONGEST = 0.02, 5


def draw(termination, case, rng):
    start = rng.dirichlet(np.full(N_STATES, 5.0))
    parameters = case.draw(rng, N_STATES, 1)
    transmat = rng.dirichlet(np.full(N_STATES, 3.0), N_STATES)
    if isinstance(termination, EndState):
        transmat = np.column_stack([STAYS * transmat, np.full(N_STATES, 1.0 - STAYS)])
    if isinstance(termination, AbsorbingStates):
        transmat = np.array([[STAYS, 1.0 - STAYS], [0.0, 1.0]])
    return HiddenMarkovModel(case.family, start, transmat, parameters, termination)


def batch(case, lengths, rng):
    X = case.rows(rng, sum(lengths), 1)
    return Sequences(Rows(X), np.concatenate(([0], np.cumsum(lengths))))


def coordinates_of(case, model):
    return ComponentCoordinates(ChainCase(case, None), model)


@dataclass
class PartlyKnown:
    """Models that differ from the old one only in some of s, t, m (means) and c (covariances)."""

    space: ComponentCoordinates
    learnt: str

    def encode(self, model):
        return self.space.encode(model)

    def decode(self, vector):
        new, old = self.space.decode(vector), self.space.model
        start, transmat, mean, covariance = (
            ours if letter in self.learnt else theirs
            for letter, ours, theirs in zip("stmc", _parts(new), _parts(old), strict=True)
        )
        parameters = Gaussians(mean, covariance)
        return replace(old, start=start, transmat=transmat, parameters=parameters)


def _parts(model):
    return model.start, model.transmat, model.parameters.mean, model.parameters.covariance


def enumerations(model, data):
    """All paths of each sequence."""
    log_densities = model.family.log_density(model.parameters, data.X)
    return [Enumeration(model, part) for part in np.split(log_densities, data.offsets[1:-1])]


def bound(old, new):
    """U up to a constant: minus the expected log p(v, h) under the old posterior."""
    pairs = zip(old, new, strict=True)
    return -np.mean([expectation(before.shares, after.log_joint) for before, after in pairs])


def expectation(shares, values):
    return shares[shares > 0] @ values[shares > 0]


class Lengths:
    """Sequences of one length, all paths of them, and what the old model says of these."""

    def __init__(self, old, length, share):
        self.share, self.paths = share, all_paths(N_STATES, length)
        self.log_prior = log_prior_of(old, self.paths)

    @classmethod
    def all(cls, old, data):
        """Those of the batch, where lengths are given; otherwise the model says how often."""
        if not isinstance(old.termination, GivenLength):
            return [cls(old, length, 1.0) for length in range(1, LONGEST + 1)]
        lengths, counts = np.unique(data.lengths, return_counts=True)
        return [cls(old, n, count / len(data)) for n, count in zip(lengths, counts, strict=True)]


class OverSymbols(Lengths):
    """KL(old || new) over all paths and all symbols."""

    def __init__(self, old, length, share):
        super().__init__(old, length, share)
        self.symbols = all_paths(old.family.n_categories, length)
        self.log_joint = self.log_prior[:, None] + self.log_emitted(old)
        self.joint = np.exp(self.log_joint)

    def log_emitted(self, model):
        """log p(v | h), of shape (n_paths, n_sequences)."""
        log_p = np.log(model.parameters)
        return log_p[self.paths[:, None, :], self.symbols[None, :, :]].sum(axis=2)

    def divergence(self, old, new):
        possible = self.log_prior > -np.inf
        new_joint = log_prior_of(new, self.paths)[:, None] + self.log_emitted(new)
        differences = self.log_joint[possible] - new_joint[possible]
        return self.share * (self.joint[possible] * differences).sum()


class OverPaths(Lengths):
    """KL(old || new) over all paths; what each row adds is the divergence of two densities."""

    def divergence(self, old, new):
        emitted = old.family.kl_divergence(old.parameters, new.parameters)
        possible = self.log_prior > -np.inf
        differences = (self.log_prior - log_prior_of(new, self.paths), emitted[self.paths].sum(1))
        return self.share * np.exp(self.log_prior[possible]) @ sum(differences)[possible]


CASES = [
    pytest.param(case_of(family), enumerated, id=family.__name__)
    for family, enumerated in ((Categorical, OverSymbols), (Poisson, OverPaths), (Full, OverPaths))
]
all_cases = pytest.mark.parametrize("case, enumerated", CASES)
all_terminations = pytest.mark.parametrize(
    "termination", TERMINATIONS, ids=lambda h: type(h).__name__
)
# An impossible path has log p = -inf under both models.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")


def assert_step_is_minimiser(old, data, eta, space, enumerated):
    evidence, lengths = enumerations(old, data), enumerated.all(old, data)

    def objective(vector):
        new = space.decode(vector)
        divergence = sum(length.divergence(old, new) for length in lengths)
        return bound(evidence, enumerations(new, data)) + divergence / eta

    found = space.decode(minimiser(objective, space.encode(old)))
    step, _ = online_step(old, data, eta)
    assert_allclose(step.start, found.start, atol=1e-6)
    assert_allclose(step.transmat, found.transmat, atol=1e-6)
    assert_close(step.parameters, found.parameters, rtol=1e-6, atol=1e-6)


@all_cases
@all_terminations
def test_online_step_minimises_bound_plus_divergence(termination, case, enumerated, rng):
    eta = 5.0 if isinstance(termination, EndState) else 0.4
    old, data = draw(termination, case, rng), batch(case, [3, 1, 4, 3, 2], rng)
    assert_step_is_minimiser(old, data, eta, coordinates_of(case, old), enumerated)


@pytest.mark.parametrize(
    ("termination", "learnt"),
    [
        *((termination, learnt) for termination in TERMINATIONS for learnt in ("s", "t", "stm")),
        # Emissions are learnt in the same way whatever ends a sequence.
        *((TERMINATIONS[0], learnt) for learnt in ("m", "c", "stc", "mc")),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_online_step_minimises_over_what_is_learnt(termination, learnt, rng):
    case = case_of(Full)
    family = replace(case.family, learns_means="m" in learnt, learns_covariances="c" in learnt)
    known = "".join({"s", "t"} - set(learnt)) + "e" * (not {"m", "c"} & set(learnt))
    old = replace(with_known(draw(termination, case, rng), known), family=family)
    data, space = batch(case, [3, 1, 4, 3, 2], rng), coordinates_of(case, old)
    assert_step_is_minimiser(old, data, 0.7, PartlyKnown(space, learnt), OverPaths)


@all_cases
@all_terminations
def test_divergence_is_joint_over_hidden_and_visible(termination, case, enumerated, rng):
    p, q = (draw(termination, case, rng) for _ in range(2))
    data = batch(case, [3, 1, 4, 3, 2], rng)
    expected = sum(length.divergence(p, q) for length in enumerated.all(p, data))
    assert_allclose(p.kl_divergence(q, like=data), expected, rtol=1e-6)
