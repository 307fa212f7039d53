"""Kernels are loaded from the disk without the rest of Numba, but for those that call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KERNELS = """
import numpy as np
from aggloom.runtime.storage.jit import array_kernel, cold_kernel, kernel
@kernel
def numbers(x):
    return x + 1
@cold_kernel
def called(x):
    return np.exp(x) + numbers(x)
@kernel
def calling(x):
    return called(x)
@array_kernel
def arrays(n):
    return np.arange(n)
@array_kernel
def texts(x):
    return hash(x)
"""
SCRIPT = """
import json, sys
import numpy as np
from aggloom.runtime.platform.kernels import loading
import kernels
asked = []
def watched(name):
    prepare = getattr(loading, name)
    def noted():
        asked.append(name)
        prepare()
    return noted
for name in ("_initialize_counting", "_initialize_compiler"):
    setattr(loading, name, watched(name))
given = {"calling": 1, "arrays": 2, "texts": "a"}[sys.argv[1]]
result = getattr(kernels, sys.argv[1])(given)
if sys.argv[1:] == ["texts", "and a name that nobody knows"]:
    loading._resolve(("nobody_knows_it",))
shown = {"calling": float, "arrays": np.ndarray.tolist, "texts": hash("a").__eq__}[sys.argv[1]](result)
print(json.dumps([str(shown), asked, "numba.np.arraymath" in sys.modules]))
"""


def loaded(place: Path, *asked: str) -> list[object]:
    """The result of a kernel in a new process, what it had to prepare, and whether all of Numba was imported."""
    command = [sys.executable, "-c", SCRIPT, *asked]
    return list(json.loads(subprocess.check_output(command, cwd=place, timeout=300)))


def test_what_a_kernel_uses_is_there_before_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(KERNELS)
    results = {"calling": "4.718281828459045", "arrays": "[0, 1]", "texts": "True"}
    for name, result in results.items():
        assert loaded(tmp_path, name)[0] == result
    counting = "_initialize_counting"
    assert loaded(tmp_path, "calling") == [results["calling"], [], False]
    assert loaded(tmp_path, "arrays") == [results["arrays"], [counting], False]
    assert loaded(tmp_path, "texts") == [results["texts"], [counting], False]
    found = loaded(tmp_path, "texts", "and a name that nobody knows")
    assert found == [results["texts"], [counting, counting, "_initialize_compiler"], True]
