"""Sessions with what is below the estimators: made of hostile fields, called with the like."""

import inspect
from dataclasses import fields, is_dataclass

from fuzz.arguments import drawn_arguments
from fuzz.arrays import ANY, SOUND
from fuzz.choosing import one_of
from fuzz.hostile import hostile, patient
from fuzz.table import methods_of
from fuzz.verdicts import (
    DOCUMENTED,
    DOCUMENTED_BELOW,
    Fault,
    fingerprint,
    is_of_others,
    shown,
    undocumented,
)
from fuzz.worlds import WORLDS


def world_session(name):
    """A target that runs sessions with the objects of one world."""

    def run(rng, log):
        world = WORLDS[name]
        subject = one_of(rng, world.objects)
        if rng.random() < 0.4:
            subject = rebuilt(rng, subject, world, log)
        if subject is not None and calls_of(subject):
            for _ in range(int(rng.integers(1, 4))):
                call(rng, subject, world, log)

    return run


def rebuilt(rng, subject, world, log):
    """The object made anew with a field that is hostile; None if its class refuses that."""
    if isinstance(subject, type) or not is_dataclass(subject) or not fields(subject):
        return subject
    valid = {f.name: getattr(subject, f.name) for f in fields(subject)}
    name = one_of(rng, list(valid))
    values = {**valid, name: patient(name, hostile(rng, valid[name], SOUND))}
    log.append(f"subject = {type(subject).__name__}({shown(values, valid)})")
    return attempt(lambda: type(subject)(**values), "the constructor", world, log)


def call(rng, subject, world, log):
    """Call a method, or the object itself if it is a function."""
    name = one_of(rng, calls_of(subject))
    function = getattr(subject, name) if name else subject
    arguments, valid = drawn_arguments(
        rng,
        function,
        lambda key: valid_argument(world, name, key),
        hostility=0.85,
        arrays=ANY if world.is_estimator else SOUND,
    )
    what = f"{type(subject).__name__}.{name}" if name else subject.__name__
    log.append(f"{what}({shown(arguments, valid)})")
    read = {key: value for key, value in arguments.items() if key != "log_likelihoods"}
    before = fingerprint(read)
    n_lines = len(log)
    attempt(lambda: function(**arguments), what, world, log)
    if all(value is valid[key] for key, value in arguments.items()):
        log.calls.append((f"{world.name}: {what}", "".join(log[n_lines:])))
    # Trainings advance, generators are drawn from, and labels are drawn in place.
    is_pure = world.name.startswith("family") and name != "collapsed_sweep"
    if is_pure and fingerprint(read) != before:
        raise Fault("wrote", f"{what} wrote to its arguments")


def calls_of(subject):
    """Names of what can be called of an object; the empty one is the object itself."""
    is_function = inspect.isfunction(inspect.unwrap(subject))
    return [""] if is_function else methods_of(type(subject))


def valid_argument(world, method, name):
    known = world.arguments
    return known[f"{method}.{name}"] if f"{method}.{name}" in known else known[name]


def attempt(run, what, world, log):
    """The result of a call, or None if that is refused."""
    documented = DOCUMENTED if world.is_estimator else DOCUMENTED_BELOW
    try:
        return run()
    except MemoryError:
        log.append("# MemoryError")
    except documented as error:
        log.append(f"# {type(error).__name__}: {str(error)[:200]!r}")
    except Exception as error:
        if world.is_estimator or not is_of_others(error):
            raise undocumented(error, what) from error
    return None
