"""Models, rows and features of mixtures, as displays need them."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.diagnostics.reading import model_and_data
from sklearn_onlineem.displays._drawing import Diamonds, Ellipses
from sklearn_onlineem.displays._planes import Plane, Projection, discriminant_directions
from sklearn_onlineem.families import Full, Gaussian, Gaussians, Laplace, StudentT, Tied
from sklearn_onlineem.models.mixture import MixtureModel


def mixture_of(estimator):
    name = type(estimator).__name__
    if not hasattr(estimator, "fit"):
        raise TypeError(f"estimator must be a mixture, got {name}.")
    check_is_fitted(estimator)
    model = getattr(estimator, "model_", None)
    if isinstance(model, MixtureModel):
        return model
    if model is not None or not hasattr(estimator, "precisions_cholesky_"):
        raise TypeError(f"estimator must be a mixture; {name} has no components with weights.")
    # It is one of scikit-learn's Gaussian mixtures.
    means, covariances = estimator.means_, np.asarray(estimator.covariances_)
    if estimator.covariance_type == "tied":
        covariances = covariances[None]
    elif estimator.covariance_type in ("diag", "spherical"):
        covariances = covariances.reshape(len(means), -1, 1) * np.eye(means.shape[1])
    family = Gaussian(Tied() if len(covariances) < len(means) else Full())
    return MixtureModel(family, estimator.weights_, Gaussians(means, covariances))


def rows_of(estimator, X):
    """Return rows as the estimator reads them, an array or CSR array; None if X is None."""
    if X is None:
        return None
    if hasattr(estimator, "model_"):
        return model_and_data(estimator, X)[1].X
    estimator.score_samples(X)  # raises the estimator's own errors
    return np.ascontiguousarray(X, dtype=np.float64)


def some_rows(X, max_rows):
    """Return at most `max_rows` rows, evenly chosen; None if X is None."""
    if X is None or len(X) <= max_rows:
        return X
    return X[np.linspace(0, len(X) - 1, max_rows).astype(int)]


def feature_names(estimator):
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"feature {j}" for j in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def chosen_features(estimator, features):
    """Return the indices of one feature or several, given by number or name."""
    names, d = feature_names(estimator), estimator.n_features_in_
    try:
        listed = [features] if isinstance(features, str | Integral) else list(features)
    except TypeError:
        listed = [None]
    chosen = []
    for feature in listed:
        if isinstance(feature, str) and feature in names:
            chosen.append(names.index(feature))
        elif isinstance(feature, Integral) and not isinstance(feature, bool) and 0 <= feature < d:
            chosen.append(int(feature))
        elif isinstance(feature, str | Integral):
            raise ValueError(
                f"features: {type(estimator).__name__} has {d} features, and no {feature!r}."
            )
        else:
            raise TypeError(f"features must be numbers or names of features, got {features!r}.")
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"features must be one or several, each once, got {features!r}.")
    return chosen


def telling(scores, n):
    """Return the numbers of the n highest scores, in ascending order."""
    return sorted(np.argsort(-scores, kind="stable")[:n].tolist())


# ------------------------------------------------------------------------------------- the plane


def projection_of(model, names, chosen=None):
    """Return the plane of two features, in which a mixture is drawn.

    None: discriminant directions about the mean of the mixture; or two features, if regions are
    known only along features.
    """
    check_planar(model)
    if chosen is None and isinstance(model.family, Laplace):
        location, scale = model.parameters
        deviations = location - model.weights @ location
        chosen = telling((model.weights @ deviations**2) / (model.weights @ scale**2), 2)
    if chosen is not None:
        axes = tuple(names[j] for j in chosen)
        return Projection(axes, np.eye(len(names))[:, chosen], np.zeros(len(names)))
    gaussians = _gaussians_of(model)
    means, covariances = gaussians.mean, gaussians.covariance
    directions = discriminant_directions(model.weights, means, covariances)
    axes = "first discriminant", "second discriminant"
    return Projection(axes, directions, model.weights @ means)


def plane_of(model, projection, X=None):
    check_planar(model)
    if isinstance(model.family, Laplace):
        location, scale = model.parameters
        regions = Diamonds(projection.points(location), scale @ projection.directions)
    else:
        gaussians, degrees = _gaussians_of(model), None
        if isinstance(model.family, StudentT):
            degrees = np.broadcast_to(model.parameters.degrees_of_freedom, model.n_components)
        projected = projection.covariances(gaussians.covariance, model.n_components)
        regions = Ellipses(projection.points(gaussians.mean), projected, degrees)
    if X is None:
        return Plane(projection.names, regions)
    components = model.posterior(Rows(X)).argmax(axis=1)
    return Plane(projection.names, regions, projection.points(X), components)


def _gaussians_of(model):
    is_student = isinstance(model.family, StudentT)
    return model.parameters.gaussians if is_student else model.parameters


def check_planar(model):
    """Raise ValueError if regions of components of the family are not known in a plane."""
    if not isinstance(model.family, Gaussian | StudentT | Laplace):
        raise ValueError(
            f"{type(model.family).__name__} components cannot be drawn in a plane; Gaussian,"
            " Student's t and Laplace components can."
        )
