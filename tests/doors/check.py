"""Examples through every door, held to what they were made of, or to a reading of its own where bytes were damaged."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from doors.example import Example, Row, Verdict
from doors.mixed import check_mixed
from doors.oracle import judge
from doors.reading import (
    attempt,
    by_spark,
    collected,
    frame,
    harness_file,
    harness_table,
    packed,
    signed,
    spelt,
    whole,
    whole_by_spark,
)
from doors.shapes import check_shapes
from doors.tables import CHECKED, by_arrow, by_duckdb, parquet_example, table
from doors.texts import text_example

TEXTS = ("jsonl", "debezium-json", "csv")
CHEAP, MIXED = 2, 4
"""So many times more examples for doors that need no Spark, and for files of messages in all formats."""


def check(spark: Any, seed: int, examples: int, directory: Path) -> Counter[str]:
    """So many rounds of examples; raises AssertionError, with the example, where one was read wrongly."""
    done: Counter[str] = Counter()
    for format in TEXTS:
        _texts(spark, format, random.Random(f"{seed} {format}"), examples, directory, done)
    made = random.Random(f"{seed} parquet")
    _parquet(spark, made, examples * CHEAP, directory / "parquet-whole", done, by_row=False)
    _parquet(spark, made, examples, directory / "parquet-spark", done, by_row=True)
    _frames(spark, random.Random(f"{seed} frame"), examples * CHEAP, done)
    check_mixed(spark, random.Random(f"{seed} mixed"), examples * MIXED, directory, done)
    check_shapes(spark, str(seed), examples, directory, done)
    return done


def _texts(
    spark: Any, format: str, r: random.Random, examples: int, directory: Path, done: Counter[str]
) -> None:
    good, expected = directory / f"{format}-good", Counter[Row]()
    good.mkdir(parents=True)
    for number in range(examples):
        made = text_example(r, format)
        verdict = judge(format, made.content)
        if not made.damaged:
            # What was made is known: the oracle, too, is held to it.
            same = verdict.bad if made.rows is None else verdict.rows == made.rows
            assert same and not verdict.unsure, ("the oracle is wrong", format, made, verdict)
        kind = "damaged" if made.damaged else "made"
        if not verdict.bad and not verdict.unsure:
            (good / f"{number}.txt").write_bytes(made.content)
            expected.update(verdict.rows)
            done[f"{kind}, read"] += 1
            continue
        alone = directory / f"{format}-{number}"
        alone.mkdir()
        (alone / "f.txt").write_bytes(made.content)
        found, said = attempt(str(alone), by_spark, spark, format, alone)
        _fits(verdict, found, (format, made, verdict, said))
        done[f"{kind}, refused" if found is None else f"{kind}, unclear and read"] += 1
        shutil.rmtree(alone)
    found = Counter(by_spark(spark, format, good)) if any(good.iterdir()) else Counter()
    assert found == expected, (format, seed_of(good), found - expected, expected - found)
    shutil.rmtree(good)


def seed_of(directory: Path) -> list[str]:
    """The first files of a directory, for a message."""
    return [str(path) for path in sorted(directory.iterdir())[:3]]


def _fits(verdict: Verdict, found: list[Row] | None, example: Any) -> None:
    """A bad file is refused; of one that is unclear, at most the lines that are differ."""
    if found is None:
        return
    assert not verdict.bad, ("a bad message was read", found, example)
    lost, more = Counter(verdict.rows) - Counter(found), Counter(found) - Counter(verdict.rows)
    assert not lost and more.total() <= 2 * verdict.unsure, ("another table", found, example)


def _parquet(
    spark: Any, r: random.Random, examples: int, directory: Path, done: Counter[str], by_row: bool
) -> None:
    good, expected = directory / "good", list[Row]()
    good.mkdir(parents=True)
    for number in range(examples):
        made = parquet_example(r)
        alone = directory / str(number)
        alone.mkdir()
        path = alone / "f.parquet"
        path.write_bytes(made.content)
        kind = "damaged" if made.damaged else "made"
        sound = made.rows is not None and not made.damaged
        found, said = None, ""
        if sound:
            path.rename(good / f"{number}.parquet")
            expected += made.rows or []
        if by_row and not sound:
            found, said = attempt(str(alone), by_spark, spark, "parquet", alone)
        elif not by_row:
            found, said = attempt(str(path), whole, made.content, str(path))
            _by_harness(made, found, good / f"{number}.parquet" if sound else path)
        if made.damaged and found is not None:
            _as_another_reads(made, found, path)
        elif sound:
            assert by_row or (found is not None and spelt(found) == spelt(made.rows or [])), (
                *("parquet", made, found, said),
            )
        else:
            assert found is None, ("a bad file was read", made, found)
        done[f"{kind}, {'read' if sound or found is not None else 'refused'}"] += 1
        shutil.rmtree(alone)
    if by_row and expected:
        found = by_spark(spark, "parquet", good)
        assert spelt(found) == spelt(expected), ("parquet", seed_of(good))
    elif expected:
        assert whole_by_spark(spark, good) == signed(expected), ("parquet", seed_of(good))
    shutil.rmtree(directory)


def _by_harness(made: Example, found: list[Row] | None, path: Path) -> None:
    """A harness reads a Parquet file as a worker does, or refuses it too."""
    got, said = attempt(str(path), harness_file, path)
    if got is not None and found is None and made.damaged:
        _as_another_reads(made, got, path)
        return
    assert (got is None) == (found is None), ("a harness", made, got, found, said)
    assert got is None or found is None or spelt(got) == spelt(found), ("a harness", made, got)


def _as_another_reads(made: Example, found: list[Row], path: Path) -> None:
    """Damage that no checksum shows: the rows are those that were written, or those that others read there."""
    readings = (
        lambda: made.rows,
        lambda: by_duckdb(str(path)),
        lambda: by_arrow(made.content, made.about == CHECKED),
    )
    for reading in readings:
        rows = reading()
        if rows is not None and spelt(rows) == spelt(found):
            return
    raise AssertionError(("another table", made, found))


def _frames(spark: Any, r: random.Random, examples: int, done: Counter[str]) -> None:
    tables, expected = list[pa.Table](), list[Row]()
    for _ in range(examples):
        made, rows = table(r, exact=True)
        if rows is None:
            _, said = attempt("", frame, spark, made)
            if not said:
                _, said = attempt("", packed, made)
            assert said, ("a bad DataFrame was read", made)
            for form in (made, made.to_pandas(types_mapper=pd.ArrowDtype)):
                _, said = attempt("", harness_table, form)
                assert said, ("a bad table was read", made)
            done["made, refused"] += 1
            continue
        assert spelt(packed(made)) == spelt(rows), ("DataFrame", made)
        for form in (made, made.to_pandas(types_mapper=pd.ArrowDtype)):
            assert spelt(harness_table(form)) == spelt(rows), ("a harness", made)
        done["made, read"] += 1
        change = [name for name in made.column_names if name.lower() in ("op", "_change_type")]
        if change:
            tables.append(
                made.select(["name", "cnt", *change]).rename_columns(["name", "cnt", "op"])
            )
            expected += rows
    if tables:
        # PySpark 4.3.0 loses the rows after an empty chunk of an Arrow table.
        whole_table = pa.concat_tables(tables).combine_chunks()
        assert collected(frame(spark, whole_table)) == signed(expected), "DataFrame"
