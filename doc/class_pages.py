"""Pages of classes: a sentence, an example, tables of members, parameters in groups, then the rest.

Docstrings have numpydoc's order: parameters and the long story come before the example. Here a page
begins with what a reader looks for. Methods and attributes have sections of their own below.
"""

import inspect
import re
from importlib import import_module

from jinja2 import Environment
from numpydoc.docscrape import NumpyDocString, Parameter
from numpydoc.docscrape_sphinx import SphinxClassDoc
from sphinx.addnodes import desc_signature
from sphinx.util.docutils import SphinxDirective

PACKAGE = "sklearn_onlineem"

# Parameters that estimators share; all others say what is learnt.
HOW = """algorithm average batch_size beta burn_in combine e_step eta0 init init_params max_iter
    mode n_init n_passes n_shards n_sweeps schedule shuffle solver stopping sync_every tol
    total_samples warm_start""".split()
COMPUTING = """callbacks memory n_jobs progress random_state verbose verbose_interval
    worker_timeout""".split()
GROUPS = "What is learnt", "How it is learnt", "Computing"

LAYOUT = """
{{ summary }}
{{ "" if examples else extended_summary }}
{{ examples }}
{{ tables }}
{{ grouped }}
{{ returns }}
{{ raises }}
{{ ".. rubric:: In detail\n\n" ~ extended_summary if examples and extended_summary.strip() }}
{{ warnings }}
{{ notes }}
{{ see_also }}
{{ references }}
"""


def arrange(app, what, name, obj, options, lines):
    """Put the docstring of a class into the order of its page."""
    if what == "class":
        found = NumpyDocString("\n".join(lines))
        pieces = {
            "tables": "\n".join([*method_table(obj, name), *attribute_table(obj, name)]),
            "grouped": "\n".join(grouped(found["Parameters"], hasattr(obj, "fit"))),
        }
        layout = Environment().from_string(LAYOUT, globals=pieces)
        config = {"template": layout, "show_class_members": False}
        lines[:] = str(SphinxClassDoc(obj, doc="\n".join(lines), config=config)).split("\n")


def group_of(entry):
    """The group of an estimator's parameter."""
    name = names_of(entry)[0]
    if name in COMPUTING:
        return "Computing"
    return "How it is learnt" if name in HOW or name.endswith("_init") else "What is learnt"


def grouped(parameters, is_estimator):
    """Yield lines of a field list, with a field for each group of an estimator's parameters."""
    if is_estimator:
        yield from (".. rubric:: Parameters", "")
    for title in GROUPS if is_estimator else ["Parameters"]:
        chosen = [p for p in parameters if not is_estimator or group_of(p) == title]
        if chosen:
            yield from (f":{title}:", "")
        for name, kind, description in chosen:
            yield f"    **{name}** : {kind}" if kind else f"    **{name}**"
            yield from (*(f"        {line}" for line in description), "")


def public(cls):
    """Yield names and values of public members that have a docstring."""
    for name in dir(cls):
        if not name.startswith("_"):
            member = getattr(cls, name, None)
            if inspect.getdoc(member) and not inspect.isclass(member):
                yield name, member


def is_of(member, package):
    owner = getattr(member, "fget", None) or getattr(member, "func", None) or member
    return (getattr(owner, "__module__", None) or "").startswith(package)


def is_method(member):
    return callable(member) and inspect.isroutine(member)


def methods_of(cls, package=PACKAGE):
    """Names of a class's methods, as far as a package defines them."""
    return [name for name, member in public(cls) if is_method(member) and is_of(member, package)]


def attributes_of(cls):
    """A class's attributes as its docstring has them, then other properties."""
    listed = NumpyDocString(inspect.getdoc(cls) or "")["Attributes"]
    known = {name for entry in listed for name in names_of(entry)}
    known.update(inspect.signature(cls).parameters)
    others = [
        Parameter(name, "", inspect.getdoc(member).split("\n"))
        for name, member in public(cls)
        if hasattr(member, "__get__") and not is_method(member) and is_of(member, PACKAGE)
        if name not in known
    ]
    return [*listed, *others]


def names_of(entry):
    return [name.strip() for name in entry.name.split(",")]


def method_table(cls, full_name):
    """Yield lines of a table of methods, and the names of those that scikit-learn describes."""
    if methods := methods_of(cls):
        name = full_name.rpartition(".")[2]
        yield from (".. rubric:: Methods", "", ".. autosummary::", "")
        yield from (f"   ~{name}.{method}" for method in methods)
        yield ""
    if others := methods_of(cls, "sklearn."):
        yield f"Inherited from scikit-learn: {', '.join(f'``{name}``' for name in others)}."
        yield ""


def attribute_table(cls, full_name):
    """Yield lines of a table of attributes, each with its first sentence."""
    if attributes := attributes_of(cls):
        yield from (".. rubric:: Attributes", "", ".. list-table::", "   :class: autosummary", "")
    for entry in attributes:
        links = ", ".join(f":py:obj:`{name} <{full_name}.{name}>`" for name in names_of(entry))
        sentence = re.split(r"(?<=[.;:])\s", " ".join(map(str.strip, entry.desc)))[0]
        yield from (f"   * - {links}", f"     - {sentence.rstrip('.;:')}.")
    yield ""


class ClassMembers(SphinxDirective):
    """Sections on the methods and the attributes of a class."""

    required_arguments = 1

    def run(self):
        module, _, name = self.arguments[0].rpartition(".")
        cls = getattr(import_module(module), name)
        text = "\n".join([*method_section(cls, name), *attribute_section(cls, name)])
        found = self.parse_text_to_nodes(text, allow_section_headings=True)
        signatures = (node for part in found for node in part.findall(desc_signature))
        for signature in signatures:
            if signature.parent["objtype"] == "attribute":
                # viewcode finds no source of properties that calls make, and links to it.
                del signature["module"]
        return found


def method_section(cls, name):
    if methods := methods_of(cls):
        yield from ("Methods", "-------", "")
        yield from (f".. automethod:: {name}.{method}\n" for method in methods)


def attribute_section(cls, name):
    if attributes := attributes_of(cls):
        yield from ("Attributes", "----------", "")
    for entry in attributes:
        signatures = "\n   ".join(f"{name}.{attribute}" for attribute in names_of(entry))
        yield f".. attribute:: {signatures}"
        if entry.type:
            yield f"   :type: {entry.type}"
        yield from ("", *(f"   {line}" for line in entry.desc), "")


def setup(app):
    app.add_directive("class-members", ClassMembers)
    # Before numpydoc, which then finds nothing left to arrange.
    app.connect("autodoc-process-docstring", arrange, priority=400)
    return {"parallel_read_safe": True}
