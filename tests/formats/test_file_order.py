"""The order of files: by time of modification, or by name where the table says so, at every entry point."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from aggloom.cli import main
from aggloom.errors import FileOrderError, SpecError
from aggloom.runtime.connectors.files.discovery import files_at
from aggloom.runtime.connectors.files.table_file import read_table
from aggloom.runtime.spark import await_end, read_changes, sql, write_changes
from aggloom.sample import write_sample
from aggloom.tables import read_table_option

QUERY = "SELECT customer, SUM(amount) AS s FROM t GROUP BY customer"
DDL = "customer STRING, amount INT"


@pytest.fixture
def changes(tmp_path: Path) -> Path:
    """The sample, its first file modified last."""
    files = write_sample(tmp_path / "in")
    newest = max(file.stat().st_mtime for file in files) + 10
    os.utime(files[0], (newest, newest))
    return tmp_path / "in"


def ask(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["sql", "--format", "csv", *arguments])


@pytest.mark.parametrize(("order", "ada"), [("", 133), (",order=time", 133), (",order=name", 53)])
def test_the_shell_reads_files_in_the_order_of_the_table(
    changes: Path, order: str, ada: int
) -> None:
    found = ask("--table", f"t={changes},schema={DDL}{order}", "-c", QUERY)
    assert f"Ada,{ada}\n" in found.stdout
    assert ("with order=name" in found.stderr) == (ada == 133)
    told = f", 'files.order' = '{order.removeprefix(',order=')}'" if order else ""
    words = f"'connector' = 'filesystem', 'path' = '{changes}', 'format' = 'debezium-json'{told}"
    made = f"CREATE TABLE t ({DDL}) WITH ({words});"
    assert f"Ada,{ada}\n" in ask("-c", f"{made} {QUERY}").stdout


def test_order_by_name_is_that_of_paths(tmp_path: Path) -> None:
    for name in ("b", "a%20c", "a c", "é", "k=1/z"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = files_at(tmp_path, deep=True, by_name=True)
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["a c", "a%20c", "b", "k=1/z", "é"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("order=nmae", "Did you mean 'name'"),
        ("connector=kafka,servers=x,topic=y,order=name", "order is of files"),
    ],
)
def test_another_order_is_refused(option: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        read_table_option(f"t=in,format=debezium-json,schema={DDL},{option}")


@pytest.mark.parametrize("cap", ["maxFilesPerTrigger=1", "max_files_per_trigger=1"])
def test_order_by_name_over_batches_is_refused_before_spark_starts(changes: Path, cap: str) -> None:
    table = f"t={changes},format=debezium-json,schema={DDL},order=name,{cap}"
    found = CliRunner().invoke(main, ["run", "--table", table, "--sql", QUERY, "--sink", "table"])
    assert found.exit_code and f"Leave {cap.partition('=')[0]} out" in found.output


FILES = {
    "jsonl": lambda table, path: path.write_text(
        "".join(f'{{"op": "{r["op"]}", "k": "{r["k"]}"}}\n' for r in table.to_pylist())
    ),
    "csv": pc.write_csv,
    "parquet": pq.write_table,
}


@pytest.mark.spark
@pytest.mark.parametrize("format", FILES)
@pytest.mark.sampled(1)
def test_a_stream_reads_files_by_name(spark: Any, tmp_path: Path, format: str) -> None:
    def put(name: str, at: int, *rows: tuple[str, str]) -> None:
        table = pa.Table.from_pylist([dict(zip(("op", "k"), row, strict=True)) for row in rows])
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        FILES[format](table, path)
        os.utime(path, (at, at))

    def run(state: str, **options: Any) -> list[str]:
        df = read_changes(spark, tmp_path / "in", format, "k STRING", **options)
        filtered = df if state != "where" else df.where("k <> 'z'")
        query = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
        await_end(write_changes(sql(query, t=filtered, buckets=1), "table", tmp_path / state))
        return sorted(read_table(tmp_path / state).column("k").to_pylist())

    # A space is escaped in Spark's paths, and stands before what it is escaped with.
    put("a b", 300, ("+I", "x"), ("+I", "y"))
    put("a!", 200, ("-D", "x"))
    assert run("time") == ["x", "y"]
    for state in ("name", "where"):
        assert run(state, order="name") == ["y"]
    with pytest.raises(SpecError, match="maxBytesPerTrigger cuts"):
        run("capped", order="name", maxBytesPerTrigger=10)
    put("b", 100, ("-D", "y"))
    assert run("name", order="name") == []
    put("ab", 400, ("-D", "x"))
    with pytest.raises(FileOrderError, match=r"ab is new, and by name it stands before .*b, which"):
        run("name", order="name")
