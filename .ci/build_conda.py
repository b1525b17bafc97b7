"""Builds the conda package of an sdist by recipe.yaml, and tries it: `make conda`."""

import os
import re
import sys
from pathlib import Path

from rattler_build import Package, Stage0Recipe, VariantConfig

HERE = Path(__file__).parent


def main(sdist):
    os.environ["VERSION"] = re.search(r"-([^-]+)\.tar\.gz$", sdist)[1]
    recipe = Stage0Recipe.from_file(HERE / "recipe.yaml")
    for variant in recipe.render(VariantConfig.from_file(HERE / "variants.yaml")):
        for package in variant.run_build(output_dir="dist/conda").packages:
            if not all(test.success for test in Package.from_file(package).run_tests()):
                sys.exit(f"{package} fails its tests")
            print(f"{package} is built, and works")


if __name__ == "__main__":
    main(*sys.argv[1:])
