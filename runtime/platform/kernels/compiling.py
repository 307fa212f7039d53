"""Kernels compiled with our own options and passes, each by one process of a host."""

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
# Without a wrapper for callers in C, which there are none of: it would take longer to compile than many kernels.
_SHARED: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "pipeline_class": Compiler}
_OPTIONS = {**_SHARED, "_nrt": False}
# Explicit, since Numba otherwise takes the option of the first caller.
_CALLED = {**_OPTIONS, "forceinline": False}
_OPTIONS_OF: Final[dict[Way, dict[str, Any]]] = {
    "inlined": {**_OPTIONS, "forceinline": True},
    "linked": {**_CALLED, "pipeline_class": LinkedCompiler},
    "inner": {**_CALLED, "no_cpython_wrapper": True},
    "counting": _SHARED,
    "part": {**_OPTIONS, "inline": "always"},
}


def make_dispatcher(function: Callable[..., Any], way: Way) -> Any:
    """Return Numba's dispatcher of a function, which compiles it at its first call. Way:

    inlined: LLVM inlines it into its callers, without reference counting. linked: callers call it by its symbol.
    inner: only kernels call it. counting: with reference counting. part: inlined into its caller before typing.
    """
    dispatcher = njit(**_OPTIONS_OF[way])(function)
    return dispatcher if way == "part" else _compile_once(dispatcher, way == "linked")


def _compile_once(dispatcher: Any, linked: bool) -> Any:
    """Let one process of a host compile a kernel, while the others wait for its file in the cache.

    Spark's workers start together, and each would compile what all of them need.
    """
    compiled = getattr(dispatcher, "compile", None)
    if compiled is None:  # NUMBA_DISABLE_JIT: a plain function
        return dispatcher
    dispatcher._cache = LazyCache(dispatcher.py_func)
    code = dispatcher.py_func.__code__
    name = f"{Path(code.co_filename).stem}.{code.co_name}-{code.co_firstlineno}.lock"

    def compile_once(signature: Any) -> Any:
        # Numba unpickles the files in this directory.
        _refuse_foreign_once(Path(dispatcher.stats.cache_path))
        # Numba's own lock first: two threads with the opposite orders would wait for each other. Processes cannot,
        # since kernels do not call each other in circles.
        lock = _lock_file(Path(dispatcher.stats.cache_path) / name)
        with global_compiler_lock, lock, pause_collection():
            try:
                entry = compiled(signature)
            except StaleKernelError:
                entry = _compile_anew(dispatcher, compiled, signature)
            result = dispatcher.overloads[tuple(signature)]
            # Numba drops these from a function that it loads from its cache.
            result.library._reload_init.update(filterfalse(is_own, result.reload_init))
            if linked:
                link(dispatcher, result)
            return entry

    dispatcher.compile = compile_once
    return dispatcher


def _compile_anew(dispatcher: Any, compiled: Any, signature: Any) -> Any:
    """Compile a kernel whose file in the cache cannot be loaded, and replace that file."""
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
    """Hold the lock of a file; without one, where it cannot be created, several processes compile."""
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
