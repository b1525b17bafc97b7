"""The page on the papers: rows name tests and commands that exist, and all benchmarks are there."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "benchmarks" / "papers"
PAGE = (PAPERS / "README.md").read_text()
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
COMMANDS = sorted(set(re.findall(r"`python -m ([\w.]+\w)`", PAGE)))
ROWS = re.findall(r"^\|.*\|$", PAGE.partition("## Experiments")[0], re.MULTILINE)


@pytest.mark.parametrize(("path", "name"), TESTS)
def test_tests_are_there(path, name):
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_there(command):
    assert find_spec(command)


def test_every_row_is_shown_by_a_test_or_a_command():
    rows = [row for row in ROWS if not row.startswith(("| Paper |", "|---"))]
    assert len(rows) > 40
    assert [row for row in rows if not re.search(r"`(?:tests/|python -m )[^|]+\|$", row)] == []


def test_every_benchmark_of_a_paper_is_on_the_page():
    names = [path.stem for path in PAPERS.glob("[!_]*.py")]
    assert [name for name in names if not re.search(rf"[.`]{name}`", PAGE)] == []
