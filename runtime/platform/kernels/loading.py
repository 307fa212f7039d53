"""Compiled kernels loaded from the disk, without what Numba would compile with.

Before it loads anything Numba imports and registers all that it can compile, which takes longer than loading the
kernels of a handler. Machine code only needs the functions of Numba's run time that it calls. A kernel is kept with
their names; only where this process does not know one of them yet is it told about them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import llvmlite.binding as llvm
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys


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


def load_alone(cache: Any) -> None:
    """Let a cache of compiled functions, all of which are kept with their names, load them without more ado.

    What was kept with types that other modules no longer have is forgotten, and compiled anew.
    """
    alone = getattr(cache, "_load_overload", None)
    if alone is None:
        return

    def load(*asked: Any) -> Any:
        try:
            return alone(*asked)
        except (AttributeError, ImportError):
            # Numba looks at a function's own file alone to know that it has changed.
            cache.flush()
            return None

    cache.load_overload = load


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
