"""What the rows of an estimator are, and so which laws hold for it."""

from dataclasses import dataclass

import pytest


@dataclass(frozen=True, kw_only=True)
class RowCapabilities:
    """Fields of every case whose data are rows."""

    # Covariances have a floor.
    is_gaussian: bool = False
    takes_any_number: bool = False
    # A factor in the data only changes their unit.
    is_scalable: bool = False
    # Codes: the means of rows do not determine their probabilities.
    is_nominal: bool = False
    is_binary: bool = False
    is_matrix: bool = False
    # Whole numbers, however large; those of documents may all be 0.
    is_count: bool = False
    is_document: bool = False
    refuses_negative: bool = False
    takes_zeros: bool = True
    # Parameters determine the start of a fit: a row is enough for it.
    starts_are_given: bool = False
    # First states have infinite variances: observed rows determine them, and none are drawn.
    is_diffuse: bool = False

    @property
    def means_have_bounds(self):
        """What rows have no support beyond, means have none beyond either."""
        return not (self.takes_any_number or self.is_nominal)


REAL = {"takes_any_number": True}
GAUSSIAN = {**REAL, "is_gaussian": True, "is_scalable": True}
NOMINAL = {"is_nominal": True, "refuses_negative": True}
BINARY = {"is_binary": True}
COUNTS = {"is_count": True, "refuses_negative": True}
DOCUMENTS = {**COUNTS, "is_document": True}
DURATIONS = {"is_scalable": True, "refuses_negative": True}
POSITIVE = {**DURATIONS, "takes_zeros": False}
MATRICES = {"is_matrix": True, "is_scalable": True, "takes_zeros": False}


def cases_where(holds, cases):
    """Parametrise over those of the cases for which something holds."""
    return pytest.mark.parametrize("case", [case for case in cases if holds(case)], ids=repr)
