"""The same benchmark in another checkout of the project, whose kernels are compiled."""

import json
import os
import subprocess
import sys
import tempfile

from benchmarks import records


def result_in(checkout, file, *options):
    """Return what a file of our benchmarks prints as JSON, with the package of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        # Their package, and our benchmarks.
        os.symlink(records.ROOT / "benchmarks", os.path.join(folder, "benchmarks"))
        path = os.pathsep.join([folder, os.path.abspath(checkout)])
        command, environment = [sys.executable, file, *options], os.environ | {"PYTHONPATH": path}
        return json.loads(subprocess.run(command, env=environment, stdout=-1, check=True).stdout)
