"""What all displays share: axes that may be given, and a figure that needs no pyplot."""

import io


class Display:
    """A picture of an estimator, which a notebook shows and ``figure_.savefig`` saves.

    Axes are the caller's, or those of a figure of its own. That is made without pyplot, so nothing
    is left open and no window appears; it follows the style in ``matplotlib.rcParams``.
    """

    def _axes(self, ax, n_rows=1, n_columns=1, **options):
        """`ax`, or the axes of a new figure; as an array if there are several."""
        self._is_mine = ax is None
        if ax is None:
            ax = new_figure().subplots(n_rows, n_columns, **options)
        first = ax if n_rows * n_columns == 1 else ax.flat[0]
        self.ax_, self.figure_ = ax, first.figure
        return ax

    def _repr_png_(self):
        """The picture for a notebook, unless the figure is the caller's, who will show it."""
        if not getattr(self, "_is_mine", False):
            return None
        picture = io.BytesIO()
        self.figure_.savefig(picture, format="png")
        return picture.getvalue()


def new_figure(**options):
    """A figure that pyplot does not know."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "displays need matplotlib: pip install 'sklearn_onlineem[plot]'"
        ) from error
    return Figure(layout="constrained", **options)
