"""Ctrl-C at a chosen moment."""

import sys
from pathlib import Path

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


class InterruptAtLine:
    """Raises KeyboardInterrupt at the n-th line of the package that runs within the context."""

    def __init__(self, n):
        self.remaining = n

    def trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.remaining -= 1
            if self.remaining == 0:
                raise KeyboardInterrupt
        return self.trace

    def __enter__(self):
        self.old = sys.gettrace()
        sys.settrace(self.trace)

    def __exit__(self, *_):
        sys.settrace(self.old)
