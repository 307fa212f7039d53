"""The Delta sink: the table is the result, each batch once, over faults at every step, kills, other writers."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import numpy as np
import pyarrow as pa
import pytest
from lakes import batch, raised

from aggloom.errors import CheckpointError, SinkError, SpecError
from aggloom.runtime.connectors.delta.options import delta_options
from aggloom.runtime.connectors.delta.sink import DeltaSink

deltalake = pytest.importorskip("deltalake")

KEY = ("k", "f")


def sink(path: Path, key: Any = KEY, before: bool | None = True, **more: Any) -> DeltaSink:
    return DeltaSink(delta_options({"path": path, **more}), key, before)


def rows(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    """The table's rows, by the library's own reader."""
    found = pa.table(deltalake.DeltaTable(path).scan(list(columns) or None).read_all())
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_the_table_is_the_result_whatever_fails(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t"
    config = (
        {"delta.checkpointInterval": "3"} if seed % 2 else {"delta.enableChangeDataFeed": "true"}
    )

    def others() -> None:
        deltalake.DeltaTable(path).optimize.compact()
        deltalake.DeltaTable(path).alter.set_table_description(str(time.time_ns()))

    def look(wanted: list[lakes.Row]) -> None:
        assert lakes.in_words(rows(path)) == lakes.in_words(wanted)

    assert lakes.driven(lambda: sink(path, properties=config), seed, 16, others, look)


@pytest.mark.parametrize("seed", range(2))
def test_a_changelog_folds_to_the_result_whatever_fails(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t"
    short = dict(
        zip(("insert", "update_preimage", "update_postimage", "delete"), lakes.WORDS, strict=True)
    )

    def look(wanted: list[lakes.Row]) -> None:
        told = [(short[word], own) for *own, word in rows(path)]
        assert lakes.folded(told) == lakes.in_words(wanted)

    def others() -> None:
        deltalake.DeltaTable(path).alter.set_table_description(str(time.time_ns()))

    make = lambda: sink(path, None, form="changelog")  # noqa: E731
    assert lakes.driven(make, seed, 12, others, look)
    with pytest.raises(CheckpointError, match="runs this batch again with other rows"):
        make().write(*batch([("+I", (99, 9.0, "z"))]), 11, "c1")


EVERY = pa.schema(
    [
        *(("k", pa.int64()), ("t", pa.string()), ("d", pa.decimal128(38, 4)), ("f", pa.float64())),
        *(("b", pa.bool_()), ("y", pa.binary()), ("n", pa.timestamp("us")), ("e", pa.float32())),
        *(("z", pa.timestamp("us", "Europe/Berlin")), ("day", pa.date32()), ("h", pa.int16())),
        *(("l", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.int32())), ("i", pa.int8())),
        ("s", pa.struct([("x", pa.decimal128(5, 1)), ("y", pa.string())])),
    ]
)
ROWS: list[lakes.Row] = [
    (
        *((1 << 62) + 1, 'a"\\\n\u2028é\0', Decimal("-1234567890123456789012345678901234.5670")),
        *(0.1, True, b"\0\xff", dt.datetime(2026, 1, 2, 3, 4, 5, 6), math.inf),
        *(dt.datetime(1583, 1, 1, 0, 0, 0, 1, dt.UTC), dt.date(9999, 12, 31), -32768),
        *([1.5, None, math.inf], [("a b", 1), ("", None)], -128, {"x": Decimal("0.5"), "y": None}),
    ),
    (-1, *(None,) * 14),
]


@pytest.mark.parametrize("name", EVERY.names)
def test_every_type_is_stored_and_is_a_key(name: str, tmp_path: Path) -> None:
    table, kinds = batch([("+I", row) for row in ROWS], EVERY)
    made = sink(tmp_path / "t", (name,))
    made.write(table, kinds, 0, "c")
    wanted = lakes.in_words(ROWS)
    assert lakes.in_words(rows(tmp_path / "t")) == wanted
    both = pa.concat_tables([table, table])
    made.write(both, np.array([1, 1, 2, 2], np.int8), 1, "c")
    assert lakes.in_words(rows(tmp_path / "t")) == wanted
    made.write(table.slice(0, 1), np.array([3], np.int8), 2, "c")
    assert lakes.in_words(rows(tmp_path / "t")) == lakes.in_words(ROWS[1:])


def test_what_options_say() -> None:
    for given, said in (
        ({"path": "t", "pth": "x"}, "Did you mean 'path'"),
        ({}, "give it path, as in"),
        ({"path": "t", "form": "log"}, "known are table, changelog"),
        ({"path": "t", "existing": "x"}, "known are error, keep, replace"),
        ({"path": "t", "replay": "maybe"}, "must be true or false"),
        ({"path": "t", "attempts": "many"}, "must be a whole number"),
        ({"path": "t", "attempts": 0}, "must be 1 at least"),
        ({"path": "t", "storage": "x"}, "must be a mapping"),
        ({"path": "t", "partition_by": 3}, "must be a column, or a list"),
    ):
        with pytest.raises(SpecError, match=said):
            delta_options(given)
    made = delta_options({"path": "t", "partition_by": "a, b", "properties": {"x": True}})
    assert (made.partition_by, made.properties) == (("a", "b"), {"x": "true"})


def test_other_checkpoints_and_older_ones(tmp_path: Path) -> None:
    path = tmp_path / "t"
    one = batch([("+I", (1, 1.0, "a"))])
    first = sink(path)
    assert first.write(*one, 0, "c1")
    assert first.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c1")
    assert first.write(*batch([]), 2, "c1")
    for call, kind, said in (
        (
            lambda: sink(path).write(*one, 4, "c1"),
            CheckpointError,
            "has batch 2 .* batch 4 is next",
        ),
        (lambda: sink(path).write(*one, 1, "c1"), CheckpointError, "runs batch 1 again"),
        (lambda: sink(path).write(*one, 0, "c2"), SinkError, "did not write. existing=replace"),
        (lambda: sink(path).write(*one, 2, "c2"), CheckpointError, "no batch of this checkpoint"),
    ):
        with pytest.raises(kind, match=said):
            call()
    # The last batch again with other rows is written over what is there; an older one if that is said.
    assert first.write(*batch([("+I", (2, 1.0, "c"))]), 2, "c1")
    assert sink(path, replay=True).write(*batch([("+I", (2, 1.0, "b"))]), 1, "c1")
    assert sink(path).write(*batch([("+I", (2, 1.0, "c"))]), 2, "c1")
    assert sorted(rows(path)) == [(1, 1.0, "a"), (2, 1.0, "c")]
    # A new checkpoint has batches of its own numbers, beside the rows or instead of them.
    assert sink(path, existing="keep").write(*batch([("+I", (9, 1.0, "z"))]), 0, "c2")
    assert sorted(rows(path)) == [(1, 1.0, "a"), (2, 1.0, "c"), (9, 1.0, "z")]
    assert sink(path, existing="replace").write(*batch([("+I", (7, 1.0, "y"))]), 0, "c3")
    assert rows(path) == [(7, 1.0, "y")]
    with pytest.raises(CheckpointError, match="no batch of this checkpoint, and batch 3 is next"):
        first.write(*one, 3, "c1")
    assert sink(path, existing="replace").write(*batch([("-D", (7, 1.0, "y"))]), 1, "c3")
    assert rows(path) == []
    last = deltalake.DeltaTable(path).history(1)[0]
    assert (last["aggloom.checkpoint"], last["aggloom.batch"]) == ("c3", "1")


def test_a_table_that_was_restored_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t"
    made = sink(path)
    for number in range(3):
        made.write(*batch([("+I", (number, 1.0, "a"))]), number, "c")
    deltalake.DeltaTable(path).alter.set_table_description("others")
    # To what was there after the last batch: nothing of it is lost.
    deltalake.DeltaTable(path).restore(3)
    assert made.write(*batch([("+I", (3, 1.0, "a"))]), 3, "c")
    deltalake.DeltaTable(path).restore(2)
    deltalake.DeltaTable(path).alter.set_table_description("others again")
    for again in (made, sink(path)):
        with pytest.raises(CheckpointError, match="restored to a version before batch 3 of this"):
            again.write(*batch([]), 4, "c")
    assert sink(path, existing="replace").write(*batch([("+I", (9, 1.0, "a"))]), 0, "d")
    assert rows(path) == [(9, 1.0, "a")]


def test_a_global_aggregate_is_one_row(tmp_path: Path) -> None:
    made = sink(tmp_path / "t", ())
    made.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    made.write(*batch([("-U", (1, 1.0, "a")), ("+U", (2, 1.0, "b"))]), 1, "c")
    made.write(*batch([]), 2, "c")
    assert rows(tmp_path / "t") == [(2, 1.0, "b")]
    made.write(*batch([("-D", (2, 1.0, "b"))]), 3, "c")
    assert rows(tmp_path / "t") == []


def test_tables_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "t"
    add = batch([("+I", (1, 1.0, "a"))])
    with pytest.raises(SinkError, match="there is no Delta table; make it"):
        sink(path, create=False).write(*add, 0, "c")
    wide = pa.schema([*SCHEMA_OF("v", "k"), pa.field("more", pa.int64()), *SCHEMA_OF("f")])
    deltalake.DeltaTable.create(path, deltalake.Schema.from_arrow(wide))
    sink(path).write(*add, 0, "c")
    deltalake.DeltaTable(path).update({"more": "7"})
    sink(path).write(*batch([("-U", (1, 1.0, "a")), ("+U", (1, 1.0, "b"))]), 1, "c")
    assert rows(path, "k", "v", "more") == [(1, "b", 7)]
    lacks = pa.schema([*lakes.SCHEMA, pa.field("new", pa.decimal128(5, 2))])
    with pytest.raises(
        SinkError, match=r"no column 'new'. ALTER TABLE .* ADD COLUMNS \(`new` decimal\(5,2\)\)"
    ):
        sink(path).write(*batch([], lacks), 2, "c")
    other = pa.schema([("k", pa.string()), ("f", pa.float64()), ("v", pa.string())])
    with pytest.raises(
        SinkError, match=r"'k' is int64 in the table, and string in the result. CAST"
    ):
        sink(path).write(*batch([], other), 2, "c")
    at = pa.schema([("k", pa.time64("us"))])
    with pytest.raises(SpecError, match=r"no type for column 'k' of type time64\[us\]; cast it"):
        sink(path).write(*batch([], at), 2, "c")


def SCHEMA_OF(*names: str) -> list[pa.Field]:  # noqa: N802
    return [lakes.SCHEMA.field(name) for name in names]


def test_partitions(tmp_path: Path) -> None:
    made = sink(tmp_path / "t", partition_by="v")
    made.write(*batch([("+I", (1, 1.0, "a b/é")), ("+I", (2, 1.0, None))]), 0, "c")
    moved = [("-U", (1, 1.0, "a b/é")), ("+U", (1, 1.0, "c")), ("-D", (2, 1.0, None))]
    made.write(*batch(moved), 1, "c")
    assert rows(tmp_path / "t") == [(1, 1.0, "c")]
    with pytest.raises(SinkError, match="'v', by which the table is partitioned, is '' in a row"):
        made.write(*batch([("+I", (3, 1.0, ""))]), 2, "c")
    with pytest.raises(SpecError, match="partition_by names 'w'"):
        sink(tmp_path / "u", partition_by="w").write(*batch([]), 0, "c")


def test_a_feed_and_a_changelog_do_not_mix(tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    with pytest.raises(
        SinkError, match="has a change data feed, whose own column '_change_type' is"
    ):
        sink(tmp_path / "t", None, form="changelog", properties=feed).write(*batch([]), 0, "c")
    named = pa.schema([("_change_type", pa.string())])
    with pytest.raises(SpecError, match="the result has a column '_change_type'"):
        sink(tmp_path / "u", None, form="changelog").write(*batch([], named), 0, "c")


def test_writers_who_never_rest(tmp_path: Path) -> None:
    path = tmp_path / "t"
    made = sink(path, attempts=3)
    made.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    commit, waits = made._commit, list[float]()

    def disturbed(*told: Any) -> None:
        deltalake.DeltaTable(path).alter.set_table_description(str(time.time_ns()))
        commit(*told)

    made._commit, made.pause = disturbed, waits.append  # type: ignore[method-assign]
    error = raised(lambda: made.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c"))
    assert isinstance(error, SinkError)
    assert (
        "3 times others have committed to the table while batch 1 was written, which was not"
        in str(error)
    )
    assert len(waits) == 2
    assert rows(path) == [(1, 1.0, "a")]
    assert sink(path).write(*batch([("+I", (2, 1.0, "b"))]), 1, "c")


def test_two_runs_of_one_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "t"
    one, two = sink(path), sink(path)
    one.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    two.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    table = two._open_table(lakes.SCHEMA)
    one.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c")
    two._open_table = lambda schema: table  # type: ignore[method-assign]
    two.options = delta_options({"path": path, "attempts": 1})
    with pytest.raises(SinkError, match="1 times others have committed"):
        two.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c")
    assert sorted(rows(path)) == [(1, 1.0, "a"), (2, 1.0, "b")]


def test_what_the_library_refuses_is_told_with_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink(path).write(*batch([]), 0, "c")
    deltalake.DeltaTable(path).alter.add_constraint({"small": "k < 5"})
    error = raised(lambda: sink(path).write(*batch([("+I", (9, 1.0, "a"))]), 1, "c"))
    assert isinstance(error, SinkError)
    assert f"sink delta, table {path}: " in str(error)
    assert "If the batch was written" in str(error)
    assert "\n" not in str(error)


KILLED = """
    import sys
    sys.path[:0] = [{root!r}, {root!r} + "/tests/support"]
    import lakes
    import tests.sinks.test_delta_sink as own
    from pathlib import Path
    for number, (changes, _) in enumerate(lakes.random_batches(5, {count})):
        own.sink(Path({path!r})).write(*lakes.batch(changes), number, "c1")
        print(number, flush=True)
"""


def test_killed_at_any_time(tmp_path: Path) -> None:
    path, count = tmp_path / "t", 16
    done = lakes.random_batches(5, count)
    wanted = [shown for _, shown in done][-1]
    code = KILLED.format(root=str(Path(__file__).parents[2]), path=str(path), count=count)
    # A run that comes again passes over what is there only for its last batch; so it may write older ones again.
    code = code.replace("own.sink(", "own.sink(replay=True, path=")
    for kill in (3, 9, None):
        run = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
        )
        assert run.stdout is not None
        for line in run.stdout:
            if kill is not None and int(line) == kill:
                time.sleep(0.001 * (kill % 7))
                os.kill(run.pid, signal.SIGKILL)
                break
        run.stdout.close()
        run.wait()
    assert run.returncode == 0
    assert lakes.in_words(rows(path)) == lakes.in_words(wanted)


def test_the_log_says_what_it_has_to(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(4):
        sink(path, properties={"delta.checkpointInterval": "2"}).write(
            *batch([("+I", (number, 1.0, "a"))]), number, "c"
        )
    deltalake.DeltaTable(path).create_checkpoint()
    # Without the older commits the checkpoint of Delta's log knows the batch.
    for log in sorted((path / "_delta_log").glob("*.json"))[:-1]:
        log.unlink()
    assert not sink(path).write(*batch([("+I", (3, 1.0, "a"))]), 3, "c")
    text = sorted((path / "_delta_log").glob("*.json"))[-1].read_text()
    told = [json.loads(line)["txn"] for line in text.splitlines() if '"txn"' in line]
    assert {each["appId"]: each["version"] for each in told if "digest" not in each["appId"]} == {
        "aggloom/c": 3,
        "aggloom/c/epoch": 0,
    }
