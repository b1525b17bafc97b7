"""What pages of the user guide define, so that tests need not write it again."""

import doctest
import re
import textwrap
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "doc/guide"


def code_of(page, *names):
    """Return the examples of a page that import, define, or set these names."""
    examples = doctest.DocTestParser().get_examples((GUIDE / page).read_text())
    begins = ("import ", "from ", "def ", "class ", *(f"{name} = " for name in names))
    return "".join(e.source for e in examples if e.source.startswith(begins))


def defined_in(page, *names):
    """Run these examples; return all that they define, by name."""
    defined = {}
    exec(code_of(page, *names), defined)
    return defined


def blocks_of(page):
    """Return the blocks of Python code of a page that are no examples."""
    text = (GUIDE / page).read_text()
    blocks = re.findall(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text)
    return [textwrap.dedent(block) for block in blocks]
