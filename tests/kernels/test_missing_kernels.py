"""What a source tree without compiled kernels says: Python started in a checkout imports it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import sklearn_onlineem

PACKAGE = Path(sklearn_onlineem.__file__).parent


def test_an_import_without_kernels_says_why_and_what_to_do(tmp_path):
    copy = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-c", f"import {PACKAGE.name}"],
        cwd=tmp_path,
        env=elsewhere,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    message = run.stderr.splitlines()[-1]
    assert message.startswith("ImportError: ")
    assert str(copy) in message
    assert "start Python in another folder" in message
    assert "pip install --editable ." in message
