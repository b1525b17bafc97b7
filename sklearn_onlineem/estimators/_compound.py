"""What the estimators of bursty counts share."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.em import SampledInertia
from sklearn_onlineem.families import CompoundDirichlet
from sklearn_onlineem.models import MixtureModel

__all__ = ["BurstyCounts"]


class BurstyCounts:
    """Rows of counts, components that are compound Dirichlets, and the choice of the inertia."""

    _sparse_ok = True
    _model_parameters = ("n_components", "inertia", "n_pseudo_samples")

    _constraints: dict = {
        "inertia": [StrOptions({"exact", "sampled"})],
        "n_pseudo_samples": [Interval(Integral, 1, None, closed="left")],
        "alpha_init": [None, "array-like"],
    }

    def _family(self):
        return CompoundDirichlet()

    def _inertia(self):
        if self.inertia == "sampled":
            return SampledInertia(self.n_pseudo_samples, self._generator())
        return super()._inertia()

    def _start_parameters(self):
        return ["alpha_init"]

    def _given_start(self, data):
        if self.alpha_init is None:
            return None
        n_components, n_features = self.n_components, self.n_features_in_
        shape = (n_features,) if np.ndim(self.alpha_init) == 1 else (n_components, n_features)
        alpha = self._checked_start("alpha_init", self.alpha_init, shape)
        if not alpha.min() > 0:
            raise ValueError(f"alpha_init of {type(self).__name__} must be above 0.")
        alpha = np.broadcast_to(alpha, (n_components, n_features))
        length = np.full(n_components, data.X.sum(dtype=np.float64) / len(data))
        uniform = np.full(n_components, 1.0 / n_components)
        family = self._family()
        return self._with_given(MixtureModel(family, uniform, family.dirichlets(alpha, length)))

    def _sampled(self, n_samples, lengths):
        """Documents and their components."""
        self._check_n_samples(n_samples)
        model, rng = self.model_, self._generator()
        components = rng.choice(model.n_components, size=n_samples, p=model.weights)
        lengths = self._lengths(lengths, n_samples)
        X = model.family.sample(model.parameters, components, rng, lengths)
        return self._exposed(X), components

    def _lengths(self, lengths, n_samples):
        if lengths is None:
            return None
        lengths = np.asarray(lengths)
        if not np.issubdtype(lengths.dtype, np.integer) or lengths.min(initial=0) < 0:
            raise ValueError(
                f"lengths of {type(self).__name__} must be whole numbers from 0 up, got {lengths}."
            )
        if lengths.shape not in ((), (n_samples,)):
            raise ValueError(
                f"lengths of {type(self).__name__} must be one number or {n_samples}, got shape"
                f" {lengths.shape}."
            )
        return lengths

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
