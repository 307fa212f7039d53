"""Compiled kernels loaded from the disk, without what Numba would compile with.

Before it loads anything Numba imports and registers all that it can compile, which takes longer than loading the
kernels of a handler. Machine code only needs the functions of Numba's run time that it calls. A kernel is kept with
their names; only where this process does not know one of them yet does it get them.
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
    """Keeps a compiled function with the names that it uses and does not define itself."""

    _name = "used_symbols"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        module = state.library._final_module
        named = (*module.functions, *module.global_variables)
        # Those of LLVM are instructions; those of kernels are loaded by their callers (linking.py).
        used = (
            value.name
            for value in named
            if value.is_declaration and not value.name.startswith(("llvm.", "_ZN"))
        )
        state.reload_init.append(partial(_resolve, tuple(used)))
        return False


def is_own(loads: Any) -> bool:
    """Tell whether a `reload_init` entry (done before loading) resolves names: a caller has those of its own."""
    return isinstance(loads, partial) and loads.func is _resolve


class LazyCache:
    """The cache of a kernel's compiled functions, made when it is first used.

    Numba writes and deletes a file for each that it makes, and a process calls few of the kernels that it imports. All
    of them are kept with the names that they use, and are loaded without more ado.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        """Answer for the cache of Numba's."""
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Load the function of a signature; None where there is none, which is then compiled.

        What was kept with types that other modules no longer have is forgotten.
        """
        try:
            return self._cache._load_overload(signature, target_context)
        except (AttributeError, ImportError):
            # Numba looks at a function's own file alone to know that it has changed.
            self._cache.flush()
            return None

    @cached_property
    def _cache(self) -> Any:
        return _KernelCache(self._function)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """The cache of Numba's, under keys that tell what a function was compiled with: options and other kernels."""

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        key = super()._index_key(signature, codegen)
        return (*key, "nogil", digest_module(self._py_func.__module__))


def _resolve(names: tuple[str, ...]) -> None:
    """See to it that this process knows names of Numba's run time."""
    for prepare in (_initialize_counting, _initialize_compiler):
        if all(map(llvm.address_of_symbol, names)):
            return
        prepare()


def _initialize_counting() -> None:
    rtsys.initialize(cpu_target.target_context)


def _initialize_compiler() -> None:
    cpu_target.target_context.refresh()
