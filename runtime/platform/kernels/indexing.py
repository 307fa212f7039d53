"""Array indices of kernels as unsigned integers.

Python counts a negative index from the end, so Numba tests at every access whether the index is negative, and loads
the array's length for it. No kernel counts from the end: without the test they take a quarter less time.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import compiler, ir
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.typed_passes import NativeLowering, NopythonRewrites

from aggloom.runtime.platform.kernels.loading import UsedSymbols


@register_pass(mutates_CFG=False, analysis_only=False)
class UnsignedIndices(FunctionPass):  # type: ignore[misc]
    """Types the indices of arrays as unsigned; the lowering casts them."""

    _name = "unsigned_indices"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.calltypes.update(
            {
                use: _without_sign(signature)
                for use, signature in state.calltypes.items()
                if isinstance(use, ir.SetItem) or (isinstance(use, ir.Expr) and use.op == "getitem")
            }
        )
        return True


def _without_sign(signature: Any) -> Any:
    """The signature of an access to an array, with an unsigned index; of any other type as it is."""
    indexed, index, *value = signature.args
    if not isinstance(indexed, types.Array):
        return signature
    return signature.replace(args=(indexed, _remove_sign(index), *value))


def _remove_sign(index: Any) -> Any:
    if isinstance(index, types.BaseTuple):
        return types.Tuple([_remove_sign(each) for each in index])
    return types.uintp if isinstance(index, types.Integer) and index.signed else index


class Compiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's own passes, with UnsignedIndices after typing, and UsedSymbols after lowering."""

    def define_pipelines(self) -> list[PassManager]:
        manager = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(UnsignedIndices, NopythonRewrites)
        manager.add_pass_after(UsedSymbols, NativeLowering)
        manager.finalize()
        return [manager]
