"""Records of what benchmarks measured, from which README and pages take their figures.

A benchmark that a page quotes has `--write`, which calls `write`: `results/<benchmark>.json` then
holds its figures by name, with the date, the commit, the processor and the versions of libraries.
A page names a figure and never repeats it. In Markdown it stands between two comments, and in reST
there is a role and for tables a directive (`doc/measured.py`):

    <!-- measured drop_in.worst_seed:.2f -->-0.10<!-- end -->
    :measured:`drop_in.worst_seed:.2f`

(In Markdown not at the beginning of a line, unless all of the figure is on lines of its own.)

A number is shown with two digits, or as a format after a colon says; whole numbers as they are;
several as "2.7 to 7.1"; lists of cells as a table, with its heading first. `<benchmark>.measured`
says when and where it was.

    python -m benchmarks.records

writes Markdown pages anew from the records, as `--write` does; a test says where they differ.
"""

import json
import platform
import re
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from functools import cache, reduce
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "benchmarks/README.md")]
HELP = "write the record, and the figures of pages that quote it"
LIBRARIES = (
    "scikit-learn", "numpy", "scipy", "scikit-learn-intelex", "faiss-cpu", "hmmlearn",
    "dynamax", "jax", "simdkalman", "pomegranate", "torch", "statsmodels", "stepmix", "tomotopy",
    "rapidfuzz", "numba",
)  # fmt: skip
MARKED = re.compile(r"(<!-- measured (\S+) -->).*?(<!-- end -->)", re.DOTALL)


def write(name, figures, where=None):
    """Write the record of a benchmark, and its figures into the pages.

    Parameters
    ----------
    name : str
    figures : dict
        Numbers, lists of numbers, tables, or dicts of these by name.
    where : str, default=None
        What ran it; None: the processor.
    """
    module = sys.modules["__main__"].__spec__.name.removesuffix(".__main__")
    # Folders of one machine say nothing to others.
    arguments = ["FOLDER" if Path(text).is_absolute() else text for text in sys.argv[1:]]
    installed = {one.name.lower(): one.version for one in metadata.distributions()}
    versions = {library: installed[library] for library in LIBRARIES if library in installed}
    record = {
        "command": " ".join(["python -m", module, *arguments]),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit(),
        "where": where or processor(),
        "versions": {"Python": platform.python_version(), **versions},
        "figures": figures,
    }
    path_of(name).write_text(json.dumps(record, indent=1, default=float) + "\n")
    read.cache_clear()
    rewrite()


def path_of(reference):
    """The record that a figure is from, which its name begins with."""
    return ROOT / f"benchmarks/results/{reference.partition('.')[0]}.json"


@cache
def read(name):
    return json.loads(path_of(name).read_text())


def rewrite():
    """Take the figures of all Markdown pages from the records."""
    for page in PAGES:
        page.write_text(filled(page.read_text()))


def filled(text):
    """Text in which what stands between markers is what the records say."""
    return MARKED.sub(lambda found: f"{found[1]}{shown(found[2])}{found[3]}", text)


def shown(reference):
    """What a reference stands for, as text in Markdown."""
    value, form = found(reference)
    if is_table(value):
        heading, *rows = (f"| {' | '.join(row)} |" for row in cells(value, form))
        rule = "|---" * len(value[0]) + "|"
        return "\n".join(["", heading, rule, *rows, ""])
    if isinstance(value, str):
        return f"\n{textwrap.fill(value, 100, break_on_hyphens=False)}\n"
    return cell(value, form)


def found(reference):
    """The value that a reference names, and its format or "".

    A KeyError or a FileNotFoundError says what is missing.
    """
    path, _, form = reference.partition(":")
    name, *keys = path.split(".")
    record = read(name)
    if keys == ["measured"]:
        return stamp(record), form
    return reduce(lambda values, key: values[key], keys, record["figures"]), form


def is_table(value):
    return isinstance(value, list) and isinstance((value or [0])[0], list)


def cells(table, form=""):
    return [[cell(value, form) for value in row] for row in table]


def cell(value, form=""):
    """A value as text: several numbers by the least and the largest."""
    if value in (None, []):
        return ""
    if isinstance(value, list):
        return " to ".join(dict.fromkeys(cell(end, form) for end in (min(value), max(value))))
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return format(value, form or ("z.0f" if abs(value) >= 10 else "z.2g"))


def stamp(record):
    """When and where a record was taken, and beside which versions."""
    versions = ", ".join(f"{library} {version}" for library, version in record["versions"].items())
    return (
        f"Measured on {record['date']} at commit {record['commit']}, on {record['where']}, with"
        f" {versions}, by `{record['command']}`."
    )


def commit():
    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor():
    try:
        models = re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        models = []
    return models[0] if models else platform.processor() or platform.machine()


if __name__ == "__main__":
    rewrite()
