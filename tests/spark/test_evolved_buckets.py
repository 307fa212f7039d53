"""Buckets of a checkpoint that another version of the query wrote: read as that one, carried over, or refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from recorded import blobs
from udafs import define_sum

import aggloom as al
from aggloom.codegen.planner import PlanOptions, Stateful, plan_query
from aggloom.errors import StateCorruptError, StateMismatchError
from aggloom.runtime.connectors.files import table_file
from aggloom.runtime.hosting.bucket_store import BucketInput, BucketStore
from aggloom.runtime.hosting.evolution import evolve_state
from aggloom.runtime.hosting.factory import FragmentFactory, factory_of
from aggloom.runtime.hosting.framing import Owner
from aggloom.runtime.hosting.handler_text import handler_texts
from aggloom.runtime.operators.base import InputBatch
from aggloom.runtime.operators.comparison import call_text, compare
from aggloom.runtime.operators.fragment import fragment_of
from aggloom.runtime.spark.failures import explain_failure
from aggloom.runtime.values.clock import NO_TIME
from tests.operators.test_evolution import Change, messages
from tests.spark.test_framing import Single, Variable

DDL = "name STRING, city STRING, cnt INT"
TEXTS = handler_texts("python")


def factory(
    calls: str,
    rest: str = "GROUP BY name",
    changes: str = "retract",
    backend: str = "python",
    **options: Any,
) -> FragmentFactory:
    sql = f"SELECT {rest.partition('GROUP BY ')[2]}, {calls} FROM t {rest}"
    plan = plan_query(sql, {"t": DDL}, input_changes=changes, options=PlanOptions.of(options))
    return factory_of_plan(plan, backend)


def factory_of_plan(plan: Any, backend: str = "python") -> FragmentFactory:
    """The factory of the fragment that gives a plan's result."""
    root = plan.root
    while not isinstance(root, Stateful):
        (root,) = root.inputs
    fragment, _, nodes = fragment_of(root, plan.options)
    texts = TEXTS if backend == "python" else handler_texts("numba")
    handlers = tuple(None if spec is None else texts(spec) for spec in fragment.handler_specs)
    return factory_of(nodes, 0, 4, handlers, fragment)


class Bucket:
    """The state variables of one bucket, as they lie in a checkpoint, and the host that comes back to them."""

    def __init__(self) -> None:
        self.variables = Single(), Variable()

    def store(self, made: FragmentFactory) -> BucketStore:
        owner = Owner(made.name, made.digest, 0, 4)
        return BucketStore(*self.variables, owner, made.description)

    def wake(self, made: FragmentFactory, added_calls: str = "refuse") -> tuple[Any, list[Change]]:
        """The operator as the host finds it, and the changes that a step of the query brings."""
        store = self.store(made)
        head = store.head()
        if head is not None and head.description != store.described:
            operator, changes = evolve_state(made, store, head, None, NO_TIME, added_calls)
            return operator, messages(changes)
        operator = made.open(None, 0)
        if head is not None:
            store.rebuild(head, operator)
        return operator, []

    def run(self, made: FragmentFactory, rows: Sequence[Change], **how: Any) -> list[Change]:
        operator, changes = self.wake(made, **how)
        (schema,) = made.fragment.inputs
        names = schema.names
        places = [
            DDL.split(", ").index(next(c for c in DDL.split(", ") if c.split()[0] == n))
            for n in names
        ]
        columns = [
            pa.array([row[1 + place] for row in rows], field.type)
            for place, field in zip(places, schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        kinds = np.array([3 if row[0] == "-D" else 0 for row in rows], np.int8)
        bundles = [InputBatch(batch, kinds)]
        changes += messages(operator.run(bundles, NO_TIME))
        store = self.store(made)
        store.commit(store.head(), operator, BucketInput(bundles, tuple(blobs(bundles))), NO_TIME)
        return changes

    def table(self, made: FragmentFactory) -> list[Change]:
        return sorted(row[1:] for row in messages(self.wake(made)[0].contents()))


STEPS = al.Aggregate(
    "STEPS",
    arguments=(al.Argument("x", "integer"),),
    result="BIGINT",
    append=al.Shape(
        (al.Field("steps", "count", "steps + x", "steps + other_steps", "steps - x"),), "steps"
    ),
)


def rows(*counts: int) -> list[Change]:
    return [("+I", f"k{cnt % 2}", f"c{cnt % 3}", cnt) for cnt in counts]


def test_a_bucket_goes_on_under_other_calls() -> None:
    old, new = factory("SUM(cnt) AS total, MAX(cnt) AS top"), factory(
        "COUNT(*) AS n, SUM(cnt) AS sum_of_all"
    )
    bucket = Bucket()
    bucket.run(old, rows(1, 2, 3))
    bucket.run(old, rows(4, 5))
    bucket.run(new, rows(6))
    assert bucket.store(new).head().log_entries == 0  # type: ignore[union-attr]
    assert bucket.table(new) == [("k0", 3, 12), ("k1", 3, 9)]
    bucket.run(new, [("-D", *row[1:]) for row in rows(1, 3, 5)])
    assert bucket.table(new) == [("k0", 3, 12)]


def test_nothing_changes_before_the_commit() -> None:
    old, new = factory("SUM(cnt) AS total"), factory("COUNT(*) AS n, SUM(cnt) AS total")
    bucket = Bucket()
    bucket.run(old, rows(1, 2, 3))
    written = [list(variable.rows) for variable in bucket.variables]
    first, second = bucket.wake(new), bucket.wake(new)
    assert first[1] == second[1]
    assert [list(variable.rows) for variable in bucket.variables] == written
    assert bucket.table(old) == [("k0", 2), ("k1", 4)]


def test_a_bucket_may_be_several_versions_behind() -> None:
    one, two = factory("SUM(cnt) AS total, MAX(cnt) AS top"), factory(
        "MAX(cnt) AS top, MIN(cnt) AS low"
    )
    three = factory("MIN(cnt) AS low, MAX(cnt) AS highest, COUNT(*) AS n")
    behind, along = Bucket(), Bucket()
    for bucket in (behind, along):
        bucket.run(one, rows(1, 2, 3))
    along.run(two, rows(4))
    behind.run(three, rows(4, 7))
    along.run(three, rows(7))
    assert behind.table(three) == along.table(three) == [("k0", 2, 4, 2), ("k1", 1, 7, 3)]


def test_calls_that_begin_empty() -> None:
    bucket = Bucket()
    bucket.run(factory("COUNT(*) AS n", changes="append"), rows(1, 3))
    new = factory("COUNT(*) AS n, SUM(cnt) AS total", changes="append")
    bucket.run(new, rows(5))
    assert bucket.table(new) == [("k1", 3, 5)]


def test_calls_that_begin_empty_where_rows_may_be_taken_back() -> None:
    bucket, new = Bucket(), factory("COUNT(*) AS n, SUM(cnt) AS total")
    bucket.run(factory("COUNT(*) AS n"), rows(1, 3))
    with pytest.raises(
        StateMismatchError, match=r"SUM\(cnt\) AS total cannot know .* added_calls='empty'"
    ) as raised:
        bucket.wake(new)
    assert "\n  - calls: kept COUNT(*) AS n; added SUM(cnt) AS total" in str(raised.value)
    bucket.run(new, [("-D", *row[1:]) for row in rows(1)], added_calls="empty")
    assert bucket.table(new) == [("k1", 1, -1)]


def test_other_settings_are_taken_on() -> None:
    bucket, old = Bucket(), factory("SUM(cnt) AS total", on_orphan_retraction="keep")
    bucket.run(old, [("-D", "k9", "c", 4), *rows(1, 2)])
    new = factory("SUM(cnt) AS total", mini_batch_enabled=False)
    assert old.digest == new.digest
    bucket.run(new, [("+I", "k9", "c", 4), *rows(3)])
    assert bucket.table(new) == [("k0", 2), ("k1", 4), ("k9", 4)]


CHANGED = {
    "keys": ("SUM(cnt) AS total", "GROUP BY name, city", "retract"),
    "where": ("MAX(cnt) AS top", "WHERE cnt > 1 GROUP BY name", "retract"),
    "input": ("SUM(cnt) AS total", "GROUP BY name", "append"),
    "key": ("SUM(cnt) AS total", "GROUP BY upper(name)", "retract"),
    "backend": ("SUM(cnt) AS total", "GROUP BY name", "retract", "numba"),
}
LINES = {
    "keys": ["GROUP BY: name -> name, city"],
    "where": [
        "WHERE: none -> `cnt` > 1",
        "calls: removed SUM(cnt) AS total; added MAX(cnt) AS top",
    ],
    "input": ["input_changes: retract -> append", "the table: t retract -> t append"],
    "key": ["GROUP BY: name -> UPPER(name)"],
    "backend": ["the backend: python -> numba"],
}


@pytest.mark.parametrize("what", CHANGED)
def test_another_query_is_refused_with_a_comparison(what: str) -> None:
    bucket = Bucket()
    bucket.run(factory("SUM(cnt) AS total"), rows(1))
    with pytest.raises(StateMismatchError, match="only its calls may change") as raised:
        bucket.wake(factory(*CHANGED[what]))
    first, *listed = str(raised.value).split("\n  - ")
    assert listed == LINES[what]
    assert "a checkpoint directory of its own" in first
    wrapped = RuntimeError(
        f"x\naggloom.errors.StateMismatchError: {raised.value}\n\n  at org.apache.spark.X\n"
    )
    assert str(explain_failure(wrapped)) == str(raised.value)


def test_an_aggregate_below_is_compared_too() -> None:
    inner = "SELECT name, {} AS x FROM t GROUP BY name"
    texts = []
    for call in ("SUM(cnt)", "MIN(cnt)"):
        plan = plan_query(f"SELECT COUNT(x) AS n FROM ({inner.format(call)})", {"t": DDL})
        texts.append(json.loads(factory_of_plan(plan).description)["parts"][-1])
    with pytest.raises(StateMismatchError, match="the aggregate below") as raised:
        compare(*texts, "state of GROUP BY ()")
    assert "the aggregate below: SUM(cnt) AS x GROUP BY name -> MIN(cnt) AS x GROUP BY name" in str(
        raised.value
    )


def test_a_users_function_of_the_checkpoint_is_never_run(registry: None) -> None:
    al.register(STEPS)
    old = factory("STEPS(cnt) AS s, SUM(cnt) AS total")
    bucket = Bucket()
    bucket.run(old, rows(1, 3))
    both = factory("SUM(cnt) AS total, COUNT(*) AS n, STEPS(cnt) AS steps")
    bucket.run(both, rows(5))
    assert bucket.table(both) == [("k1", 9, 3, 9)]
    with pytest.raises(StateMismatchError, match="the function STEPS"):
        bucket.wake(factory("SUM(cnt) AS total"))


def test_a_class_without_merge_takes_on_settings_and_keeps_its_calls(registry: None) -> None:
    define_sum("MY_SUM", **{"retract(state, x)": "return state - x"})
    bucket = Bucket()
    bucket.run(factory("MY_SUM(cnt) AS total"), rows(1, 2))
    one_by_one = factory("MY_SUM(cnt) AS total", mini_batch_enabled=False)
    bucket.run(one_by_one, rows(3))
    assert bucket.table(one_by_one) == [("k0", 2), ("k1", 4)]
    with pytest.raises(StateMismatchError, match=r"MY_SUM cannot be copied .* it has no merge"):
        bucket.wake(factory("COUNT(*) AS n, MY_SUM(cnt) AS total"))


def test_a_table_takes_columns_over_by_name() -> None:
    weight = pa.field("weight", pa.int64())
    old = pa.table(
        {"name": ["a"], "gone": [1], "weight": [7], "count": pa.array([2], pa.int64()), "w": [3]}
    )
    schema = pa.schema([("new", pa.string()), weight, ("name", pa.string()), ("count", pa.int32())])
    fitted = table_file._by_name(old, schema)
    assert fitted.column_names == ["new", "weight", "name", "count", "weight"]
    assert [column.to_pylist() for column in fitted.columns] == [[None], [7], ["a"], [None], [3]]


def test_a_damaged_description_is_refused() -> None:
    old, new = factory("SUM(cnt) AS total"), factory("SUM(cnt) AS total, COUNT(*) AS n")
    bucket = Bucket()
    bucket.run(old, rows(1))
    log = bucket.variables[1]
    whole, *rest = (bytes(row[0]) for row in log.rows)
    for broken in (
        whole[:-1],
        whole[:-1] + bytes([whole[-1] ^ 1]),
        b"",
        whole[:20] + b"0" * 4 + whole[24:],
    ):
        log.rows = [(each,) for each in (broken, *rest)]
        with pytest.raises((StateCorruptError, StateMismatchError)):
            bucket.wake(new)
    log.rows = []
    with pytest.raises(StateCorruptError, match="description"):
        bucket.wake(new)


def test_calls_as_text() -> None:
    call = al.AggCall("LISTAGG", ("name",), True, "f", "all", order_by=("name DESC",))  # type: ignore[arg-type]
    spec = al.AggSpec("name STRING, f BOOLEAN", (), (call,))
    data = json.loads(spec.to_json())["calls"][0]
    assert call_text(data) == "LISTAGG(DISTINCT name ORDER BY name DESC) FILTER (WHERE f) AS all"
    assert (
        call_text(json.loads(replace(spec, calls=(al.AggCall("COUNT"),)).to_json())["calls"][0])
        == "COUNT(*)"
    )
