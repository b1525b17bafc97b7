"""Each parameter of what is public has a text: units, shapes, what None means."""

import inspect
import re

import pytest
from cases.public_names import methods, public

pytestmark = pytest.mark.whole

NAMED = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
SECTION = r"(?:^|\n){}\n-+\n(.*?)(?=\n\n[A-Z][A-Za-z ]+\n-+\n|\Z)"


def parameters(value):
    """Names of the parameters that a call may name."""
    kinds = (*NAMED, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(value).parameters.values()
    return [p.name for p in found if p.kind in kinds and p.name != "self"]


def described(value, headings=("Parameters",)):
    """Names that have a text, as parameters, or as the attributes of a tuple or dataclass."""
    doc = inspect.getdoc(value) or ""
    for heading in headings:
        for section in re.findall(SECTION.format(heading), doc, re.S):
            for entry in re.split(r"^(?=\S)", section, flags=re.M):
                names, _, text = entry.partition("\n")
                if text.strip():
                    yield from names.partition(" : ")[0].split(", ")


THINGS = dict(public())


def callables(path):
    """What is public, and its methods where it is a class."""
    thing = THINGS[path]
    return [(path, thing), *(methods(thing) if inspect.isclass(thing) else [])]


def told_once(kind):
    """Names that notes of a contract describe for all of its methods."""
    bases = (base for base in kind.__mro__ if "Methods take these" in (base.__doc__ or ""))
    return {name for base in bases for name in described(base, ("Notes",))}


@pytest.mark.parametrize("path", THINGS)
def test_each_parameter_has_a_text(path):
    thing = THINGS[path]
    if not inspect.isclass(thing):
        assert not set(parameters(thing)) - set(described(thing))
        return
    assert not set(parameters(thing)) - set(described(thing, ("Parameters", "Attributes")))
    for name, value in methods(thing):
        assert not set(parameters(value)) - set(described(value)) - told_once(thing), name


def test_there_are_parameters():
    assert sum(len(parameters(value)) for path in THINGS for _, value in callables(path)) > 1000


def test_a_parameter_without_text_is_found():
    def told(a, b, c):
        """Say something.

        Parameters
        ----------
        a, b : int
            Two numbers.
        c : int

        Returns
        -------
        c : int
            A number.
        """

    assert set(parameters(told)) - set(described(told)) == {"c"}


def test_what_a_contract_describes_counts_for_its_methods():
    class Contract:
        """Do something.

        Notes
        -----
        Methods take these:

        a, b : int
            Two numbers.
        """

    class Kept(Contract):
        """Do it so.

        Notes
        -----
        c : int
            Not of methods.
        """

    assert told_once(Kept) == {"a", "b"}
