"""The start of a command: nothing is imported that it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import aggloom.sample as sample

ROOT = Path(__file__).parents[2]
FACES = ("aggloom.codegen", "aggloom.codegen.planner", "aggloom.codegen.windows")
TABLE = "orders={},format=debezium-json,schema=customer STRING, amount INT"
SQL = "SELECT customer, COUNT(*) AS orders, SUM(amount) AS spent FROM orders GROUP BY customer"


def modules_after(*words: str, kernels: Path | None = None) -> set[str]:
    """Run a command in a process of its own; return the names of the modules that it has imported.

    kernels: a directory for compiled kernels, in place of the user's.
    """
    code = (
        "import sys; from aggloom.cli import main; sys.argv[1:] = %r\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code % list(words)],
        capture_output=True,
        text=True,
        env={**os.environ, **({} if kernels is None else {"NUMBA_CACHE_DIR": str(kernels)})},
    )
    assert found.returncode == 0, found.stderr
    return set(found.stderr.splitlines()[-1].split())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """The checkpoint of the sample on the local engine, and the modules that its run has imported."""
    folder = tmp_path_factory.mktemp("start")
    sample.write_sample(folder / "changes")
    words = ("--table", TABLE.format(folder / "changes"), "--sql", SQL, "--sink", "table")
    runs = [
        modules_after(
            *("run", "--engine", "local", *words, "--checkpoint", str(folder / name)),
            kernels=folder / "kernels",
        )
        for name in ("first", "state")
    ]
    # The first run may format what it generates.
    return folder / "state", runs[1]


def test_help_imports_neither_arrow_nor_the_compiler() -> None:
    found = modules_after("--help")
    assert {"pyarrow", "numpy", "numba", "sqlglot", "jinja2", "aggloom.tables"} & found == set()


def test_a_run_imports_what_its_plan_has(checkpoint: tuple[Path, set[str]]) -> None:
    _, found = checkpoint
    assert "aggloom.runtime.operators.group_aggregate" in found
    # Python runs the kernels of a few rows itself, so Numba is not even imported.
    assert {"numba", "pandas", "black", "pyspark", "pyarrow.dataset", "asyncio"} & found == set()
    assert not list((checkpoint[0].parent / "kernels").rglob("*.nbc"))
    assert not any(name.startswith("aggloom.runtime.operators.windows.s") for name in found)
    assert not any(name.startswith("aggloom.runtime.connectors.kafka.s") for name in found)


@pytest.mark.parametrize("words", [("state",), ("why", "--key", "customer=Ada")])
def test_a_look_plans_no_query(checkpoint: tuple[Path, set[str]], words: tuple[str, ...]) -> None:
    kernels = checkpoint[0].parent / "kernels"
    found = modules_after(words[0], str(checkpoint[0]), *words[1:], kernels=kernels)
    unread = {"numba", "pandas", "black", "pyspark", "asyncio", "aggloom.codegen.planner.plan"}
    assert unread & found == set()


@pytest.mark.parametrize("package", FACES)
def test_faces_import_their_names_when_asked(package: str) -> None:
    module = import_module(package)
    assert module.__all__ and all(hasattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_pandas_is_known_to_arrow_once_it_is_imported() -> None:
    """Arrow makes the same of pandas' objects as without the delay."""
    code = """
import sys
import pyarrow as pa
if len(sys.argv) > 1:
    from aggloom.pandas_on_demand import put_off_pandas
    put_off_pandas()
pa.array([1, 2], pa.int64()), pa.array(["x"], pa.string())
assert ("pandas" in sys.modules) == (len(sys.argv) == 1)
import pandas as pd
times = pd.Series([pd.Timestamp(1), pd.NaT])
print(pa.array(pd.Series([1.5, None])), pa.array(times), pa.array([pd.NaT], from_pandas=True))
print(pa.array([pd.Timestamp(5)], pa.timestamp("ns")), pa.array([pd.Timedelta(5)]))
print(pa.table({"a": [1]}).to_pandas(), pa.Table.from_pandas(pd.DataFrame({"a": [1, None]})))
print(pd.__loader__ is pd.__spec__.loader, type(pd.__loader__))
"""
    shown = [
        subprocess.run(
            [sys.executable, "-c", code, *more], capture_output=True, text=True, check=True
        )
        for more in ((), ("late",))
    ]
    assert shown[0].stdout == shown[1].stdout != ""
