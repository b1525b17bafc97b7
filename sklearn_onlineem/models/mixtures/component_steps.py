"""Generalised EM of a mixture: each step updates one component and its column of the E-step."""

import math
from dataclasses import replace

import numpy as np
from scipy.special import rel_entr

from sklearn_onlineem._values import components, joined
from sklearn_onlineem.families._e_step import log_density_of, log_of, statistics_of
from sklearn_onlineem.statistics import combine

# Python looks for Ctrl-C between chunks.
_CHUNK_ROWS = 1 << 16
# A sum is recomputed once it has shrunk or grown by these factors, which bounds its loss of digits.
_LARGEST_CHANGE = 64.0


class ComponentSteps:
    r"""A mixture and its responsibilities; each step updates one component.

    A step maximises the bound of EM over the parameters of one component and over its weight, where
    the other weights keep their ratios:

    .. math::
        w_k \leftarrow \frac{c_k}{c_k + \sum_{j \ne k} c_j}, \qquad
        w_j \leftarrow w_j \, \frac{1 - w_k^\text{new}}{1 - w_k^\text{old}}, \qquad
        \theta_k \leftarrow \arg\max_\theta \sum_n r_{nk} \log p(x_n \mid \theta) + \log p(\theta),

    with the counts :math:`c_k = \sum_n r_{nk} + \alpha_k - 1`. The responsibilities are always
    those of the present mixture. A step raises the bound by

    .. math:: g_k = \mathrm{kl}(w_k^\text{new} \,\|\, w_k^\text{old})
        + w_k^\text{new} \, \mathrm{KL}(\theta_k^\text{new} \,\|\, \theta_k^\text{old}),

    per observation and without a prior, where kl is the divergence of two coins. The mean gain of
    all :math:`K` components is at least :math:`1/K` of that of a step of batch EM. If components
    share parameters (a tied covariance), a step changes the component's mean but not these, and a
    sweep ends with a step of batch EM.

    The order "gain" takes the component with the largest expected gain next: the gain of its own
    last step, and 1/K of what others have gained since. The bound is that of Neal & Hinton,
    "A view of the EM algorithm that justifies incremental, sparse, and other variants", 1998.
    """

    def __init__(self, model, data, prior=None, order="gain"):
        self._data, self._prior, self._order = data, prior, order
        family, parameters = model.family, model.parameters
        self._shares_parameters = family.n_shared_parameters(parameters) > 0
        n = model.n_components
        self._excess = np.zeros(n) if prior is None else prior.counts / data.total_weight
        self._is_known = np.isin(np.arange(n), () if data.labels is None else data.labels)
        self._expected = np.full(n, np.inf)
        self._chunks = [_Chunk(chunk) for chunk in data.chunks(_CHUNK_ROWS)]
        self._begin(model)

    def _begin(self, model):
        self._whole, self._weights, n = model, model.weights.copy(), model.n_components
        self._components = [components(model.parameters, slice(k, k + 1), n) for k in range(n)]
        for chunk in self._chunks:
            chunk.take(model.family, model.parameters)
        self.log_likelihood()

    def model(self):
        """Return the present mixture, a `MixtureModel`."""
        parameters = joined(self._components, self._whole.parameters)
        weights = self._weights / self._weights.sum()
        return replace(self._whole, weights=weights, parameters=parameters)

    def __iter__(self):
        while True:
            log_likelihood = self.sweep()
            yield self.model(), log_likelihood

    def sweep(self):
        """Take a step for each component; return the mean log-likelihood of rows before it."""
        log_likelihood = self.log_likelihood()
        # An empty component stays empty, unless a prior or labelled rows give it weight.
        is_active = (self._weights > 0.0) | (self._excess > 0.0) | self._is_known
        for turn in np.flatnonzero(is_active):
            k = turn
            if self._order == "gain":
                k = np.where(is_active, self._expected, -np.inf).argmax()
            gain = self.refresh(k)
            self._expected += gain / len(self._expected)
            self._expected[k] = gain
        if self._shares_parameters:
            model = self.model()
            terms = [(1.0, model.e_step(self._data)[0])]
            if self._prior is not None:
                terms.append((1.0 / self._data.total_weight, self._prior))
            self._begin(model.m_step(combine(terms)))
        return log_likelihood

    def log_likelihood(self):
        """Return the mean log-likelihood of the rows, in nats, from recomputed sums."""
        self._weights /= self._weights.sum()
        total = sum(chunk.sum_up(self._weights) for chunk in self._chunks)
        return total / self._data.total_weight

    def refresh(self, k):
        """Update component k and its weight; return its divergence from the old one, in nats."""
        weights, family, old = self._weights, self._whole.family, self._components[k]
        count = sum(chunk.share(k, weights[k]) for chunk in self._chunks)
        before = weights[k] / weights.sum()
        weights[k] = self._reweighted(k, count / self._data.total_weight)
        weight = weights[k] / weights.sum()
        if weight > 0.0:
            self._components[k] = self._maximiser(k)
        for chunk in self._chunks:
            chunk.replace(family, self._components[k], k, weights)
        moved = float(family.kl_divergence(self._components[k], old)[0])
        coins = rel_entr([weight, 1.0 - weight], [before, 1.0 - before]).sum()
        return max(0.0, coins + weight * moved)

    def _reweighted(self, k, count):
        """Return the new weight of a component beside those of the others, which stay."""
        weights, excess = self._weights, self._excess
        others = np.arange(len(weights)) != k
        mass, own = weights[others].sum(), count + excess[k]
        # The prior of empty components is ignored.
        rest = 1.0 - count + excess[others & (weights > 0.0)].sum()
        if not mass > 0.0 or (own > 0.0 and not rest > 0.0):
            return weights[k]
        return mass * own / rest if own > 0.0 else 0.0

    def _maximiser(self, k):
        family, old, total = self._whole.family, self._components[k], self._data.total_weight
        terms = [(1.0 / total, chunk.statistics(family, old)) for chunk in self._chunks]
        if self._prior is not None:
            own = self._prior.emissions.components(slice(k, k + 1), len(self._weights))
            terms.append((1.0 / total, own))
        new = family.m_step(combine(terms), old)
        if self._shares_parameters:
            return family.with_shared(new, old)
        return new


class _Chunk:
    """Log densities of some rows, and sums over components relative to the last full ones."""

    def __init__(self, rows):
        self._rows, self._labels = rows, rows.labels
        self._unit, self._total, self._joint = np.empty((3, len(rows)))

    def take(self, family, parameters):
        log_density = log_density_of(family, parameters, self._rows)
        self._log_density = np.array(log_density.T, dtype=np.float64, order="C")
        for k in range(len(self._log_density)):
            self._keep_labels(k)

    def _keep_labels(self, k):
        """Set densities of rows with a known component to 0 under the others."""
        if self._labels is not None:
            self._log_density[k, (self._labels >= 0) & (self._labels != k)] = -np.inf

    def sum_up(self, weights):
        """Compute all sums; return the log-likelihood."""
        self._sum_rows(slice(None), weights)
        log_likelihood = self._unit + log_of(self._total)
        weight = self._rows.sample_weight
        if weight is None:
            return log_likelihood.sum()
        return weight[weight > 0.0] @ log_likelihood[weight > 0.0]

    def _sum_rows(self, rows, weights):
        log_joint = self._log_density[:, rows] + log_of(weights)[:, None]
        highest = log_joint.max(axis=0)
        # Density 0 under all components: sums of 0 in any unit.
        highest[np.isneginf(highest)] = 0.0
        log_joint -= highest
        total = np.exp(log_joint, out=log_joint).sum(axis=0)
        possible = total > 0.0
        self._unit[rows] = highest + np.log(total, where=possible, out=np.zeros_like(total))
        self._total[rows] = possible

    def share(self, k, weight):
        """Compute the responsibilities of a component; return their sum."""
        self._join(k, weight)
        possible = self._total > 0.0
        shares = np.divide(self._joint, self._total, where=possible, out=np.zeros(len(possible)))
        if not possible.all():
            # Rows with density 0 under all components: the share is their label's, or even.
            even = 1.0 / len(self._log_density)
            labels = self._labels
            given = even if labels is None else np.where(labels < 0, even, labels == k)
            np.copyto(shares, given, where=~possible)
        if self._rows.sample_weight is not None:
            shares *= self._rows.sample_weight
        self._shares = shares
        return shares.sum()

    def _join(self, k, weight):
        np.subtract(self._log_density[k], self._unit, out=self._joint)
        self._joint += math.log(weight) if weight > 0.0 else -np.inf
        with np.errstate(over="ignore"):
            np.exp(self._joint, out=self._joint)

    def statistics(self, family, parameters):
        """Return statistics of the component whose responsibilities were computed last."""
        shares = self._shares[:, None].astype(self._rows.dtype)
        return statistics_of(family, parameters, self._rows, shares)

    def replace(self, family, parameters, k, weights):
        """Replace a component, which has another weight."""
        total = self._total
        self._log_density[k] = log_density_of(family, parameters, self._rows)[:, 0]
        self._keep_labels(k)
        total -= self._joint
        self._join(k, weights[k])
        total += self._joint
        changed = (total < 1.0 / _LARGEST_CHANGE) | (total > _LARGEST_CHANGE)
        if changed.any():
            self._sum_rows(changed, weights)
