"""pykalman's names of the parameters, and the parts of the model that they stand for."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from sklearn_onlineem.estimators._priors import prior_statistics
from sklearn_onlineem.families import (
    AffineGaussian,
    DiagonalCovariance,
    FullCovariance,
    LinearGaussian,
    SphericalCovariance,
)
from sklearn_onlineem.models import LinearDynamicalModel, LinearDynamicalStatistics, Regression
from sklearn_onlineem.models.linear_dynamical_start import start_arrays

__all__ = ["FIELDS", "RELATIVE_FLOOR", "SHAPES", "SystemParameters", "array_of"]

SHAPES = {
    "full": FullCovariance(),
    "diag": DiagonalCovariance(),
    "diagonal": DiagonalCovariance(),
    "spherical": SphericalCovariance(),
}


class Field(NamedTuple):
    """Where the model has what pykalman names."""

    part: str
    parameter: str
    # k for the state, d for the rows.
    axes: str


FIELDS = {
    "initial_state_mean": Field("initial", "offset", "k"),
    "initial_state_covariance": Field("initial", "covariance", "kk"),
    "transition_matrices": Field("transitions", "matrix", "kk"),
    "transition_offsets": Field("transitions", "offset", "k"),
    "transition_covariance": Field("transitions", "covariance", "kk"),
    "observation_matrices": Field("emissions", "matrix", "dk"),
    "observation_offsets": Field("emissions", "offset", "d"),
    "observation_covariance": Field("emissions", "covariance", "dd"),
}
_IDENTIFIABLE = tuple(name for name in FIELDS if name != "transition_offsets")
# pykalman's names of the parts themselves, and ours.
_PARTS = {"initial": "initial", "transition": "transitions", "observation": "emissions"}
RELATIVE_FLOOR = 1e-6
_NOISE = {"transition_covariance", "observation_covariance"}


def array_of(model, name):
    """Return the array of a model that pykalman names so."""
    return getattr(_part(model, FIELDS[name]), FIELDS[name].parameter)


def learnt_names(model):
    """Pykalman's names of what the M-step of a model changes."""
    return {name for name, field in FIELDS.items() if field.parameter in _part(model, field).learnt}


def _part(model, field):
    return getattr(model, field.part)


class SystemParameters:
    """Translates pykalman's parameters into a model, and back."""

    @property
    def _n_hidden(self):
        """Dimension of the state: what `n_dim_state` or else the given arrays say, or 1."""
        if self.n_dim_state is not None:
            return self.n_dim_state
        given = (
            np.shape(getattr(self, name))
            for name, field in FIELDS.items()
            if field.axes.endswith("k") and getattr(self, name) is not None
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
                f"em_vars of {type(self).__name__} has {unknown[0]!r}; expected names of"
                f" {list(FIELDS)}."
            )
        return frozenset(names)

    def _known(self):
        """Arrays that are given, and pykalman's defaults of what is neither given nor learnt."""
        learnt, known = self._learnt(), {}
        for name, field in FIELDS.items():
            shape = self._shape(field.axes)
            if getattr(self, name) is not None:
                known[name] = self._checked_array(name, shape)
            elif name not in learnt:
                known[name] = np.eye(*shape) if len(shape) == 2 else np.zeros(shape)
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

    def _start_arrays(self, X, begins, states, rng):
        """Arrays to start from, by pykalman's names; noise that is learnt has its shape."""
        known = {FIELDS[name][:2]: array for name, array in self._known().items()}
        arrays = start_arrays(X, begins, self._n_hidden, known, states, rng)
        arrays = {name: arrays[field[:2]] for name, field in FIELDS.items()}
        for name in self._learnt() & _NOISE:
            arrays[name] = SHAPES[getattr(self, f"{name}_type")].nearest(arrays[name])
        return arrays

    def _model(self, arrays, floor):
        """The model of arrays by pykalman's names; `floor` is that of the rows' variances."""
        state_floors = (
            self._state_floor(arrays[name])
            for name in ("initial_state_covariance", "transition_covariance")
        )
        families = map(LinearGaussian, self._noise_shapes(), (*state_floors, floor))
        parts = zip(_PARTS.values(), families, strict=True)
        return LinearDynamicalModel(
            **{part: self._regression(part, family, arrays) for part, family in parts}
        )

    def _noise_shapes(self):
        types = self.transition_covariance_type, self.observation_covariance_type
        return FullCovariance(), *(SHAPES[kind] for kind in types)

    def _regression(self, part, family, arrays):
        fields = {name: field for name, field in FIELDS.items() if field.part == part}
        values = {field.parameter: arrays[name] for name, field in fields.items()}
        values.setdefault("matrix", np.empty((self._n_hidden, 0)))
        learnt = frozenset(fields[name].parameter for name in self._learnt() & set(fields))
        return Regression(family, AffineGaussian.single(**values), learnt)

    def _state_floor(self, covariance):
        """What M-steps add to variances of the state, whose units the start decides."""
        if isinstance(self.reg_covar, Real):
            return np.full(len(covariance), float(self.reg_covar))
        return np.full(len(covariance), RELATIVE_FLOOR * np.diag(covariance).mean())

    def _prior(self, model):
        """Return `prior` as pseudo-statistics, or None."""
        if not self.prior:
            return None
        unknown = set(self.prior) - set(_PARTS)
        if unknown:
            allowed = tuple(_PARTS)
            raise ValueError(f"prior of {type(self).__name__} has keys {unknown} not of {allowed}.")
        return LinearDynamicalStatistics(
            **{part: self._prior_of(name, getattr(model, part)) for name, part in _PARTS.items()}
        )

    def _prior_of(self, name, regression):
        n_components, n_features, n_inputs = regression.parameters.matrix.shape
        return prior_statistics(
            self,
            regression.family,
            self.prior.get(name, {}),
            n_components,
            n_features=n_features,
            n_inputs=n_inputs,
            name=f"prior[{name!r}]",
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
        model, k, learnt = self.model_, self.model_.n_components, learnt_names(self.model_)
        turned = {name for name, field in FIELDS.items() if "k" in field.axes}
        is_free = learnt >= turned - {"transition_offsets"}
        is_free &= isinstance(model.transitions.family.shape, FullCovariance)
        shifted = {"initial_state_mean", "transition_offsets", "observation_offsets"}
        return model.n_parameters() - is_free * k**2 - (learnt >= shifted) * k
