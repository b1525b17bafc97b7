"""Types of the loops of headers."""

cdef extern from "_simd.h" nogil:
    # Floats or doubles: C looks at what a pointer points to, see OF_REAL.
    ctypedef void reals "void"
    # A loop of doubles in Cython is compiled for several instruction sets if it returns this:
    # Cython copies the name of the type to the C code, attribute and all.
    ctypedef void simd_void "SIMD_CLONES void"
    # Nothing else points to where this does: without that promise each vector is checked for
    # overlap.
    ctypedef double* restricted "double* __restrict"
