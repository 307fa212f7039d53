"""Lines about a run that takes long: what it waits for, with and without a terminal."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import PlanOptions, plan_query
from aggloom.progress_lines import KernelWatch, ProgressLines, batch_under_way, modules_of

MODULE = """import rt

@rt.part
def inner(a):
    return a

@rt.cold_kernel
def update(a):
    return inner(a)

@rt.inner_kernel
def reset(a):
    return a
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wait_for(out: io.StringIO, text: str) -> None:
    end = time.monotonic() + 30
    while text not in out.getvalue():
        assert time.monotonic() < end, out.getvalue()
        time.sleep(0.01)


def test_a_stage_that_lasts_is_named_again_and_again_without_a_terminal() -> None:
    out = io.StringIO()
    with ProgressLines(out, period=0.05) as lines:
        lines.begin("starting Spark")
        assert out.getvalue() == ""
        wait_for(out, "starting Spark (0 s)\nstarting Spark (")
        lines.begin("starting the query", lambda: "compiling kernel 3 of 7: fold")
        wait_for(out, "compiling kernel 3 of 7: fold (")


def test_a_short_run_prints_nothing_without_a_terminal() -> None:
    out = io.StringIO()
    with ProgressLines(out, period=60) as lines:
        lines.begin("starting Spark")
        lines.show("batch 0: 1 row")
    assert out.getvalue() == ""


def test_of_many_lines_the_last_in_a_period_is_printed_without_a_terminal() -> None:
    out = io.StringIO()
    with ProgressLines(out, period=0.4) as lines:
        for number in range(1_000):
            lines.show(f"batch {number}")
        wait_for(out, "batch 999\n")
    assert out.getvalue() == "batch 999\n"


def test_a_terminal_shows_every_line_at_once() -> None:
    out = Terminal()
    with ProgressLines(out, period=60) as lines:
        lines.begin("starting Spark")
        lines.show("batch 0")
        lines.show("batch 1")
    assert out.getvalue() == "starting Spark\nbatch 0\nbatch 1\n"


def test_what_cannot_be_looked_at_ends_nothing() -> None:
    def fail() -> str:
        raise RuntimeError("gone")

    out = io.StringIO()
    with ProgressLines(out, period=0.02) as lines:
        lines.begin("running", fail)
        wait_for(out, "running (0 s)")


def test_kernels_are_counted_while_they_are_compiled(tmp_path: Path) -> None:
    """A kernel has a lock file from when it is asked for on, and an index file once it is compiled."""
    module = tmp_path / "agg_1.py"
    module.write_text(MODULE)
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    update, reset = ("agg_1.update-7", "agg_1.reset-11")
    (cache / f"{reset}.lock").touch()
    os.utime(cache / f"{reset}.lock", (1, 1))
    watch = KernelWatch(lambda: [module], tmp_path / "shared")
    assert watch.describe() == "", "a lock of an earlier run"
    (cache / f"{update}.lock").touch()
    assert watch.describe() == "compiling kernel 1 of 2: update"
    (cache / f"{update}.py311.nbi").touch()
    assert watch.describe() == ""
    (cache / f"{reset}.lock").touch()
    assert watch.describe() == "compiling kernel 2 of 2: reset"


def test_kernels_that_all_queries_share_are_named(tmp_path: Path) -> None:
    cache = tmp_path / "storage" / "__pycache__"
    cache.mkdir(parents=True)
    watch = KernelWatch(list, tmp_path)
    assert watch.describe() == ""
    (cache / "arena.grow-7.lock").touch()
    assert watch.describe().endswith("kernel 1 of what all queries share, once: grow of arena")
    (cache / "hashing.mix-3.lock").touch()
    os.utime(cache / "arena.grow-7.lock", (time.time() - 0.5,) * 2)
    assert watch.describe().endswith("once: mix of hashing"), "a kernel asks for another"
    (cache / "hashing.mix-3.py311.nbi").touch()
    assert watch.describe().endswith("kernel 2 of what all queries share, once: grow of arena")


@pytest.mark.slow
def test_the_files_are_those_that_compiling_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of lock and index files are Numba's and ours: here a handler is compiled."""
    from aggloom.codegen import generate, load

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec = AggSpec.from_sql("SELECT k, SUM(n) AS s FROM t GROUP BY k", "k STRING, n INT")
    plan = plan_query(
        "SELECT k, SUM(n) AS s FROM t GROUP BY k",
        {"t": "k STRING, n INT"},
        options=PlanOptions(),
    )
    (module,) = modules_of(plan, "numba")
    assert module == generate(spec).path
    # What other tests compile beside this one is in another folder.
    watch = KernelWatch(lambda: [module], tmp_path / "shared")
    assert watch.describe() == ""
    from aggloom.runtime.local.harness import Harness

    with Harness(load(module)) as harness:
        harness.process([("+I", "a", 1)])
        harness.flush()
    kernels = {name for _, name, _ in watch._kernels}
    made = {each.name.split(".")[1].rpartition("-")[0] for each in module.parent.rglob("*.nbi")}
    assert made and made <= kernels
    locks = [
        module.parent / "__pycache__" / f"{module.stem}.{n}-{at}.lock"
        for _, n, at in watch._kernels
    ]
    assert sum(lock.exists() for lock in locks) >= len(made)
    for index in module.parent.rglob(f"{module.stem}*.nbi"):
        index.unlink()
    assert watch.describe().startswith("compiling kernel 1 of ")


def test_the_batch_under_way_is_read_from_the_logs(tmp_path: Path) -> None:
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
    assert batch_under_way(tmp_path) == ""
    for number in (0, 9, 10):
        (tmp_path / "offsets" / str(number)).touch()
        (tmp_path / "offsets" / f".{number}.crc").touch()
    for number in (0, 9):
        (tmp_path / "commits" / str(number)).touch()
    assert batch_under_way(tmp_path) == "batch 10"
    (tmp_path / "commits" / "10").touch()
    assert batch_under_way(tmp_path) == "after batch 10"
