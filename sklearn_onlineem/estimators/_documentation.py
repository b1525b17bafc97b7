"""Docstrings of estimators: what a class inherits is documented where it is declared."""

from __future__ import annotations

import inspect
import re

__all__ = ["completed"]

_HEADER = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)


def completed(cls, names):
    """Return the docstring of a class with the parameters and attributes that it inherits.

    Parameters come in the order of the signature, attributes after the class's own. A base
    documents what it declares, and a class may document an inherited one anew.

    Parameters
    ----------
    cls : type
    names : list of str
        Parameters, in the order of the signature.

    Returns
    -------
    text : str
        In numpydoc's form.
    """
    summary, sections = _sections(cls.__dict__.get("__doc__"))
    bases = [_sections(base.__dict__.get("_own_doc")) for base in cls.__mro__[1:]]
    cls._own_doc = cls.__dict__.get("__doc__")
    inherited = [found for _, found in bases]
    sections = {
        "Parameters": _in_order(_merged("Parameters", sections, inherited), names),
        "Attributes": list(_merged("Attributes", sections, inherited).values()),
        **{name: part for name, part in sections.items() if name not in _ENTRIES},
    }
    parts = [summary.rstrip()]
    for name, part in sections.items():
        text = "\n".join(entry.rstrip() for entry in part) if name in _ENTRIES else part.rstrip()
        if text:
            parts.append(f"{name}\n{'-' * len(name)}\n{text}")
    return "\n\n".join(parts) + "\n"


_ENTRIES = ("Parameters", "Attributes")


def _sections(doc):
    """Text before the first section, and sections by name."""
    pieces = _HEADER.split(inspect.cleandoc(doc or ""))
    return pieces[0], dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _merged(section, own, inherited):
    """Entries of a section by their names; those of the class win over those of its bases."""
    found = {}
    for sections in (own, *inherited):
        for entry in filter(None, _ENTRY.split(sections.get(section, "").strip("\n"))):
            names = tuple(name.strip() for name in entry.partition(" :")[0].split(","))
            if not any(set(names) & set(known) for known in found):
                found[names] = entry
    return found


def _in_order(entries, names):
    """Entries in the order of the signature."""
    position = {name: i for i, name in enumerate(names)}
    return [entries[key] for key in sorted(entries, key=lambda key: position[key[0]])]
