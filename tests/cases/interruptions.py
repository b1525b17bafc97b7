"""Ctrl-C at a chosen moment."""

import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

import sklearn_onlineem


class Interruption:
    """A callback that stands for Ctrl-C after some updates."""

    def __init__(self, after):
        self.after = after

    def __call__(self, step):
        self.after -= 1
        if self.after == 0:
            raise KeyboardInterrupt


PACKAGE = str(Path(sklearn_onlineem.__file__).parent)


class AtLine:
    """Does something before the n-th line of the package that a thread runs within the context."""

    def __init__(self, n, action):
        self.n, self.action, self.count = n, action, 0

    def trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.n:
                self.action()
        return self.trace

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)


class InterruptAtLine(AtLine):
    """Raises KeyboardInterrupt there.

    Python comes back to the line of a ``with`` just before it leaves the block, and an exception
    there skips the exit: NumPy's handling of errors is set back here, or it would last for all
    later tests.
    """

    def __init__(self, n):
        super().__init__(n, partial(signal.default_int_handler, signal.SIGINT, None))

    def __enter__(self):
        self.numeric_errors = np.errstate()
        self.numeric_errors.__enter__()
        return super().__enter__()

    def __exit__(self, *_):
        super().__exit__()
        self.numeric_errors.__exit__()


def seconds_until_interrupted(call, after=0.02):
    """How long a call goes on after a signal that comes amid it, whose handler raises.

    In seconds of processor time, so that a busy machine makes no difference.
    """

    def interrupt(*_):
        raise KeyboardInterrupt

    handler, start = signal.signal(signal.SIGPROF, interrupt), time.process_time()
    signal.setitimer(signal.ITIMER_PROF, after)
    try:
        call()
    except KeyboardInterrupt:
        return time.process_time() - start - after
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, handler)
    raise AssertionError(f"The call took no {after} s.")
