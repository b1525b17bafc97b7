"""What a fit leaves behind, and the attributes by which users read it."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from sklearn_onlineem.em import Training

__all__ = ["Fitted", "FittedAttribute", "fitted_property"]


class Fitted(NamedTuple):
    """What learning leaves behind, replaced by one assignment, so that readers find it whole.

    Attributes
    ----------
    training : Training
        It advances with a stream, in which the data keep their form.
    attributes : dict
        What validation found in the first data: their width and names, say. It never changes.
    structure : tuple
        Values of the parameters that shape the model.
    """

    training: Training
    attributes: dict
    structure: tuple


Value = TypeVar("Value")


class FittedAttribute(Generic[Value]):
    """One of the attributes that validation found.

    An instance may have a value of its own: that is how scikit-learn's validation writes it to the
    blank estimator that first data are checked with.
    """

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, instance: object, owner: type) -> Value:
        if instance is None:
            return self
        attributes = instance._fitted_at_once.attributes
        if self._name not in attributes:
            raise AttributeError(f"{owner.__name__} found no {self._name} in its first data.")
        return attributes[self._name]


# Type checkers know properties, and no functions that make some.
if TYPE_CHECKING:
    from builtins import property as fitted_property
else:

    def fitted_property(function):
        """A property of what was learnt, all of which it reads at once."""

        @wraps(function)
        def value(self):
            return function(self._seen())

        return property(value)
