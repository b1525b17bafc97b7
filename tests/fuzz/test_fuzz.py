"""A hundred cases of the fuzzer; that it covers all that is public, and notices faults.

`make fuzz CASES=20000 SEED=1` runs more of them; `make fuzz SEED=1 CASE=7` shows one.
"""

import contextlib
import inspect
import math
import re

import numpy as np
import pyarrow as pa
import pytest
from cases.sequence_cases import KALMAN_FILTERS

from fuzz.arguments import drawn_arguments
from fuzz.benches import BENCHES
from fuzz.cases import Log, Outcome, always_refused, run_case
from fuzz.sessions import Session
from fuzz.table import methods_of, parameters_of, public_callables
from fuzz.values import calls_of, valid_argument
from fuzz.verdicts import Fault, check_finite, fingerprint, is_of_others
from fuzz.workers import Setting, run_cases
from fuzz.worlds import WORLDS

pytestmark = pytest.mark.whole

SEED = 20260


def test_a_hundred_cases_find_no_fault():
    faults = [
        outcome for outcome in run_cases(Setting(SEED), range(100)) if outcome.verdict != "passed"
    ]
    texts = [f"make fuzz SEED={SEED} CASE={f.number} ({f.target})\n{f.text}" for f in faults]
    assert not faults, "\n\n".join(texts)


# --------------------------------------------------------------------------------- what is covered


@pytest.fixture(scope="module")
def subjects():
    return [
        *(subject for world in WORLDS.values() for subject in world.objects),
        *(bench.make() for bench in BENCHES.values()),
    ]


@pytest.mark.parametrize("value", [*public_callables()], ids=lambda value: value.__name__)
def test_every_public_callable_is_called(value, subjects):
    if inspect.isclass(value):
        assert any(isinstance(subject, value) for subject in subjects)
    else:
        assert any(subject is value for subject in subjects)


@pytest.mark.parametrize("world", WORLDS.values(), ids=repr)
def test_every_method_of_a_value_has_valid_arguments(world):
    for subject in world.objects:
        for name in calls_of(subject):
            function = getattr(subject, name) if name else subject
            for key in parameters_of(function)[0]:
                valid_argument(world, name, key)


# Sequences that end by themselves have no stationary distribution, systems without a structure no
# components.
MEANINGLESS = {
    ("HMM(gaussian, absorbing)", "get_stationary_distribution"),
    ("CategoricalHMM(durations, absorbing)", "get_stationary_distribution"),
    *((repr(case), "decompose") for case in KALMAN_FILTERS if not case.is_diffuse),
}


@pytest.mark.parametrize("bench", BENCHES.values(), ids=repr)
def test_every_method_of_an_estimator_passes_with_valid_arguments(bench, rng):
    """Now and then at least: a row alone is too few for a fit."""
    for name in methods_of(bench.estimator_class):
        # It takes keywords alone, of which the laws of known models make sense.
        if (
            name != "from_parameters"
            and hasattr(bench.fitted(), name)
            and (bench.name, name) not in MEANINGLESS
        ):
            assert any(passes(bench, name, rng) for _ in range(20)), name


def passes(bench, name, rng):
    session = Session(bench, rng, Log())
    session.subject = bench.fitted()
    session.call_method(name, hostility=0.0)
    return len(session.log) == 1


def test_a_method_with_an_unknown_parameter_is_noticed(rng):
    with pytest.raises(KeyError, match="unheard_of"):
        drawn_arguments(rng, lambda unheard_of: None, {"X": 1}.__getitem__, 1.0)


# --------------------------------------------------------------------------------- what is noticed


def test_cases_are_the_same_every_time():
    once, again = ([run_case(3, number) for number in range(20)] for _ in range(2))
    assert [without_addresses(o.text) for o in once] == [without_addresses(o.text) for o in again]


def without_addresses(text):
    return re.sub(r"0x[0-9a-fA-F]+", "", text)


class Bad:
    """An estimator that does what none should."""

    def __init__(self):
        self.value_ = np.zeros(2)

    def returns_nan(self, X):
        return [np.array([1.0, math.nan])]

    def raises(self, X):
        raise UnboundLocalError("what")

    def changes(self, X):
        self.value_[0] = 1.0
        raise ValueError("No.")

    def writes(self, X):
        getattr(X, "data", X)[...] = 0.0

    def runs_out_of_memory(self, X):
        raise MemoryError


def test_calls_that_are_always_refused_are_noticed(rng):
    calls = [("kept", ""), ("gone", "TypeError: it takes no fraction")] * 3 + [("kept", "No.")]
    outcomes = [Outcome(0, "", "passed", "", calls), Outcome(1, "", "passed", "", calls)]
    assert always_refused(outcomes, least=6) == {"gone": "6 times, TypeError: it takes no fraction"}
    assert not always_refused(outcomes, least=7)
    session = Session(BENCHES["PoissonMixture"], rng, Log())
    session.subject = Bad()
    with contextlib.suppress(Fault):
        session.call_method("changes", hostility=0.0)
    session.subject = BENCHES["PoissonMixture"].fitted()
    session.call_method("drop_sample", hostility=0.0)
    assert session.log.calls == [("PoissonMixture.drop_sample", "")]


@pytest.mark.parametrize(
    ("method", "verdict"),
    [
        ("returns_nan", "nan"),
        ("raises", "exception"),
        ("changes", "changed"),
        ("writes", "wrote"),
        ("runs_out_of_memory", "memory"),
    ],
)
def test_faults_are_noticed(method, verdict, rng):
    session = Session(BENCHES["PoissonMixture"], rng, Log())
    session.subject = Bad()
    with pytest.raises(Fault) as raised:
        for _ in range(20):  # rows may come as a list or a frame, which this can't write to
            with contextlib.suppress(TypeError):
                session.call_method(method, hostility=0.0)
    assert raised.value.verdict == verdict


def test_what_memoryviews_refuse_is_not_ours():
    with pytest.raises(NotImplementedError) as raised:
        memoryview(b"abc")[:, 1:]
    assert is_of_others(raised.value)


def test_what_columns_of_arrow_refuse_is_not_ours():
    with pytest.raises(pa.ArrowException) as raised:
        pa.array(np.zeros(2, dtype=[("a", "f8")]), type=pa.string())
    assert is_of_others(raised.value)


def test_infinite_parameters_are_noticed():
    with pytest.raises(Fault, match="infinite"):
        check_finite({"a": (np.array([math.inf]),)}, "a model")


def test_fingerprints_tell_bits_apart():
    value = {"a": [np.array([0.0]), 1.0, "b"]}
    assert fingerprint(value) == fingerprint({"a": [np.array([0.0]), 1.0, "b"]})
    assert fingerprint(value) != fingerprint({"a": [np.array([-0.0]), 1.0, "b"]})
