"""Mixtures: rows that come from one of several components."""
