"""Pages take what was measured from the records of benchmarks, and do not repeat it.

Fails on a ratio, a score, a difference in nats or standard errors, a time, or a decimal such as
0.03 in the prose or a table of a page. It belongs between `<!-- measured ... -->` and
`<!-- end -->`, or into the role `measured`, see `benchmarks/records.py`; what a session prints is
its own record. A figure that was not measured, but is a definition, a setting or a fact about data,
says so: `<!-- defined -->5 times<!-- end -->`, :defined:`5 times`.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CHANGELOG.md", "doc/index.rst", "doc/getting_started.rst", "doc/guide/*.rst"]
# Code, sessions with what they print, formulas, and what is marked.
ELSEWHERE = re.compile(
    r"^```.*?^```$|^ *>>> .*?\n *$"
    r"|^( *)\.\. (?:code-block|math)::[^\n]*(?:\n\1 +[^\n]*|\n *(?=\n))*"
    r"|<!-- (?:measured \S+|defined) -->.*?<!-- end -->"
    r"|:(?:measured|defined|math):`[^`]*`|``.+?``|`[^`]*`",
    re.DOTALL | re.MULTILINE,
)
NUMBER = r"(?<![\w.^-])[-+]?(?:\d[\d,]*)?\.?\d+(?![\w.]*[e^])"
UNITS = (
    r"times|-fold|nats?|us|µs|microseconds?|ms|milliseconds?|s|seconds?|minutes?|hours?"
    r"|% (?:of the (?:time|error)|longer|shorter|lower|higher|faster|slower|less|more|better|worse)"
)
FIGURES = re.compile(
    rf"{NUMBER}\s+(?:{UNITS})(?![\w-])|{NUMBER}x(?!\w)"
    r"|(?<![\w.])(?:[-+]?0?\.\d{2,}|-\d[\d,]*\.\d)(?![\w.]*[e^])"
    rf"|{NUMBER}(?<=\.\d) standard (?:errors|deviations)"
    rf"|(?:perplexit(?:y|ies)|R\^2|R²|AUC)[^\d.]{{0,30}}{NUMBER}",
)


def typed(text):
    """Yield the line and the text of each figure that is typed."""
    prose = ELSEWHERE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in FIGURES.finditer(prose):
        yield prose.count("\n", 0, found.start()) + 1, " ".join(found[0].split())


def main():
    found = [
        f"{page.relative_to(ROOT)}:{line}: {figure}"
        for pattern in PAGES
        for page in sorted(ROOT.glob(pattern))
        for line, figure in typed(page.read_text())
    ]
    if found:
        sys.exit("\n".join([*found, "figures that are typed: take them from a record"]))


if __name__ == "__main__":
    main()
