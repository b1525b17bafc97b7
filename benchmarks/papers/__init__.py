"""Experiments of the papers, at the size at which they were published."""
