"""Files that come after the columns were inferred: a value that their types would change is refused, with the fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aggloom.errors import InputFormatError
from aggloom.runtime.connectors.files.source import read_changes
from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder
from aggloom.tables import read_table_option

LATER = [
    ("BIGINT", "7", '"007"'),
    ("BIGINT", "7", "12345678901234567890"),
    ("DOUBLE", "7.5", "9007199254740993"),
    ("DECIMAL(38,0)", "7", '"007"'),
    ("BOOLEAN", "true", "1"),
    ("DATE", '"2026-01-02"', "5"),
    ("TIMESTAMP", '"2026-01-02T03:04Z"', "1700000000000"),
    ("TIMESTAMP", '"2026-01-02T03:04Z"', '"2026-01-02T03:04"'),
    ("ARRAY<DOUBLE>", "[7.5]", "[9007199254740993]"),
]


@pytest.mark.parametrize("count", [1, 300])
@pytest.mark.parametrize(("kind", "first", "later"), LATER)
def test_a_value_of_json_that_its_inferred_type_would_change(
    kind: str, first: str, later: str, count: int
) -> None:
    made = decoder("jsonl", f"x {kind}", inferred=True)
    good = [Message(b'{"x": %s}' % first.encode())] * count
    assert len(made.decode(good).words) == count
    with pytest.raises(InputFormatError, match=r"suggest\. Declare the columns, .*x STRING") as why:
        made.decode([*good, Message(b'{"x": %s}' % later.encode(), None, "b.json, line 3")])
    assert str(why.value).startswith("b.json, line 3: column 'x' cannot hold")


def numbers(format: str, value: str) -> str:
    if format == "csv":
        return f"k,x\na,{value}\n"
    return json.dumps({"k": "a", "x": 0}).replace(" 0", f" {value}") + "\n"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format", "first", "later", "whole_files"),
    [
        ("csv", "7", "007", True),
        ("csv", "7", "12345678901234567890", False),
        ("csv", "7.5", "12345678901234567890", True),
        ("csv", "7.5", "0.12345678901234567890", False),
        ("csv", "true", "1", True),
        ("csv", "2026-01-02", "2026-1-2", False),
        ("jsonl", "7", '"007"', True),
        ("jsonl", "7.5", "12345678901234567890", False),
    ],
)
@pytest.mark.sampled(3)
def test_a_file_that_comes_later(
    spark: Any, tmp_path: Path, format: str, first: str, later: str, whole_files: bool
) -> None:
    (tmp_path / f"1.{format}").write_text(numbers(format, first))
    source = read_table_option(f"t={tmp_path}")
    given = {"streaming": False, "whole_files": whole_files, **source.checks}
    rows = read_changes(spark, tmp_path, format, source.columns(), **given)
    assert rows.count() == 1 and len(rows.collect()) == 1
    (tmp_path / f"2.{format}").write_text(numbers(format, later))
    rows = read_changes(spark, tmp_path, format, source.columns(), **given)
    with pytest.raises(Exception, match=r"column 'x' cannot hold '") as raised:
        rows.collect()
    text = str(raised.value)
    assert f"2.{format}" in text and 'schema="x STRING' in text
    # What somebody declared is read as it is declared.
    declared = read_changes(
        spark, tmp_path, format, "k STRING, x STRING", streaming=False, whole_files=whole_files
    )
    assert sorted(row.x for row in declared.collect())[-1] == max(first, later.strip('"'))
