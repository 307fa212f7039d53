"""Names and values chosen to do harm, sizes at the edges, rows that should not be there."""

from __future__ import annotations

import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from aggloom.codegen import AggCall, AggSpec, generate, load
from aggloom.errors import ArithmeticOverflowError, HandlerEditedWarning, OrphanRetractionError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.operators.group_aggregate import GroupAggOperator
from aggloom.runtime.values.changelog import fold

NAMES = [
    "x",
    "class",
    'a"); import os; (',
    "größe",
    "'",
    "`",
    "{{ x }}",
    "{% raw %}",
    "a\nb",
    "\\",
    "self",
    "__init__",
    "None",
    " ",
    "0",
    "#",
    '"""',
    "🐍",
]
VALUES = [
    "",
    "\x00",
    "a\x00b",
    "a\x00c",
    "'",
    '"',
    "\\",
    "größe",
    "日本語",
    "🐍",
    "\u202e",
    "a" * 1_000_000,
    "a" * 999_999 + "b",
]
both = pytest.mark.parametrize("backend", ["numba", "python"])
SUMS = AggSpec(
    schema="k STRING, v BIGINT",
    group_by=("k",),
    calls=(
        AggCall("SUM", ("v",), alias="s"),
        AggCall("MAX", ("v",), alias="m"),
        AggCall("COUNT", alias="n"),
    ),
)


@both
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(12)
def test_hostile_column_names(name: str, backend: str) -> None:
    schema = pa.schema([(name, pa.string()), (name + "2", pa.int32()), (name + "3", pa.bool_())])
    spec = AggSpec(
        schema=schema,
        group_by=(name,),
        calls=(
            AggCall("SUM", (name + "2",), filter=name + "3", alias=name + "4"),
            AggCall("COUNT", (name + "2",), distinct=True, alias=name + "5"),
        ),
    )
    if backend == "numba" and NAMES.index(name) > 3:
        assert compile(generate(spec).text, "generated", "exec")
        return
    with Harness(spec, backend=backend) as harness:
        harness.process([("+I", name, 2, True), ("+I", name, 3, False)])
        harness.flush()
        assert harness.table() == [(name, 2, 2)]


@both
def test_hostile_strings_as_keys_and_values(backend: str) -> None:
    spec = AggSpec(
        schema="k STRING, b BINARY, v STRING",
        group_by=("k", "b"),
        calls=(
            AggCall("MIN", ("v",), alias="low"),
            AggCall("MAX", ("v",), alias="high"),
            AggCall("COUNT", ("v",), distinct=True, alias="n"),
        ),
    )
    rows = [("+I", v, v.encode(), w) for v in VALUES for w in VALUES]
    low, high = min(VALUES, key=str.encode), max(VALUES, key=str.encode)
    with Harness(spec, backend=backend) as harness:
        harness.process(rows)
        harness.flush()
        expected = [(v, v.encode(), low, high, len(VALUES)) for v in VALUES]
        assert sorted(harness.table()) == sorted(expected)
        harness.process([("-D", *row[1:]) for row in rows if row[3] != "'"])
        harness.flush()
        assert sorted(harness.table()) == sorted((v, v.encode(), "'", "'", 1) for v in VALUES)


@both
def test_null_is_a_key_of_its_own(backend: str) -> None:
    with Harness(SUMS, backend=backend) as harness:
        harness.process([("+I", None, 1), ("+I", "", 2), ("+I", "null", 3), ("+I", None, None)])
        harness.flush()
        assert set(harness.table()) == {(None, 1, 1, 2), ("", 2, 2, 1), ("null", 3, 3, 1)}


def _operator(spec: AggSpec, **options: Any) -> GroupAggOperator:
    return GroupAggOperator(load(generate(spec)), **options)


def _batch(spec: AggSpec, *columns: Any) -> pa.RecordBatch:
    arrays = [
        pa.array(c, field.type) for c, field in zip(columns, spec.handler_schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=spec.handler_schema)


def test_a_million_keys_in_one_batch() -> None:
    count = 1_000_000
    keys = pc.cast(pa.array(np.arange(count)), pa.string())
    batch = _batch(SUMS, keys, np.arange(count))
    operator = _operator(SUMS)
    empty = operator.state_bytes
    out, kinds = operator.process(batch, np.zeros(count, np.int8))
    assert out.num_rows == count
    assert not kinds.any()
    assert pc.sum(out.column(1)).as_py() == count * (count - 1) // 2
    out, kinds = operator.process(batch, np.full(count, 3, np.int8))
    assert out.num_rows == count
    assert (kinds == 3).all()
    assert operator.state_bytes == empty
    operator.close()


@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_one_key_in_a_million_rows(mode: str) -> None:
    count = 1_000_000
    batch = _batch(SUMS, pa.array(["k"] * count), np.arange(count))
    operator = _operator(SUMS, mode=mode, update_before=False)
    out, _ = operator.process(batch, np.zeros(count, np.int8))
    assert out.slice(out.num_rows - 1).to_pylist() == [
        {"k": "k", "s": count * (count - 1) // 2, "m": count - 1, "n": count}
    ]
    assert out.num_rows == (1 if mode == "mini_batch" else count)
    operator.close()


@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
@both
def test_empty_batches(mode: str, backend: str) -> None:
    with Harness(SUMS, mode=mode, backend=backend) as harness:
        for _ in range(3):
            harness.process([])
            harness.flush()
        assert (harness.changes(), harness.table()) == ([], [])
        harness.process([("+I", "a", 1)])
        harness.flush()
        harness.process([])
        harness.flush()
        assert harness.changes() == [("+I", "a", 1, 1, 1)]


ORPHANED = [("-D", "a", 5), ("+I", "a", 1), ("-U", "b", 2), ("+U", "b", 3)]


@both
@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_orphans_are_dropped_and_counted(mode: str, backend: str) -> None:
    with Harness(SUMS, mode=mode, backend=backend) as harness:
        harness.process(ORPHANED)
        harness.flush()
        assert sorted(harness.table()) == [("a", 1, 1, 1), ("b", 3, 3, 1)]
        assert harness.counters["orphans_dropped"] == 2


@both
@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_orphans_are_an_error_that_names_the_key(mode: str, backend: str) -> None:
    with (
        Harness(SUMS, mode=mode, backend=backend, on_orphan_retraction="error") as harness,
        pytest.raises(OrphanRetractionError, match="a"),
    ):
        harness.process(ORPHANED)
        harness.flush()


@both
@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_kept_orphans_wait_for_their_row(mode: str, backend: str) -> None:
    with Harness(SUMS, mode=mode, backend=backend, on_orphan_retraction="keep") as harness:
        harness.process([("-D", "a", 5)])
        harness.flush()
        assert harness.table() == []
        harness.process([("+I", "a", 5)])
        harness.flush()
        assert harness.table() == []
        harness.process([("+I", "a", 7)])
        harness.flush()
        assert harness.table() == [("a", 7, 7, 1)]


@both
def test_expired_keys_start_anew(backend: str) -> None:
    with Harness(SUMS, mode="per_record", backend=backend, state_ttl=100) as harness:
        harness.set_ttl_time(0)
        harness.process([("+I", "a", 1), ("+I", "b", 1)])
        harness.set_ttl_time(99)
        harness.process([("+I", "a", 2)])
        harness.set_ttl_time(150)
        harness.process([("+I", "a", 3), ("+I", "b", 3), ("+I", "b", 0)])
        harness.set_ttl_time(1_000)
        harness.process([("-D", "b", 3)])
        assert harness.changes() == [
            ("+I", "a", 1, 1, 1),
            ("+I", "b", 1, 1, 1),
            ("-U", "a", 1, 1, 1),
            ("+U", "a", 3, 2, 2),
            ("-U", "a", 3, 2, 2),
            ("+U", "a", 6, 3, 3),
            ("+I", "b", 3, 3, 1),
            ("-U", "b", 3, 3, 1),
            ("+U", "b", 3, 3, 2),
        ]
        assert harness.counters["orphans_dropped"] == 1


@both
def test_with_a_time_to_live_unchanged_results_are_repeated(backend: str) -> None:
    spec = AggSpec("k STRING, v BIGINT", ("k",), (AggCall("MAX", ("v",), alias="m"),))
    for ttl, expected in ((0, 1), (100, 3)):
        with Harness(spec, mode="per_record", backend=backend, state_ttl=ttl) as harness:
            harness.process([("+I", "a", 5), ("+I", "a", 1)])
            assert len(harness.changes()) == expected


@both
@pytest.mark.parametrize("mode", ["mini_batch", "per_record"])
def test_a_global_aggregate_comes_and_goes(mode: str, backend: str) -> None:
    spec = AggSpec("v BIGINT", (), (AggCall("SUM", ("v",), alias="s"), AggCall("COUNT", alias="n")))
    with Harness(spec, mode=mode, backend=backend) as harness:
        for change in (("+I", 1), ("+I", None), ("-D", 1), ("-D", None)):
            harness.process([change])
            harness.flush()
        assert harness.changes() == [
            ("+I", 1, 1),
            ("-U", 1, 1),
            ("+U", 1, 2),
            ("-U", 1, 2),
            ("+U", None, 1),
            ("-U", None, 1),
            ("+U", None, 0),
        ]


BIG = 2**63 - 1


@both
def test_spark_sums_overflow_with_an_error(backend: str) -> None:
    with (
        Harness(SUMS, backend=backend) as harness,
        pytest.raises(
            ArithmeticOverflowError,
            match=r"^SUM\(v\) AS s: the result does not fit BIGINT \(key k='a'\)",
        ),
    ):
        harness.process([("+I", "a", BIG), ("+I", "a", 1)])
        harness.flush()


@both
def test_flink_sums_wrap(backend: str) -> None:
    spec = AggSpec(
        "k STRING, v BIGINT, w TINYINT",
        ("k",),
        (AggCall("SUM", ("v",)), AggCall("SUM", ("w",))),
        dialect="flink",
    )
    with Harness(spec, backend=backend) as harness:
        harness.process([("+I", "a", BIG, 127), ("+I", "a", 1, 1)])
        harness.flush()
        assert harness.table() == [("a", -BIG - 1, -128)]
        harness.process([("-D", "a", 1, 1)])
        harness.flush()
        assert harness.table() == [("a", BIG, 127)]


@both
def test_infinities_and_nan_are_forgotten_when_retracted(backend: str) -> None:
    spec = AggSpec(
        "v DOUBLE", (), tuple(AggCall(f, ("v",), alias=f) for f in ("SUM", "AVG", "MIN", "MAX"))
    )
    strange = [float("inf"), float("-inf"), float("nan"), 1e150, -0.0]
    with Harness(spec, backend=backend) as harness:
        harness.process([("+I", 0.1)] + [("+I", v) for v in strange])
        harness.flush()
        harness.process([("-D", v) for v in strange])
        harness.flush()
        assert harness.table() == [(0.1, 0.1, 0.1, 0.1)]


@both
@pytest.mark.parametrize("kind", ["DECIMAL(8,2)", "INT", "DOUBLE"])
def test_an_average_over_more_retractions_than_values(kind: str, backend: str) -> None:
    spec = AggSpec(
        f"k STRING, v {kind}", ("k",), (AggCall("AVG", ("v",)), AggCall("COUNT", ("v",)))
    )
    three = Decimal(3) if kind.startswith("DECIMAL") else 3
    with Harness(spec, backend=backend) as harness:
        harness.process([("+I", "a", None), ("+I", "a", None), ("-D", "a", three)])
        harness.flush()
        assert harness.table() == [("a", 3, -1)]


HUGE = 1.7976931348623157e308


@both
@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([HUGE, HUGE, -HUGE], HUGE),
        ([HUGE, HUGE], float("inf")),
        ([-HUGE] * 40, float("-inf")),
        ([1e300] * 40 + [5e-324], 4e301),
        ([HUGE, -1e292, 1e292], HUGE),
        ([5e-324, 5e-324], 1e-323),
        ([HUGE, 1.0, -HUGE], 1.0),
    ],
)
def test_finite_values_whose_sum_overflows_on_the_way(
    values: list[float], total: float, backend: str
) -> None:
    spec = AggSpec("v DOUBLE", (), (AggCall("SUM", ("v",)),))
    with Harness(spec, backend=backend) as harness:
        harness.process([("+I", v) for v in values])
        harness.flush()
        assert harness.table() == [(total,)]
        harness.process([("-D", v) for v in values[1:]])
        harness.flush()
        assert harness.table() == [(values[0],)]


def test_a_handler_edited_by_hand_still_plugs_in(tmp_path: Path) -> None:
    source = generate(SUMS, backend="python", directory=tmp_path)
    path = Path(source.path)
    path.write_text(path.read_text("utf-8") + "\n# a note of my own\n", encoding="utf-8")
    with pytest.warns(HandlerEditedWarning):
        handler = load(path)
    with Harness(handler) as harness:
        harness.process([("+I", "a", 1)])
        harness.flush()
        assert harness.table() == [("a", 1, 1, 1)]
    assert "a note of my own" in path.read_text("utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        generate(SUMS, backend="python", directory=tmp_path)
    assert "a note of my own" in path.read_text("utf-8")


def test_the_same_input_gives_the_same_bytes() -> None:
    rows = [("+I" if i % 3 else "-D", f"k{i % 17}", i % 5) for i in range(1000)]
    runs = []
    for _ in range(2):
        with Harness(SUMS) as harness:
            harness.process(rows)
            harness.flush()
            runs.append((harness.changes(), bytes(harness.snapshot())))
    assert runs[0] == runs[1]
    assert len(fold(runs[0][0])) == 17


ROOMY = AggSpec(
    "k STRING, v INT, w STRING",
    ("k",),
    tuple(
        AggCall(function, (argument,), distinct, alias=f"{function}_{argument}")
        for function, argument, distinct in (
            ("SUM", "v", False),
            ("MAX", "w", False),
            ("COUNT", "w", True),
            ("LAST_VALUE", "w", False),
        )
    ),
)


@pytest.mark.parametrize("mapped", [False, True])
def test_room_is_given_back_when_most_keys_go(tmp_path: Path, mapped: bool) -> None:
    operator = GroupAggOperator(
        load(generate(ROOMY)), directory=tmp_path / "arena" if mapped else None
    )
    keys = 50_000
    columns = [
        pa.array([f"key {i}" for i in range(keys)]),
        pa.array(range(keys), pa.int32()),
        pa.array([f"{i:040}" for i in range(keys)]),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=ROOMY.schema)
    operator.process(batch, np.zeros(keys, np.int8))
    peak = operator.state_bytes
    few = batch.slice(keys - 7)
    operator.process(batch.slice(0, keys - 7), np.full(keys - 7, 3, np.int8))
    assert operator.keys == 7
    assert operator.state_bytes < peak / 20
    assert sorted(operator.contents()[0].to_pylist(), key=str) == [
        {
            "k": row["k"],
            "SUM_v": row["v"],
            "MAX_w": row["w"],
            "COUNT_w": 1,
            "LAST_VALUE_w": row["w"],
        }
        for row in few.to_pylist()
    ]
    changes, kinds = operator.process(few, np.full(7, 3, np.int8))
    assert kinds.tolist() == [3] * 7
    assert changes.column(0).to_pylist() == few.column(0).to_pylist()


def test_room_is_given_back_when_most_values_of_a_key_go() -> None:
    operator = GroupAggOperator(load(generate(ROOMY)))
    rows = 50_000
    columns = [
        pa.array(["a"] * rows),
        pa.array([1] * rows, pa.int32()),
        pa.array([f"{i:040}" for i in range(rows)]),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=ROOMY.schema)
    operator.process(batch, np.zeros(rows, np.int8))
    peak = operator.state_bytes
    operator.process(batch.slice(3), np.full(rows - 3, 3, np.int8))
    assert operator.state_bytes < peak / 20
    assert operator.contents()[0].to_pylist() == [
        {"k": "a", "SUM_v": 3, "MAX_w": f"{2:040}", "COUNT_w": 3, "LAST_VALUE_w": f"{2:040}"}
    ]
