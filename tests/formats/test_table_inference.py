"""Infer a table's format, columns and types from its files; and draw tables in a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from aggloom.cli import main
from aggloom.codegen import type_name
from aggloom.errors import InputFormatError, SpecError
from aggloom.sample import write_sample
from aggloom.tables import TableSource, read_table_option
from aggloom.terminal_table import in_order, show_rows, show_table


def told(path: Path | str, more: str = "") -> tuple[str, dict[str, str]]:
    """The format and the columns that files tell."""
    source = read_table_option(f"t={path}{more}")
    columns = source.columns()
    assert isinstance(columns, pa.Schema)
    return source.format, {field.name: type_name(field.type) for field in columns}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_json_lines(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "t.json",
        {"op": "+I", "i": 1, "f": 1, "s": "x", "b": True, "d": "2026-01-02", "n": None},
        {"i": 2, "f": 1.5, "t": "2026-01-02T03:04:05Z", "l": "2026-01-02 03:04", "a": [{"x": 1}]},
        {"i": None, "big": 2**63, "o": {"p": "q"}, "m": "2026-01-02", "op": "-D"},
        {"m": "soon"},
    )
    assert told(file) == (
        "jsonl",
        {
            "i": "BIGINT",
            "f": "DOUBLE",
            "s": "STRING",
            "b": "BOOLEAN",
            "d": "DATE",
            "n": "STRING",
            "t": "TIMESTAMP",
            "l": "TIMESTAMP_NTZ",
            "a": "ARRAY<STRUCT<x BIGINT>>",
            "big": "DECIMAL(38,0)",
            "o": "STRUCT<p STRING>",
            "m": "STRING",
        },
    )
    # A column `op` that says no kinds is one like others; two times with and without a zone are texts.
    other = lines(
        tmp_path / "u.jsonl", {"op": "buy", "t": "2026-01-02T00:00Z"}, {"t": "2026-01-02T00:00"}
    )
    assert told(other)[1] == {"op": "STRING", "t": "STRING"}


def test_files_that_are_written_again_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        lines(tmp_path / folder / "t.json", {folder: 1})
        monkeypatch.chdir(tmp_path / folder)
        assert told("t.json") == ("jsonl", {folder: "BIGINT"})
    lines(Path("t.json"), {"three": "x", "four": 1.5})
    assert told("t.json") == ("jsonl", {"three": "STRING", "four": "DOUBLE"})


def test_a_file_that_comes_later_leaves_the_columns_of_a_run(tmp_path: Path) -> None:
    lines(tmp_path / "1.jsonl", {"x": 1})
    source = read_table_option(f"t={tmp_path}")
    columns = source.columns()
    lines(tmp_path / "2.jsonl", {"x": "007", "y": 2})
    assert source.columns() == columns and source.checks == {"inferred": True}


def test_a_directory_a_pattern_and_one_file(tmp_path: Path) -> None:
    write_sample(tmp_path / "changes")
    columns = {"id": "BIGINT", "customer": "STRING", "amount": "BIGINT"}
    for place in ("changes", "changes/*.json", "changes/orders-2.json"):
        assert told(tmp_path / place) == ("debezium-json", columns)
    source = read_table_option(f"o={tmp_path}/changes")
    assert (source.describe_inferred() or "").startswith(
        f"o: columns inferred from 17 rows of {tmp_path}/changes/orders-1.json"
    )
    assert (source.describe_inferred() or "").endswith(
        "schema=id BIGINT, customer STRING, amount BIGINT"
    )
    assert TableSource("o", "x", "jsonl", "a INT").describe_inferred() is None


@pytest.mark.parametrize(
    ("message", "format"),
    [
        ({"payload": {"op": "c", "after": {"a": 1}}, "schema": None}, "debezium-json"),
        ({"database": "d", "table": "t", "type": "insert", "data": {"a": 1}}, "maxwell-json"),
        ({"a": 1}, "jsonl"),
        ({"op": "c", "a": 1}, "jsonl"),
    ],
)
def test_messages_say_their_format(tmp_path: Path, message: Any, format: str) -> None:
    found = told(lines(tmp_path / "t.json", message))
    assert found[0] == format and found[1]["a"] == "BIGINT"


@pytest.mark.parametrize(
    ("message", "format"),
    [
        ({"database": "d", "table": "t", "type": "INSERT", "data": [{"a": "1"}]}, "canal-json"),
        ({"table": "s.t", "op_type": "I", "after": {"a": "1"}}, "ogg-json"),
    ],
)
def test_messages_whose_values_are_texts_need_a_schema(
    tmp_path: Path, message: Any, format: str
) -> None:
    file = lines(tmp_path / "t.json", message)
    with pytest.raises(
        SpecError, match=f"table t: {format} does not say its types; add schema=DDL"
    ):
        told(file)
    assert read_table_option(f"t={file},schema=a INT").format == format


def test_connect_says_types_of_its_own(tmp_path: Path) -> None:
    kinds = [
        ("i", "int32", None, None),
        ("d", "int32", "io.debezium.time.Date", None),
        ("t", "int64", "io.debezium.time.MicroTimestamp", None),
        ("z", "string", "io.debezium.time.ZonedTimestamp", None),
        ("c", "int64", "io.debezium.time.MicroTime", None),
        (
            "m",
            "bytes",
            "org.apache.kafka.connect.data.Decimal",
            {"scale": "2", "connect.decimal.precision": "10"},
        ),
        ("u", "string", "io.debezium.data.Uuid", None),
    ]
    fields: list[dict[str, Any]] = [
        {"field": f, "type": t, "name": n, "parameters": p} for f, t, n, p in kinds
    ]
    fields.append({"field": "l", "type": "array", "items": {"type": "string"}})
    schema = {"fields": [{"field": "after", "fields": fields}]}
    message = {"schema": schema, "payload": {"op": "c", "before": None, "after": {"i": 1}}}
    assert list(told(lines(tmp_path / "t.json", message))[1].items()) == [
        *(("i", "INT"), ("d", "DATE"), ("t", "TIMESTAMP_NTZ"), ("z", "TIMESTAMP"), ("c", "TIME")),
        *(("m", "DECIMAL(10,2)"), ("u", "STRING"), ("l", "ARRAY<STRING>")),
    ]
    fields.append({"field": "g", "type": "struct", "name": "io.debezium.data.geometry.Point"})
    with pytest.raises(
        SpecError, match=r"column 'g' is io\.debezium\.data\.geometry\.Point, of which"
    ):
        told(lines(tmp_path / "u.json", message))


def test_csv(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(
        '\ufeffid,zip,on,x,b,"a,b",e\n1,01234,2026-01-02,1.5e3,true,x,\n-2,,,2,FALSE,"y\nz",\n'
    )
    assert told(file) == (
        "csv",
        {
            "id": "BIGINT",
            "zip": "STRING",
            "on": "DATE",
            "x": "DOUBLE",
            "b": "BOOLEAN",
            "a,b": "STRING",
            "e": "STRING",
        },
    )
    assert "`a,b` STRING" in (read_table_option(f"t={file}").describe_inferred() or "")
    file.with_name("u.csv").write_text("a;b\n1;2\n")
    assert told(file.with_name("u.csv"), ",sep=;")[1] == {"a": "BIGINT", "b": "BIGINT"}
    file.with_name("v.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(
        InputFormatError, match="line 2: not as many values, 3, as the header has names, 2"
    ):
        told(file.with_name("v.csv"))


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["12345678901234567890", "12345678901234567891"], "DECIMAL(38,0)"),
        (["-9223372036854775808", "9223372036854775807"], "BIGINT"),
        (["1", "9223372036854775808"], "DECIMAL(38,0)"),
        (["1" * 38, "2"], "DECIMAL(38,0)"),
        (["1" * 39, "2"], "STRING"),
        (["007", "8"], "STRING"),
        (["00123", "1.5"], "STRING"),
        (["1.5", "12345678901234567890"], "DECIMAL(38,1)"),
        (["1.5", "9007199254740993"], "DECIMAL(38,1)"),
        (["1.5", "9007199254740992", "0.30000000000000004", "1e-05", "2.50"], "DOUBLE"),
        (["0.1234567890123456789"], "DECIMAL(38,19)"),
        (["1e400"], "STRING"),
        (["1e30", "0.1234567890123456789"], "STRING"),
        (["12345678901234567890", "x"], "STRING"),
    ],
)
def test_numbers_of_csv_files_keep_their_digits(
    tmp_path: Path, values: list[str], type: str
) -> None:
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["id,n", *(f"{value},1" for value in values)]))
    assert told(file)[1]["id"] == type


def test_json_numbers_that_double_would_round_need_a_schema(tmp_path: Path) -> None:
    file = lines(tmp_path / "t.jsonl", {"a": 1.5}, {"a": 2**53 + 1})
    with pytest.raises(SpecError, match=r"column 'a' of .* DOUBLE would round; give schema=DDL"):
        told(file)
    assert told(lines(tmp_path / "u.jsonl", {"a": 1.5}, {"a": 2**53}))[1] == {"a": "DOUBLE"}


def test_what_cannot_be_told(tmp_path: Path) -> None:
    mixed = lines(tmp_path / "t.jsonl", {"a": 1, "b": 1}, {"a": "x", "b": 1})
    with pytest.raises(
        SpecError, match=r"column 'a' of .* holds numbers and texts; give schema=DDL"
    ):
        told(mixed)
    with pytest.raises(InputFormatError, match=r"t\.jsonl, line 2 is no JSON"):
        mixed.write_text('{"a": 1}\n{"a"\n')
        read_table_option(f"t={tmp_path}/./t.jsonl,format=jsonl").columns()
    with pytest.raises(SpecError, match="no row shows the columns"):
        told(lines(tmp_path / "n.jsonl", None))
    with pytest.raises(SpecError, match="does not say its types; add schema=DDL"):
        told("s3://b/x.jsonl")
    with pytest.raises(SpecError, match=r"no file or directory .*Did you mean .*'n\.jsonl'"):
        told(tmp_path / "m.jsonl")


def test_tables_are_drawn_by_their_key(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("b", "NULL", 2), ("a", None, None), ("[red]c", "x" * 300, 10), (None, "", 1)]
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(("k", "t", "n"))})
    by_number = in_order(table, ["n"])
    assert by_number["n"].to_pylist() == [None, 1, 2, 10]
    show_table(in_order(table, ["k"]))
    drawn = capsys.readouterr().out
    cells = [
        [c.strip() for c in line.split("│")[1:-1]] for line in drawn.splitlines() if "│" in line
    ]
    # Nothing is cut off in a pipe, and nothing of a value is markup.
    assert cells == [
        ["NULL", "''", "1"],
        ["[red]c", "x" * 300, "10"],
        ["a", "NULL", "NULL"],
        ["b", "'NULL'", "2"],
    ]


def test_long_tables_end_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"n": list(range(1_500))})
    show_table(table, "--json gives all")
    out, err = capsys.readouterr()
    assert out.count("│") == 2_000
    assert err == "the first 1,000 of 1,500 rows are shown; --json gives all\n"


def test_rows_as_csv_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(None, ""), ("NULL", 'a"b'), (" x", 1.5)]
    show_rows(("a", "b,c"), rows, "csv")
    assert capsys.readouterr().out == 'a,"b,c"\n,""\nNULL,"a""b"\n" x",1.5\n'
    show_rows(("a", "b,c"), rows, "json")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        dict(zip(("a", "b,c"), row, strict=True)) for row in rows
    ]


def test_a_run_says_what_it_took_and_what_it_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sample(tmp_path / "changes")
    placed: list[Path] = []
    monkeypatch.setattr(
        "aggloom.run._run", lambda jobs, _: placed.extend(place for _, place in jobs)
    )
    query = [
        "run",
        "--sql",
        "SELECT COUNT(*) AS n FROM o",
        "--table",
        f"o={tmp_path}/changes/*.json",
    ]
    said = CliRunner().invoke(main, query, prog_name="aggloom")
    assert said.exit_code == 0, said.output
    told, kept = said.stderr.splitlines()
    assert told.startswith("o: columns inferred from 17 rows of ") and "schema=id BIGINT" in told
    assert (
        kept
        == "no --checkpoint: this run starts from the beginning, and keeps nothing when it ends"
    )
    assert not placed[0].parent.exists()
    place = tmp_path / "state"
    given = [*query[:-1], f"{query[-1]},schema=id INT", "--checkpoint", str(place)]
    quiet = CliRunner().invoke(main, given, prog_name="aggloom")
    assert (quiet.exit_code, quiet.stderr, placed[1]) == (0, "", place)


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        ("7", "007", "BIGINT"),
        ("7", "1.5", "BIGINT"),
        ("7.5", "12345678901234567890", "DOUBLE"),
        ("7.5", "0.12345678901234567890", "DOUBLE"),
        ("7.5", "007", "DOUBLE"),
        ("12345678901234567890.5", "1.25", r"DECIMAL\(38,1\)"),
        ("2026-01-02", "2026-01-02 03:04:05", "DATE"),
        ("2026-01-02 03:04", "2026-01-02T03:04Z", "TIMESTAMP_NTZ"),
        ("true", "1", "BOOLEAN"),
    ],
)
def test_later_rows_keep_to_the_types_that_the_first_ones_suggest(
    tmp_path: Path, first: str, later: str, said: str
) -> None:
    file = tmp_path / "t.csv"
    file.write_text("k,a\n" + f"k,{first}\n" * 10_001 + f"k,\nk,{later}\nk,{first}\n")
    wanted = rf"t\.csv, row 10003: column 'a' has '{later}', but is {said} by the first 10,000 rows"
    with pytest.raises(InputFormatError, match=wanted):
        told(file)
    result = CliRunner().invoke(main, ["sql", "--table", f"t={file}", "-c", "SELECT a FROM t"])
    assert result.exit_code and 'Declare the columns, such as schema="a STRING' in result.output
    file.write_text("k,a\n" + f"k,{first}\n" * 10_003)
    assert list(told(tmp_path / "." / ".." / tmp_path.name / "t.csv")[1]) == ["k", "a"]


@pytest.mark.parametrize("format", ["jsonl", "maxwell-json", "debezium-json"])
def test_later_whole_numbers_that_double_would_round_need_a_schema(
    tmp_path: Path, format: str
) -> None:
    rows: list[dict[str, Any]] = [*[{"a": [1.5]}] * 10_001, {"a": [2**53]}, {"a": [2**53 + 1]}]
    around = {
        "jsonl": lambda row: row,
        "maxwell-json": lambda row: {"database": "d", "table": "t", "type": "insert", "data": row},
        "debezium-json": lambda row: {"op": "c", "before": None, "after": row},
    }[format]
    file = lines(tmp_path / "t.jsonl", *map(around, rows))
    with pytest.raises(InputFormatError, match=r"t\.jsonl, line 10003: column 'a' has 900"):
        told(file)


@pytest.mark.parametrize("declared", ["", ",schema=a INT"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"a": 1}, {"a": 2}]', "is a JSON array.*jq -c '.\\[]'"),
        ('[\n  {"a": 1}\n]\n', "is a JSON array"),
        ('{\n  "a": 1\n}\n', "a JSON value over several lines.*jq -c"),
    ],
)
def test_json_that_is_not_in_lines_is_described(
    tmp_path: Path, text: str, said: str, declared: str
) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    table = f"t={tmp_path}/t.jsonl{declared}"
    result = CliRunner().invoke(main, ["sql", "--table", table, "-c", "SELECT a FROM t"])
    assert result.exit_code
    assert re.search(said, result.output), result.output
