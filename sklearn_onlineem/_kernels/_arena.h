/* Scratch memory that is counted and handed out by the same code.
 *
 * A function that lays out scratch memory takes one array after the other from an arena. It runs
 * twice: with a counting arena, which has no memory and hands out NULL, to learn the size; and with
 * memory of that size, to learn where the arrays are. So a size and a layout cannot disagree. Such
 * a function must not look into the arrays: they are filled elsewhere.
 *
 * Under the address sanitizer each array has a border that must not be touched, so that a kernel
 * that leaves an array is caught even where it comes into the next one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "_compiler.h"

/* Cache lines, from whose start vectors load fastest. */
#define ARENA_LINE 64

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define ARENA_BORDER ARENA_LINE
#else
#define ARENA_BORDER 0
#endif

typedef struct {
    char *memory; /* NULL: bytes are counted, and nothing is handed out */
    size_t used;
} Arena;

SIMD_INLINE Arena counting_arena(void) { return (Arena){NULL, 0}; }

/* Memory (size + ARENA_LINE bytes) of which the first line border is the beginning. */
SIMD_INLINE Arena arena_in(void *memory)
{
    uintptr_t line = ((uintptr_t)memory + ARENA_LINE - 1) / ARENA_LINE * ARENA_LINE;
    return (Arena){(char *)line, 0};
}

/* What is taken next starts a line. */
SIMD_INLINE void start_line(Arena *arena)
{
    arena->used = (arena->used + ARENA_LINE - 1) / ARENA_LINE * ARENA_LINE;
}

/* An array of n items that starts a line. */
SIMD_INLINE void *take(Arena *arena, ptrdiff_t n, size_t itemsize)
{
    start_line(arena);
    size_t size = (size_t)n * itemsize;
    void *array = arena->memory ? arena->memory + arena->used : NULL;
#if ARENA_BORDER > 0
    if (array) __asan_poison_memory_region((char *)array + size, ARENA_BORDER);
#endif
    arena->used += size + ARENA_BORDER;
    return array;
}

SIMD_INLINE double *take_doubles(Arena *arena, ptrdiff_t n)
{ return (double *)take(arena, n, sizeof(double)); }

/* Arrays of n doubles, one for each address of a pointer. */
#define take_each(arena, n, ...) take_arrays(arena, n, (double **[]){__VA_ARGS__, NULL})

SIMD_INLINE void take_arrays(Arena *arena, ptrdiff_t n, double ***pointers)
{
    for (; *pointers; pointers++) **pointers = take_doubles(arena, n);
}

/* An arena for each of n threads, which are as large as the one that was counted; returns the first
 * byte. `arena_of` is the arena of a thread. */
SIMD_INLINE char *take_arenas(Arena *arena, ptrdiff_t n, const Arena *counted)
{
    start_line(arena);
    size_t size = (counted->used + ARENA_LINE - 1) / ARENA_LINE * ARENA_LINE;
    char *first = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += (size_t)n * size;
    return first;
}

SIMD_INLINE Arena arena_of(char *first, ptrdiff_t thread, const Arena *counted)
{
    size_t size = (counted->used + ARENA_LINE - 1) / ARENA_LINE * ARENA_LINE;
    Arena arena = {first + (size_t)thread * size, 0};
#if ARENA_BORDER > 0
    __asan_unpoison_memory_region(arena.memory, size); /* of an earlier layout */
#endif
    return arena;
}
