"""Each example of the gallery runs as a script, with no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").rglob("plot_*.py"))
LARGEST_DATA = 200_000  # bytes

# A machine on no network has its own address and names of files; asyncio and clusters
# of threads need these. Dask asks for a name, and takes the failure that such a machine gives.
OFFLINE = """
import runpy, socket, sys

OWN = (None, "", "localhost", "127.0.0.1", "0.0.0.0", "::", "::1")
find = socket.getaddrinfo

def found(host, *args, **kwargs):
    if host not in OWN:
        raise socket.gaierror("examples need no network")
    return find(host, *args, **kwargs)

def refuse(*args, **kwargs):
    raise OSError("examples need no network")

socket.getaddrinfo = found
socket.create_connection = refuse
socket.socket.connect = refuse
socket.socket.connect_ex = refuse
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits of CPU time are POSIX's")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_runs_offline_within_30_seconds_of_cpu(path, tmp_path):
    import resource  # of POSIX alone

    environment = {
        **os.environ,
        "MPLBACKEND": "agg",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    limit = (30, 30)
    command = [sys.executable, "-c", OFFLINE, str(path)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, "an example prints the numbers that carry its claim"
    assert not any(tmp_path.iterdir()), "an example writes only where it is told to"


def test_data_are_small_and_have_a_licence():
    folder = ROOT / "examples" / "data"
    terms = (folder / "README").read_text()
    data = [path for path in folder.iterdir() if path.name != "README"]
    assert data
    for path in data:
        assert path.stat().st_size < LARGEST_DATA, path.name
        assert f"{path.name}\n" in terms, path.name
