"""Types of matplotlib in signatures; imported by type checkers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

__all__ = ["Axes", "AxesOrMany", "Figure"]

AxesOrMany: TypeAlias = Axes | Sequence[Axes] | NDArray[np.object_]
