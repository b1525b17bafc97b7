"""Properties that are computed once."""

import functools
from typing import TYPE_CHECKING

# Type checkers know the one of `functools`.
if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """As in `functools`, without the lock that it has before Python 3.12.

        A forked process would wait for ever on a lock that another thread of its parent held.
        Threads that meet compute the same value twice.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
