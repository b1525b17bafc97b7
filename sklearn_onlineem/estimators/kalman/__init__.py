"""Kalman filters: rows that show a state which moves linearly."""

from sklearn_onlineem.estimators.kalman.kalman_filter import KalmanFilter

__all__ = ["KalmanFilter"]
