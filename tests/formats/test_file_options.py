"""The options of files: one list, which the Python API, --table and CREATE TABLE share, and which needs no Spark."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import MISSING, fields
from inspect import signature
from typing import Any

import pytest

import aggloom as al
from aggloom.codegen import CreatedTable, read_script
from aggloom.connectors import source_of
from aggloom.errors import SpecError
from aggloom.runtime.connectors.files.options import FileOptions, option_types
from aggloom.tables import read_table_option

OTHERS = ("spark", "path", "format", "schema", "streaming", "keys", "inferred", "options")
"""Parameters of `read_changes` that are no options of files."""
VALUES = {
    "max_files_per_trigger": "3",
    "time_unit": "ms",
    "whole_files": "false",
    "missing": "null",
    "concatenated": "split",
    "unreadable": "drop",
    "side": "refused/",
    "key_separator": "|",
    "decimals": "text",
    "truncate": "ignore",
    "snapshot": "error",
    "database": "shop",
    "table": "orders",
    "images": "partial",
    "order": "name",
    "change_column": "kind",
    "change_values": "I=insert",
    "markers": "data",
    "zero_dates": "null",
    "nanoseconds": "cut",
}


def convert(name: str, text: str) -> Any:
    """Return the value that an option's text stands for."""
    return {bool: text == "true", int: text.isdigit() and int(text)}.get(option_types()[name], text)


def create_table(options: str) -> CreatedTable:
    """Return the table that WITH (options) creates."""
    return read_script(f"CREATE TABLE t (k INT) WITH ({options}); SELECT * FROM t").created["t"]


def test_the_reader_has_every_option_with_its_default() -> None:
    found = {n: p.default for n, p in signature(al.read_changes).parameters.items()}
    declared = {each.name: each.default for each in fields(FileOptions)}
    assert {name: default for name, default in found.items() if name not in OTHERS} == declared
    assert MISSING not in declared.values()


def test_every_option_has_a_value_below() -> None:
    assert list(VALUES) == list(option_types())


@pytest.mark.parametrize("name", VALUES)
def test_every_option_is_an_entry_of_a_table(name: str) -> None:
    made = read_table_option(f"t=changes/,format=debezium-json,schema=k INT,{name}={VALUES[name]}")
    assert made.options == {name: convert(name, VALUES[name])}


@pytest.mark.parametrize("name", VALUES)
def test_every_option_is_one_of_created_tables(name: str) -> None:
    called = "files.order" if name == "order" else name
    table = create_table(
        f"'connector' = 'filesystem', 'path' = 'changes', 'format' = 'json', '{called}' = '{VALUES[name]}'"
    )
    assert source_of(table).options == {name: convert(name, VALUES[name])}


@pytest.mark.parametrize(
    ("name", "near"),
    [("time_units", "time_unit"), ("Images", "images"), ("whole_file", "whole_files")],
)
def test_a_misspelt_option_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(SpecError, match=rf"no entry '{name}'. Did you mean '{near}'"):
        read_table_option(f"t=changes/,format=json,schema=k INT,{name}=x")


def test_an_option_of_files_is_none_of_topics() -> None:
    table = create_table(
        "'connector' = 'kafka', 'topic' = 'a', 'format' = 'json', 'properties.bootstrap.servers' = 'b:9092', "
        "'max_files_per_trigger' = '1'"
    )
    with pytest.raises(SpecError, match="there is no option 'max_files_per_trigger' here"):
        source_of(table)


@pytest.mark.parametrize(
    ("options", "format", "message"),
    [
        (
            {"time_unit": "sec"},
            "jsonl",
            "t: time_unit is 'sec'. Known: 'auto', 's', 'ms', 'us', 'ns'",
        ),
        ({"unreadable": "drop"}, "csv", "t: unreadable is for formats of messages, not for csv"),
        ({"images": "partial"}, "parquet", "t: images is for formats of messages, not for parquet"),
        ({"nanoseconds": "cut"}, "jsonl", "t: nanoseconds is for Parquet files"),
        ({"nanoseconds": "cut", "whole_files": False}, "parquet", "t: nanoseconds is for Parquet"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], format: str, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        FileOptions(**options).check(format, "t")
    assert str(raised.value).startswith(message)


WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from aggloom.cli import main
main(["sql", "--table", "t=t.jsonl,format=jsonl,schema=k INT,missing=null", "-c", "SELECT SUM(k) AS s FROM t"])
"""


def test_tables_of_the_shell_need_no_spark(tmp_path: Any) -> None:
    (tmp_path / "t.jsonl").write_text('{"k": 1}\n{"k": 41}\n')
    command = [sys.executable, "-c", WITHOUT_SPARK]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "42" in done.stdout, done.stderr
