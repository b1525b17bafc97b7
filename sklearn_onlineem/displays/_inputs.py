"""Estimators, rows, sequences and features, as displays need them."""

from collections.abc import Iterable
from numbers import Integral

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem._checks import require
from sklearn_onlineem._python import ours
from sklearn_onlineem.diagnostics.reading import model_and_data
from sklearn_onlineem.estimators.sequence_forms import dates_of
from sklearn_onlineem.families import Categorical, Full, Gaussian, Gaussians, Product, Tied
from sklearn_onlineem.models.mixtures.mixture import MixtureModel


def check_suits(estimator, display, methods, because):
    """Raise TypeError if an estimator lacks what a display needs, NotFittedError if unfitted.

    `because` says in the message what the display needs.
    """
    if isinstance(estimator, type) or not all(hasattr(type(estimator), m) for m in methods):
        raise unsuitable(estimator, display, because)
    check_is_fitted(estimator)
    # Instances of a class may lack a method, such as pipelines whose last step does.
    if not all(hasattr(estimator, m) for m in methods):
        raise unsuitable(estimator, display, because)


def unsuitable(estimator, display, because):
    """Return the error that a display can't show such an estimator."""
    name = getattr(estimator, "__name__", type(estimator).__name__)
    return TypeError(f"{display.__name__} can't show {name}: {because}")


def one_sequence(X, display):
    """Return the rows of one sequence as floats, NaN for gaps, names of columns, and any dates."""
    whose, one = f"X of {display.__name__}", "one sequence of numbers, (n_rows, n_features)"
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    columns = frame.columns if isinstance(frame, nw.DataFrame) else None
    try:
        rows = np.ma.asarray(X) if columns is None else frame.to_numpy()
        rows = np.ma.filled(np.ma.asarray(rows).astype(float), np.nan)
    except ours(TypeError, ValueError) as error:
        raise ValueError(f"{whose} must be {one}, not a list of sequences.") from error
    rows = rows[:, None] if rows.ndim == 1 else rows
    require(rows.ndim == 2 and rows.size, whose, one, rows.shape)
    if columns is None:
        return rows, [f"feature {j}" for j in range(rows.shape[1])], None
    dates = dates_of(X)
    return rows, [str(name) for name in columns], None if dates is None else dates.astype(str)


def index_of(feature, names):
    """Return the index of a feature that is given by its number or name."""
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, bool) or not isinstance(feature, str | Integral):
        raise TypeError(f"features must be numbers or names of features, got {feature!r}.")
    if isinstance(feature, str) or not 0 <= feature < len(names):
        raise ValueError(f"there is no feature {feature!r}; there are {len(names)}: {names!r:.80}.")
    return int(feature)


def floats_of(name, values, shape):
    """Return values as floats, None as None; ValueError unless they are of this shape."""
    if values is None:
        return None
    values = np.asarray(values, dtype=float)
    require(values.shape == shape, name, f"of shape {shape}", values.shape)
    return values


def state_names(names, n_states):
    names = range(n_states) if names is None else list(names)
    require(len(names) == n_states, "names", f"names of all {n_states} states", len(names))
    return [str(name) for name in names]


def read_mixture(estimator, display, X=None, features=None):
    """Return the model of a fitted mixture, names of its features, those chosen, and rows.

    Features may be one or several, given by number or name, or None; rows are as the estimator
    reads them, an array or CSR array, or None.
    """
    model = mixture_of(estimator, display)
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"feature {j}" for j in range(estimator.n_features_in_)]
    names, chosen = list(map(str, names)), None
    if features is not None:
        is_one = isinstance(features, str) or not isinstance(features, Iterable)
        chosen = [index_of(feature, names) for feature in ([features] if is_one else features)]
        are_several = 0 < len(chosen) == len(set(chosen))
        require(are_several, "features", "one or several, each once", features)
    if X is not None and hasattr(estimator, "model_"):
        X = model_and_data(estimator, X)[1].X
    elif X is not None:
        estimator.score_samples(X)  # raises the estimator's own errors
        X = np.ascontiguousarray(X, dtype=np.float64)
    return model, names, chosen, X


def mixture_of(estimator, display):
    because = "it is no mixture, which has components with weights."
    check_suits(estimator, display, ["fit"], because)
    model = getattr(estimator, "model_", None)
    if isinstance(model, MixtureModel):
        return model
    if model is not None or not hasattr(estimator, "precisions_cholesky_"):
        raise unsuitable(estimator, display, because)
    # It is one of scikit-learn's Gaussian mixtures.
    means, covariances = estimator.means_, np.asarray(estimator.covariances_)
    if estimator.covariance_type == "tied":
        covariances = covariances[None]
    elif estimator.covariance_type in ("diag", "spherical"):
        covariances = covariances.reshape(len(means), -1, 1) * np.eye(means.shape[1])
    family = Gaussian(Tied() if len(covariances) < len(means) else Full())
    return MixtureModel(family, estimator.weights_, Gaussians(means, covariances))


def categories_of(estimator, family):
    """Return the texts of the categories of each nominal column, by column."""
    texts = getattr(estimator, "categories_", ())
    groups = [(family, range(len(texts)))]
    if isinstance(family, Product):
        groups = zip(family.families, family.columns, strict=True)
    nominal = [columns for one, columns in groups if isinstance(one, Categorical)]
    columns = sorted(j for group in nominal for j in group)
    return {j: list(map(str, found)) for j, found in zip(columns, texts, strict=True)}
