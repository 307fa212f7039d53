"""Calls from one kernel to another by its symbol, without a copy of its code.

Numba copies the functions that a kernel calls into the kernel's own code, and compiles them there again. A linked
kernel is compiled once; its callers contain its symbol, and load it before their own compiled code.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Any

from aggloom.runtime.platform.kernels.digests import digest_text
from aggloom.runtime.platform.kernels.indexing import Compiler


class StaleKernelError(Exception):
    """Raised if compiled code calls a kernel by a symbol that no longer exists."""


class LinkedCompiler(Compiler):
    """Compiles a kernel with a symbol that is the same in every process: Numba's own has a count of functions.

    The symbol changes with the text of the kernel's file, so that no caller gets a kernel that it was not compiled for.
    """

    def define_pipelines(self) -> Any:
        identity = self.state.func_id
        identity.unique_id = digest_text(identity.module.__loader__, identity.filename)
        return super().define_pipelines()


def link(dispatcher: Any, result: Any) -> None:
    """Let callers call a kernel, as it was compiled for some types, by its symbol.

    The hooks that run before a caller is loaded (`_reload_init`) load the kernel, so that its symbol is known by then.
    """
    library = result.library
    arguments, symbol = tuple(result.signature.args), result.fndesc.mangled_name
    function = dispatcher.py_func
    library._shared_module = _empty_module(library.codegen)
    library._reload_init = {
        partial(_present, function.__module__, function.__qualname__, arguments, symbol)
    }


@cache
def _empty_module(codegen: Any) -> Any:
    """Return an empty module, which a caller links instead of the kernel's code."""
    return codegen.create_library("nothing")._final_module


def _present(module: str, name: str, arguments: tuple[Any, ...], symbol: str) -> None:
    """Load or compile a linked kernel; raises StaleKernelError if it has another symbol now."""
    try:
        dispatcher = getattr(import_module(module), name)
    except (ImportError, AttributeError) as e:
        raise StaleKernelError(symbol) from e
    dispatcher.compile(arguments)
    if dispatcher.overloads[arguments].fndesc.mangled_name != symbol:
        raise StaleKernelError(symbol)
