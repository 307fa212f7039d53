"""Files of good, bad and damaged messages, by every policy for what cannot be read, with and without Spark."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from aggloom.codegen.operators import Scan
from aggloom.codegen.spec.dtypes import parse_schema
from aggloom.errors import InputFormatError
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.lines import read_lines
from aggloom.runtime.local.file_reader import read_files
from aggloom.runtime.spark import await_end, read_changes
from aggloom.runtime.spark.plan.metrics import PASSED_OVER
from aggloom.runtime.values.changelog import CHANGE_TYPES
from doors.example import DDL, Row
from doors.messages import VARIANTS, Change, Lines, Variant, lines_of, rows_of
from doors.oracle import ONE_WORD

SCHEMA = parse_schema(DDL)
TOGETHER, BY_SPARK = 25, 3
"""Files that Spark reads at once, and formats of which it reads some."""


class _Bad(Exception):
    """No JSON, or more than one value."""


def told(line: bytes, was: bytes, changes: list[Change] | None, variant: Variant) -> Any:
    """Return the changes of a damaged line, None if it is bad, "unsure" if another reading cannot say."""
    if not line.strip() or (variant.separator is None and line.strip(b" \t") == b"null"):
        return []
    try:
        if _parts(line, variant) == _parts(was, variant):
            return changes
    except _Bad:
        pass
    key, between, value = line.partition((variant.separator or "\n").encode())
    value = value if between else key
    try:
        found = _parsed(value)
    except _Bad:
        return None
    return "unsure" if found is None or isinstance(found, dict) else None


def _parts(line: bytes, variant: Variant) -> list[Any]:
    parts = line.split(variant.separator.encode(), 1) if variant.separator else [line]
    return [json.dumps(_parsed(part), sort_keys=True) for part in parts]


def _parsed(text: bytes) -> Any:
    """One JSON value; numbers with a point as they are written; raises _Bad for what is none, or has a name twice."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        return made if len(made) == len(found) else made | {"twice": [n for n, _ in found]}

    if text.strip(b" \t\r") in (b"", b"null"):
        return None
    try:
        return json.loads(
            text.decode(), object_pairs_hook=pairs, parse_float=lambda f: f"number {f}"
        )
    except (ValueError, RecursionError):
        raise _Bad from None


def read_alone(
    path: Path, variant: Variant, made: Lines, done: Counter[str]
) -> tuple[list[Row], list[int]]:
    """The rows of a file by each policy, without Spark, and the lines that are refused; held to what was made."""
    content = made.content
    path.write_bytes(content)
    options = {name: value for name, value in variant.options if name != "key_separator"}
    reading = decoder(variant.format, DDL, variant.keys or None, "drop", str(path), **options)
    messages = list(read_lines([path], variant.separator))
    found = reading.decode(messages)
    columns = [column.to_pylist() for column in found.columns]
    rows = list(zip(*columns, found.words.to_pylist(), strict=True))
    refused = {_line(message.place): why for message, why in found.refused}
    at, by_line = 0, {}
    for message, count in zip(messages, found.lengths.tolist(), strict=True):
        by_line[_line(message.place)] = rows[at : at + count]
        at += count
    assert at == len(rows)
    check_messages(variant, made, by_line, refused, done)
    assert all(message.value is None or message.value in content for message, _ in found.refused)
    _by_harness(path, variant, rows, refused)
    return rows, sorted(refused)


def check_messages(
    variant: Variant,
    made: Lines,
    rows: Mapping[int, list[Row]],
    refused: Mapping[int, str],
    done: Counter[str],
) -> None:
    """Hold messages to what was made. rows, refused: by their numbers, from 1 on; done: counts what was looked at."""
    for number, (line, changes) in enumerate(zip(made.lines, made.changes, strict=True), 1):
        hurt = number - 1 in made.hurt
        about = (variant, number, line, changes, rows.get(number), refused.get(number))
        if hurt:
            changes = told(line, made.whole[number - 1], changes, variant)
        kind = "damaged" if hurt else "made"
        if changes == "unsure":
            assert number in refused or all(word in ONE_WORD for *_, word in rows[number])
            done[f"{kind} messages, unclear"] += 1
        elif changes is None:
            assert refused.get(number) and not rows[number], ("a bad message was read", *about)
            done[f"{kind} messages, refused"] += 1
        else:
            assert number not in refused, ("a good message was refused", *about)
            got = [_counted(variant, row) for row in rows.get(number, [])]
            assert got == rows_of(variant, changes), ("another table", *about)
            done[f"{kind} messages, read"] += 1


def _line(place: str) -> int:
    return int(place.rpartition(", line ")[2])


def _counted(variant: Variant, row: Row) -> Row:
    """A row as `rows_of` gives it: of one that is gone by key no more than the key counts."""
    name, cnt, word = row
    return name, None if variant.keys and word == "delete" else cnt, word


def _by_harness(path: Path, variant: Variant, rows: list[Row], refused: dict[int, str]) -> None:
    """The harness passes over the same messages, or stops at the first."""
    scan = Scan("t", SCHEMA, "upsert" if variant.keys else "retract", variant.keys)

    def read(policy: str) -> tuple[list[Row], list[int]]:
        options = {**dict(variant.options), "unreadable": policy}
        got: list[Row] = []
        passed: list[int] = []
        for batch, kinds, odd, _ in read_files(path, variant.format, scan, options):
            columns = [column.to_pylist() for column in batch.columns]
            got += zip(*columns, [CHANGE_TYPES[kind] for kind in kinds], strict=True)
            passed += [_line(message.place) for message, _ in odd]
        return got, passed

    got, passed = read("drop")
    assert passed == sorted(refused)
    assert got == [(name, cnt, ONE_WORD[word]) for name, cnt, word in rows], (variant, path)
    if not refused:
        assert read("error") == (got, [])
        return
    try:
        read("error")
    except InputFormatError as error:
        assert f"{path}, line {min(refused)}: {refused[min(refused)]}" in str(error)
    else:
        raise AssertionError(("a bad message was read", variant, path.read_bytes()))


def check_mixed(
    spark: Any, r: random.Random, examples: int, directory: Path, done: Counter[str]
) -> None:
    """So many files of each format; Spark reads some of them too, of a few formats, many at once."""
    chosen = r.sample(VARIANTS, BY_SPARK) if spark is not None else []
    for place, variant in enumerate(VARIANTS):
        root = directory / f"mixed-{place}"
        root.mkdir(parents=True)
        rows, refused = Counter[Row](), Counter[tuple[str, int]]()
        for number in range(examples):
            path = root / f"{number}.txt"
            made = lines_of(r, variant)
            found, bad = read_alone(path, variant, made, done)
            done[f"{variant.format}{' by keys' if variant.keys else ''}"] += 1
            rows.update(found)
            refused.update((path.name, line) for line in bad)
            if number >= TOGETHER or variant not in chosen:
                rows.subtract(found)
                refused.subtract((path.name, line) for line in bad)
                path.unlink()
        if variant in chosen:
            _by_spark(spark, r, variant, root, +rows, +refused)


def _by_spark(
    spark: Any,
    r: random.Random,
    variant: Variant,
    root: Path,
    rows: Counter[Row],
    refused: Counter[tuple[str, int]],
) -> None:
    policy = r.choice(["drop", "side", "side"])
    side = root.with_name(f"{root.name}-side")
    streaming = r.random() < 0.3
    df = read_changes(
        spark,
        str(root),
        variant.format,
        DDL,
        streaming=streaming,
        keys=variant.keys or None,
        unreadable=policy,
        side=side if policy == "side" else None,
        **dict(variant.options),
    )
    if streaming:
        name = f"doors{r.randrange(1 << 40)}"
        query = df.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
        await_end(query)
        assert sum(_refused(query)) == refused.total()
        df = spark.table(name)
    got = Counter(map(tuple, df.collect()))
    assert got == rows, (variant, got - rows, rows - got)
    if policy == "side" and refused:
        table = pq.read_table(side).to_pylist()
        there = Counter(list(_places(table, root)))
        assert there == refused, (variant, there - refused, refused - there)


def _places(table: list[dict[str, Any]], root: Path) -> Iterator[tuple[str, int]]:
    """The file and line of each message of a side table, found by its bytes, as files of Spark's tell no line."""
    for row in table:
        assert row["reason"]
        name = row["place"].partition(", line")[0].rpartition("/")[2]
        lines = (root / name).read_bytes().split(b"\n")
        value = row["value"] or b""
        yield name, _nth(table, row, lines, value)


def _nth(table: list[dict[str, Any]], row: dict[str, Any], lines: list[bytes], value: bytes) -> int:
    # A value that is none is the word for it, or nothing, behind its key.
    nothing = (b"null", b"\t", b"|")
    same = [
        n
        for n, line in enumerate(lines, 1)
        if (line.endswith(value) if value else line.rstrip(b" ").endswith(nothing))
    ]
    before = [o for o in table if o["value"] == row["value"] and o["place"] == row["place"]]
    return same[min(next(n for n, o in enumerate(before) if o is row), len(same) - 1)]


def _refused(query: Any) -> Iterator[int]:
    for progress in query.recentProgress:
        for name, metric in progress["observedMetrics"].items():
            if name.startswith(PASSED_OVER):
                yield metric["refused"] or 0
