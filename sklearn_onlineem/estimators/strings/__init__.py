"""Strings: pairs of them, and the distances by which they are compared."""
