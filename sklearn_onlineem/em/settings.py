"""Settings: frozen values that scikit-learn's searches can vary."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import Self

from sklearn import get_config


class Settings:
    """Base of frozen dataclasses that are parameters of estimators: solvers, schedules, inertias.

    Values out of range raise ValueError. `clone` and searches work as with scikit-learn's nested
    parameters: `set_params` of an estimator replaces the value by another one. They are printed as
    estimators are: what is as by default is left out, unless scikit-learn is set to print all.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.__repr__ = cls.__repr__  # Else `dataclass` makes one that prints all fields.

    def __repr__(self):
        prints_all = not get_config()["print_changed_only"]
        shown = [
            f"{f.name}={value!r}"
            for f in fields(self)
            for value in [getattr(self, f.name)]
            if prints_all or f.default is MISSING or repr(value) != repr(f.default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the fields by name, those of nested settings as ``field__name`` if `deep`.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the fields of nested settings, as ``field__name``.
        """
        params = {f.name: getattr(self, f.name) for f in fields(self)}
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, Settings):
                    inner = value.get_params().items()
                    params.update((f"{name}__{key}", found) for key, found in inner)
        return params

    def with_params(self, **params: object) -> Self:
        """Return a copy with other fields, or ``field__name`` for a field of nested settings."""
        return replace(self, **merged_params(self, params))


def merged_params(owner, params):
    """Return `params` with each ``name__field`` merged into a new value of ``name``."""
    known, merged, nested = owner.get_params(deep=False), {}, {}
    for key, value in params.items():
        name, _, inner = key.partition("__")
        if name not in known:
            raise ValueError(
                f"{type(owner).__name__} has no parameter {name!r}; it has {sorted(known)}."
            )
        if inner:
            nested.setdefault(name, {})[inner] = value
        else:
            merged[name] = value
    for name, inner in nested.items():
        value = merged.get(name, known[name])
        if not isinstance(value, Settings):
            raise ValueError(
                f"{name} of {type(owner).__name__} is {value!r}, which has no parameters; pass"
                f" a value that has {', '.join(inner)}."
            )
        merged[name] = value.with_params(**inner)
    return merged
