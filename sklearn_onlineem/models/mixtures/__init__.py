"""Mixtures, and what they say of parts of rows."""
