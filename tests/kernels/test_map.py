"""The map of the kernels is complete."""

import re
from pathlib import Path

import pytest

import sklearn_onlineem._kernels

ROOM = Path(sklearn_onlineem._kernels.__file__).parent
MAP = ROOM / "README.md"
SUFFIXES = (".py", ".pyx", ".pxd", ".h", ".md")
SOURCES = {path.name for path in ROOM.iterdir() if path.suffix in SUFFIXES}

pytestmark = pytest.mark.skipif(not MAP.exists(), reason="a wheel has no map")


def files_on_the_map():
    """Names in the first column of its tables; a suffix alone follows the name before it."""
    names, stem = set(), ""
    for row in re.findall(r"^\| (`[^|]*) \|", MAP.read_text(), re.MULTILINE):
        for entry in re.findall(r"`([^`]+)`", row):
            if entry.startswith("."):
                entry = stem + entry
            stem = entry.rsplit(".", 1)[0]
            names.add(entry)
    return names


def test_every_file_is_on_the_map_and_nothing_else_is():
    assert files_on_the_map() == SOURCES
