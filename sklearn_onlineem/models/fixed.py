"""Entries of a model that are not learnt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from sklearn_onlineem._typing import Bools, Floats, Integers
from sklearn_onlineem._values import Rebuilt, components, with_components
from sklearn_onlineem.families import Family

# Rounding error of sums of probabilities after many M-steps.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Fixed:
    """Entries of a model that the M-step leaves as they are: masks, True where fixed, or None.

    `weights` are those of a mixture, or of the start of a hidden Markov model, `transmat` its
    transitions, and `components` all parameters of components, or of the emissions of states.
    `probabilities`, of shape (n_components, n_groups, n_symbols), add up to 1 in each group, of
    families whose parameters are these, or proportional to them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.models.fixed import Fixed
    >>> fixed = Fixed(weights=np.array([True, False, False]))
    >>> fixed.shares("weights", np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.4, 0.4]))
    array([0.2, 0.6, 0.2])
    """

    weights: Bools | None = None
    transmat: Bools | None = None
    components: Bools | None = None
    probabilities: Bools | None = None

    def shares(self, name: str, new: Floats, old: Floats) -> Floats:
        """Return new shares with the fixed ones of old; the others have the rest, as they were.

        Shares add up to 1 along the last axis.
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
        """Return new parameters with those of fixed components of old, and fixed probabilities."""
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

    def n_free(self, name: str, used: Bools) -> int:
        """Return how many of the `used` shares, those not 0, are free, but for one of each row."""
        mask = getattr(self, name)
        free = used if mask is None else used & ~mask
        return int(np.count_nonzero(free) - np.count_nonzero(free.any(axis=-1)))

    def n_learnt(self, family: Family, parameters: object, used: Bools) -> int:
        """Return how many free parameters of the `used` components (n_components,) are learnt."""
        is_learnt = used if self.components is None else used & ~self.components
        if is_learnt.all() and self.probabilities is None:
            return family.n_parameters(parameters)
        if self.probabilities is not None:
            free = ~self.probabilities & is_learnt[:, None, None]
            return int(np.maximum(free.sum(axis=2) - 1, 0).sum())
        shared = 0 if self.fixes_all_components else family.n_shared_parameters(parameters)
        return shared + round(family._own_counts(parameters, len(used))[is_learnt].sum())


@dataclass(frozen=True, eq=False)
class FixedEntries(Rebuilt):
    """Entries of a single regression that the M-step leaves as they are: masks, True where fixed.

    The `matrix` (p, q) are the coefficients, the `offset` is (p,), and the `covariance` (p, p) is
    of the noise, where outputs without noise are fixed as well. Coefficients change together in
    directions `tied` (n_directions, p, q); those that are 0 in all of them change by themselves.
    Outputs that a direction joins have one variance, if noise is independent.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.models.fixed import FixedEntries
    >>> mask = np.array([[True, True, False], [True, True, False], [False, False, False]])
    >>> fixed = FixedEntries(np.zeros((3, 1), bool), np.zeros(3, bool), mask)
    >>> fixed.blocks(np.eye(3))
    [(array([0, 1]), array([2]))]
    """

    matrix: Bools
    offset: Bools
    covariance: Bools
    tied: Floats | None = None

    def of(self, name: str, covariance: Floats) -> Bools:
        """Return the mask of a parameter, with outputs that have no noise: EM never moves these."""
        without_noise = covariance.diagonal() == 0.0
        mask = (getattr(self, name).T | without_noise).T
        return mask | without_noise if name == "covariance" else mask

    def connected(self, pairs: Bools) -> list[Integers]:
        """Return the outputs that pairs (p, p) connect, from the last call if it was alike."""
        key, found = pairs.tobytes(), self.__dict__.get("_connected")
        if found is None or found[0] != key:
            n, of_output = connected_components(pairs, directed=False)
            found = key, [np.flatnonzero(of_output == i) for i in range(n)]
            self.__dict__["_connected"] = found
        return found[1]

    @property
    def joined(self) -> Bools:
        """Which outputs are tied with which, of shape (p, p)."""
        if self.tied is None:
            return np.zeros_like(self.covariance)
        touched = self.tied.any(axis=2)
        return (touched[:, :, None] & touched[:, None, :]).any(axis=0)

    def untied(self, name: str, change: Floats) -> Floats:
        """Return the part of a change of a parameter that ties do not allow."""
        if self.tied is None or name == "offset":
            return np.zeros_like(change)
        if name == "matrix":
            directions = self.tied.reshape(len(self.tied), -1).T
            own = np.where(self.tied.any(axis=0), change, 0.0)
            along = directions @ np.linalg.lstsq(directions, own.ravel(), rcond=None)[0]
            return own - along.reshape(own.shape)
        joined = self.joined / np.maximum(self.joined.sum(axis=0), 1)
        variances = change.diagonal()
        return np.diag(np.where(self.joined.any(axis=0), variances - joined @ variances, 0.0))

    def blocks(self, covariance: Floats) -> list[tuple[Integers, Integers]]:
        """Return the known and the learnt outputs of each block of the noise that learns.

        Noise of different blocks is independent. Within one, the covariance of known outputs is
        fixed, and all else is learnt. ValueError for masks of another kind, whose M-step has no
        closed form.
        """
        free = ~self.of("covariance", covariance)
        is_fixed = ~free.diagonal()
        found = []
        for own in self.connected(free | (covariance != 0.0)):
            known, learnt = own[is_fixed[own]], own[~is_fixed[own]]
            expected = ~np.outer(is_fixed[own], is_fixed[own])
            if (free[np.ix_(own, own)] != expected).any():
                raise ValueError(
                    f"fixes some entries of {own.tolist()}: within a block of correlated noise,"
                    " those of some variables with each other may be fixed, and none else."
                )
            if len(learnt):
                found.append((known, learnt))
        return found
