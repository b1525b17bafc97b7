"""Entries of a model that are not learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem._typing import Floats
from sklearn_onlineem._values import components, with_components

# Rounding error of sums of probabilities after many M-steps.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Fixed:
    """Entries of a model that the M-step leaves as they are: masks, True where fixed, or None.

    Parameters
    ----------
    weights : ndarray of bool of shape (n_components,), default=None
        Of the weights of a mixture, or of the start of a hidden Markov model.
    transmat : ndarray of bool, default=None
        Of transitions, shaped as these.
    components : ndarray of bool of shape (n_components,), default=None
        Of all parameters of components, or of the emissions of states.
    probabilities : ndarray of bool of shape (n_components, n_groups, n_symbols), default=None
        Of probabilities that add up to 1 in each group, of families whose parameters are these, or
        proportional to them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.models.fixed import Fixed
    >>> fixed = Fixed(weights=np.array([True, False, False]))
    >>> fixed.shares("weights", np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.4, 0.4]))
    array([0.2, 0.6, 0.2])
    """

    weights: NDArray[np.bool] | None = None
    transmat: NDArray[np.bool] | None = None
    components: NDArray[np.bool] | None = None
    probabilities: NDArray[np.bool] | None = None

    def shares(self, name: str, new: Floats, old: Floats) -> Floats:
        """Return new shares with the fixed ones of old; the others have the rest, as they were.

        Parameters
        ----------
        name : str
            Of the mask.
        new, old : ndarray
            Shares, which add up to 1 along the last axis.
        """
        mask = getattr(self, name)
        if mask is None or new is old:
            return new
        free = np.where(mask, 0.0, new)
        totals = free.sum(axis=-1, keepdims=True)
        rest = np.where(mask, 0.0, old).sum(axis=-1, keepdims=True)
        scale = np.divide(rest, totals, out=np.zeros_like(totals), where=totals > 0.0)
        # Without any evidence of those that are learnt, these stay, too.
        return np.where(mask | (totals <= 0.0), old, free * scale)

    @property
    def is_partial(self) -> bool:
        """Whether it fixes some entries of a part, and not all; a mask may fix none of them."""
        masks = self.weights, self.transmat, self.components, self.probabilities
        return any(mask is not None and not mask.all() for mask in masks)

    @property
    def fixes_all_components(self) -> bool:
        """Whether no component learns, so that what all share stays, too."""
        return self.components is not None and bool(self.components.all())

    def parameters(self, new: object, old: object) -> object:
        """Return new parameters with those of fixed components of old, and fixed probabilities.

        Parameters
        ----------
        new, old : object
            Of all components.
        """
        if new is old or self.fixes_all_components:
            return old
        if self.components is not None and self.components.any():
            index, n = np.flatnonzero(self.components), len(self.components)
            new = with_components(new, index, components(old, index, n), n)
        if self.probabilities is None:
            return new
        n_masked, shape = self.probabilities[0].size, (len(new), *self.probabilities.shape[1:])
        if new.shape[1] != n_masked:
            raise ValueError(
                f"params has a mask of {n_masked} probabilities of each state, which has"
                f" {new.shape[1]}."
            )
        groups, before = new.reshape(shape), old.reshape(shape)
        scale = groups.sum(axis=2, keepdims=True) / before.sum(axis=2, keepdims=True)
        # Fixed probabilities stay to the bit, whose sums are 1 but for rounding.
        scale[np.abs(scale - 1.0) <= _ROUNDING] = 1.0
        return self.shares("probabilities", groups, before * scale).reshape(new.shape)

    def n_free(self, name: str, used: NDArray[np.bool]) -> int:
        """Return how many shares are free, but for one of each row.

        Parameters
        ----------
        name : str
            Of the mask.
        used : ndarray of bool
            Shares that are not 0.
        """
        mask = getattr(self, name)
        free = used if mask is None else used & ~mask
        return int(np.count_nonzero(free) - np.count_nonzero(free.any(axis=-1)))

    def n_learnt(self, n: int) -> int:
        """Return how many of n free parameters of all components are learnt.

        Parameters
        ----------
        n : int
            Like that of the family.
        """
        share = 1.0 if self.components is None else 1.0 - np.mean(self.components)
        if self.probabilities is None:
            return round(n * share)
        free = ~self.probabilities
        if self.components is not None:
            free = free & ~self.components[:, None, None]
        return int(np.maximum(free.sum(axis=2) - 1, 0).sum())


def floored(family: Any, given: Floats, fixed: Fixed | None) -> Floats:
    """Return given probabilities, those that are learnt at the family's floor or above it.

    Parameters
    ----------
    family : Family
        A family with floors; fixed probabilities may be 0.
    given : ndarray
        Of all components.
    fixed : Fixed, default=None
        What is fixed, of a model with these parameters.
    """
    above = family.regularise(given)
    return above if fixed is None else fixed.parameters(above, given)
