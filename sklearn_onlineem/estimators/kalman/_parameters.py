"""What the parameters of a Kalman filter say of its model."""

from __future__ import annotations

from numbers import Real

import numpy as np

from sklearn_onlineem.estimators._priors import prior_statistics
from sklearn_onlineem.families import LinearGaussian
from sklearn_onlineem.families.linear_gaussian import (
    DiagonalCovariance,
    FullCovariance,
    SphericalCovariance,
)
from sklearn_onlineem.models import LinearDynamicalModel, LinearDynamicalStatistics

__all__ = ["FIELDS", "RELATIVE_FLOOR", "SHAPES", "SystemParameters"]

SHAPES = {
    "full": FullCovariance(),
    "diag": DiagonalCovariance(),
    "diagonal": DiagonalCovariance(),
    "spherical": SphericalCovariance(),
}
# Names of pykalman, those of the model, and axes: k for the state, d for the rows.
FIELDS = {
    "initial_state_mean": ("initial_mean", "k"),
    "initial_state_covariance": ("initial_covariance", "kk"),
    "transition_matrices": ("transition", "kk"),
    "transition_offsets": ("transition_offset", "k"),
    "transition_covariance": ("transition_covariance", "kk"),
    "observation_matrices": ("observation", "dk"),
    "observation_offsets": ("observation_offset", "d"),
    "observation_covariance": ("observation_covariance", "dd"),
}
_IDENTIFIABLE = tuple(name for name in FIELDS if name != "transition_offsets")
_PRIORS = ("initial", "transition", "observation")
RELATIVE_FLOOR = 1e-6


class SystemParameters:
    """Translates pykalman's parameters into a model, and back."""

    @property
    def _n_hidden(self):
        """Dimension of the state: what `n_dim_state` or else the given arrays say, or 1."""
        if self.n_dim_state is not None:
            return self.n_dim_state
        given = (
            np.shape(getattr(self, name))
            for name, (_, axes) in FIELDS.items()
            if axes.endswith("k") and getattr(self, name) is not None
        )
        return next((shape[-1] if shape else 1 for shape in given), 1)

    def _learnt(self):
        """Names of what the M-step changes."""
        if self.em_vars is None:
            return frozenset(_IDENTIFIABLE)
        names = FIELDS if isinstance(self.em_vars, str) else list(self.em_vars)
        unknown = [name for name in names if name not in FIELDS]
        if unknown:
            raise ValueError(
                f"em_vars of {type(self).__name__} has {unknown[0]!r}; expected names of {FIELDS}."
            )
        return frozenset(names)

    def _known(self):
        """Arrays that are given, and pykalman's defaults of what is neither given nor learnt."""
        learnt, known = self._learnt(), {}
        for name, (_, axes) in FIELDS.items():
            shape = self._shape(axes)
            if getattr(self, name) is not None:
                known[name] = self._checked_array(name, shape)
            elif name not in learnt:
                known[name] = np.eye(*shape) if len(axes) == 2 else np.zeros(shape)
        return known

    def _shape(self, axes):
        sizes = {"k": self._n_hidden, "d": self.n_features_in_}
        return tuple(sizes[axis] for axis in axes)

    def _checked_array(self, name, shape):
        values = np.asarray(getattr(self, name), dtype=np.float64)
        if values.ndim < len(shape):  # as pykalman takes numbers for vectors and matrices of one
            values = np.array(values, ndmin=len(shape))
        values = self._checked_start(name, values, shape)
        if name.endswith("covariance"):
            self._check_covariance(name, values)
        return values

    def _check_covariance(self, name, values):
        scale = np.abs(values).max(initial=0.0)
        smallest = np.linalg.eigvalsh(values / (scale or 1.0))[0]
        # Parts of a state may be certain; rows may not.
        least = 0.0 if name == "observation_covariance" else -1e-9
        if (
            np.abs(values - values.T).max() > 1e-8 * scale
            or not smallest >= least
            or (name == "observation_covariance" and smallest == 0.0)
        ):
            raise ValueError(
                f"{name} of {type(self).__name__} must be symmetric and positive definite."
            )

    def _model(self, arrays, floor):
        """The model of arrays by pykalman's names; `floor` is that of the rows' variances."""
        values = {FIELDS[name][0]: array for name, array in arrays.items()}
        return LinearDynamicalModel(
            **values,
            learnt=self._learnt(),
            initial=LinearGaussian(floor=self._state_floor(values["initial_covariance"])),
            transitions=LinearGaussian(
                SHAPES[self.transition_covariance_type],
                self._state_floor(values["transition_covariance"]),
            ),
            emissions=LinearGaussian(SHAPES[self.observation_covariance_type], floor),
        )

    def _state_floor(self, covariance):
        """What M-steps add to variances of the state, whose units the start decides."""
        if isinstance(self.reg_covar, Real):
            return np.full(len(covariance), float(self.reg_covar))
        return np.full(len(covariance), RELATIVE_FLOOR * np.diag(covariance).mean())

    def _prior(self, model):
        """Return `prior` as pseudo-statistics, or None."""
        if not self.prior:
            return None
        unknown = set(self.prior) - set(_PRIORS)
        if unknown:
            raise ValueError(f"prior of {type(self).__name__} has keys {unknown} not of {_PRIORS}.")
        k, d = model.n_components, model.n_features
        families = (model.initial, model.transitions, model.emissions)
        sizes = ((0, k), (k, k), (k, d))
        return LinearDynamicalStatistics(
            *(
                prior_statistics(
                    self, family, self.prior.get(part, {}), *size, name=f"prior[{part!r}]"
                )
                for part, family, size in zip(_PRIORS, families, sizes, strict=True)
            )
        )

    def _check_same_model(self):
        super()._check_same_model()
        n_dim_state = self.model_.n_components
        if n_dim_state != self._n_hidden:
            raise ValueError(
                f"the fitted model has n_dim_state={n_dim_state}, and the parameters now say"
                f" {self._n_hidden}; fit anew."
            )

    def _n_parameters(self):
        """Free parameters, less those that a change of the state's coordinates takes up."""
        model, k = self.model_, self.model_.n_components
        turns = {name for name, (_, axes) in FIELDS.items() if "k" in axes}
        is_free = model.learnt >= turns - {"transition_offsets"}
        is_free &= isinstance(model.transitions.shape, FullCovariance)
        shifts = {"initial_state_mean", "transition_offsets", "observation_offsets"}
        return model.n_parameters() - is_free * k**2 - (model.learnt >= shifts) * k
