"""Online EM for scikit-learn: hidden-variable models that learn from streams."""

from typing import TYPE_CHECKING

import sklearn_onlineem._kernels  # says at once if nothing is compiled  # noqa: F401
from sklearn_onlineem._lazy import lazy_names
from sklearn_onlineem._version import __version__ as __version__

if TYPE_CHECKING:
    from sklearn_onlineem.estimators import *  # noqa: F403
    from sklearn_onlineem.streams import PrequentialSearch as PrequentialSearch
    from sklearn_onlineem.streams import StreamPipeline as StreamPipeline
else:
    from sklearn_onlineem import estimators

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {"estimators": estimators.__all__, "streams": ["PrequentialSearch", "StreamPipeline"]},
        ["data", "diagnostics", "displays", "distributed", "em", "estimators", "families",
         "interop", "models", "persistence", "statistics", "streams", "structure"],
    )  # fmt: skip
    __all__ += ["__version__"]
