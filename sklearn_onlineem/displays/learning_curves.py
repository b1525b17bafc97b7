"""Learning curves: log-likelihoods, learning rates and the sizes of updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem._checks import check_count, require
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.displays._drawing import Axes, AxesOrMany, Display, figure_size
from sklearn_onlineem.displays._inputs import check_suits, floats_of
from sklearn_onlineem.em.state import AnyStep

_PANELS = {
    "log_likelihood": "log-likelihood\nbefore the update\n(nats per observation)",
    "eta": "learning rate",
    "kl_divergence": "KL(new || old)\n(nats)",
    "certificate": "certificate\n(nats)",
}
_USUAL = ["log_likelihood", "eta", "kl_divergence"]


class LearningCurve(NamedTuple):
    """Arrays of the records of updates.

    Attributes
    ----------
    n_rows : ndarray of shape (n_updates,)
        Rows read up to and including each update.
    log_likelihood : ndarray of shape (n_updates,)
        Mean log-likelihood of each batch before the update, in nats per observation.
    eta : ndarray of shape (n_updates,), default=None
        Learning rates; infinity for steps of batch EM.
    kl_divergence : ndarray of shape (n_updates,), default=None
        Joint KL(new model || old model), in nats per observation.
    certificate : ndarray of shape (n_updates,), default=None
        Of each batch, in nats per observation.
    """

    n_rows: Integers
    log_likelihood: Floats
    eta: Floats | None = None
    kl_divergence: Floats | None = None
    certificate: Floats | None = None

    @classmethod
    def of(cls, steps: Iterable[AnyStep]) -> Self:
        """Return the curve of steps, from `history_` or a callback.

        Parameters
        ----------
        steps : iterable of Step
            In order.
        """
        steps = list(steps)
        return cls(*(np.array([getattr(step, name) for step in steps]) for name in cls._fields))


class LearningCurveDisplay(Display):
    """Learning curves: log-likelihoods, learning rates and divergences against rows read.

    Batches of a stream are scored *before* the model learns them, so that no held-out data are
    needed. Steps of batch EM, and the first step of a stream, have learnt their rows already; they
    are drawn as marks. Unlike scikit-learn's `LearningCurveDisplay`, which fits an estimator to
    training sets of several sizes, this one shows the history of a fit or stream.

    Parameters
    ----------
    curves : dict of LearningCurve by str
        Curves by name. A ValueError is raised if there is none, or arrays of a curve have different
        lengths.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes, or one
        One for each panel, one above the other.
    lines_ : dict of matplotlib Line2D by (panel, name)
        Online updates; log-likelihoods are moving averages if there are many.
    marks_ : dict of matplotlib Line2D by name
        Log-likelihoods of steps of batch EM, if there are any.
    raw_lines_ : dict of matplotlib Line2D by name
        Log-likelihoods of single updates, pale, if the line is an average.

    Examples
    --------
    A stream and batch EM on the same rows:

    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.displays import LearningCurveDisplay
    >>> X = np.random.default_rng(0).poisson(5.0, size=(1000, 1))
    >>> stream = PoissonMixture(2, random_state=0)
    >>> for batch in np.split(X, 20):
    ...     stream = stream.partial_fit(batch)
    >>> batch = PoissonMixture(2, solver="batch", tol=0.0, max_iter=3, random_state=0).fit(X)
    >>> display = LearningCurveDisplay.from_estimator({"online": stream, "batch": batch})
    >>> display.marks_["batch"].get_xdata()
    array([1000, 2000, 3000])
    """

    ax_: Axes | NDArray[np.object_]

    def __init__(self, curves: Mapping[str, LearningCurve]):
        if not curves:
            raise ValueError("curves must have one curve at least.")
        self.curves = {str(name): _checked(name, curve) for name, curve in curves.items()}

    @classmethod
    def from_estimator(cls, estimator: object, **options: object) -> Self:
        """Draw the history of one fitted estimator, or of several.

        Parameters
        ----------
        estimator : object, or dict of objects by str
            Estimators of the library, by name. A `history_` has the latest 10,000 updates; for
            more, use a list of steps (``callbacks=[steps.append]``) or a `LearningCurve` instead of
            an estimator.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If an estimator is not fitted, or has no `history_`.
        """
        if not isinstance(estimator, dict):
            estimator = {type(estimator).__name__: estimator}
        curves = {}
        for name, one in estimator.items():
            if not isinstance(one, LearningCurve | list):
                check_suits(one, cls, ["history_"], "it has no history_.")
                one = one.history_
            curves[name] = one if isinstance(one, LearningCurve) else LearningCurve.of(one)
        return cls(curves).plot(**options)

    def plot(
        self,
        ax: AxesOrMany | None = None,
        *,
        panels: Iterable[str] | None = None,
        window: int | None = None,
    ) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, or array of them, default=None
            One for each panel. None: those of a new figure.
        panels : list of str, default=None
            Of "log_likelihood", "eta", "kl_divergence" and "certificate". None: the first three, if
            they are not empty; with `ax`, as many of them as it has axes.
        window : int, default=None
            Updates in a moving average of log-likelihoods, weighted by their rows: each update and
            those before. None: one in 25 of the updates of a curve. Steps of batch EM are not
            averaged.
        """
        check_count("window", window, optional=True)
        panels = self._checked_panels(panels, None if ax is None else np.size(ax))
        n, (width, height) = len(panels), figure_size()
        size = {"figsize": (width, height * (0.8 + 0.2 * n)), "sharex": True}
        heights = {"height_ratios": [2.0, *[1.0] * (n - 1)]}
        axes = self._axes(ax, n, gridspec_kw=heights, **size)
        from matplotlib.ticker import LogFormatterSciNotation

        self.lines_, self.raw_lines_, self.marks_ = {}, {}, {}
        for panel, one in zip(panels, axes, strict=True):
            for i, name in enumerate(self.curves):
                self._draw(one, panel, name, i, window)
            one.set_ylabel(_PANELS[panel])
            if panel != "log_likelihood":
                one.set_yscale("log")
                formatter = LogFormatterSciNotation(minor_thresholds=(1.5, 0.4))
                one.yaxis.set_minor_formatter(formatter)
                one.tick_params("y", which="minor", labelsize="x-small")
        if self.raw_lines_:
            # Shows the averages and most single values, without outliers.
            raw = map(_finite, self.raw_lines_.values())
            shown = [np.quantile(values, [0.01, 0.99]) for values in raw]
            drawn = [line for (panel, _), line in self.lines_.items() if panel == "log_likelihood"]
            shown += map(_finite, [*drawn, *self.marks_.values()])
            low, high = np.concatenate(shown).min(), np.concatenate(shown).max()
            margin = 0.05 * (high - low) or 0.5
            axes[panels.index("log_likelihood")].set_ylim(low - margin, high + margin)
        axes[-1].set_xlabel("rows read")
        if len(self.curves) > 1:
            axes[0].legend(fontsize="small", ncols=1 + (len(self.curves) - 1) // 5)
        return self

    def _checked_panels(self, panels, n_axes):
        """Return the panels to draw: those given, or the usual ones that are not empty."""
        curves = self.curves.values()
        full = [p for p in _PANELS if any(np.isfinite(_drawable(one, p)).any() for one in curves)]
        if panels is None:
            panels = [panel for panel in _USUAL if panel in full][:n_axes]
        for panel in panels:
            if panel not in full:
                why = "there is nothing to draw" if panel in _PANELS else f"not in {[*_PANELS]}"
                raise ValueError(f"panels has {panel!r}: {why}.")
        if not len(panels) or n_axes not in (None, len(panels)):
            raise ValueError(f"ax must be {len(panels)} Axes, one for each panel, got {n_axes}.")
        return list(panels)

    def _draw(self, ax, panel, name, i, window):
        curve = self.curves[name]
        style = {"color": f"C{i}", "linestyle": ["-", "--", "-.", ":"][i % 4]}
        has_seen = _has_seen(curve)
        if panel != "log_likelihood":
            values = _drawable(curve, panel)
            if has_seen[0] and not has_seen.all():
                # A stream begins with passes over its first batch; the last one is not
                # representative.
                values[0] = np.nan
            (self.lines_[panel, name],) = ax.plot(curve.n_rows, values, linewidth=1.0, **style)
            return
        values = self._averaged(ax, name, style["color"], window)
        style["label"] = name
        if not has_seen.all():
            drawn = np.where(has_seen, np.nan, values)
            (self.lines_["log_likelihood", name],) = ax.plot(curve.n_rows, drawn, **style)
            style |= {"label": "_nolegend_"}
        if has_seen.any():
            drawn = np.where(has_seen, values, np.nan)
            # At most so many marks that they stay separate.
            marked = np.flatnonzero(has_seen)[:: 1 + has_seen.sum() // 25].tolist()
            style |= {"marker": "osD^vP*X"[i % 8], "markersize": 4.0, "markevery": marked}
            (self.marks_[name],) = ax.plot(curve.n_rows, drawn, **style)

    def _averaged(self, ax, name, colour, window):
        """Return the log-likelihoods of a line; if they are averages, draw the single ones, too."""
        curve = self.curves[name]
        if window is None:
            window = max(1, len(curve.n_rows) // 25)
        is_online = ~_has_seen(curve)
        if window == 1 or not is_online.any():
            return curve.log_likelihood
        (self.raw_lines_[name],) = ax.plot(
            curve.n_rows, np.where(is_online, curve.log_likelihood, np.nan), color=colour,
            alpha=0.3, linewidth=0.7, zorder=1.5,
        )  # fmt: skip
        # The rows of the first update of a truncated history are not known.
        n_rows = np.diff(curve.n_rows)
        weights = np.r_[n_rows[:1], n_rows].astype(float)
        values = curve.log_likelihood.astype(float)
        weights, ones = weights[is_online], np.ones(window)
        sums = np.convolve(values[is_online] * weights, ones) / np.convolve(weights, ones)
        values[is_online] = sums[: len(weights)]
        return values


def _checked(name, curve):
    n_rows = np.asarray(curve.n_rows)
    whose = f"n_rows of the curve {name!r}"
    require(n_rows.ndim == 1 and n_rows.size, whose, "of shape (n_updates,)", n_rows.shape)
    if not (np.diff(n_rows) > 0).all():
        raise ValueError(f"{whose} must rise; are they of several fits or starts?")
    arrays = [n_rows]
    for field, values in zip(LearningCurve._fields[1:], curve[1:], strict=True):
        # NaN is not drawn.
        values = np.full(len(n_rows), np.nan) if values is None else values
        arrays.append(floats_of(f"{field} of the curve {name!r}", values, n_rows.shape))
    return LearningCurve(*arrays)


def _has_seen(curve):
    """Return which updates were steps of batch EM, which may read rows several times."""
    return np.isinf(curve.eta)


def _drawable(curve, panel):
    """Return the values of a panel, NaN for those that its logarithmic axis cannot show."""
    values = getattr(curve, panel)
    if panel == "log_likelihood":
        return values
    return np.where((values > 0.0) & np.isfinite(values), values, np.nan)


def _finite(line):
    values = np.asarray(line.get_ydata(), dtype=float)
    return values[np.isfinite(values)]
