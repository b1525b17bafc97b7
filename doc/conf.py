"""Sphinx configuration."""

from sklearn_onlineem import __version__

project = "sklearn_onlineem"
author = "The sklearn_onlineem developers"
copyright = f"2026, {author}"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
default_role = "py:obj"

autosummary_generate = True
numpydoc_show_class_members = False

intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable/", None),
    "python": ("https://docs.python.org/3/", None),
    "scipy": ("https://docs.scipy.org/doc/scipy/", None),
    "sklearn": ("https://scikit-learn.org/stable/", None),
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "show_memory": False,
    # Some download their data, and documentation is also built without a network.
    "only_warn_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_onlineem"
html_theme_options = {"show_prev_next": False}
html_show_sourcelink = False
