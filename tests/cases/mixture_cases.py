"""The list of mixtures that the laws run over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES, FamilyCase
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.models.mixtures.mixture import MixtureModel, MixtureStatistics


@dataclass(frozen=True)
class MixtureCase:
    """A mixture of one family's components."""

    case: FamilyCase

    is_mixture = True
    has_labels = True
    has_time = False

    def __repr__(self):
        return repr(self.case)

    @property
    def is_quick(self):
        return self.case.is_quick

    @property
    def regular(self):
        """Whether the statistics of data are those of a model."""
        return self.case.regular

    def draw(self, rng, n_components=3, d=2):
        weights = rng.dirichlet(np.full(n_components, 5.0))
        return MixtureModel(self.case.family, weights, self.case.draw(rng, n_components, d))

    def rows(self, rng, n, d=2):
        return self.case.rows(rng, n, d)

    def data(self, rng, n, d=2, n_threads=1):
        return Rows(self.rows(rng, n, d), n_threads=n_threads)

    def rich_data(self, rng, n):
        """Rows with weights and labels."""
        labels = rng.integers(-1, 3, n).astype(np.int32)
        return Rows(self.rows(rng, n), rng.random(n), labels)

    def labelled(self, X, components):
        return Rows(X, labels=components.astype(np.int32))

    def single(self, rows):
        return Rows(rows.X.astype(np.float32))

    def mean_log_likelihood(self, model, rows):
        """By the definition."""
        log_joint = model.family.log_density(model.parameters, rows.X) + np.log(model.weights)
        if rows.labels is not None:
            known = rows.labels[:, None]
            log_joint[(known >= 0) & (known != np.arange(model.n_components))] = -np.inf
        return np.average(logsumexp(log_joint, axis=1), weights=rows.sample_weight)

    def prior(self, model, n_features, concentration):
        emissions = model.family.prior_statistics(
            model.n_components, n_features=n_features, **self.case.prior(n_features)
        )
        return MixtureStatistics(np.full(model.n_components, concentration - 1.0), emissions)

    def log_prior(self, model, concentration):
        excess = (concentration - 1.0) * np.log(model.weights).sum()
        return excess + self.case.log_prior(model.family, model.parameters)

    def occupancies(self, evidence):
        """How often components are used, or states entered and left."""
        return evidence.counts


MIXTURES = [MixtureCase(case) for case in [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES]]
