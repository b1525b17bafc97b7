"""Looks at rendered pages in Chromium, on desktop, phone and in the dark, for what is wrong.

`python doc/check_browser.py doc/_build/html` needs playwright, and a Chromium that is installed
(`apt install chromium`, or CHROMIUM=path). It fails where the console has errors, an image is
broken, a page is wider than the screen, the bar above it breaks into lines, or a formula or a block
of code is cut (but on a phone). Pages of the API are alike: one in ten is looked at so, and of the
others only the width is measured, on the phone. The dark changes colours and no sizes: one page in
ten is looked at there.
"""

import os
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from playwright.sync_api import sync_playwright

VIEWS = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
}
BROKEN_IMAGES = """() => [...document.images]
    .filter(image => image.complete && !image.naturalWidth && image.offsetParent)
    .map(image => image.getAttribute("src"))"""
# How far the page, or a text that does not scroll by itself, is wider than the screen.
OVERFLOW = """() => Math.max(
    document.documentElement.scrollWidth,
    ...[...document.querySelectorAll(".bd-article :is(h1, h2, h3, p, li, dt, dd)")]
        .filter(text => !text.closest("pre, mjx-container, .pst-scrollable-table-container"))
        .map(text => text.getBoundingClientRect().right)
) - document.documentElement.clientWidth"""
BAR = "() => document.querySelector('.bd-header')?.getBoundingClientRect().height ?? 0"
ONE_LINE = 100  # pixels
# Pixels, beyond what a formula's own box is off by.
SLACK = 15
FORMULAS_CUT = f"""() => MathJax.startup.promise.then(
    () => [...document.querySelectorAll("mjx-container[display=true]")]
        .filter(formula => formula.scrollWidth > formula.clientWidth + {SLACK}).length)"""
CODE_CUT = """() => [...document.querySelectorAll("pre")]
    .filter(code => code.scrollWidth > code.clientWidth)
    .map(code => code.textContent.split("\\n").reduce((a, b) => a.length < b.length ? b : a))"""
TITLE_IS_CUT = """() => [...document.querySelectorAll("h1, h2")]
    .some(title => title.scrollWidth > title.clientWidth + 1
        && (getComputedStyle(title).overflowX !== "visible"
            || title.getBoundingClientRect().left + title.scrollWidth > innerWidth))"""


def has_formulas(path):
    return 'class="math notranslate' in path.read_text()


def faults(page, path, is_wide, errors):
    """Yield what is wrong with a page, in an open tab that collects errors."""
    errors.clear()
    page.goto(path.as_uri(), wait_until="load")
    yield from (f"console: {error}" for error in errors)
    yield from (f"broken image {source}" for source in page.evaluate(BROKEN_IMAGES))
    yield from overflow(page)
    if page.evaluate(TITLE_IS_CUT):
        yield "a title is cut"
    if is_wide and has_formulas(path) and (n_cut := page.evaluate(FORMULAS_CUT)):
        yield f"{n_cut} formulas are cut"
    if is_wide:
        yield from (f"code is cut: {line}" for line in page.evaluate(CODE_CUT))
    if (height := page.evaluate(BAR)) > ONE_LINE:
        yield f"the bar above takes {height:.0f} pixels, more than a line"


def overflow(page):
    if (beyond := page.evaluate(OVERFLOW)) > 1:
        yield f"is too wide by {beyond:.0f} pixels"


def overflow_of(page, path):
    """Yield how far another page is too wide, in an open tab."""
    page.goto(path.as_uri(), wait_until="load")
    yield from overflow(page)


def pages_of(folder):
    """Pages that are written by hand, the gallery, and a few of the API; and the rest of it."""
    written = sorted({*folder.glob("*.html"), *folder.glob("guide/*.html")})
    gallery = sorted(folder.glob("auto_examples/**/*.html"))
    reference = sorted(folder.glob("generated/*.html"))
    chosen = reference[::10]
    return [*written, *gallery, *chosen], [path for path in reference if path not in chosen]


def look(folder, chromium, name):
    """Say what is wrong in a view, page by page, and count the pages."""
    looked_at, measured = pages_of(folder)
    errors = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(**VIEWS[name]).new_page()
        page.on("console", lambda message: message.type == "error" and errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        chosen = looked_at[::10] if name == "dark" else looked_at
        found = [(path, faults(page, path, name != "phone", errors)) for path in chosen]
        if name == "phone":
            found += [(path, overflow_of(page, path)) for path in measured]
        lines = [
            f"{path.relative_to(folder)} ({name}): {message}"
            for path, messages in found
            for message in messages
        ]
        browser.close()
    return lines, len(found)


def main():
    folder = Path(sys.argv[1]).resolve()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no Chromium was found: apt install chromium, or CHROMIUM=path")
    with ProcessPoolExecutor(2) as pool:
        views = [*pool.map(partial(look, folder, chromium), VIEWS)]
    found = [line for lines, _ in views for line in lines]
    print(*found, f"{len(found)} faults in {sum(n for _, n in views)} views of pages", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
