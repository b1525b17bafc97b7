"""Information criteria and held-out scores against the number of components."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._typing import SequenceData
from sklearn_onlineem.displays._drawing import (
    Axes,
    Display,
    Style,
    colors,
    line_styles,
    without_frame,
)
from sklearn_onlineem.displays._inputs import check_suits, floats_of, unsuitable

_MARKERS = {"bic": "o", "aic": "s", "score": "D"}
_SCORES = "mean_test_"


class ModelSelectionDisplay(Display):
    r"""BIC, AIC and held-out scores against the number of components.

    Scores alone are drawn as they are: higher is better. With BIC or AIC all are in nats per
    sample, and lower is better: :math:`\mathrm{BIC} / 2n`, :math:`\mathrm{AIC} / 2n`, and the
    negative score, which AIC estimates. The best of each is marked.

    Parameters
    ----------
    n_components : array-like of shape (n_models,)
        Values on the horizontal axis: numbers of components, or numbers or texts of another
        parameter.
    bic, aic : array-like of shape (n_models,), default=None
        Information criteria on `n_samples` samples.
    score : array-like of shape (n_models,), default=None
        Held-out scores; with BIC or AIC log-likelihoods per sample, in nats.
    score_std : array-like of shape (n_models,), default=None
        Their standard deviations over folds, drawn as a band.
    n_samples : int, default=None
        Samples of BIC and AIC; required with these.
    parameter : str, default="n_components"
        Name of the horizontal axis.

    Attributes
    ----------
    ax_ : Axes
    lines_ : dict of str to Line2D
        Of "bic", "aic" and "score", if they are given.
    marks_ : dict of str to Line2D
        The best of each.
    best_ : dict of str to int, float or str
        The best number of components by each, or value of the other parameter.
    band_ : FillBetweenPolyCollection or None

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.displays import ModelSelectionDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.choice([1.0, 20.0], size=(300, 1)))
    >>> mixtures = [PoissonMixture(n, random_state=0).fit(X) for n in (1, 2, 3)]
    >>> ModelSelectionDisplay.from_estimators(mixtures, X).best_
    {'bic': 2, 'aic': 2}
    """

    ax_: Axes

    def __init__(
        self,
        n_components: ArrayLike,
        *,
        bic: ArrayLike | None = None,
        aic: ArrayLike | None = None,
        score: ArrayLike | None = None,
        score_std: ArrayLike | None = None,
        n_samples: int | None = None,
        parameter: str = "n_components",
    ):
        self.n_components = np.asarray(n_components)
        given = {"bic": bic, "aic": aic, "score": score, "score_std": score_std}
        for name, values in given.items():
            whose = f"{name} of ModelSelectionDisplay"
            setattr(self, name, floats_of(whose, values, self.n_components.shape))
        self.n_samples, self.parameter = n_samples, parameter
        if not self._names():
            raise ValueError("ModelSelectionDisplay needs at least one of bic, aic and score.")
        if self._is_cost() and not (n_samples is not None and n_samples > 0):
            raise ValueError("ModelSelectionDisplay needs n_samples above 0 with bic and aic.")

    @classmethod
    def from_estimator(
        cls, estimator: object, *, parameter: str = "n_components", **options: object
    ) -> Self:
        """Draw the scores of a search over the number of components.

        Parameters
        ----------
        estimator : estimator
            A fitted `GridSearchCV`, or another search with `cv_results_`, over the number of
            components, also of a step of a pipeline. Of several candidates with one number the best
            is drawn; of several metrics the one of `refit`.
        parameter : str, default="n_components"
            Name of the parameter that was searched, without the names of steps.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If the search is not fitted, or it is no search.
        ValueError
            If it did not search over the parameter, or has several metrics and `refit` names none.
        """
        because = "it is no search with cv_results_; from_estimators draws fitted estimators."
        check_suits(estimator, cls, ["fit", "get_params"], because)
        if not hasattr(estimator, "cv_results_"):
            raise unsuitable(estimator, cls, because)
        results, name = estimator.cv_results_, type(estimator).__name__
        if _SCORES + "score" in results:
            metric = "score"
        elif isinstance(estimator.refit, str):
            metric = estimator.refit
        else:
            raise ValueError(f"{name} has several metrics: refit= must name the one to draw.")
        keys = [key for key in results if key.startswith("param_")]
        keys = [key for key in keys if key.removeprefix("param_").split("__")[-1] == parameter]
        if len(keys) != 1:
            raise ValueError(f"{name} did not search over one {parameter}: found {keys}.")
        if np.ma.is_masked(results[keys[0]]):
            raise ValueError(f"{name}: some candidates have no {parameter}.")
        numbers = np.array(results[keys[0]].tolist())
        scores = results[_SCORES + metric]
        kept = _best_of_each(numbers, scores)
        band = results["std_test_" + metric][kept]
        score = {"score": scores[kept], "score_std": band, "parameter": parameter}
        return cls(numbers[kept], **score).plot(**options)

    @classmethod
    def from_estimators(
        cls,
        estimators: Iterable[object],
        X: SequenceData,
        X_test: SequenceData | None = None,
        *,
        parameter: str = "n_components",
        **options: object,
    ) -> Self:
        """Draw BIC and AIC of fitted estimators on X, and their scores on other data.

        Parameters
        ----------
        estimators : list of estimators
            Fitted, with `bic` and `aic`. Of several with one number of components the best by each
            criterion is drawn.
        X : object
            Data that they were fitted to.
        X_test : object, default=None
            Held-out data.
        parameter : str, default="n_components"
            Name of the parameter in which they differ.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If an estimator is not fitted, or has no `bic`, `aic`, `score_samples` or `parameter`.
        """
        estimators = list(estimators)
        if not estimators:
            raise ValueError("estimators of from_estimators must not be empty.")
        for estimator in estimators:
            because = f"it needs bic, aic, score_samples and {parameter}."
            check_suits(estimator, cls, ["bic", "aic", "score_samples"], because)
            if not hasattr(estimator, parameter):
                raise unsuitable(estimator, cls, because)
        numbers = np.array([getattr(estimator, parameter) for estimator in estimators])
        bic = np.array([estimator.bic(X) for estimator in estimators])
        aic = np.array([estimator.aic(X) for estimator in estimators])
        by_bic, by_aic = _best_of_each(numbers, -bic), _best_of_each(numbers, -aic)
        n_samples = len(estimators[0].score_samples(X))
        criteria = {"bic": bic[by_bic], "aic": aic[by_aic], "n_samples": n_samples}
        if X_test is not None:
            scores = np.array([estimator.score(X_test) for estimator in estimators])
            criteria["score"] = scores[_best_of_each(numbers, scores)]
        return cls(numbers[by_bic], **criteria, parameter=parameter).plot(**options)

    def plot(self, ax: Axes | None = None, *, line_kw: Style | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : Axes, default=None
            None: those of a new figure.
        line_kw : dict, default=None
            Further arguments of `Axes.plot`.
        """
        from matplotlib.ticker import MaxNLocator

        (ax,), is_cost = self._axes(ax), self._is_cost()
        self.lines_, self.marks_, self.best_, self.band_ = {}, {}, {}, None
        looks = zip(self._names(), colors(3), line_styles(3), strict=False)
        for name, color, line_style in looks:
            values = getattr(self, name)
            if name == "score":
                values, label = -values if is_cost else values, "held out"
            else:
                values, label = values / (2.0 * self.n_samples), f"{name.upper()} / 2n"
            best = int(np.nanargmin(values) if is_cost else np.nanargmax(values))
            self.best_[name] = self.n_components[best].item()
            label = f"{label}, best {self.best_[name]}"
            style = {"color": color, "linestyle": line_style, "label": label}
            style |= {"marker": _MARKERS[name], "markersize": 3.5 if len(values) <= 25 else 0.0}
            line = ax.plot(self.n_components, values, **{**style, **(line_kw or {})})[0]
            at = {"linestyle": "none", "color": line.get_color(), "marker": _MARKERS[name]}
            size = {"markersize": 9.0, "markerfacecolor": "none", "markeredgewidth": 1.6}
            mark = ax.plot(self.n_components[best], values[best], **at, **size)[0]
            self.lines_[name], self.marks_[name] = line, mark
            if name == "score" and self.score_std is not None:
                band = values - self.score_std, values + self.score_std
                look = {"color": line.get_color(), "alpha": 0.18, "linewidth": 0.0}
                self.band_ = ax.fill_between(self.n_components, *band, **look)
        unit = "nats per sample (lower is better)" if is_cost else "score (higher is better)"
        xlabel = "number of components" if self.parameter == "n_components" else self.parameter
        ax.set(xlabel=xlabel, ylabel=unit)
        if np.issubdtype(self.n_components.dtype, np.integer):
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.legend()
        without_frame(ax)
        return self

    def _names(self):
        return [name for name in _MARKERS if getattr(self, name) is not None]

    def _is_cost(self):
        return self.bic is not None or self.aic is not None


def _best_of_each(numbers, values):
    """Return the index of the highest value for each number, in ascending order."""
    order = np.lexsort((-values, numbers))
    return order[np.unique(numbers[order], return_index=True)[1]]
