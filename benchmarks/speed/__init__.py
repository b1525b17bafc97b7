"""Is a pass faster than the best rival's? Ratios of runs that take turns, of equal work."""
