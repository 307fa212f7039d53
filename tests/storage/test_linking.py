"""Kernels call each other by name: each is compiled once, and nothing calls one that is no more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compilations import LISTENING

FILES = {
    "callee": """
from aggloom.runtime.storage.jit import cold_kernel
@cold_kernel
def called(x):
    return x + 1
""",
    "middle": """
from aggloom.runtime.storage.jit import kernel
from callee import called
@kernel
def inlined(x):
    return called(x) * 10
""",
    "caller": """
from aggloom.runtime.storage.jit import cold_kernel
from middle import inlined
@cold_kernel
def calling(x):
    return inlined(x) + 5
""",
}
SCRIPT = f"""{LISTENING}
from caller import calling
print(json.dumps([calling(1), sorted(Compiled.names)]))
"""
ALL = ["called", "calling", "inlined"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Modules of kernels, compiled."""
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert run(tmp_path) == [25, ALL]
    return tmp_path


def run(place: Path) -> list[object]:
    """Run the script in a new process; return its result and the functions that it compiled."""
    command = [sys.executable, "-c", SCRIPT]
    return list(json.loads(subprocess.check_output(command, cwd=place, timeout=300)))


def forget(place: Path, name: str) -> None:
    """Delete what was compiled of a module."""
    for kept in (place / "__pycache__").glob(f"{name}.*.nb[ic]"):
        kept.unlink()


def test_a_kernel_is_loaded_with_those_that_it_calls(place: Path) -> None:
    assert run(place) == [25, []]


def test_a_kernel_in_between_that_was_loaded_knows_whom_it_calls(place: Path) -> None:
    forget(place, "caller")
    assert run(place) == [25, ["calling"]]
    assert run(place) == [25, []]


def test_a_kernel_that_was_deleted_is_compiled_for_those_who_call_it(place: Path) -> None:
    forget(place, "callee")
    assert run(place) == [25, ["called"]]
    assert run(place) == [25, []]


def test_a_kernel_that_changed_is_never_called_by_what_was_compiled_before(place: Path) -> None:
    (place / "callee.py").write_text(FILES["callee"].replace("x + 1", "float(x) + 2"))
    assert run(place) == [35, ALL]
    assert run(place) == [35, []]


def test_a_kernel_that_went_elsewhere_is_not_missed(place: Path) -> None:
    (place / "elsewhere.py").write_text(FILES["callee"])
    (place / "callee.py").write_text("from elsewhere import called\n")
    assert run(place) == [25, ALL]
