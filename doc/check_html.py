"""What the rendered pages must have: every public method, no broken link, and all beside them.

`python doc/check_html.py doc/_build/html` prints what is wrong, and fails if anything is.
"""

import inspect
import re
import sys
from html import unescape
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = str(Path(__file__).parents[1])
PACKAGE = "sklearn_onlineem"
ROOMS = ("em", "data", "families", "models", "diagnostics", "displays", "distributed")
MODULES = (PACKAGE, *(f"{PACKAGE}.{room}" for room in ROOMS))
OUTSIDE = r"""["']?(?:https?:)?//"""
LOADED = {
    ".html": re.compile(
        rf"<(?:script|link|img|iframe|source|object|embed)\b[^>]*\s(?:src|href|data)={OUTSIDE}"
    ),
    ".css": re.compile(rf"(?:@import\s*|url\(\s*){OUTSIDE}"),
}
LINK = re.compile(r"""<(?:a|img|link|script|source)\b[^>]*?\s(?:href|src)=["']([^"']+)""")
ANCHOR = re.compile(r"""\s(?:id|name)=["']([^"']+)""")


def missing_methods(folder):
    """Yield public methods of our own that the page of their class does not describe."""
    for module in map(import_module, MODULES):
        classes = ((name, getattr(module, name)) for name in module.__all__)
        for name, kind in classes:
            if inspect.isclass(kind) and kind.__module__.startswith(PACKAGE):
                full = f"{module.__name__}.{name}"
                page = page_of(folder, full)
                yield from (
                    f"{full}.{method} is on no page"
                    for method in own_methods(kind)
                    if f'id="{full}.{method}"' not in page
                )


def page_of(folder, name):
    """The page of a name, or an empty one."""
    path = folder / "generated" / f"{name}.html"
    return path.read_text() if path.exists() else ""


def own_methods(kind):
    """Names of public methods that have a docstring."""
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        ours = member.__module__.startswith(PACKAGE)
        if ours and not name.startswith("_") and inspect.getdoc(member):
            yield name


def outside_things(folder):
    """Yield pages that load something from a network, or tell where they were built."""
    paths = [path for suffix in LOADED for path in folder.rglob(f"*{suffix}")]
    for path in sorted(paths):
        page = path.read_text()
        if LOADED[path.suffix].search(page):
            yield f"{path.name} loads from a network"
        if ROOT in page:
            yield f"{path.name} says where it was built"
    if not list((folder / "_static").rglob("tex-chtml.js")):
        yield "MathJax is not beside the pages"


def broken_links(folder):
    """Yield links and images of pages that lead nowhere within the site."""
    anchors = {}
    pages = (path for path in folder.rglob("*.html") if "_static" not in path.parts)
    for path in sorted(pages):
        page = path.read_text()
        for target in sorted(set(LINK.findall(page))):
            link = urlsplit(unescape(target))
            if link.scheme or link.netloc:
                continue
            goal = (path.parent / unquote(link.path)).resolve() if link.path else path.resolve()
            if goal.is_dir():
                goal /= "index.html"
            if not goal.exists():
                yield f"{path.relative_to(folder)}: {target} leads nowhere"
            elif link.fragment and goal.suffix == ".html":
                if goal not in anchors:
                    anchors[goal] = set(ANCHOR.findall(goal.read_text()))
                if unquote(link.fragment) not in anchors[goal]:
                    yield f"{path.relative_to(folder)}: {target} has no such place"


def main():
    folder = Path(sys.argv[1])
    faults = [*missing_methods(folder), *outside_things(folder), *broken_links(folder)]
    print(*faults, f"{len(faults)} faults", sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
