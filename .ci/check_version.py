"""The version is the same wherever it stands; `check_version.py v1.2.0` asks the tag, too.

A tag is of something that is published, so that the metadata have to say where.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def version_in(name, pattern):
    found = re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"{name} says no version")
    return found[1]


def check_recipe():
    """The recipe of conda requires what pyproject.toml does."""
    recipe = (ROOT / ".ci" / "recipe.yaml").read_text()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed, built = declared["project"]["dependencies"], declared["build-system"]["requires"]
    places = {"host": built, "run": needed}
    for place, requirements in places.items():
        section = re.search(rf"^  {place}:\n((?:    .*\n)+)", recipe, re.MULTILINE)[1].split("\n")
        lines = [f"    - {r.lower().replace('>=', ' >=')}" for r in requirements]
        if missing := set(lines).difference(section):
            sys.exit(f".ci/recipe.yaml lacks among {place}: {missing}")


def main(tag=None):
    check_recipe()
    versions = {
        "sklearn_onlineem/_version.py": version_in(
            "sklearn_onlineem/_version.py", r'^__version__ = "(.+)"$'
        ),
        "CITATION.cff": version_in("CITATION.cff", r"^version: (.+)$"),
    }
    if tag is not None:
        versions["the tag"] = tag.removeprefix("v")
        versions["CHANGELOG.md"] = version_in("CHANGELOG.md", r"^## \[(\S+)\]")
        if "[project.urls]" not in (ROOT / "pyproject.toml").read_text():
            sys.exit("pyproject.toml has no [project.urls]: a release says where it comes from")
    if len(set(versions.values())) > 1:
        sys.exit(f"versions differ: {versions}")
    print(f"version {versions['CITATION.cff']} in {', '.join(versions)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
