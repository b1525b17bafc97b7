"""Objects that NumPy takes for arrays, and that say they have another shape than they give."""

import numpy as np


class Claim:
    """Gives an array, and has another idea of its shape."""

    def __init__(self, array, shape):
        self.array, self.shape = array, shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype)

    def __repr__(self):
        return f"{type(self).__name__}({self.array.shape} as {self.shape})"


class ClaimOfLength(Claim):
    """... and of its length, as lists have one."""

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        return self.array[index]


class ClaimOfDimensions(ClaimOfLength):
    """... with all that arrays have."""

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def dtype(self):
        return self.array.dtype


class Length:
    """Gives an array, and has another idea of its length; it has no shape, nor entries."""

    def __init__(self, array, shape):
        self.array, self.length = array, shape[0]

    def __len__(self):
        return self.length

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype)

    def __repr__(self):
        return f"Length({self.array.shape} as {self.length})"


CLAIMS = [Claim, ClaimOfLength, ClaimOfDimensions, Length]


class Shrinking(Claim):
    """Gives an array that is shorter each time."""

    def __array__(self, dtype=None, copy=None):
        self.array = self.array[:-1]
        return np.array(self.array, dtype=dtype)
