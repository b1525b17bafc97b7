"""Mixtures as models of river, which learn dicts one at a time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from sklearn_onlineem._python import ours
from sklearn_onlineem.estimators.mixtures.gaussian import GaussianMixture

try:
    from river import base
except ImportError as error:
    raise ImportError("sklearn_onlineem.interop.river needs river: pip install river") from error


class _Adapter:
    """What clusterers and detectors share: rows from dicts, and the methods of river over them."""

    def __init__(self, estimator: BaseEstimator) -> None:
        takes = get_tags(estimator).input_tags
        if takes.three_d_array or not takes.two_d_array or not hasattr(estimator, "partial_fit"):
            raise TypeError(
                f"estimator of {type(self).__name__} must learn rows by partial_fit, got"
                f" {type(estimator).__name__}; sequences that continue are learnt by"
                " partial_fit(piece, continues=True)."
            )
        self.estimator = estimator
        self.learner = clone(estimator)
        self.keys: list[Hashable] | None = None

    def learn_one(self, x: Mapping[Hashable, float], w: float = 1.0) -> None:
        """Learn one row.

        Parameters
        ----------
        x : dict
            Numbers by the names of columns.
        w : float, default=1.0
            Weight of the row; one of weight 0 changes nothing.

        Raises
        ------
        ValueError
            If a key is new, or missing and needed, or its value is no number. Nothing is learnt.
        """
        if w == 0:
            return
        keys, weight = self._columns(x), {} if w == 1.0 else {"sample_weight": [w]}
        self._call("partial_fit", x, keys, self._row(x, keys), **weight)
        self.keys = keys

    def learn_many(self, X: object) -> None:
        """Learn the rows of a data frame in one step.

        Parameters
        ----------
        X : data frame
            Of any library; its columns are as the keys of a dict.

        Raises
        ------
        ValueError
            As `learn_one`.
        """
        X = nw.from_native(X, eager_only=True)
        keys, gap = self._columns(X.columns), np.full(len(X), math.nan)
        columns = [np.asarray(X[key], float) if key in X.columns else gap for key in keys]
        self._call("partial_fit", X.columns, keys, np.column_stack(columns))
        self.keys = keys

    def _columns(self, found):
        """Return the keys of the columns, those that were found if nothing is learnt yet."""
        return sorted(found, key=str) if self.keys is None else self.keys

    def predict_one(self, x: Mapping[Hashable, float]) -> int:
        """Return the most probable component of a row.

        Parameters
        ----------
        x : dict
            As in `learn_one`.

        Returns
        -------
        component : int

        Raises
        ------
        ValueError
            As `learn_one`.
        """
        return int(self._infer("predict", x)[0]) if self.keys is not None else 0

    def predict_proba_one(self, x: Mapping[Hashable, float]) -> dict[int, float]:
        """Return the responsibilities of the components for a row.

        Parameters
        ----------
        x : dict
            As in `learn_one`.

        Returns
        -------
        responsibilities : dict of int -> float

        Raises
        ------
        ValueError
            As `learn_one`.
        """
        if self.keys is None:
            return {}
        return dict(enumerate(self._infer("predict_proba", x)[0].tolist()))

    def score_one(self, x: Mapping[Hashable, float]) -> float:
        """Return how surprising a row is.

        Parameters
        ----------
        x : dict
            As in `learn_one`.

        Returns
        -------
        score : float
            Its negative log-likelihood in nats; larger is more anomalous.

        Raises
        ------
        ValueError
            As `learn_one`.
        """
        return -float(self._infer("score_samples", x)[0]) if self.keys is not None else 0.0

    def _infer(self, method, x):
        return self._call(method, x, self.keys, self._row(x, self.keys))

    def _call(self, method, found, keys, rows, **arguments):
        """Call a method of the learner; refuse new keys, and name missing ones if it fails."""
        name, known = type(self).__name__, set(keys)
        new = [key for key in found if key not in known]
        if new:
            raise ValueError(f"{name}: {_listed(new)} is new; the columns are {_listed(keys)}.")
        try:
            return getattr(self.learner, method)(rows, **arguments)
        except ours(ValueError) as error:
            missing = [key for key in keys if key not in found]
            if not missing:
                raise
            raise ValueError(f"{name}: {_listed(missing)} is missing. {error}") from error

    def _row(self, x, keys):
        """Return the array of one row; None and missing values are NaN."""
        values = []
        for key in keys:
            value = x.get(key)
            try:
                values.append(math.nan if value is None else float(value))
            except ours(TypeError, ValueError):
                name = type(self).__name__
                raise ValueError(f"{name}: {key!r} must be a number, got {value!r}.") from None
        return np.array([values])

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, object]]:
        yield {"estimator": GaussianMixture(2, random_state=0)}

    def _unit_test_skips(self) -> set[str]:
        """Checks of river that want more keys than the columns."""
        return {"check_emerging_features"}


def _listed(keys):
    return ", ".join(map(repr, keys))


class RiverClusterer(_Adapter, base.Clusterer):
    """Let river use a mixture as a clusterer, a row at a time.

    The keys of the first dict are the columns, sorted by their names. Later dicts must not have
    others. Values that are missing, or None, are NaN: most mixtures integrate them out, and a
    pipeline with an imputer fills them for the others. Before anything is learnt, clusters and
    scores are 0, and there are no probabilities.

    Parameters
    ----------
    estimator : estimator with `partial_fit`
        A mixture of this library, or a :class:`~sklearn_onlineem.StreamPipeline` or a
        :class:`~sklearn_onlineem.PrequentialSearch` of one. It is cloned, and stays as it is.

    Attributes
    ----------
    learner : estimator
        The clone that learns.
    keys : list, or None
        Keys of the columns; None before the first dict.
    centers : dict of int -> dict
        Means of the components, as river's clustering metrics want them; only for estimators with
        `means_`.

    See Also
    --------
    RiverDetector : Scores instead of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from river import preprocessing
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.interop.river import RiverClusterer
    >>> rng = np.random.default_rng(0)
    >>> model = preprocessing.StandardScaler() | RiverClusterer(GaussianMixture(2, random_state=0))
    >>> for watts in rng.choice([-5.0, 5.0], size=1000) + rng.normal(size=1000):
    ...     model.learn_one({"watts": watts})
    >>> model.predict_one({"watts": -5.0}) != model.predict_one({"watts": 5.0})
    True
    """

    @property
    def centers(self) -> dict[int, dict[Hashable, float]]:
        means = self.learner.means_.tolist()
        return {k: dict(zip(self.keys, mean, strict=True)) for k, mean in enumerate(means)}


class RiverDetector(_Adapter, base.AnomalyDetector):
    """Let river use a mixture as an anomaly detector, a row at a time.

    Scores are negative log-likelihoods in nats: no probabilities, so that of river's metrics
    ``RollingROCAUC`` takes them, and ``ROCAUC`` does not. Keys, and answers before anything is
    learnt, are as of `RiverClusterer`.

    Parameters
    ----------
    estimator : estimator with `partial_fit` and `score_samples`
        Like those of `RiverClusterer`.

    Attributes
    ----------
    learner, keys
        Like those of `RiverClusterer`.

    See Also
    --------
    RiverClusterer : Clusters instead of scores.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.interop.river import RiverDetector
    >>> model, rng = RiverDetector(GaussianMixture(random_state=0)), np.random.default_rng(0)
    >>> for watts in rng.normal(size=1000):
    ...     model.learn_one({"watts": watts})
    >>> round(model.score_one({"watts": 0.0}), 1), round(model.score_one({"watts": 9.0}), 1)
    (0.9, 47.2)
    """
