"""Data that flow through models: batches of rows, sequences, documents, pairs of strings."""

from sklearn_onlineem.data._batch import Batch
from sklearn_onlineem.data.documents import Documents
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import LengthDistribution, Sequences
from sklearn_onlineem.data.strings import StringPairs, Strings

__all__ = [
    "Batch",
    "Documents",
    "LengthDistribution",
    "Rows",
    "Sequences",
    "StringPairs",
    "Strings",
]
