"""Compiled kernels loaded from the cache, without Numba's compiler.

Before it loads anything, Numba imports and registers everything that it can compile, which takes longer than loading
the kernels of a handler. Machine code needs only the functions of Numba's run time that it calls. A kernel is stored
with their symbols; the run time is initialized only if this process lacks one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import FunctionCache
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from aggloom.runtime.platform.kernels.digests import digest_module


@register_pass(mutates_CFG=False, analysis_only=True)
class UsedSymbols(AnalysisPass):  # type: ignore[misc]
    """Stores with a compiled function the symbols that it uses and does not define itself."""

    _name = "used_symbols"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        module = state.library._final_module
        # Functions of LLVM are instructions; callers load linked kernels (linking.py).
        used = (
            value.name
            for value in (*module.functions, *module.global_variables)
            if value.is_declaration and not value.name.startswith(("llvm.", "_ZN"))
        )
        state.reload_init.append(partial(_resolve, tuple(used)))
        return False


def is_own(loads: Any) -> bool:
    """Tell whether a hook of `reload_init` resolves symbols of its own function: a caller has a hook of its own."""
    return isinstance(loads, partial) and loads.func is _resolve


class LazyCache:
    """The cache of a kernel's compiled functions, made at its first use.

    Numba writes and deletes a file for each cache that it makes, and a process calls few of its imported kernels.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of Numba's cache."""
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Load the function of a signature; None if there is none, and it has to be compiled.

        Functions with types that other modules no longer have are deleted.
        """
        try:
            return self._cache._load_overload(signature, target_context)
        except (AttributeError, ImportError):
            # Numba checks a function's own file alone for changes.
            self._cache.flush()
            return None

    @cached_property
    def _cache(self) -> Any:
        return _KernelCache(self._function)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache with our options, and the digest of the kernels that a function calls, in its keys."""

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        key = super()._index_key(signature, codegen)
        return (*key, "nogil", digest_module(self._py_func.__module__))


def _resolve(names: tuple[str, ...]) -> None:
    """Initialize as much of Numba's run time as these symbols need."""
    for prepare in (_initialize_counting, _initialize_compiler):
        if all(map(llvm.address_of_symbol, names)):
            return
        prepare()


def _initialize_counting() -> None:
    rtsys.initialize(cpu_target.target_context)


def _initialize_compiler() -> None:
    cpu_target.target_context.refresh()
