"""Mixtures whose data can't be negative."""

from __future__ import annotations

from sklearn_onlineem.estimators._mixture import BaseMixture

__all__ = ["PositiveMixture"]


class PositiveMixture(BaseMixture):
    """Mixtures whose data can't be negative."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
