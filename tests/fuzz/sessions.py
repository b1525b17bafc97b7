"""Sessions with an estimator: a few steps, valid or hostile, in any order, each with a verdict."""

import contextlib
import copy
import pickle
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from cases.damaged_files import damaged
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from fuzz.arguments import drawn_arguments
from fuzz.benches import BENCHES
from fuzz.choosing import one_of
from fuzz.hostile import junk
from fuzz.parameters import hostile_parameter
from fuzz.table import methods_of, parameters_of
from fuzz.verdicts import (
    DOCUMENTED,
    Fault,
    check_finite,
    fingerprint,
    is_finite,
    shown,
    state_of,
    undocumented,
)
from sklearn_onlineem.persistence import load, save

# Parameters that are sizes, or have some: what is refused for lack of memory was asked for.
SIZES = {"n_samples", "n_sequences", "n_steps", "n_components", "n_features", "n_dim_state", "lags"}
SIZES |= {"family"}


class Session:
    """An estimator on a bench, and what is known of it.

    Attributes
    ----------
    subject : object
        The estimator, or a live filter of it.
    finite : bool
        Whether all that it has met is finite.
    log : list of str
        What has been done, in the words of a program.
    """

    def __init__(self, bench, rng, log):
        self.bench, self.rng, self.log = bench, rng, log
        self.finite, self.asked_for_size, self.has_hostile_parameters = True, False, False
        self.subject = bench.make()

    def run(self):
        one_of(self.rng, [self.construct, self.construct, self.learn, self.learn, self.learn])()
        for _ in range(int(self.rng.integers(1, 5))):
            one_of(self.rng, STEPS)(self)

    # -------------------------------------------------------------------------- where cases begin

    def construct(self):
        """An estimator with a few hostile parameters, which is then fitted."""
        parameters = self.hostile_parameters()
        self.log.append(f"estimator = {self.bench}({shown(parameters)})")
        self.attempt(lambda: self.bench.make(**parameters), "the constructor")
        self.subject = self.bench.make()
        self.attempt(lambda: self.subject.set_params(**parameters), "set_params")
        self.call_method("fit", hostility=0.0)

    def learn(self):
        kind = one_of(self.rng, [k for k in ("fit", "partial_fit") if hasattr(self.subject, k)])
        self.log.append(f"estimator = {self.bench}() after {kind}")
        self.subject = self.bench.fitted(kind)

    # -------------------------------------------------------------------------------------- steps

    def call(self):
        """Call a method with one or two arguments that are hostile."""
        self.call_method(one_of(self.rng, methods_of(type(self.subject))), hostility=1.0)

    def call_validly(self):
        self.call_method(one_of(self.rng, methods_of(type(self.subject))), hostility=0.0)

    def change_parameters(self):
        if hasattr(self.subject, "set_params"):
            parameters = self.hostile_parameters()
            self.log.append(f"estimator.set_params({shown(parameters)})")
            self.attempt(lambda: self.subject.set_params(**parameters), "set_params")

    def read_attributes(self):
        self.log.append("every attribute")
        for name in properties_of(type(self.subject)):
            try:
                value = getattr(self.subject, name)
            except (AttributeError, InvalidParameterError):
                # offset_ is computed by the present `contamination`, which may be none.
                continue
            except Exception as error:
                raise undocumented(error, name) from error
            if self.finite and name not in ("lower_bound_", "history_"):
                check_finite(value, name, infinite=False)

    def replace_by_copy(self):
        """Go on with a pickled, copied or cloned estimator."""
        if not hasattr(self.subject, "get_params"):
            return
        ways = {
            "pickle": lambda: pickle.loads(pickle.dumps(self.subject)),
            "deepcopy": lambda: copy.deepcopy(self.subject),
            "clone": lambda: clone(self.subject),
        }
        way = one_of(self.rng, list(ways))
        self.log.append(f"estimator = {way}(estimator)")
        try:
            self.subject = ways[way]()
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError):
            # Parameters such as generators can't be copied.
            self.log.append("# which is impossible")

    def restore_state(self):
        """Set a state that was cut or changed, as from a file of another version."""
        if not hasattr(self.subject, "__setstate__"):
            return
        state = dict(state_of(self.subject))
        for name in list(state):
            chance = self.rng.random()
            if chance < 0.1:
                del state[name]
            elif chance < 0.2:
                state[name] = junk(self.rng)
        self.log.append(f"estimator.__setstate__({shown(state)})")
        self.finite = False
        self.subject = self.bench.make()
        self.attempt(lambda: self.subject.__setstate__(state), "__setstate__")

    def load_damaged_file(self):
        """Load a file that somebody has changed; what it holds may fail, but not take us down."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "damaged")
            try:
                save(self.subject, path)
            except ValueError:
                # It has something that no file holds.
                return
            path.write_bytes(damaged(self.rng, path.read_bytes()))
            self.log.append("load(damaged file of the estimator)")
            try:
                loaded = load(path)
            except ValueError:
                return
            except Exception as error:
                raise undocumented(error, "load") from error
        known = self.bench.arguments(self.rng)
        for name in ("score", "predict", "partial_fit", "sample", "update"):
            with contextlib.suppress(Exception):
                method = getattr(loaded, name)
                method(**drawn_arguments(self.rng, method, known.__getitem__, 0.0)[0])

    def watch_live(self):
        """Go on with a live filter."""
        if hasattr(self.subject, "live_filter") and hasattr(self.subject, "model_"):
            self.log.append("estimator = estimator.live_filter()")
            self.attempt(self._go_live, "live_filter")

    def _go_live(self):
        self.subject = self.subject.live_filter()

    # --------------------------------------------------------------------------------- the checks

    def call_method(self, name, hostility):
        try:
            method = getattr(self.subject, name)
        except AttributeError:
            self.log.append(f"estimator.{name}  # is not there")
            return
        arguments, valid = self.arguments_of(name, method, hostility)
        self.log.append(f"estimator.{name}({shown(arguments, valid)})")
        self.finite &= is_finite(arguments)
        self.asked_for_size |= bool(SIZES & set(arguments)) and hostility > 0.0
        before = fingerprint(arguments)
        try:
            reason = self.attempt(lambda: method(**arguments), name, check=True)
            if hostility == 0.0 and not self.has_hostile_parameters:
                self.log.calls.append((f"{self.bench.name}.{name}", reason))
        finally:
            if fingerprint(arguments) != before:
                raise Fault("wrote", f"{name} wrote to its arguments")

    def attempt(self, call, name, check=False):
        """Call; the subject is unchanged if that is refused, and finite if it may be.

        Return why it was refused.
        """
        before = fingerprint(state_of(self.subject))
        try:
            result = call()
        except Exception as error:
            if isinstance(error, MemoryError) and self.asked_for_size:
                return "MemoryError"
            if not isinstance(error, (*DOCUMENTED, *self.bench.raises)):
                raise undocumented(error, name) from error
            self.log.append(f"# {type(error).__name__}: {str(error)[:200]!r}")
            if fingerprint(state_of(self.subject)) != before and name != "__setstate__":
                raise Fault("changed", f"{name} failed, and changed the estimator") from error
            return f"{type(error).__name__}: {error}"
        if check and self.finite:
            if result is not self.subject and self.bench.returns_finite:
                check_finite(result, f"the result of {name}", infinite=False)
            model = getattr(self.subject, "model_", None)
            if model is not None:
                check_finite(model, f"model_ after {name}")
        return ""

    # --------------------------------------------------------------------------------- arguments

    def arguments_of(self, name, method, hostility):
        """Arguments of a call, and valid ones that go together."""
        if name == "set_params":
            return self.hostile_parameters(), None
        known = self.bench.arguments(self.rng)
        if name == "pairwise":
            known["X"] = known["words"]
        return drawn_arguments(self.rng, method, known.__getitem__, hostility)

    def hostile_parameters(self):
        """One to three parameters by name."""
        self.has_hostile_parameters = True
        estimator_class = self.bench.estimator_class
        constraints = getattr(estimator_class, "_parameter_constraints", {})
        names, _ = parameters_of(estimator_class)
        chosen = {one_of(self.rng, names) for _ in range(int(self.rng.integers(1, 4)))}
        self.asked_for_size |= bool(SIZES & chosen)
        parameters = {
            name: hostile_parameter(
                self.rng, name, constraints.get(name, []), valid_value(self.bench.name, name)
            )
            for name in sorted(chosen)
        }
        self.finite &= is_finite(parameters)
        return parameters

    def chance(self, probability):
        return self.rng.random() < probability


STEPS = [
    *[Session.call] * 6,
    *[Session.call_validly] * 3,
    *[Session.change_parameters] * 3,
    Session.read_attributes,
    Session.replace_by_copy,
    Session.restore_state,
    Session.load_damaged_file,
    Session.watch_live,
]


@cache
def valid_value(bench_name, parameter):
    """Value for a parameter that makes sense: of a start value, what was learnt from it."""
    bench = BENCHES[bench_name]
    fitted = bench.fitted()
    for name in (parameter, parameter.removesuffix("_init")):
        try:
            return np.array(getattr(fitted, f"{name}_"))
        except AttributeError:
            continue
    default = bench.make().get_params(deep=False)[parameter]
    if parameter == "prior":
        return {"mean": 0.0, "concentration": 1.5, "alpha": 2.0}
    return np.ones(2) if default is None else default


@cache
def properties_of(kind):
    return sorted(
        name
        for name in dir(kind)
        if not name.startswith("_") and isinstance(getattr(kind, name, None), property)
    )


def estimator_session(name):
    """A target that runs sessions with one bench."""

    def run(rng, log):
        Session(BENCHES[name], rng, log).run()

    return run
