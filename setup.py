"""Builds the Cython kernels; everything else is in pyproject.toml."""

import os
import re
import sys
import sysconfig
import tempfile
import time
from glob import glob
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError
from setuptools.modified import newer_group

KERNELS = "sklearn_onlineem/_kernels"
# What all modules with memoryviews need is in one of them, whose source Cython writes: otherwise
# each would carry a copy, and the wheel be twice as large.
SHARED = "sklearn_onlineem._kernels._cyutility"
# One build of the kernels runs on this Python and on all that follow it. A free-threaded one has no
# limited API before 3.15.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
OLDEST = (3, 11)
DEBUG = os.environ.get("SKLEARN_ONLINEEM_DEBUG", "") not in ("", "0")
# GCC's sanitizers of the debug build, by name and with commas: `make test SANITIZE=address`.
SANITIZE = os.environ.get("SKLEARN_ONLINEEM_SANITIZE", "")
# Without the vectors and products that a processor may have: `make test WORLD=1`.
PORTABLE = os.environ.get("SKLEARN_ONLINEEM_PORTABLE", "") not in ("", "0")
# Kernels stand in place already: pip, which builds in a folder of its own, need not do it again.
BUILT = os.environ.get("SKLEARN_ONLINEEM_BUILT", "") not in ("", "0")
KIND = [*["debug"] * DEBUG, *["portable"] * PORTABLE, *SANITIZE.split(",")]
BUILD = "/".join(["build", *KIND]).rstrip("/")

# No -march=native and no contraction to fused multiply-adds behind our back: a wheel runs on every
# machine. What the instruction set can give is chosen at run time, in _simd.h and
# _fused_products.h. Nobody reads errno; for its sake alone GCC would not vectorise square roots.
# Sanitizers take GCC longest where it optimises, and see more where it does not.
OPTIMISED = ["-O0" if SANITIZE else "-O1", "-g"] if DEBUG else ["-O3", "-g0"]
# With what GCC's -O3 adds to these, most kernels are a tenth larger, and no faster. Those that are
# named are faster, or smaller.
SMALLER = [] if DEBUG else ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-fpeel-loops"]
NEED_O3 = {"_edit_lattice", "_gaps", "_topic_sweeps", "_topics"}
# What undefined behaviour is found ends the process, as a report on a captured stream is not read.
# What Python was compiled with, symbols and all, would make a wheel five times as large.
STRIPPED = {"unix": [] if DEBUG or sys.platform == "darwin" else ["-Wl,--strip-all"], "msvc": []}
SANITIZED = [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"] if SANITIZE else []
FLAGS = {
    "unix": [*OPTIMISED, *SANITIZED, "-ffp-contract=off", "-fno-math-errno"],
    "msvc": ["/O2", "/fp:precise", "/std:c11"],
}
OPENMP = {
    "unix": [(["-fopenmp"], ["-fopenmp"]), (["-Xpreprocessor", "-fopenmp"], ["-lomp"])],
    "msvc": [(["/openmp"], [])],
}
PROGRAM = "int main(void) { return 0; }"
OPENMP_PROGRAM = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }"

# A kernel takes what it calls of a header, `_x.h`, by `from _x_h cimport f`. What Cython must know
# is computed from the header, whose C becomes Cython by these replacements.
DECLARED = f"{BUILD}/declared"
IN_CYTHON = {
    r"/\*.*?\*/|\\\n|\bRESTRICT\b|(?<=\*)const ": "",
    r"\bptrdiff_t\b": "Py_ssize_t",
    r"\b(REAL|SUM)\b": "reals",
    r"\bfrom\b": "from_",
    r"\(void\)(?=;)": "() noexcept",
    r"\(void\)": "()",
    r"(\w+)\[[^]]*\](?=[,;])": r"*\1",
}
NUMBERS = [
    *("void", "reals", "float", "double", "char", "unsigned char", "int", "size_t", "Py_ssize_t"),
    *("int32_t", "int64_t", "uint64_t"),
]
CONSTANT = re.compile(r"^#define (\w+) +(\(?-?\d.*)", re.MULTILINE)
ENUM = re.compile(r"^enum \{(.*?)\};", re.MULTILINE | re.DOTALL)
STRUCT = re.compile(r"^typedef struct \{(.*?)\} (\w+);", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(
    r"^(?:(?:SIMD_\w+|TARGET|static|inline) )+([\w ]+[ *])"
    r"(?:(NAMED|OF_SUM|WIDE)\()?(\w+)\)?\(([^{}]*)\)\s*\{",
    re.MULTILINE,
)

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "initializedcheck": DEBUG,
    "nonecheck": DEBUG,
    # Off in the debug build too, where a negative index is then out of bounds instead of wrapped.
    "wraparound": False,
    "cdivision": True,
    # They keep no state between calls, and write to none but the arrays that they are given.
    "freethreading_compatible": True,
}


class BuildKernels(build_ext):
    """Gives every kernel the flags that the compiler at hand understands."""

    def build_extensions(self):
        compiler = "msvc" if self.compiler.compiler_type == "msvc" else "unix"
        candidates = (flags for flags in OPENMP[compiler] if self.links(OPENMP_PROGRAM, *flags))
        compile_openmp, link_openmp = next(candidates, ([], []))
        smaller = SMALLER if compiler == "unix" and self.links(PROGRAM, SMALLER, []) else []
        for kernel in self.extensions:
            kernel.extra_compile_args = FLAGS[compiler] + compile_openmp
            if kernel.name.rpartition(".")[2] not in NEED_O3:
                kernel.extra_compile_args += smaller
            kernel.extra_link_args = STRIPPED[compiler] + SANITIZED + link_openmp
        self.n_stale, self.n_built = sum(map(self.is_stale, self.extensions)), 0
        self.started = time.monotonic()
        print(f"compiling {self.n_stale} of {len(self.extensions)} kernels", flush=True)
        super().build_extensions()

    def is_stale(self, kernel):
        inputs = [*kernel.sources, *kernel.depends]
        return self.force or newer_group(inputs, self.get_ext_fullpath(kernel.name), "newer")

    def build_extension(self, kernel):
        module = Path(self.get_ext_fullpath(kernel.name))
        before = module.exists() and module.stat().st_mtime_ns
        super().build_extension(kernel)
        if module.stat().st_mtime_ns != before:
            self.say_built(kernel.name.rpartition(".")[2])

    def say_built(self, name):
        self.n_built += 1
        seconds = time.monotonic() - self.started
        print(f"{self.n_built} of {self.n_stale}: {name}, after {seconds:.0f} s", flush=True)

    def links(self, program, compile_flags, link_flags):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "program.c")
            source.write_text(program)
            try:
                objects = self.compiler.compile([str(source)], folder, extra_postargs=compile_flags)
                self.compiler.link_executable(objects, "program", folder, extra_postargs=link_flags)
            except (CompileError, LinkError):
                return False
        return True


def kernel(name, source, **keywords):
    macros = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]
    macros += [("SKLEARN_ONLINEEM_PORTABLE", None)] * PORTABLE
    if LIMITED:
        macros.append(("Py_LIMITED_API", "0x{:02X}{:02X}0000".format(*OLDEST)))
    return Extension(name, [source], define_macros=macros, py_limited_api=LIMITED, **keywords)


def headers_in(header):
    names = re.findall(r'#include "(_\w+)[.]h"', Path(KERNELS, f"{header}.h").read_text())
    return [name for name in names if name not in (header, "_compiler", "_for_each_real")]


def structs_of(header):
    own = STRUCT.findall(Path(KERNELS, f"{header}.h").read_text())
    return {name for _, name in own}.union(*map(structs_of, headers_in(header)))


def declarations(header):
    """Declare constants and structs of a header, and functions of these and of numbers.

    A function for float and double, or for several widths, has the name of the macro that chooses.
    """
    text = Path(KERNELS, f"{header}.h").read_text()
    for pattern, replacement in IN_CYTHON.items():
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    types = "|".join([*NUMBERS, *structs_of(header)])
    is_known = re.compile(rf"((const|volatile) )*({types})\b").match
    lines = ["from libc.stdint cimport int32_t, int64_t, uint64_t"]
    lines += ["from sklearn_onlineem._kernels._simd cimport reals"]
    lines += [f"from {name}_h cimport *" for name in headers_in(header)]
    lines += [f'cdef extern from "{header}.h" nogil:']
    constants = dict(CONSTANT.findall(text))
    names = [name for name, value in constants.items() if not re.search("[.]|e-", value)]
    lines += [f"    const double {name}" for name in constants if name not in names]
    names += [name.split()[0] for names in ENUM.findall(text) for name in names.split(",")]
    lines += ["    enum:", "        pass", *[f"        {name}" for name in names]]
    for body, name in STRUCT.findall(text):
        lines += [f"    ctypedef struct {name}:", "        pass"]
        for first, *others in [" ".join(f.split()).split(", ") for f in body.split(";")]:
            if is_known(first):
                kind = re.match(r"([\w ]+ )?", first)[0]
                lines += [f"        {field}" for field in (first, *(kind + x for x in others))]
    functions = {}
    for kind, variants, name, arguments in FUNCTION.findall(text):
        arguments = " ".join(arguments.split())
        if variants == "WIDE":
            arguments = f"Py_ssize_t width, {arguments}"
        has_name = not variants or f"#define {name}(" in text
        if has_name and all(map(is_known, [kind, *filter(None, arguments.split(", "))])):
            functions[name] = f"    {kind}{name}({arguments})"
    return "\n".join([*lines, *functions.values(), ""])


def declare_headers():
    Path(DECLARED).mkdir(parents=True, exist_ok=True)
    for file in Path(KERNELS).glob("*.h"):
        declared, text = Path(DECLARED, f"{file.stem}_h.pxd"), declarations(file.stem)
        if not declared.exists() or declared.read_text() != text:
            declared.write_text(text)


def needed(source):
    """Our files that a kernel includes or cimports, and that those do."""
    files = [Path(source), Path(source).with_suffix(".pxd")]
    for file in files:
        text = file.read_text() if file.exists() else ""
        names = re.findall(r'"(_\w+[.]h)"', text)
        names += [f"{header}.h" for header in re.findall(r"from (_\w+)_h cimport", text)]
        names += [f"{module}.pxd" for module in re.findall(r"from [.](\w+) cimport", text)]
        files += [Path(KERNELS, name) for name in names if Path(KERNELS, name) not in files]
    return [str(file) for file in files if file.exists()]


def kernels():
    declare_headers()
    include_dirs = [KERNELS, np.get_include()]
    extensions = [
        kernel(
            source.removesuffix(".pyx").replace("/", "."),
            source,
            include_dirs=include_dirs,
            depends=needed(source),
        )
        for source in sorted(glob(f"{KERNELS}/*.pyx"))
    ]
    return cythonize(
        [*extensions, kernel(SHARED, SHARED.replace(".", "/") + ".c")],
        shared_utility_qualified_name=SHARED,
        build_dir=f"{BUILD}/cython",
        include_path=[".", DECLARED],
        compiler_directives=DIRECTIVES,
        nthreads=os.cpu_count() or 1,
    )


# Processes that Cython starts may import this file anew.
if __name__ == "__main__":
    setup(
        ext_modules=[] if BUILT else kernels(),
        cmdclass={"build_ext": BuildKernels},
        options={
            "build": {"build_base": BUILD},
            "build_ext": {"parallel": True},
            "bdist_wheel": {"py_limited_api": "cp{}{}".format(*OLDEST)} if LIMITED else {},
        },
    )
