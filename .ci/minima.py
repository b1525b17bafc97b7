"""Prints the declared minimum versions of pyproject.toml as constraints: numpy==2.0."""

import re
import tomllib
from itertools import chain
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
AT_LEAST = re.compile(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)")


def minima(declared):
    """Yield a constraint for each requirement that has a least version."""
    project = declared["project"]
    extras = project["optional-dependencies"]
    lists = (extras[name] for name in ("plot", "progress", "dask", "onnx", "test"))
    required = chain(declared["build-system"]["requires"], project["dependencies"], *lists)
    for requirement in required:
        if found := AT_LEAST.match(requirement):
            yield "==".join(found.groups())


if __name__ == "__main__":
    print(*sorted(set(minima(tomllib.loads(PROJECT.read_text())))), sep="\n")
