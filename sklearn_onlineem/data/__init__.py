"""Data that flow through models: batches of rows, sequences, documents, pairs of strings."""

from sklearn_onlineem.data.batch import Batch

__all__ = ["Batch"]
