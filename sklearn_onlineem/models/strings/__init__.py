"""Edit transducers of pairs of strings."""
