"""A bill of materials names the package that is installed, and all that it requires."""

import json
import re
import sys
from importlib import metadata

NAME = "sklearn_onlineem"


def main(file):
    with open(file) as source:
        bill = json.load(source)
    root = bill["metadata"]["component"]
    listed = {component["name"]: component["version"] for component in bill["components"]}
    wanted = [r for r in metadata.requires(NAME) if "extra ==" not in r]
    names = [re.match(r"[\w.-]+", requirement)[0] for requirement in wanted]
    versions = {name: metadata.version(name) for name in names}
    if (root["name"], root["version"]) != (NAME, metadata.version(NAME)):
        sys.exit(f"{file} is of {root['name']} {root['version']}")
    if missing := versions.items() - listed.items():
        sys.exit(f"{file} lacks {dict(missing)}")
    print(f"{file}: {root['name']} {root['version']} and {len(listed)} components")


if __name__ == "__main__":
    main(*sys.argv[1:])
