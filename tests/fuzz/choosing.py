"""Random choices of objects, which NumPy would turn into arrays."""


def one_of(rng, options):
    return options[int(rng.integers(len(options)))]


def some_of(rng, options, share):
    """Those options that chance takes, each with probability `share`."""
    return [option for option in options if rng.random() < share]
