"""The whole way through Spark: sources, pack, state, restarts, damage, unpack, sinks."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from changelog_laws import check_laws

from aggloom.codegen import AggCall, AggSpec, generate, load
from aggloom.errors import (
    DuplicateNameError,
    HandlerEditedWarning,
    SpecError,
    StateCorruptError,
    StateMismatchError,
    TypeMismatchError,
    UnknownColumnError,
)
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES, fold

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

from aggloom.runtime.hosting.checkpoint_paths import QUERY_FILE  # noqa: E402
from aggloom.runtime.hosting.factory import FragmentFactory  # noqa: E402
from aggloom.runtime.spark import (  # noqa: E402
    await_end,
    explain_failure,
    read_changes,
    read_table,
    sql,
    write_changes,
)
from aggloom.runtime.spark.api.group_aggregate import group_aggregate  # noqa: E402
from aggloom.runtime.spark.node.partitioning import hash_int  # noqa: E402

DDL = "name STRING, cnt INT"
SPEC = AggSpec.from_sql("SELECT name, SUM(cnt) AS total, MAX(cnt) AS top FROM t GROUP BY name", DDL)
Change = tuple[str, str | None, int | None]


def write_file(directory: Path, number: int, rows: list[Change]) -> None:
    """One JSON-lines file; file times follow the numbers, since Spark reads files in order of time."""
    directory.mkdir(exist_ok=True)
    lines = [json.dumps({"name": n, "cnt": c, "op": op}) for op, n, c in rows]
    path = directory / f"{number:04d}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def net(rows: list[Change]) -> list[tuple[str | None, int | None, int | None]]:
    """Compute SPEC's result in plain Python."""
    groups: dict[str | None, list[int | None]] = defaultdict(list)
    for op, name, cnt in rows:
        if KIND_NAMES.index(op) & 1:
            groups[name].remove(cnt)
        else:
            groups[name].append(cnt)
    out = []
    for name, counts in groups.items():
        known = [c for c in counts if c is not None]
        if counts:
            out.append((name, sum(known) if known else None, max(known) if known else None))
    return sorted(out, key=repr)


def history(batch: int, keys: int = 10) -> list[Change]:
    """A batch of changes that are valid after the batches before it."""
    rows: list[Change] = []
    for key in range(keys):
        name = None if key == 0 else f"k{key}"
        value = batch * 10 + key
        if batch and key % 3 == 0:
            rows.append(("-D", name, value - 10))
        elif batch and key % 3 == 1:
            rows += [("-U", name, value - 10), ("+U", name, value)]
            continue
        rows.append(("+I", name, None if key == 5 else value))
    return rows


def run(spark: Any, path: Path, spec: Any = SPEC, **options: Any) -> list[tuple[Any, ...]]:
    """Process the files that are there, one a batch, and return the table."""
    source = read_changes(spark, str(path / "in"), "jsonl", DDL, max_files_per_trigger=1)
    query = write_changes(group_aggregate(source, spec, **options), "table", path / "checkpoint")
    query.awaitTermination()
    rows = read_table(path / "checkpoint").to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def changes_of(df: Any) -> list[tuple[Any, ...]]:
    """The changelog as (kind, *values) rows in short words."""
    short = dict(zip(CHANGE_TYPES, KIND_NAMES, strict=True))
    return [(short.get(row[-1], row[-1]), *row[:-1]) for row in map(tuple, df.collect())]


def test_murmur_is_sparks(spark: Any) -> None:
    values = [0, 1, -1, 42, 2**31 - 1, -(2**31)]
    df = spark.createDataFrame([(v,) for v in values], "v INT")
    for row in df.selectExpr("v", "hash(v) AS hashed").collect():
        assert row.hashed == hash_int(row.v)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_batch_dataframe(spark: Any, partitions: int) -> None:
    rows = history(0) + history(1)
    df = spark.createDataFrame([(n, c, op) for op, n, c in rows], f"{DDL}, op STRING").coalesce(1)
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        out = changes_of(group_aggregate(df, SPEC, buckets=2 * partitions + 1))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
    check_laws(out, 1, one_net_change=True)
    assert sorted(fold(out, 1), key=repr) == net(rows)


def test_streaming_with_restarts(spark: Any, tmp_path: Path) -> None:
    rows: list[Change] = []
    for batch in range(4):
        write_file(tmp_path / "in", batch, history(batch))
        rows += history(batch)
        if batch % 2:
            assert run(spark, tmp_path) == net(rows)


def test_restart_without_the_live_state(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, history(0))
    run(spark, tmp_path, state_directory=tmp_path / "first")
    write_file(tmp_path / "in", 1, history(1))
    expected = net(history(0) + history(1))
    assert run(spark, tmp_path, state_directory=tmp_path / "second") == expected


def test_the_order_of_files_is_the_order_they_were_written(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, [("+I", "a", 1)])
    write_file(tmp_path / "in", 1, [("-U", "a", 1), ("+U", "a", 2)] + [("+I", "b", 1)] * 100)
    source = read_changes(spark, str(tmp_path / "in"), "jsonl", DDL, streaming=False)
    out = group_aggregate(source, SPEC, on_orphan_retraction="error")
    assert sorted(fold(changes_of(out), 1)) == [("a", 2, 2), ("b", 100, 1)]


@dataclass(frozen=True)
class DeadlyFactory(FragmentFactory):
    """Makes operators that fail, or kill their process, in the middle of a batch, while a file is there."""

    trigger: str = ""
    kills: bool = True

    def open(self, directory: Path | None, bucket: int) -> Any:
        fragment = super().open(directory, bucket)
        run = fragment.run

        def deadly(*bundle: Any) -> Any:
            result = run(*bundle)
            trigger = Path(self.trigger)
            if trigger.exists():
                trigger.unlink()
                if not self.kills:
                    raise RuntimeError("in the middle of a batch")
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        fragment.run = deadly
        return fragment


@pytest.mark.parametrize("kills", [True, False])
@pytest.mark.sampled(1)
def test_a_worker_that_ends_in_the_middle_of_a_batch(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: bool
) -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    module = sys.modules["aggloom.runtime.hosting.factory"]
    trigger = tmp_path / "die"
    factory = partial(DeadlyFactory, trigger=str(trigger), kills=kills)
    monkeypatch.setattr(module, "FragmentFactory", factory)
    write_file(tmp_path / "in", 0, history(0))
    run(spark, tmp_path)
    write_file(tmp_path / "in", 1, history(1))
    trigger.touch()
    with pytest.raises(Exception, match="STREAM_FAILED"):
        run(spark, tmp_path)
    assert not trigger.exists()
    assert run(spark, tmp_path) == net(history(0) + history(1))


@pytest.mark.parametrize("damage", ["flip", "truncate"])
@pytest.mark.sampled(1)
def test_damaged_state_is_refused(spark: Any, tmp_path: Path, damage: str) -> None:
    write_file(tmp_path / "in", 0, history(0))
    run(spark, tmp_path, state_directory=tmp_path / "first")
    for file in (tmp_path / "checkpoint" / "state").rglob("*"):
        if file.suffix in (".changelog", ".zip"):
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0xFF
            file.write_bytes(data if damage == "flip" else data[: len(data) // 2])
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    # A new session of the store, so that nothing is served from memory.
    spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    write_file(tmp_path / "in", 1, history(1))
    with pytest.raises(Exception, match="STREAM_FAILED") as failure:
        run(spark, tmp_path, state_directory=tmp_path / "second")
    error = explain_failure(failure.value)
    assert isinstance(error, StateCorruptError), str(failure.value)[:2000]
    assert len(str(error)) < 300


def test_state_of_another_spec_is_refused(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, history(0))
    run(spark, tmp_path)
    write_file(tmp_path / "in", 1, history(1))
    other = AggSpec(DDL, ["cnt"], [AggCall("SUM", ["cnt"])])
    with pytest.raises(StateMismatchError, match=r"state of GROUP BY cnt: .* differs .* GROUP BY"):
        run(spark, tmp_path, other)
    # Without the file that tells of the query, the first batch tells.
    (tmp_path / "checkpoint" / QUERY_FILE).unlink()
    with pytest.raises(Exception, match="STREAM_FAILED") as failure:
        run(spark, tmp_path, other)
    error = explain_failure(failure.value)
    assert isinstance(error, StateMismatchError)
    assert re.fullmatch(
        r"state of GROUP BY cnt, bucket \d: the query differs from the one that wrote it in GROUP BY; .* of its own\."
        r"\n  - GROUP BY: name -> cnt\n  - calls: kept .*",
        str(error),
    )
    with pytest.raises(Exception, match="pass buckets=4"):
        run(spark, tmp_path, buckets=3)
    assert run(spark, tmp_path) == net(history(0) + history(1))


def test_another_number_of_buckets_is_always_noticed(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, [("+I", "a", 1)])
    run(spark, tmp_path, buckets=4)
    write_file(tmp_path / "in", 1, [("+I", "z", 1)])
    for buckets in (1, 3, 8):
        (tmp_path / "checkpoint" / QUERY_FILE).unlink(missing_ok=True)
        with pytest.raises(Exception, match="pass buckets=4"):
            run(spark, tmp_path, buckets=buckets)
    assert run(spark, tmp_path, buckets=4) == [("a", 1, 1), ("z", 1, 1)]


def test_a_handler_edited_by_hand_runs_on_spark(spark: Any, tmp_path: Path) -> None:
    source = generate(SPEC, directory=tmp_path)
    edited = source.text.replace("sum_cnt + number", "sum_cnt + 2 * number")
    source.path.write_text(edited, encoding="utf-8")
    df = spark.createDataFrame([("a", 1), ("a", 2)], DDL)
    with pytest.warns(HandlerEditedWarning):
        assert changes_of(group_aggregate(df, source.path)) == [("+I", "a", 6, 2)]
    assert source.path.read_text(encoding="utf-8") == edited


def test_handler_class_and_path(spark: Any) -> None:
    source = generate(SPEC)
    df = spark.createDataFrame([("a", 1), ("a", 2)], DDL)
    for what in (load(source), source.path):
        assert changes_of(group_aggregate(df, what)) == [("+I", "a", 3, 2)]


def test_where_computed_having_and_select(spark: Any) -> None:
    spec = AggSpec.from_sql(
        "SELECT upper(name) AS u, SUM(cnt * 2) / COUNT(*) AS mean FROM t WHERE cnt > 0 "
        "GROUP BY upper(name) HAVING SUM(cnt * 2) > 4",
        DDL,
    )
    df = spark.createDataFrame([("a", 1), ("A", 3), ("b", 1), ("c", -9), ("c", 5)], DDL)
    out = group_aggregate(df, spec, output_profile="flink")
    assert out.columns == ["u", "mean", "op"]
    assert sorted(changes_of(out)) == [("+I", "A", 4.0), ("+I", "C", 10.0)]


def test_having_over_a_stream(spark: Any, tmp_path: Path) -> None:
    spec = AggSpec.from_sql(
        "SELECT name, SUM(cnt) AS s FROM t GROUP BY name HAVING SUM(cnt) > 2", DDL
    )
    expected: list[list[tuple[str, int]]] = [[], [("a", 3)], [("a", 4)], []]
    changes: list[Change] = [("+I", "a", 1), ("+I", "a", 2), ("+I", "a", 1), ("-D", "a", 2)]
    for number, (change, table) in enumerate(zip(changes, expected, strict=True)):
        write_file(tmp_path / "in", number, [change])
        assert run(spark, tmp_path, spec) == table


def test_the_schema_of_a_dataframe(spark: Any) -> None:
    df = spark.createDataFrame([("a", 1)], DDL)
    for schema in (df, df.schema):
        assert AggSpec(schema, ["name"], [AggCall("SUM", ["cnt"])]).schema == SPEC.schema


def test_global_aggregate(spark: Any) -> None:
    spec = AggSpec.from_sql("SELECT COUNT(*) AS n FROM t", DDL)
    df = spark.createDataFrame([("a", 1), ("b", None)], DDL).repartition(3)
    assert changes_of(group_aggregate(df, spec)) == [("+I", 2)]


def test_hostile_names(spark: Any) -> None:
    names = ["x", "class", 'a"); import os; (', "größe", "'", "a.b", "ba`ck"]
    schema = pa.schema([(name, pa.int64()) for name in names])
    calls = [AggCall("SUM", [name]) for name in names[1:]]
    df = spark.createDataFrame([(1,) * 7, (1,) * 7], ", ".join(f"c{i} LONG" for i in range(7)))
    out = group_aggregate(df.toDF(*names), AggSpec(schema, ["x"], calls))
    assert changes_of(out) == [("+I", 1, *[2] * 6)]


def stream_to_json(spark: Any, path: Path, **options: Any) -> list[tuple[Any, ...]]:
    """Process what is there with a jsonl sink, of a relative path; all that it holds then, in the order of batches."""
    source = read_changes(spark, str(path / "in"), "jsonl", DDL)
    out = group_aggregate(source, SPEC, output_profile="flink", **options)
    sink = f"jsonl:{os.path.relpath(path / 'out')}"
    write_changes(out, sink, path / "checkpoint").awaitTermination()
    files = sorted((path / "out").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [(row["op"], row.get("name"), row.get("total"), row.get("top")) for row in rows]


def test_a_key_is_forgotten_after_its_time_to_live(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, [("+I", "a", 1)])
    assert stream_to_json(spark, tmp_path, state_ttl=1) == [("+I", "a", 1, 1)]
    write_file(tmp_path / "in", 1, [("+I", "a", 5)])
    changes = stream_to_json(spark, tmp_path, state_ttl=1)
    assert changes == [("+I", "a", 1, 1), ("+I", "a", 5, 5)]


def test_a_key_lives_on_within_its_time_to_live(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, [("+I", "a", 1)])
    stream_to_json(spark, tmp_path, state_ttl=3_600_000)
    write_file(tmp_path / "in", 1, [("+I", "a", 5)])
    changes = stream_to_json(spark, tmp_path, state_ttl=3_600_000)
    assert changes == [("+I", "a", 1, 1), ("-U", "a", 1, 1), ("+U", "a", 6, 5)]


@pytest.mark.thorough
def test_a_hint_says_when_a_key_is_forgotten(spark: Any, tmp_path: Path) -> None:
    """The hint decides, not the option; the aggregate above has no hint."""
    query = (
        "SELECT total, COUNT(*) AS n FROM "
        "(SELECT /*+ STATE_TTL('t' = '{}') */ name, SUM(cnt) AS total FROM t GROUP BY name) GROUP BY total"
    )

    def after(name: str, ttl: str, number: int, cnt: int) -> list[dict[str, Any]]:
        source, checkpoint = tmp_path / f"{name}-in", tmp_path / f"{name}-checkpoint"
        write_file(source, number, [("+I", "a", cnt)])
        t = read_changes(spark, str(source), "jsonl", DDL)
        out = sql(query.format(ttl), t=t, buckets=1, state_ttl="1 h")
        await_end(write_changes(out, "table", checkpoint))
        return sorted(read_table(checkpoint).to_pylist(), key=lambda row: int(row["total"]))

    assert after("short", "1 ms", 0, 1) == [{"total": 1, "n": 1}]
    # Forgotten without a message: what the key begins with again comes beside what it had.
    assert after("short", "1 ms", 1, 5) == [{"total": 1, "n": 1}, {"total": 5, "n": 1}]
    after("long", "1 d", 0, 1)
    assert after("long", "1 d", 1, 5) == [{"total": 6, "n": 1}]


def test_a_table_without_update_before_needs_its_keys(spark: Any, tmp_path: Path) -> None:
    def table(checkpoint: str, **options: Any) -> list[tuple[Any, ...]]:
        source = read_changes(spark, str(tmp_path / "in"), "jsonl", DDL, max_files_per_trigger=1)
        out = group_aggregate(source, SPEC, update_before=False)
        write_changes(out, "table", tmp_path / checkpoint, **options).awaitTermination()
        return sorted(tuple(row.values()) for row in read_table(tmp_path / checkpoint).to_pylist())

    changes: list[Change] = [("+I", "b", 3), ("-D", "a", 1), ("+I", "a", 2)]
    write_file(tmp_path / "in", 0, [("+I", "a", 1), ("+I", "c", 9)])
    write_file(tmp_path / "in", 1, [*changes, ("-D", "c", 9)])
    assert table("keyed", key_columns=["name"]) == [("a", 2, 2), ("b", 3, 3)]
    with pytest.raises(Exception, match="needs key_columns"):
        table("unkeyed")
    with pytest.raises(
        SpecError, match=r"'nam', which the result does not have. Did you mean 'name'"
    ):
        table("misspelt", key_columns=["nam"])
    with pytest.raises(SpecError, match="key_columns is the text 'name'; give a list"):
        table("text", key_columns="name")


def test_types_and_columns_are_checked(spark: Any) -> None:
    wrong = spark.createDataFrame([("a", 1)], "name STRING, cnt LONG")
    with pytest.raises(TypeMismatchError, match="'cnt' is BIGINT in the DataFrame, but INT"):
        group_aggregate(wrong, SPEC)
    with pytest.raises(UnknownColumnError, match="no column 'cnt'"):
        group_aggregate(wrong.withColumnRenamed("cnt", "count"), SPEC)
    right = spark.createDataFrame([("a", 1)], DDL)
    with pytest.raises(UnknownColumnError, match="no change column 'kind'"):
        group_aggregate(right, SPEC, change_column="kind")
    with pytest.raises((SpecError, DuplicateNameError), match="_change_type"):
        group_aggregate(right, AggSpec(DDL, ["name"], [AggCall("COUNT", alias="_change_type")]))


def test_a_retraction_in_an_append_only_input(spark: Any) -> None:
    spec = AggSpec(DDL, ["name"], [AggCall("COUNT")], input_changes="append")
    df = spark.createDataFrame([("a", 1, "delete")], f"{DDL}, _change_type STRING")
    with pytest.raises(Exception, match="1 retraction in an input declared append-only"):
        group_aggregate(df, spec).collect()
