"""What the rendered pages must have: every public method, no broken link, and all beside them.

Also a title that no other page has, headings in order, pictures with a text, examples that a page
leads to, and a plain text of each page, which llms.txt lists.

`python doc/check_html.py doc/_build/html` prints what is wrong, and fails if anything is.
"""

import inspect
import re
import sys
from html import unescape
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = str(Path(__file__).parents[1])
PACKAGE = "sklearn_onlineem"
OUTSIDE = r"""["']?(?:https?:)?//"""
LOADED = {
    ".html": re.compile(
        rf"<(?:script|link|img|iframe|source|object|embed)\b[^>]*\s(?:src|href|data)={OUTSIDE}"
    ),
    ".css": re.compile(rf"(?:@import\s*|url\(\s*){OUTSIDE}"),
}
LINK = re.compile(r"""<(?:a|img|link|script|source)\b[^>]*?\s(?:href|src)=["']([^"']+)""")
ANCHOR = re.compile(r"""\s(?:id|name)=["']([^"']+)""")
TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
HEADING = re.compile(r"<h([1-6])\b")
IMAGE = re.compile(r"<img\b[^>]*>")
WITHOUT_TEXT = {"genindex.html", "py-modindex.html", "search.html"}
LISTED = re.compile(r"^- \[.+\]\((.+)\): \S", re.MULTILINE)
TEXT_OF_IMAGE = re.compile(r"""\salt=(["'])(.*?)\1""", re.DOTALL)


def missing_methods(folder):
    """Yield public methods of our own that the page of their class does not describe."""
    for path in sorted((folder / "generated").glob(f"{PACKAGE}.*.html")):
        module, _, name = path.stem.rpartition(".")
        kind = getattr(import_module(module), name)
        if inspect.isclass(kind):
            page = path.read_text()
            yield from (
                f"{path.stem}.{method} is on no page"
                for method in own_methods(kind)
                if f'id="{path.stem}.{method}"' not in page
            )


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


def pages_of(folder):
    """Pages of the site in order, without templates of the theme."""
    return sorted(path for path in folder.rglob("*.html") if "_static" not in path.parts)


def unclear_pages(folder):
    """Yield pages with another's title, without a language, or whose headings skip a level."""
    titles = {}
    for path in pages_of(folder):
        name, page = path.relative_to(folder), path.read_text()
        title = " ".join("".join(TITLE.findall(page)[:1]).split())
        if not title:
            yield f"{name} has no title"
        elif title in titles:
            yield f"{name} has the title of {titles[title]}: {unescape(title)}"
        titles[title] = name
        if not re.search(r"<html\b[^>]*\slang=", page):
            yield f"{name} does not say its language"
        levels = [int(level) for level in HEADING.findall(page)]
        if levels.count(1) != 1:
            yield f"{name} has {levels.count(1)} headings of the first level"
        if any(level > before + 1 for before, level in pairwise(levels)):
            yield f"{name} skips a level of headings"


def nameless_images(folder):
    """Yield images without a text, and pictures of examples whose text is the example's file name.

    An empty text says that an image adds nothing to the words beside it, as thumbnails do not.
    """
    for path in pages_of(folder):
        for image in IMAGE.findall(path.read_text()):
            text = TEXT_OF_IMAGE.search(image)
            if text is None:
                yield f"{path.relative_to(folder)}: no text for {image}"
            elif text[2] == path.stem.replace("_", " "):
                yield f"{path.relative_to(folder)}: a figure without a title"


def lonely_examples(folder):
    """Yield examples that no page of the guide leads to."""
    written = "".join(
        path.read_text() for path in (*folder.glob("*.html"), *folder.glob("guide/*.html"))
    )
    for path in sorted(folder.glob("auto_examples/*/plot_*.html")):
        if f"{path.relative_to(folder)}#" not in written:
            yield f"{path.relative_to(folder)}: no page leads there"


def broken_links(folder):
    """Yield links and images of pages that lead nowhere within the site."""
    anchors = {}
    for path in pages_of(folder):
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


def missing_texts(folder):
    """Yield pages without a plain text, a link to it or a line of llms.txt, and lines in vain."""
    listed = set(LISTED.findall((folder / "llms.txt").read_text()))
    for path in pages_of(folder):
        name, text = path.relative_to(folder), path.with_suffix(".txt")
        if path.name not in WITHOUT_TEXT and "_modules" not in path.parts:
            if not text.exists():
                yield f"{name} has no plain text"
            if f'type="text/plain" href="{text.name}"' not in path.read_text():
                yield f"{name} does not link to its plain text"
            if str(name.with_suffix(".txt")) not in listed:
                yield f"llms.txt does not describe {name}"
    yield from (f"llms.txt: no {name}" for name in sorted(listed) if not (folder / name).exists())


def main():
    folder = Path(sys.argv[1])
    checks = (
        missing_methods,
        outside_things,
        broken_links,
        unclear_pages,
        nameless_images,
        lonely_examples,
        missing_texts,
    )
    faults = [fault for check in checks for fault in check(folder)]
    print(*faults, f"{len(faults)} faults", sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
