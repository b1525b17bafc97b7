"""Names phrases of pages, docstrings and examples for which plain English has better words."""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.typed_figures import ELSEWHERE  # noqa: E402

PAGES = ("*.md", "doc/*.rst", "doc/guide/*.rst")
SOURCES = ("sklearn_onlineem/**/*.py", "examples/**/*.py")
# A pattern, and what to write instead.
PHRASES = {
    r"(?<![\w.)\]…])-?\.\d": "a zero before the point: 0.5",
    r"\b[Ss]ee there\b": "the name of the place",
    r"\b[Ss]o many\b": "the number, or a name for it",
    r"\bAs of\b": "the name of what it is like: Like `X`, ...",
    r"\b(?:than before|as before|until now)\b": "what is true today; history is the changelog's",
    r"\b(?:starved|revived|survivors?)\b": "empty, reinitialised, active components",
    r"\b(?:departures|abreast|errand|holds on to)\b": "the standard term",
    r"\bhas no say\b": "is ignored",
    r", of which\b": "two sentences",
    r"\b(?:utili[sz]e|in order to|as to whether|and/or)\b": "use, to, whether, or",
    r"\b(?!that\b|had\b)([a-z]{2,}) \1\b(?!')": "a word once",
}


def paragraphs(path):
    """Yield first lines and texts of a page, or of the docstrings of a module."""
    text = path.read_text()
    if path.suffix != ".py":
        yield 1, text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            if ast.get_docstring(node):
                docstring = node.body[0].value
                yield docstring.lineno, docstring.value


def main():
    n_found = 0
    for path in (path for pattern in (*PAGES, *SOURCES) for path in sorted(ROOT.glob(pattern))):
        for first, text in paragraphs(path):
            prose = ELSEWHERE.sub(lambda found: "\n" * found[0].count("\n"), text)
            for phrase, better in PHRASES.items():
                for found in re.finditer(phrase, prose):
                    n_found += 1
                    line = first + prose.count("\n", 0, found.start())
                    print(f"{path.relative_to(ROOT)}:{line}: {found[0]!r}: write {better}")
    sys.exit(n_found > 0)


if __name__ == "__main__":
    main()
