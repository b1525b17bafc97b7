"""The README leads to files that can be read where they are."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[1]
LINKS = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
FILES = [link for link in LINKS if "://" not in link]
# Roles and directives of Sphinx and its extensions, which GitHub shows as they are, or leaves out.
ROLE = re.compile(r":[\w:]+:`(?<!:math:`)")
DIRECTIVE = re.compile(r"^\.\. (?:grid|card|tab-set|autosummary|include)::", re.MULTILINE)


@pytest.mark.parametrize("path", FILES)
def test_links_lead_to_files(path):
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith(".rst")])
def test_linked_pages_read_well_without_sphinx(path):
    page = (ROOT / path).read_text()
    assert not ROLE.findall(page)
    assert not DIRECTIVE.findall(page)
    links = re.findall(r"`[^`<]+ <([\w/.]+\.rst)>`__", page)
    assert links
    assert all((ROOT / path).parent.joinpath(link).is_file() for link in links)
