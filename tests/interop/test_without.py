"""What is said where an adapter or its library is missing."""

import subprocess
import sys

import pytest

from sklearn_onlineem import GaussianMixture, StreamPipeline


def test_a_dict_is_refused_with_the_adapter_that_takes_it():
    for estimator in (GaussianMixture(), StreamPipeline([("mixture", GaussianMixture())])):
        with pytest.raises(TypeError, match=r"a dict, .*\.interop\.river\.RiverClusterer"):
            estimator.partial_fit({"a": 1.0})


@pytest.mark.parametrize(("adapter", "library"), [("river", "river"), ("onnx", "skl2onnx")])
def test_without_its_library_an_adapter_says_what_to_install(adapter, library):
    code = (
        f"import sys; sys.modules['onnx'] = sys.modules['{library}'] = None\n"
        "from sklearn_onlineem import *\n"
        "print('without')\n"
        f"import sklearn_onlineem.interop.{adapter}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["without"]
    assert f"ImportError: sklearn_onlineem.interop.{adapter} needs {library}: pip" in done.stderr
