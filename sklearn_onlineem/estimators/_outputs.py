"""What `transform` returns for sequences, in the container that `set_output` asks for."""

from __future__ import annotations

from functools import wraps

from sklearn.utils._set_output import _wrap_data_with_container

__all__ = ["SequenceOutput"]


class SequenceOutput:
    """Mixin that makes scikit-learn's `set_output` act on lists of sequences, too.

    For X with an entry for each sequence, `transform` and `fit_transform` may return a list; each
    of its arrays becomes a data frame, with the index of the data frame that it belongs to. What
    has a row for each sequence has no index of X's rows.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in ("transform", "fit_transform"):
            # scikit-learn has wrapped what the class defines or inherits: for rows only.
            method = getattr(cls, name, None)
            if method is not None and not hasattr(method, "takes_sequences"):
                setattr(cls, name, _contained(method.__wrapped__))


def _contained(method):
    @wraps(method)
    def wrapped(self, X, *args, **kwargs):
        out = method(self, X, *args, **kwargs)
        if not isinstance(out, list):
            rows = X if hasattr(X, "iloc") and len(X) == len(out) else None
            return _wrap_data_with_container("transform", out, rows, self)
        pairs = zip(out, X, strict=True)
        return [_wrap_data_with_container("transform", part, rows, self) for part, rows in pairs]

    wrapped.takes_sequences = True
    return wrapped
