"""Strings: pairs of them, and the distances by which they are compared."""

from sklearn_onlineem.estimators.strings.classifier import EditDistanceClassifier
from sklearn_onlineem.estimators.strings.edit_distance import EditDistance

__all__ = ["EditDistance", "EditDistanceClassifier"]
