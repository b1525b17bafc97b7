"""Each class and function that users name has an example of a few lines that shows a result."""

import doctest
from importlib import import_module

import pytest
from cases.public_names import PACKAGE, listed_names, public

pytestmark = pytest.mark.whole

MOST_LINES = 10
# Contracts, which say what others have to do.
CONTRACTS = {"ExponentialFamily", "Family"}
ROOMS = "diagnostics displays distributed em families".split()
ROOMS = [PACKAGE, *(f"{PACKAGE}.{room}" for room in ROOMS)]
NAMED = {
    path: value
    for path, value in public()
    if path.rpartition(".")[0] in ROOMS and value.__name__ not in CONTRACTS
}


def examples(value):
    """Examples of a docstring: what runs up to the next line of prose, as lists of steps."""
    found = [[]]
    for part in doctest.DocTestParser().parse(value.__doc__ or ""):
        if isinstance(part, doctest.Example):
            found[-1].append(part)
        elif part.strip():
            found.append([])
    return [steps for steps in found if steps]


def n_lines(steps):
    return sum(len(step.source.splitlines()) for step in steps)


@pytest.mark.parametrize("path", NAMED)
def test_what_users_name_has_an_example_that_shows_a_result(path):
    found = examples(NAMED[path])
    assert any(step.want for steps in found for step in steps)
    assert max(map(n_lines, found)) <= MOST_LINES


def test_all_rooms_of_users_are_looked_at():
    rooms = {path.rpartition(".")[0] for path in listed_names() if path.count(".") < 3}
    exporting = {room for room in rooms if hasattr(import_module(room), "__all__")}
    assert set(ROOMS) <= exporting and len(NAMED) > 50


def test_long_examples_and_those_without_a_result_are_found():
    def told():
        """Say something.

        >>> 1 + 1
        2
        >>> x = 3

        And more:

        >>> y = 4
        """

    assert [n_lines(steps) for steps in examples(told)] == [2, 1]
    assert [bool(steps[-1].want) for steps in examples(told)] == [False, False]
