"""Each method that users call is called by an example, which the doctests run."""

import inspect
import re

import pytest
from cases.public_names import methods, public

# They are scikit-learn's, whoever defines them.
EXEMPT = {"get_metadata_routing", "get_params", "set_output", "set_params"}
# Contracts of solvers, families and models document what their authors read.
OF_AUTHORS = {"em", "data", "families", "models", "statistics"}
LINES = re.compile(r"^ *(?:>>>|\.\.\.) (.*)$", re.M)


def code(kind):
    """What the examples of a class itself run; those of its bases are not its own."""
    return "\n".join(LINES.findall(kind.__doc__ or ""))


def is_exercised(kind, name):
    """Whether a method has an example, in its docstring or in one of a class that has that, too."""
    text = inspect.getdoc(getattr(kind, name))
    if text and LINES.search(text):
        return True
    alike = [k for k in kind.__mro__ if inspect.getdoc(getattr(k, name, None)) == text]
    return any(f".{name}(" in code(k) for k in alike)


METHODS = {
    f"{path}.{name}": (kind, name)
    for path, kind in public()
    if inspect.isclass(kind) and OF_AUTHORS.isdisjoint(path.split("."))
    for name, _ in methods(kind)
    if name not in EXEMPT
}


@pytest.mark.parametrize("path", METHODS)
def test_each_method_has_an_example(path):
    assert is_exercised(*METHODS[path])


def test_there_are_methods():
    assert len(METHODS) > 300


def test_a_method_without_example_is_found():
    class Silent:
        """Say something of `told`.

        >>> Silent().shown()
        """

        def shown(self):
            """Return nothing."""

        def told(self):
            """Return nothing, as ``silent.told()`` does."""

    class Heir(Silent):
        def shown(self):
            """Return nothing else."""

    assert is_exercised(Silent, "shown")
    assert not is_exercised(Silent, "told")
    assert not is_exercised(Heir, "shown")
