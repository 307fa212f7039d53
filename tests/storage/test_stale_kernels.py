"""Compiled kernels that were kept with types which are no more: they are compiled anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TYPES = """
from typing import NamedTuple

class {name}(NamedTuple):
    x: int

KIND = {name}
"""
KERNELS = """
import few_types
from aggloom.runtime.storage.jit import array_kernel, cold_kernel, inner_kernel, kernel

@{kind}
def read(row):
    return row.x

@kernel
def twice(row):
    return 2 * read(row)

print(twice(few_types.KIND(4)))
"""


@pytest.mark.parametrize("kind", ["kernel", "cold_kernel"])
@pytest.mark.parametrize("change", ["renamed", "gone"])
def test_a_type_of_another_module_is_renamed(tmp_path: Path, kind: str, change: str) -> None:
    (tmp_path / "few_kernels.py").write_text(KERNELS.format(kind=kind))
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import few_kernels"

    def ran() -> str:
        done = subprocess.run(
            [sys.executable, "-c", run], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.strip()

    types = tmp_path / "few_types.py"
    types.write_text(TYPES.format(name="Pair"))
    assert ran() == "8"
    if change == "renamed":
        types.write_text(TYPES.format(name="AnswerPair"))
    else:
        (tmp_path / "own_types.py").write_text(TYPES.format(name="Pair"))
        types.write_text("from own_types import KIND\n")
    assert ran() == "8"
    assert ran() == "8"
