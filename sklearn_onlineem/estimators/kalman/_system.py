"""Parameters of a Kalman filter: arrays that are given, what is learnt of them, and its model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real

import numpy as np
from scipy.linalg import block_diag

from sklearn_onlineem._python import cached_property, ours
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.sequences import SequencesWithInputs
from sklearn_onlineem.estimators._known import masked_parts
from sklearn_onlineem.estimators._start import prior_statistics
from sklearn_onlineem.families import Diagonal, Full, Spherical
from sklearn_onlineem.families.linear_gaussian import ALL_PARAMETERS, AffineGaussian, LinearGaussian
from sklearn_onlineem.models.fixed import FixedEntries
from sklearn_onlineem.models.kalman.linear_dynamical import (
    FIELDS,
    FIELDS_WITH_INPUTS,
    NAMES,
    VARYING,
    LinearDynamicalModel,
    LinearDynamicalStatistics,
    Varying,
    checked_array,
    split_infinite,
)
from sklearn_onlineem.models.kalman.regression import Regression
from sklearn_onlineem.structure import assembled

SHAPES = {"full": Full(), "diag": Diagonal(), "diagonal": Diagonal(), "spherical": Spherical()}


# Names of the parts: pykalman's, and ours.
_PARTS = {"initial": "initial", "transition": "transitions", "observation": "emissions"}
_RELATIVE_FLOOR, _STRUCTURE_FLOOR = 1e-6, 1e-12


def varying_names(arrays):
    return [name for name in VARYING if np.ndim(arrays.get(name)) > len(FIELDS[name].axes)]


@dataclass(frozen=True)
class System:
    """Parameters of an estimator that describe its linear dynamical system.

    `given` has arrays, or None, by pykalman's names; `params` has masks by these, or is None;
    `noise_types` has shapes by names of covariances.
    """

    given: dict
    n_dim_state: int | None
    em_vars: object
    params: dict | None
    noise_types: dict
    reg_covar: float | str
    # Names of arrays that vary in time though none of them is given.
    varying: frozenset = frozenset()
    # Of data; None: the number that given arrays show.
    n_inputs: int | None = None
    # States of each column that has a structure, whose learnt variances are in units of those of
    # changes of rows. None: there is no structure.
    n_of_column: int | None = None
    # Directions of transitions of which entries are tied, and rows of cycles of unknown periods.
    tied: Floats | None = None
    cycles: tuple[slice, ...] = ()

    @classmethod
    @lru_cache(maxsize=32)
    def of_structure(cls, structure, reg_covar, **noise_types):
        """Return the system of a tuple of components of one column, whose variances are learnt."""
        if noise_types["transition_covariance"] == "spherical":
            raise ValueError(
                "structure requires transition_covariance_type='full' or 'diag': its components"
                " have variances of their own."
            )
        parts, given = assembled(structure), dict.fromkeys(FIELDS_WITH_INPUTS)
        given |= {
            "transition_matrices": parts.transitions,
            "transition_covariance": np.diag(parts.noise),
            "observation_matrices": parts.observation[None],
            "observation_covariance": np.eye(1),
            # Beside diffuse first states, likelihoods of learnt rates have no maximum.
            "initial_state_covariance": np.diag(np.where(parts.learnt.any(axis=0), 1.0, np.inf)),
        }
        learnt = ["observation_covariance", *["transition_covariance"] * bool(parts.noise.any())]
        learnt += ["observation_input_weights"] * ("inputs" in parts.outputs)
        types = {**noise_types, "transition_covariance": "diag"}
        params = {"transition_matrices": parts.learnt}
        more = {"tied": parts.tied, "cycles": tuple(parts.cycles), "n_of_column": len(parts.noise)}
        return cls(given, None, learnt, params, types, reg_covar, **more)

    def of_columns(self, n):
        """Return the system of n columns, each of which has the structure, if there is one."""
        k = self.n_of_column
        if k is None or n == 1:
            return self
        given = {
            name: None if value is None else block_diag(*[value] * n)
            for name, value in self.given.items()
        }
        params = {name: block_diag(*[mask] * n).astype(bool) for name, mask in self.params.items()}
        tied = self.tied
        if tied is not None:
            tied = np.array([np.kron(np.diag(one), turn) for one in np.eye(n) for turn in tied])
        cycles = tuple(
            slice(j * k + own.start, j * k + own.stop) for j in range(n) for own in self.cycles
        )
        return replace(self, given=given, params=params, tied=tied, cycles=cycles)

    def of(self, data):
        """Return the system of data; ValueError if it needs inputs that these have not."""
        n_inputs = data.n_inputs // 2 if isinstance(data, SequencesWithInputs) else 0
        latest, key = self.__dict__.get("_latest"), (data.n_features, n_inputs)
        if latest is None or latest[0] != key:
            latest = self.__dict__["_latest"] = key, self._of_columns_and_inputs(*key)
        return latest[1]

    def _of_columns_and_inputs(self, n_features, n_inputs):
        system = replace(self.of_columns(n_features), n_inputs=n_inputs)
        told = [] if self.em_vars is None or isinstance(self.em_vars, str) else [*self.em_vars]
        told += [name for name, mask in (self.params or {}).items() if mask is not False]
        lacking = [name for name in told if name in {*FIELDS_WITH_INPUTS} - {*system.fields}]
        if lacking and self.n_of_column:
            raise ValueError("structure has Inputs(), and requires inputs.")
        if lacking:
            raise ValueError(f"{lacking[0]} is in em_vars or params, and requires inputs.")
        if n_inputs and self.n_of_column:
            if "observation_input_weights" not in told:
                raise ValueError("structure must have Inputs() where there are inputs.")
            blank = {"observation_input_weights": np.zeros((n_features, n_inputs))}
            system = replace(system, given=system.given | blank)
        return system

    def check_units(self, known):
        """Refuse diffuse states whose units are learnt: their likelihood has no maximum."""
        start = known.get("initial_state_covariance", np.zeros((0, 0)))
        diffuse = split_infinite(start)[1]
        if diffuse is None:
            return
        k, has_unit = len(start), ~diffuse
        # Entries that are known, and not 0, give states their units, or those of other states.
        fixed = {
            name: (array != 0.0) & np.logical_not(self.entries[name])
            for name, array in known.items()
        }
        for name in ("observation_matrices", "transition_offsets", "transition_covariance"):
            if name in fixed:
                has_unit |= fixed[name].reshape(-1, k).any(axis=0)
        if "transition_input_weights" in fixed:
            has_unit |= fixed["transition_input_weights"].any(axis=1)
        if "transition_matrices" in fixed:
            is_linked = fixed["transition_matrices"].reshape(-1, k, k).any(axis=0)
            for _ in range(k):
                has_unit |= ((is_linked | is_linked.T) & has_unit).any(axis=1)
        if not has_unit.all():
            raise ValueError(
                "initial_state_covariance is infinite for states whose units are learnt, so that"
                " their likelihood has no maximum: give observation_matrices, and leave them out"
                " of em_vars and params."
            )

    @cached_property
    def fields(self):
        """The arrays that the system has, by name."""
        n = self.n_inputs
        if n is None:
            n = any(
                self.given[name] is not None for name in FIELDS_WITH_INPUTS if name not in FIELDS
            )
        return FIELDS_WITH_INPUTS if n else FIELDS

    @cached_property
    def sizes(self):
        """Sizes by axes: `n_dim_state`, else those of the given arrays, and else one state."""
        sizes = {} if self.n_dim_state is None else {"k": self.n_dim_state}
        for name, field in FIELDS_WITH_INPUTS.items():
            if self.given[name] is not None:
                shape = np.array(self.given[name], ndmin=len(field.axes)).shape
                for axis, size in zip(reversed(field.axes), reversed(shape), strict=False):
                    sizes.setdefault(axis, size)
        if self.n_inputs is not None:
            sizes["m"] = self.n_inputs
        return {"k": 1, **sizes}

    @property
    def n_states(self):
        return self.sizes["k"]

    def _varies(self, name):
        return name in self.varying or name in varying_names(self.given)

    @cached_property
    def entries(self):
        """What is learnt of each array, by its name: True, False, or a mask."""
        known = FIELDS_WITH_INPUTS
        if self.em_vars is None:
            names = {name for name in known if not self._varies(name)} - {"transition_offsets"}
        else:
            names = known if isinstance(self.em_vars, str) else list(self.em_vars)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"em_vars has {unknown[0]!r}; it may have {', '.join(known)}.")
        learnt = {name: name in names for name in known}
        if self.params:
            axes = {name: field.axes for name, field in known.items()}
            for name in axes:
                if self._shape(name) == Diagonal():  # Masks of variances as well.
                    axes[name] += f" {axes[name][0]}"
            learnt = masked_parts(learnt | dict(self.params), axes, self.n_states)
        for name, mask in learnt.items():
            if mask is not False and self._varies(name):
                raise ValueError(
                    f"{name} varies in time, which is not learnt: leave it out of em_vars and"
                    " params."
                )
            if isinstance(mask, np.ndarray):
                learnt[name] = self._checked_mask(name, mask)
        return learnt

    def _shape(self, name):
        return SHAPES[self.noise_types.get(name, "full")]

    def _checked_mask(self, name, mask):
        """Return a mask of an array, or whether all or nothing of it is learnt."""
        if mask.all() or not mask.any():
            return bool(mask.all())
        label = f"params[{name!r}]"
        if not name.endswith("covariance"):
            return mask
        if mask.ndim == 1:
            mask = np.diag(mask)
        if (mask != mask.T).any():
            raise ValueError(f"{label} must be symmetric.")
        shape = self._shape(name)
        if shape == Spherical():
            raise ValueError(f"{label} must be True or False: the noise has one variance.")
        if shape == Diagonal() and (mask & ~np.eye(len(mask), dtype=bool)).any():
            raise ValueError(
                f"{label} must be False off the diagonal, or of shape ({len(mask)},): the noise has"
                " variances only."
            )
        return mask

    def learnt(self):
        """Return the names of the arrays that the M-step changes, at least in part."""
        return frozenset(name for name in self.fields if self.entries[name] is not False)

    def _fixed(self, part, regression):
        """Return the `FixedEntries` of a regression, or None.

        They depend on which variances and covariances are 0, and what is computed of them is kept.
        """
        key = part, regression.matrix.shape, (regression.covariance != 0.0).tobytes()
        known = self.__dict__.setdefault("_known_entries", {})
        if key not in known:
            arrays = {what: getattr(regression, what) for what in ALL_PARAMETERS}
            known[key] = self._fixed_entries(part, arrays)
        return known[key]

    def _fixed_entries(self, part, arrays):
        masks = {what: np.zeros(array.shape, dtype=bool) for what, array in arrays.items()}
        is_partial = False
        for name, field in self.fields.items():
            if field.part != part:
                continue
            array, mask = arrays[field.learnt], self.entries[name]
            place = field.place(self.n_states)
            is_mask, shape = isinstance(mask, np.ndarray), array[place].shape
            if is_mask and mask.shape != shape:
                raise ValueError(
                    f"params[{name!r}] has shape {mask.shape}, but the array has {shape}."
                )
            is_partial |= is_mask
            masks[field.learnt][place] = ~mask if is_mask else mask is False
            if field.parameter == "covariance" and mask is not False:
                is_partial |= bool((array.diagonal() == 0.0).any())
        # One of two arrays that are side by side may be known.
        is_partial |= masks["matrix"].any() and not masks["matrix"].all()
        if part == "transitions" and self.tied is not None:
            more = arrays["matrix"].shape[1] - self.n_states
            masks["tied"] = np.pad(self.tied, ((0, 0), (0, 0), (0, more)))
        elif not is_partial:
            return None
        fixed, name = FixedEntries(**masks), NAMES[part, "covariance"]
        try:
            fixed.blocks(arrays["covariance"])
        except ours(ValueError) as error:
            raise ValueError(f"params[{name!r}] {error}") from None
        return fixed

    def learning(self, model):
        """Return a model that learns these arrays."""
        # In an order that does not depend on hashes, by which Dask would know models.
        names, parts = self.learnt(), {}
        learnt = [field for name, field in self.fields.items() if name in names]
        for part in _PARTS.values():
            own = dict.fromkeys(field.learnt for field in learnt if field.part == part)
            regression = getattr(model, part)
            fixed = self._fixed(part, regression)
            parts[part] = replace(regression, learnt=tuple(own), fixed=fixed)
        return replace(model, **parts)

    @property
    def relative_floor(self):
        return _STRUCTURE_FLOOR if self.n_of_column else _RELATIVE_FLOOR

    def known(self, n_features, attributes=None):
        """Return given arrays, and defaults of those neither given nor learnt.

        With `attributes`, these come first, and all others are there.
        """
        sizes, learnt, known = {**self.sizes, "d": n_features}, self.learnt(), {}
        attributes, learnt = attributes or {}, learnt if attributes is None else frozenset()
        for name, field in self.fields.items():
            shape = tuple(sizes[axis] for axis in field.axes)
            if f"{name}_" in attributes:
                value, label = attributes[f"{name}_"], f"{name}_"
            else:
                value, label = self.given[name], name
            if value is not None and self.n_of_column and label == name:
                known[name] = value
            elif value is not None:
                if name in VARYING and np.ndim(value) > len(shape):
                    shape = (len(value), *shape)
                known[name] = self._checked_value(name, value, shape, label)
            elif isinstance(self.entries[name], np.ndarray):
                raise ValueError(
                    f"params[{name!r}] fixes entries, so the array {name} must be given, too."
                )
            elif name not in learnt:
                is_unit = len(shape) == 2 and field.parameter != "inputs"
                known[name] = np.eye(*shape) if is_unit else np.zeros(shape)
        return known

    def _checked_value(self, name, value, shape, label):
        array, form = checked_array(name, value, shape, label), self._shape(name)
        if not name.endswith("covariance") or self.entries[name] is False or form == Full():
            return array
        # In these shapes, zeros and fixed entries stay, and the others are learnt.
        variances, is_mask = array.diagonal(), isinstance(self.entries[name], np.ndarray)
        if (is_mask or not variances.all()) and (array != np.diag(variances)).any():
            raise ValueError(f"{label} must be diagonal where some of its entries are fixed.")
        if form == Spherical() and variances.any() and not variances.all():
            raise ValueError(
                f"{label} has variances of 0, which stay 0, and others; choose another type of"
                " noise than 'spherical'."
            )
        return array

    def known_model(self, arrays):
        """Return the model of arrays, with a floor that data do not determine."""
        variances = np.diag(arrays["observation_covariance"])
        if self.reg_covar == "relative":
            return self.model(arrays, self.relative_floor * variances)
        return self.model(arrays, np.full(len(variances), float(self.reg_covar)))

    def model(self, arrays, floor):
        """Return the model of arrays, with a floor of the variances of rows."""
        varying = {name: arrays[name] for name in varying_names(arrays)}
        known, diffuse = split_infinite(arrays["initial_state_covariance"])
        arrays = {**arrays, "initial_state_covariance": known}
        arrays |= {name: np.zeros_like(array[0]) for name, array in varying.items()}
        parts, shapes = {}, (Full(), *(SHAPES[kind] for kind in self.noise_types.values()))
        for part, shape in zip(_PARTS.values(), shapes, strict=True):
            fields = {name: field for name, field in self.fields.items() if field.part == part}
            values = {field.parameter: arrays[name] for name, field in fields.items()}
            values.setdefault("matrix", np.empty((self.n_states, 0)))
            if "inputs" in values:
                values["matrix"] = np.hstack([values["matrix"], values.pop("inputs")])
            if part == "emissions":
                least = floor
            elif isinstance(self.reg_covar, Real):
                least = np.full(self.n_states, float(self.reg_covar))
            else:  # in the units of the start; EM is slow, and adds the floor to small noise often
                own = self.n_of_column or self.n_states
                variance = np.diag(values["covariance"]).reshape(-1, own).mean(axis=1)
                least = np.repeat(1e-3 * self.relative_floor * variance, own)
            parts[part] = Regression(LinearGaussian(shape, least), AffineGaussian.single(**values))
        parts["varying"] = Varying(**varying) if varying else None
        return self.learning(LinearDynamicalModel(**parts, diffuse=diffuse))


def system_prior(prior, model):
    unknown = set(prior) - set(_PARTS)
    if unknown:
        raise ValueError(f"prior has keys {unknown} not of {tuple(_PARTS)}.")
    statistics = {}
    for name, part in _PARTS.items():
        regression = getattr(model, part)
        n_components, n_features, n_inputs = regression.parameters.matrix.shape
        statistics[part] = prior_statistics(
            regression.family, prior.get(name, {}), n_components, n_features=n_features,
            n_inputs=n_inputs, name=f"prior[{name!r}]",
        )  # fmt: skip
    return LinearDynamicalStatistics(**statistics)
