"""Lengths of documents and sequences that users ask for."""

import numpy as np

__all__ = ["checked_lengths"]


def checked_lengths(name, lengths, n_samples, least=0):
    """One length, or one for each document; ValueError, with the name, if they are no such."""
    lengths = np.asarray(lengths)
    if not np.issubdtype(lengths.dtype, np.integer) or lengths.min(initial=least) < least:
        raise ValueError(f"{name} must be whole numbers from {least} up, got {lengths}.")
    if lengths.shape not in ((), (n_samples,)):
        raise ValueError(f"{name} must be one number or {n_samples}, got shape {lengths.shape}.")
    return lengths
