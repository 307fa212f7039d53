"""The one place that holds Numba's options."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import filterfalse
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit
from numba.core.compiler_lock import global_compiler_lock

from aggloom.garbage_pause import pause_collection
from aggloom.platform_switch import is_tuned
from aggloom.private_directory import cache_directory, refuse_foreign
from aggloom.runtime.storage.indexing import Compiler
from aggloom.runtime.storage.linking import LinkedCompiler, StaleKernelError, link
from aggloom.runtime.storage.loading import is_own, load_alone

F = TypeVar("F", bound=Callable[..., Any])
_IS_TUNED = is_tuned()
if not _IS_TUNED and not config.CACHE_DIR:
    # Numba keeps a function under its name and types, whatever it was compiled with.
    config.CACHE_DIR = str(cache_directory() / "plain-kernels")
# Nothing calls a kernel as a C function: another entry that takes a state apart would only be compiled.
_OPTIONS: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True, "pipeline_class": Compiler}
# What is not told whether it is inlined does as the first who calls it.
_CALLED = {**_OPTIONS, "forceinline": False}
_LINKED = {**_CALLED, "pipeline_class": LinkedCompiler}


def kernel(function: F) -> F:
    """Compile, cached on disk, without reference counting, and inlined: for functions that make no array.

    State travels as named tuples of arrays, dozens of words by value: counting references to them took 20 of 24
    parts of an update's time, and passing them on from call to call two thirds of what was left. Everything that
    a kernel touches is held by its caller.
    """
    return _make_kernel(function, forceinline=True, **_OPTIONS)


def cold_kernel(function: F) -> F:
    """A kernel that is called, not inlined: for what few rows need and would bloat every loop and its compiling."""
    return _make_kernel(function, linked=True, **_LINKED)


def inner_kernel(function: F) -> F:
    """A cold kernel that only kernels call: taking a state apart for Python is a large part of what is compiled."""
    return _make_kernel(function, no_cpython_wrapper=True, **_CALLED)


def array_kernel(function: F) -> F:
    """A kernel that makes arrays, so that references are counted in it."""
    return _make_kernel(function, no_cfunc_wrapper=True, pipeline_class=Compiler)


def part(function: F) -> F:
    """A part of one kernel: put into its caller before anything is compiled, so that it is compiled only there."""
    return njit(inline="always", **(_OPTIONS if _IS_TUNED else {}))(function)


def _make_kernel(function: F, linked: bool = False, **options: Any) -> F:
    """Return a function compiled as the options say, or as Numba does by itself where the switch is off."""
    if not _IS_TUNED:
        plain: F = njit(cache=True)(function)
        return plain
    made: F = _compile_once(njit(cache=True, **options)(function), linked)
    return made


def _compile_once(dispatcher: Any, linked: bool = False) -> Any:
    """Let one process of a host compile a kernel, and the others wait for what it leaves on the disk.

    Spark's workers begin together: each would compile what all of them need.
    """
    compiled = getattr(dispatcher, "compile", None)
    if compiled is None:  # NUMBA_DISABLE_JIT: a plain function
        return dispatcher
    load_alone(dispatcher._cache)
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
