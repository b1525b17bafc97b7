"""Scratch memory on cache-line borders, where vectors load fastest."""

from libc.stdlib cimport malloc

cdef enum:
    LINE = 64


# The number of elements from here to the first cache line after `n` of them.
cdef inline Py_ssize_t padded(Py_ssize_t n, Py_ssize_t itemsize) noexcept nogil:
    return (n * itemsize + LINE - 1) // LINE * LINE // itemsize


cdef inline void* allocate(Py_ssize_t n, Py_ssize_t itemsize) except NULL:
    cdef void* memory = malloc(n * itemsize + LINE)
    if memory == NULL:
        raise MemoryError(f"cannot allocate {n * itemsize} bytes of scratch memory")
    return memory


cdef inline void* aligned(void* memory) noexcept nogil:
    return <void*> ((<size_t> memory + LINE - 1) & ~(<size_t> LINE - 1))
