"""Arguments of a call: valid ones that go together, and one or two that are hostile."""

from fuzz.arrays import ANY
from fuzz.choosing import one_of
from fuzz.hostile import hostile, patient
from fuzz.table import parameters_of

# What scikit-learn stores without a look, and where files would be written.
SPARED = {"transform", "path"}


def drawn_arguments(rng, function, valid, hostility, arrays=ANY):
    """Return arguments by name, and the valid ones of all parameters.

    Parameters
    ----------
    rng : numpy.random.Generator
    function : callable
    valid : callable name -> value
    hostility : float
        Probability that one or two are hostile.
    arrays : list of callables
        As `hostile` takes them.
    """
    names, required = parameters_of(function)
    values = {name: valid(name) for name in names}
    arguments = {
        name: value
        for name, value in values.items()
        if name in required or (value is not None and rng.random() < 0.5)
    }
    for name in hostile_names(rng, [name for name in names if name not in SPARED], hostility):
        arguments[name] = patient(name, hostile(rng, values[name], arrays))
    return arguments, values


def hostile_names(rng, names, hostility):
    if not names or rng.random() >= hostility:
        return []
    first = names[0] if rng.random() < 0.4 else one_of(rng, names)
    return [first, one_of(rng, names)] if rng.random() < 0.2 else [first]
