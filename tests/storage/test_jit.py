"""One process of a host compiles a kernel; the others take what it leaves on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compilations import LISTENING

from aggloom.codegen import AggSpec, generate

SCRIPT = f"""{LISTENING}
from aggloom.codegen import load
handler = load(sys.argv[1])()
print("ready", flush=True)
sys.stdin.readline()
handler.setAccumulators(handler.createAccumulators(1), [0])
handler.accumulate((1, 2))
print(json.dumps([Compiled.names, list(handler.getValue())]))
"""
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def started(script: str, argument: Path) -> subprocess.Popen[str]:
    """A process that has said that it is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(argument)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() in ("ready\n", "held\n")
    return process


def told(process: subprocess.Popen[str]) -> None:
    """Let it go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def ended(process: subprocess.Popen[str]) -> list[str]:
    """Which of the handler's kernels it compiled; its result is checked."""
    names, result = json.loads(process.communicate(timeout=300)[0])
    assert result == [2, 1]
    return [name for name in names if name in ("update", "values")]


def compiled(source: Path, processes: int) -> list[list[str]]:
    """List the functions that each of some processes compiled that began together; every result is checked."""
    running = [started(SCRIPT, source) for _ in range(processes)]
    for each in running:
        told(each)
    return [ended(each) for each in running]


def generated(directory: Path) -> Path:
    sql = "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k"
    return generate(AggSpec.from_sql(sql, "k BIGINT, v INT"), directory=directory).path


def forget(cache: Path) -> None:
    """Delete what was compiled; the locks stay."""
    for kept in [*cache.glob("*.nbi"), *cache.glob("*.nbc")]:
        kept.unlink()


def test_processes_that_begin_together_compile_once(tmp_path: Path) -> None:
    found = compiled(generated(tmp_path), 3)
    assert sorted(name for names in found for name in names) == ["update", "values"]
    assert compiled(generated(tmp_path), 1) == [[]]


def test_without_locks_everybody_compiles(tmp_path: Path) -> None:
    source = generated(tmp_path)
    cache = tmp_path / "__pycache__"
    assert compiled(source, 1) == [["update", "values"]]
    locks = list(cache.glob("*.lock"))
    assert locks
    for lock in locks:
        lock.unlink()
        lock.mkdir()
    forget(cache)
    assert compiled(source, 1) == [["update", "values"]]


def test_a_process_that_dies_holding_a_lock_leaves_it_free(tmp_path: Path) -> None:
    source = generated(tmp_path)
    cache = tmp_path / "__pycache__"
    compiled(source, 1)
    forget(cache)
    (lock,) = (path for path in cache.glob("*.lock") if ".update-" in path.name)
    holder, waiting = started(HOLD, lock), started(SCRIPT, source)
    told(waiting)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(2)
    holder.kill()
    holder.wait()
    assert "update" in ended(waiting)
