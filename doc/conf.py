"""Sphinx configuration."""

import os
import re
import sys
from pathlib import Path
from urllib.request import urlopen

from docutils import nodes
from sphinx import addnodes
from sphinx.writers.text import TextTranslator
from sphinx_gallery.directives import imgsgnode

from sklearn_onlineem import __version__

# Extensions of our own are in this folder; one takes figures from the records of benchmarks.
sys.path.insert(0, str(Path(__file__).parents[1]))

# How connections close as an example ends is not what it prints.
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")

project = "sklearn_onlineem"
author = "The sklearn_onlineem developers"
copyright = f"2026, {author}"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    # Beside the pages, which are then complete without a network.
    "sphinx-mathjax-offline",
    # The changelog is Markdown.
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "doc.measured",
    "doc.class_pages",
    "doc.thumbnails",
]
exclude_patterns = ["_build"]
# What one copies from a session is what was typed.
copybutton_exclude = ".linenos, .gp, .go"
source_suffix = {".rst": "restructuredtext"}
# CONTRIBUTING.md links its own headings.
myst_heading_anchors = 3
default_role = "py:obj"

templates_path = ["_templates"]
autosummary_generate = True
# Types stand in the docstrings, with shapes.
autodoc_typehints = "none"
numpydoc_show_class_members = False
# Methods are listed beside their class, which need not be named again.
toc_object_entries_show_parents = "hide"

OTHERS = {
    "numpy": "https://numpy.org/doc/stable/",
    "python": "https://docs.python.org/3/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
}


def is_reachable(address):
    try:
        urlopen(f"{address}objects.inv", timeout=5).close()
    except OSError:
        print(f"names of {address} are not links, as it cannot be reached")
        return False
    return True


intersphinx_mapping = {
    name: (address, None) for name, address in OTHERS.items() if is_reachable(address)
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "subsection_order": [
        f"../examples/{section}"
        for section in ("streams", "mixtures", "sequences", "time_series", "text", "many_machines")
    ],
    # Pages of the API list the examples that use what they describe.
    "backreferences_dir": "generated/backlinks",
    "doc_module": ("sklearn_onlineem",),
    "show_memory": False,
    # An example that takes times says that it runs alone; readers need not see how.
    "parallel": 2,
    "remove_config_comments": True,
    "image_scrapers": "doc.thumbnails.scrape",
    # Examples print what they show.
    "capture_repr": (),
    # Examples find their data by the name of the script, and write where its argument says; Jupyter
    # has names and arguments of its own.
    "first_notebook_cell": (
        "# Data are in the folder examples of the repository, from which this runs.\n"
        "import sys\n\n"
        'sys.argv = ["examples/notebooks/this"]'
    ),
    # Its table is drawn by scripts from a network.
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_onlineem"
html_theme_options = {
    "show_toc_level": 2,
    "navbar_end": ["version", "theme-switcher"],
}
html_favicon = "images/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Pages that stand alone have no section to list.
ALONE = "index install getting_started benchmarks glossary changelog contributing about"
html_sidebars = {page: [] for page in ALONE.split()}
# Light or dark as the reader has it.
html_context = {"default_mode": "auto"}
html_show_sourcelink = False


# Parts of llms.txt, and the pages that belong there.
PARTS = {"Pages": r"[^/]+|guide/.+", "Examples": "auto_examples/.+", "API": "generated/.+"}


def link_pages(app, page, source):
    """Make links to files of pages, which can be followed where files are read, links to pages."""
    source[0] = re.sub(r"`([^`<]+)\s<([\w/.]+)\.rst>`__", r":doc:`\1 <\2>`", source[0])


def link_text(app, page, template, context, doctree):
    """Link a page to its plain text, which `make doc` writes beside it."""
    if doctree is not None:
        link = f'<link rel="alternate" type="text/plain" href="{Path(page).name}.txt">'
        context["metatags"] += link


def link_back(app, page, template, context, doctree):
    """Link sources to the place of each name on its page, which is named for it.

    viewcode takes all names of a file to be public in one module.
    """
    if page.startswith("_modules/"):
        context["body"] = re.sub(
            r"(/generated/([\w.]*\.(\w+))\.html)#[\w.]*?\.\3(?=[.\"])", r"\1#\2", context["body"]
        )


def write_llms(app, exception):
    """Write llms.txt: the plain text of all pages, each with a title and a sentence."""
    if exception is None and app.builder.name == "html":
        lines = [f"# {project}", "", f"> {description_of(app, 'index')}"]
        for part, pattern in PARTS.items():
            lines += ["", f"## {part}", ""]
            for page in filter(re.compile(pattern).fullmatch, app.env.collect_relations()):
                title = app.env.titles[page].astext()
                lines.append(f"- [{title}]({page}.txt): {description_of(app, page)}")
        Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n")


def description_of(app, page):
    """The description of a page, or the first sentence of its text or docstring."""
    doctree = app.env.get_and_resolve_doctree(page, app.builder)
    for meta in doctree.findall(nodes.meta):
        if meta.get("name") == "description":
            return meta["content"]
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, (nodes.section, addnodes.desc_content)):
            text = " ".join(paragraph.astext().split())
            return re.split(r"(?<=[.?!:]) ", text)[0].rstrip(".:") + "."
    return ""


def setup(app):
    # Pictures of examples, of which sphinx-gallery has no text.
    app.add_node(imgsgnode, override=True, text=(TextTranslator.visit_image, None))
    app.connect("source-read", link_pages)
    app.connect("html-page-context", link_text)
    app.connect("html-page-context", link_back)
    app.connect("build-finished", write_llms)
