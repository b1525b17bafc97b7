"""StepMix's mixtures of columns of several kinds: scores of given parameters, and EM passes."""

import numpy as np
from stepmix import StepMix

# Names of families: models of StepMix, also for missing values, and parameters as it has them.
MODELS = {
    "gaussian_full": ("gaussian_full", None, lambda p: _gaussians(p)),
    "gaussian_diag": ("gaussian_diag", "gaussian_diag_nan", lambda p: _gaussians(p)),
    "bernoulli": ("binary", "binary_nan", lambda p: {"pis": p}),
    "categorical": ("categorical", "categorical_nan", None),
}


def _gaussians(parameters):
    return {"means": parameters.mean, "covariances": parameters.covariance}


def _categories(family, parameters):
    """Return probabilities as StepMix has them: as many for each column."""
    parts = family.probabilities(parameters)
    sizes = [part.shape[1] for part in parts]
    padded = [np.pad(part, ((0, 0), (0, max(sizes) - part.shape[1]))) for part in parts]
    return {
        "pis": np.concatenate(padded, axis=1),
        "max_n_outcomes": max(sizes),
        "total_outcomes": sum(sizes),
    }


def descriptor(groups, has_gaps=False):
    """Return StepMix's description of groups [(name of family, number of columns)], in order."""
    return {
        f"group{g}": {"model": MODELS[name][int(has_gaps)], "n_columns": n}
        for g, (name, n) in enumerate(groups)
    }


def score(mixture, groups, X, has_gaps=False):
    """Return StepMix's mean log-likelihood of rows at a fitted mixture of ours, and its size.

    The columns of `X` come in the order of the groups.
    """
    model = StepMix(
        len(mixture.weights_), measurement=descriptor(groups, has_gaps), max_iter=1, verbose=0,
        progress_bar=0, random_state=0,
    )  # fmt: skip
    model.fit(X)
    measurement = {}
    factors = zip(groups, mixture.model_.family.families, mixture.parameters_, strict=True)
    for g, ((name, _), family, parameters) in enumerate(factors):
        translated = MODELS[name][2]
        measurement[f"group{g}"] = (
            _categories(family, parameters) if translated is None else translated(parameters)
        )
    model.set_parameters({
        "weights": mixture.weights_, "measurement": measurement, "measurement_in": X.shape[1],
    })  # fmt: skip
    return model.score(X), model.n_parameters


def fits(X, groups, n_components, has_gaps=False, seed=0):
    """Return a function that makes so many passes of EM."""

    def run(n_passes):
        model = StepMix(
            n_components, measurement=descriptor(groups, has_gaps), max_iter=n_passes,
            abs_tol=0.0, rel_tol=0.0, verbose=0, progress_bar=0, random_state=seed,
        )  # fmt: skip
        return model.fit(X)

    return run
