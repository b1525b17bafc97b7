"""Several Markov chains of one fit: run side by side, averaged together, and put on record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.special import entr

from sklearn_onlineem.em.chains import Chains

__all__ = ["Sampler"]


class Sampler:
    """Chains of one model on the same data, the first of which begins with the model.

    Parameters
    ----------
    model : Model
    data : Batch
    prior : Statistics or None
    rng : numpy.random.Generator
        The first chain's draws are those that it has alone.
    n_chains : int
    keeps : range or list of int
        Sweeps, counted from 1, after which parameters are drawn.
    first : int
        First sweep that diagnostics take.

    Raises
    ------
    ValueError
        If the model has no such chains.
    """

    def __init__(self, model, data, prior, rng, n_chains, keeps, first):
        rngs = _one_each(rng, n_chains)
        self._chains = [model.chain(data, prior, rngs[0])]
        self._chains += [model.chain(data, prior, rng, dispersed=True) for rng in rngs[1:]]
        if len(keeps) and not self._chains[0].has_draws:
            raise ValueError(f"{type(model).__name__} draws no parameters: n_draws must be 0.")
        self._n_threads, self._keeps, self._first = data.n_threads, set(keeps), first
        self._traces = np.empty((2, n_chains, 64))
        self._draws = [()] * n_chains
        self._n_sweeps, self._averages, self._is_aligned = 0, False, False

    def sweep(self, rng):
        """Let each chain make a sweep; return the mean of what they return."""
        rngs = _one_each(rng, len(self._chains))
        self._n_sweeps += 1
        if self._n_sweeps > self._traces.shape[2]:
            self._traces = np.concatenate([self._traces, np.empty_like(self._traces)], axis=2)
        scores = self._swept(rngs)
        entropies = [entr(chain.shares()).sum() for chain in self._chains]
        self._traces[:, :, self._n_sweeps - 1] = scores, entropies
        if self._n_sweeps in self._keeps:
            self._draw(rngs)
        return float(np.mean(scores))

    def _swept(self, rngs):
        n_threads = min(self._n_threads, len(rngs))
        if n_threads == 1:
            return [chain.sweep(rng) for chain, rng in zip(self._chains, rngs, strict=True)]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(lambda chain, rng: chain.sweep(rng), self._chains, rngs))

    def _align(self):
        """Number components as in the present model of the first chain, from now on."""
        if self._is_aligned or not self._chains[0].has_draws:
            return
        reference, self._is_aligned = self._chains[0].model(), True
        for chain in self._chains:
            chain.align_to(reference)

    def _draw(self, rngs):
        self._align()
        pairs = zip(self._chains, rngs, strict=True)
        drawn = [chain.draw(rng) for chain, rng in pairs]
        self._draws = [(*draws, model) for draws, model in zip(self._draws, drawn, strict=True)]

    def average_in(self):
        """Let what the chains drew last be part of an average."""
        self._align()
        for chain in self._chains:
            chain.average_in()
        self._averages = True

    def model(self):
        """Return the model of the average over all chains, or else of the first one's last draw."""
        first = self._chains[0]
        if self._averages and len(self._chains) > 1:
            return first.pooled(self._chains)
        return first.model()

    def record(self):
        """Return what is known of the chains so far."""
        scores, entropies = self._traces[:, :, : self._n_sweeps]
        return Chains(scores, entropies, self._first, tuple(self._draws))


def _one_each(rng, n):
    return [rng, *rng.spawn(n - 1)]
