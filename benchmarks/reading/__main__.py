"""How much there is to read, and the limits that `make lint` keeps.

    python -m benchmarks.reading

prints each figure and its limit, and fails where one exceeds it. What a call passes is traced as
`call_paths.py` says; `pip install ".[lint]"` brings what finds the circles.

members     names of a class and of its bases in this package, but for those that Python or
            scikit-learn asks for
code        lines that are neither blank, nor a comment, nor in a docstring
docstrings  lines in docstrings
kernels     Cython and C: .pyx, .pxd and .h
names       that users can import from the package and from the public modules directly in it
circles     groups of modules that import each other, if only for types or inside a function
"""

import ast
import pkgutil
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path

import grimp
import numpy as np

from benchmarks._table import Table
from benchmarks.reading.call_paths import CALLS, PACKAGE, members, traced
from sklearn_onlineem.estimators.base import OnlineEM

# With Python 3.11; its successors run comprehensions in place, which makes fewer functions. A fit
# ends by a certificate, for which it needs coordinates: 79 functions in 4 files.
LIMITS = {
    "GaussianHMM.fit, functions": 306,
    "GaussianHMM.fit, files": 42,
    "GaussianHMM.fit, depth": 19,
    "GaussianMixture.partial_fit, steady, functions": 52,
    "GaussianMixture.partial_fit, steady, files": 17,
    "GaussianMixture.partial_fit, steady, depth": 12,
    "members of OnlineEM": 68,
    "Python files": 201,
    "Python code": 31_097,
    "Python docstrings": 13_436,
    "kernel files": 56,
    "kernel code": 14_631,
    "public names": 110,
    "import circles": 0,
    "test code": 38_779,
}

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
KERNELS = {
    ".pyx": re.compile(r'^\s*(?:#.*?|r?""".*?""")$', re.DOTALL | re.MULTILINE),
    ".h": re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL),
}
KERNELS[".pxd"] = KERNELS[".pyx"]


def python_lines(file):
    """Lines of code, and of docstrings."""
    text, docstrings = file.read_text(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = [line.strip() for line in text.splitlines()]
    code = [n for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    return np.array([len(set(code) - docstrings), len(docstrings)])


def kernel_lines(file):
    code = KERNELS[file.suffix].sub("", file.read_text())
    return sum(bool(line.strip()) for line in code.splitlines())


def public_names():
    rooms = [m.name for m in pkgutil.iter_modules([PACKAGE]) if not m.name.startswith("_")]
    modules = [PACKAGE.name, *(f"{PACKAGE.name}.{room}" for room in rooms)]
    return set().union(*(import_module(m).__all__ for m in modules)) - {"__version__"}


def import_circles():
    graph = grimp.build_graph(PACKAGE.name, cache_dir=None)
    imported = {module: graph.find_upstream_modules(module) for module in graph.modules}
    circles = {
        frozenset([module, *(other for other in others if module in imported[other])])
        for module, others in imported.items()
    }
    return [circle for circle in circles if len(circle) > 1]


def figures():
    """Each figure by its name in `LIMITS`."""
    found = {}
    for name in ("GaussianHMM.fit", "GaussianMixture.partial_fit, steady"):
        _, calls = traced(CALLS[name])
        found[f"{name}, functions"] = len(calls.codes)
        found[f"{name}, files"] = len(calls.files)
        found[f"{name}, depth"] = calls.depth
    own = [kind for kind in OnlineEM.__mro__ if kind.__module__.startswith(PACKAGE.name)]
    found["members of OnlineEM"] = len(set().union(*map(members, own)))
    files = list(PACKAGE.rglob("*.py"))
    found["Python files"] = len(files)
    found["Python code"], found["Python docstrings"] = sum(map(python_lines, files))
    kernels = [file for file in PACKAGE.rglob("*") if file.suffix in KERNELS]
    found["kernel files"] = len(kernels)
    found["kernel code"] = sum(map(kernel_lines, kernels))
    found["public names"] = len(public_names())
    found["import circles"] = len(import_circles())
    tests = Path(__file__).parents[2].glob("tests/**/*.py")
    found["test code"], _ = sum(map(python_lines, tests))
    return found


def main():
    warnings.simplefilter("ignore")
    found = figures()
    table = Table("", "today", "limit", width=48)
    for name, limit in LIMITS.items():
        table.row(name, found[name], limit)
    if exceeded := [name for name, limit in LIMITS.items() if found[name] > limit]:
        sys.exit(f"there is more to read than LIMITS allows: {'; '.join(exceeded)}")


if __name__ == "__main__":
    main()
