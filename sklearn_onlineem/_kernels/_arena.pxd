"""Scratch memory, counted and handed out by the same code; see `_arena.h`."""

from libc.stdlib cimport free, malloc

from _arena_h cimport (
    ARENA_LINE, Arena, arena_in, arena_of, counting_arena, take, take_arenas,
    take_doubles,
)

cdef extern from "_arena.h" nogil:
    void take_each(Arena* arena, Py_ssize_t n, ...)


# Memory for what was counted, to be freed by the caller; from here on the arena hands it out.
cdef inline void* allocate(Arena* arena) except NULL:
    cdef void* memory = malloc(arena.used + ARENA_LINE)
    if memory == NULL:
        raise MemoryError(f"cannot allocate {arena.used} bytes of scratch memory")
    arena[0] = arena_in(memory)
    return memory


# One array, to be freed by the caller: with nothing beside it, it needs no arena.
cdef inline double* allocate_doubles(Py_ssize_t n) except NULL:
    cdef double* array = <double*> malloc(max(1, n) * sizeof(double))
    if array == NULL:
        raise MemoryError(f"cannot allocate {n} doubles of scratch memory")
    return array


# The number of elements from here to the first line that starts after `n` of them.
cdef inline Py_ssize_t padded(Py_ssize_t n, Py_ssize_t itemsize) noexcept nogil:
    return (n * itemsize + ARENA_LINE - 1) // ARENA_LINE * ARENA_LINE // itemsize
