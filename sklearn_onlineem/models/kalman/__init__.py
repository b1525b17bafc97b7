"""Linear dynamical systems, the models of Kalman filters."""
