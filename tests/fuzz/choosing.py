"""Random choices of objects, which NumPy would turn into arrays."""


def one_of(rng, options):
    return options[int(rng.integers(len(options)))]
