"""Real files through the in-process reader, with columns inferred, beside Python's csv and json, and DuckDB.

    python -m doors.hunt FOLDER        # from tests/; FOLDER/OWNER+NAME/PATH are files of repositories

It prints a line of a table for each file: read and equal, refused with which words, or wrong. The files are others'
and are not kept here; `benchmarks/notes/hunt-files.md` has the log of the last hunt.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.types as pt

from aggloom.codegen import to_schema
from aggloom.codegen.planner import Scan
from aggloom.errors import AggloomError
from aggloom.runtime.connectors.files.discovery import DEEP, NAMES  # noqa: F401
from aggloom.runtime.formats.packed_files import format_suffix, open_bytes
from aggloom.runtime.local.file_reader import read_files
from aggloom.tables import TableSource, read_table_option

_FORMATS = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")


def try_file(file: Path) -> tuple[str, str, str]:
    """The options with which a file was read, the verdict and its detail; hints of refusals are followed."""
    options, said = _format(file), []
    for _ in range(3):
        try:
            table = read_table_option(f"t={file}{options}")
            rows = list(_rows(table))
        except AggloomError as error:
            why = str(error).replace(str(file), "FILE")
            said.append(why[:150])
            more = _followed(why)
            if not more or more in options:
                return options[1:], "refused", " / ".join(said)
            options += more
            continue
        except (OverflowError, ValueError) as error:
            return options[1:], "read alone", f"Python has no such value: {error}"
        except Exception as error:
            return options[1:], "BROKEN", f"{type(error).__name__}: {error}"[:150]
        verdict, detail = _compared(file, table, rows)
        return options[1:], verdict, " / ".join([*said, detail])
    return options[1:], "refused", " / ".join(said)


def _format(file: Path) -> str:
    """The format of a file of text that is named after a system of change data capture."""
    if file.suffix != ".txt":
        return ""
    return next((f",format={f}" for f in _FORMATS if f.split("-")[0] in file.name.lower()), "")


def _followed(why: str) -> str:
    """The option that a message says to give."""
    if "multiLine=true" in why:
        return ",multiLine=true"
    if "say comment=#" in why:
        return ",comment=#"
    if found := re.search(r"say sep=(\\t|\S)", why):
        return f",sep={found[1]}"
    if found := re.search(r"encoding=([\w-]+)", why):
        return f",encoding={found[1]}"
    if "say escape=\\" in why:
        return ",escape=\\"
    return ""


def _rows(table: TableSource) -> Iterator[tuple[str, dict[str, Any]]]:
    schema = _schema(table)
    words = ["+I", "-U", "+U", "-D"]
    for batch, kinds, *_ in read_files(table.path, table.format, Scan("t", schema), table.options):
        for kind, row in zip(kinds.tolist(), batch.to_pylist(), strict=True):
            yield words[kind], row


def _schema(table: TableSource) -> pa.Schema:
    if table.format in ("canal-json", "ogg-json"):
        return _texts_of(Path(table.path), table.format)
    columns = table.columns()
    return columns if isinstance(columns, pa.Schema) else to_schema(columns)


def _texts_of(file: Path, format: str) -> pa.Schema:
    """The columns of formats that do not say their types, all as texts."""
    with open_bytes(file) as source:
        lines = source.read().decode("utf-8-sig").split("\n")
    names: dict[str, None] = {}
    for line in filter(str.strip, lines):
        try:
            found = json.loads(line)
        except ValueError:
            continue  # The reader says so.
        images = found.get("data") or [found.get("before"), found.get("after")]
        names |= dict.fromkeys(name for image in images for name in image or {})
    return pa.schema([(name, pa.string()) for name in names])


def _compared(
    file: Path, table: TableSource, rows: list[tuple[str, dict[str, Any]]]
) -> tuple[str, str]:
    schema = _schema(table)
    try:
        known = _known(file, table)
    except Exception as error:
        return (
            "read alone",
            f"{len(rows):,} rows; the oracle says {type(error).__name__}: {error}"[:150],
        )
    if len(known) != len(rows):
        return "WRONG", f"{len(rows):,} rows, not {len(known):,}"
    for number, ((word, row), (kind, other)) in enumerate(zip(rows, known, strict=True), 1):
        if word != kind:
            return "WRONG", f"row {number}: {word}, not {kind}"
        for name, value in row.items():
            if not _same(value, other.get(name), schema.field(name).type):
                return "WRONG", f"row {number}, {name}: {value!r}, not {other.get(name)!r}"[:150]
    kinds = sorted({str(field.type) for field in schema})
    return "equal", f"{len(rows):,} rows of {len(schema)} columns ({', '.join(kinds)})"[:150]


def _known(file: Path, table: TableSource) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a file by another reader, with their kinds."""
    if table.format == "parquet":
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.sql(f"SELECT * FROM read_parquet('{file}')").arrow().read_all()
        return [("+I", row) for row in found.to_pylist()]
    with open_bytes(file) as source:
        text = source.read()
    if table.format == "csv":
        given = {name.lower(): value for name, value in table.options.items()}
        lines = text.decode(given.get("encoding", "utf-8")).removeprefix("\ufeff")
        escape = {"escapechar": "\\", "doublequote": False} if given.get("escape") == "\\" else {}
        if mark := given.get("comment"):
            lines = re.sub(rf"(?m)^{re.escape(mark)}.*\n?", "", lines)
        read = csv.reader(io.StringIO(lines, newline=""), delimiter=given.get("sep", ","), **escape)
        header, *rest = [row for row in read if row and not (len(row) == 1 and not row[0].strip())]
        names = [name.strip() for name in header]
        return [
            (_kind(dict(zip(names, row, strict=True))), dict(zip(names, row, strict=True)))
            for row in rest
        ]
    lines = text.decode("utf-8-sig")
    if any(name.lower() == "multiline" for name in table.options):
        whole = json.loads(lines, parse_float=str)
        objects = whole if isinstance(whole, list) else [whole]
    else:
        objects = [json.loads(one, parse_float=str) for one in lines.split("\n") if one.strip()]
    return [change for one in objects for change in _changes(one, table.format)]


def _kind(row: dict[str, str]) -> str:
    words = {"insert": "+I", "update_preimage": "-U", "update_postimage": "+U", "delete": "-D"}
    said = row.get("_change_type") or row.get("op") or "insert"
    return words.get(said, said if said in words.values() else "+I")


def _changes(found: Any, format: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(found, dict):
        return
    if format == "jsonl":
        yield "+I", found
    elif format == "maxwell-json":
        if found["type"] in ("insert", "bootstrap-insert"):
            yield "+I", found["data"]
        elif found["type"] == "delete":
            yield "-D", found["data"]
        elif found["type"] == "update":
            yield "-U", {**found["data"], **found["old"]}
            yield "+U", found["data"]
    elif format == "canal-json":
        olds = found.get("old") or [{}] * len(found["data"] or [])
        for data, old in zip(found["data"] or [], olds, strict=True):
            if found["type"] == "UPDATE":
                yield "-U", {**data, **old}
            yield {"INSERT": "+I", "UPDATE": "+U", "DELETE": "-D"}[found["type"]], data
    else:
        body = found["payload"] if isinstance(found.get("payload"), dict) else found
        kind = body.get("op") or body.get("op_type")
        before, after = body.get("before"), body.get("after")
        if kind in ("u", "U"):
            yield "-U", before
            yield "+U", after
        elif kind in ("d", "D"):
            yield "-D", before
        elif kind in ("c", "r", "I"):
            yield "+I", after


def _same(value: Any, other: Any, kind: pa.DataType) -> bool:
    """Tell whether a value is the other reader's, which has a text where the file has one."""
    if value is None or other is None or other == "":
        return (value is None and other in (None, "")) or value == other
    if not isinstance(other, str):
        return (
            bool(value == other)
            or repr(value) == repr(other)
            or str(value) == str(other)
            or pt.is_nested(kind)
        )
    if isinstance(value, str):
        return value == (other if isinstance(other, str) else json.dumps(other))
    if isinstance(value, bool):
        return value == (other.strip().lower() == "true")
    if isinstance(value, int | Decimal):
        return value == Decimal(other.strip())
    if isinstance(value, float):
        return value == float(other.strip())
    if isinstance(value, datetime):
        found = datetime.fromisoformat(other.strip())
        if value.tzinfo is not None and found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return value == found
    if isinstance(value, date):
        return value == date.fromisoformat(other.strip())
    return False


def main() -> None:
    """Print the table of a folder's files."""
    folder = Path(sys.argv[1])
    tally: dict[str, int] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        owner, _, path = str(file.relative_to(folder)).partition("/")
        options, verdict, detail = try_file(file)
        tally[verdict] = tally.get(verdict, 0) + 1
        detail = detail.replace(str(file), "FILE").replace(str(folder), "FOLDER")
        cells = (owner.replace("+", "/"), path, format_suffix(file), options, verdict, detail)
        print(
            "| "
            + " | ".join(re.sub(r"\s+", " ", cell).replace("|", "&#124;") for cell in cells)
            + " |"
        )
    print(tally, file=sys.stderr)


if __name__ == "__main__":
    main()
