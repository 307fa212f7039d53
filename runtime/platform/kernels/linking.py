"""Calls from one kernel to another without a copy of it: by its name.

Numba puts whatever a kernel calls into the kernel's own code, and compiles it there again. A linked kernel is compiled
once; whoever calls it knows its name, and loads it before its own compiled code.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Any

from aggloom.runtime.platform.kernels.digests import digest_text
from aggloom.runtime.platform.kernels.indexing import Compiler


class StaleKernelError(Exception):
    """Compiled code calls a kernel by a name that is no more."""


class LinkedCompiler(Compiler):
    """Compiles a kernel under a name that is the same in every process: Numba's own counts functions.

    The name changes with the text of the kernel's file, so that nothing calls what it was not compiled for.
    """

    def define_pipelines(self) -> Any:
        identity = self.state.func_id
        identity.unique_id = digest_text(identity.module.__loader__, identity.filename)
        return super().define_pipelines()


def link(dispatcher: Any, result: Any) -> None:
    """Let callers of a kernel, as it was compiled for some types, call it by its name.

    What a caller is loaded with (`_reload_init`) loads the kernel first, so that its name is known by then.
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
    """Return an empty module, to be put into a caller."""
    return codegen.create_library("nothing")._final_module


def _present(module: str, name: str, arguments: tuple[Any, ...], symbol: str) -> None:
    """Load or compile a linked kernel; raise StaleKernelError if it has another name than it had."""
    try:
        dispatcher = getattr(import_module(module), name)
    except (ImportError, AttributeError) as e:
        raise StaleKernelError(symbol) from e
    dispatcher.compile(arguments)
    if dispatcher.overloads[arguments].fndesc.mangled_name != symbol:
        raise StaleKernelError(symbol)
