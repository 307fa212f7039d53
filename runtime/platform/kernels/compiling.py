"""Kernels compiled by options and passes of our own, each by one process of a host."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import filterfalse
from pathlib import Path
from typing import Any, Final, Literal

from numba import njit
from numba.core.compiler_lock import global_compiler_lock

from aggloom.garbage_pause import pause_collection
from aggloom.private_directory import refuse_foreign
from aggloom.runtime.platform.kernels.indexing import Compiler
from aggloom.runtime.platform.kernels.linking import LinkedCompiler, StaleKernelError, link
from aggloom.runtime.platform.kernels.loading import LazyCache, is_own

Way = Literal["inlined", "linked", "inner", "counting", "part"]
# Nothing calls a kernel as a C function: another entry that takes a state apart would only be compiled.
_SHARED: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "pipeline_class": Compiler}
_OPTIONS = {**_SHARED, "_nrt": False}
# A function that does not say whether it is inlined does as its first caller.
_CALLED = {**_OPTIONS, "forceinline": False}
_OPTIONS_OF: Final[dict[Way, dict[str, Any]]] = {
    "inlined": {**_OPTIONS, "forceinline": True},
    "linked": {**_CALLED, "pipeline_class": LinkedCompiler},
    "inner": {**_CALLED, "no_cpython_wrapper": True},
    "counting": _SHARED,
    "part": {**_OPTIONS, "inline": "always"},
}


def make_dispatcher(function: Callable[..., Any], way: Way) -> Any:
    """Return Numba's dispatcher of a function, which compiles it in a way when it is first called.

    inlined: its callers have it in them, without reference counting. linked: they call it by its name. inner: only
    kernels call it. counting: references are counted in it. part: it is put into its caller before that is compiled.
    """
    dispatcher = njit(**_OPTIONS_OF[way])(function)
    return dispatcher if way == "part" else _compile_once(dispatcher, way == "linked")


def _compile_once(dispatcher: Any, linked: bool) -> Any:
    """Let one process of a host compile a kernel, and the others wait for what it leaves on the disk.

    Spark's workers begin together: each would compile what all of them need.
    """
    compiled = getattr(dispatcher, "compile", None)
    if compiled is None:  # NUMBA_DISABLE_JIT: a plain function
        return dispatcher
    dispatcher._cache = LazyCache(dispatcher.py_func)
    code = dispatcher.py_func.__code__
    name = f"{Path(code.co_filename).stem}.{code.co_name}-{code.co_firstlineno}.lock"

    def compile_once(signature: Any) -> Any:
        # What Numba finds here it unpickles.
        _refuse_foreign_once(Path(dispatcher.stats.cache_path))
        # Numba's own lock comes first: two threads that took the two in turn would wait for each other. Kernels do
        # not call each other in circles, so that neither do processes.
        lock = _lock_file(Path(dispatcher.stats.cache_path) / name)
        with global_compiler_lock, lock, pause_collection():
            try:
                entry = compiled(signature)
            except StaleKernelError:
                entry = _compile_anew(dispatcher, compiled, signature)
            result = dispatcher.overloads[tuple(signature)]
            # Numba forgets these of what it finds on the disk.
            result.library._reload_init.update(filterfalse(is_own, result.reload_init))
            if linked:
                link(dispatcher, result)
            return entry

    dispatcher.compile = compile_once
    return dispatcher


def _compile_anew(dispatcher: Any, compiled: Any, signature: Any) -> Any:
    """Compile what is on the disk but cannot be loaded."""
    dispatcher._cache.disable()
    try:
        entry = compiled(signature)
    finally:
        dispatcher._cache.enable()
    with suppress(OSError):
        dispatcher._cache.save_overload(signature, dispatcher.overloads[tuple(signature)])
    return entry


@cache
def _refuse_foreign_once(directory: Path) -> None:
    """Raise GeneratedSourceError if others may put files into a directory of compiled kernels."""
    refuse_foreign(directory)


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Hold a file's lock; where there can be none, everybody compiles."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError:
        yield
        return
    with file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
