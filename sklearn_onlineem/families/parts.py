"""Parts of a model: its parameters as users know them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """A parameter by the name of its fitted attribute, without the underscore at the end."""

    name: str
    # "real", "positive", "probability" or "covariance", as confidence intervals need. None: values
    # are not learnt, or other parts say the same, so that there are no standard errors.
    kind: str | None
    # Values of the family and its parameters, or of the model.
    get: Callable[..., Any]


def means_part(kind: str | None = None) -> Part:
    """Return the means of a family that has them."""
    return Part("means", kind, lambda family, parameters: family.means(parameters))
