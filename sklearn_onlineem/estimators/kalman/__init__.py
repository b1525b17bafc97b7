"""Kalman filters: rows that show a state which moves linearly."""
