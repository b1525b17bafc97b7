"""Laws: statements that hold for every family, model or estimator of the lists in `cases`."""
