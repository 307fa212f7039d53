"""Fragments: operators that share a stateful node give what they give apart, whatever the distribution."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recorded
from strategies import examples

from aggloom import Harness
from aggloom.codegen.planner import Exchange, Join, PlanOptions, Stateful, plan_query, walk
from aggloom.codegen.planner.tree import as_tree, list_stateful_nodes
from aggloom.errors import CheckpointError, StateMismatchError
from aggloom.runtime.operators.fragment import FragmentSpec, fragment_of
from aggloom.runtime.values.changelog import KIND_NAMES, fold
from aggloom.runtime.values.clock import Clock

TABLES = {"t": "a INT, b INT, c BOOLEAN, v BIGINT", "u": "a INT, w BIGINT, ts TIMESTAMP"}
AB = "SELECT a, b, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY a, b"
ABC = "SELECT a, b, c, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY a, b, c"
BOTH = (
    "SELECT a, SUM(x) AS s, COUNT(*) AS n FROM (SELECT a, SUM(v) AS x FROM t GROUP BY a UNION ALL "
    "SELECT a, MAX(w) FROM u GROUP BY a UNION ALL SELECT b, v FROM t WHERE c) GROUP BY a"
)


def planned(sql: str, **options: Any) -> Any:
    return plan_query(sql, TABLES, options=PlanOptions.of(options))


def exchanges(plan: Any) -> list[tuple[str, ...]]:
    """List the keys of each exchange, the last one first."""
    return [node.keys for node in walk(plan.root)[::-1] if isinstance(node, Exchange)]


def said(plan: Any) -> list[tuple[bool, str]]:
    """List the rule's notes on the operators that have one below."""
    notes = (note for listed in plan.notes.by_spec.values() for note in listed)
    return [(note.fired, note.why) for note in notes if note.rule == "fragments"]


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        (f"SELECT a, COUNT(*) FROM ({AB}) GROUP BY a", [("a",)]),
        (f"SELECT b, a, MAX(s) FROM ({AB}) GROUP BY b, a", [("b", "a")]),
        (
            f"SELECT a, SUM(n) FROM (SELECT a, b, MAX(n) AS n FROM ({ABC}) GROUP BY a, b) GROUP BY a",
            [("a",)],
        ),
        # Names are traced, and what is added to the key is not.
        (f"SELECT k, s, COUNT(*) FROM (SELECT a AS k, s FROM ({AB})) GROUP BY k, s", [("a",)]),
        (f"SELECT a, COUNT(*) FROM ({AB}) WHERE s > 3 GROUP BY a", [("a",)]),
        # A chain ends where no column is left; what is below has a fragment of its own.
        (
            f"SELECT b, COUNT(*) FROM (SELECT b, n, MAX(s) FROM ({AB}) GROUP BY b, n) GROUP BY b",
            [("b",)],
        ),
        (f"SELECT s, COUNT(*) FROM ({AB}) GROUP BY s", [("s",), ("a", "b")]),
        (
            f"SELECT n, MAX(m) FROM (SELECT a, n, MAX(s) AS m FROM ({AB}) GROUP BY a, n) GROUP BY n",
            [("n",), ("a", "b")],
        ),
        (
            f"SELECT a, COUNT(*) FROM (SELECT a + 1 AS a FROM ({AB})) GROUP BY a",
            [("a",), ("a", "b")],
        ),
        (f"SELECT c, COUNT(*) FROM ({ABC}) GROUP BY c", [("c",), ("a", "b", "c")]),
        (f"SELECT COUNT(*) FROM ({AB})", [(), ("a", "b")]),
        (BOTH, [("a",), ("a",), ("a",)]),
        (f"SELECT a, COUNT(*) FROM ({AB}) GROUP BY ROLLUP (a)", [("a", "$e"), ("a", "b")]),
    ],
)
def test_rows_lie_by_what_serves_the_longest_chain(sql: str, keys: list[tuple[str, ...]]) -> None:
    plan = planned(sql)
    assert exchanges(plan) == keys
    apart = planned(sql, fragments_enabled=False)
    stateful = [node for node in walk(apart.root) if isinstance(node, Stateful)]
    assert len(exchanges(apart)) >= len(stateful)
    assert plan.schema == apart.schema and plan.key == apart.key


@pytest.mark.parametrize(
    ("sql", "options", "fired", "why"),
    [
        (
            f"SELECT a, COUNT(*) FROM ({AB}) GROUP BY a",
            {},
            True,
            "in one stateful node with GROUP BY a, b, with rows distributed by a",
        ),
        (
            f"SELECT a, s, COUNT(*) FROM ({AB}) GROUP BY a, s",
            {},
            True,
            "with rows distributed by a instead of a, s",
        ),
        (
            f"SELECT a, COUNT(*) FROM ({AB}) GROUP BY a",
            {"fragments_enabled": False},
            False,
            "fragments_enabled is false",
        ),
        (
            f"SELECT s, COUNT(*) FROM ({AB}) GROUP BY s",
            {},
            False,
            "its key has no column in common with the key of GROUP BY a, b",
        ),
        (
            f"SELECT c, COUNT(*) FROM ({ABC}) GROUP BY c",
            {},
            False,
            "only BOOLEAN columns of its key",
        ),
        (
            f"SELECT a, COUNT(*) FROM (SELECT a, XPATH_INT(STRING(s), 'a') AS x FROM ({AB})) WHERE x > 1 GROUP BY a",
            {},
            False,
            "only Spark evaluates",
        ),
        (
            "SELECT a, COUNT(DISTINCT s) AS n FROM (SELECT a, b, SUM(v) AS s FROM t GROUP BY a, b) GROUP BY a",
            {"distinct_agg_split_enabled": True},
            False,
            "Expand is between",
        ),
        (
            "SELECT a, MAX(n) FROM (SELECT a, TUMBLE_START(ts, INTERVAL '1' HOUR) AS h, COUNT(*) AS n FROM u "
            "GROUP BY a, TUMBLE(ts, INTERVAL '1' HOUR)) GROUP BY a",
            {"state_ttl": "1 h"},
            False,
            "has one kind of timer, and these need the watermark and time to live",
        ),
    ],
)
def test_explain_says_why(sql: str, options: dict[str, Any], fired: bool, why: str) -> None:
    found = said(planned(sql, **options))
    assert any(each == fired and why in text for each, text in found), found


def test_what_is_split_to_be_spread_stays_spread() -> None:
    plan = planned("SELECT a, COUNT(DISTINCT v) FROM t GROUP BY a", distinct_agg_split_enabled=True)
    assert len(exchanges(plan)) == 2
    assert any("spreads a key over several buckets" in why for _, why in said(plan))


def fragment(sql: str, **options: Any) -> FragmentSpec:
    plan = planned(sql, **options)
    root = next(node for node in walk(plan.root)[::-1] if isinstance(node, Stateful))
    return fragment_of(root, plan.options)[0]


def test_inputs_have_numbers_and_operators_their_feeds() -> None:
    spec = fragment(BOTH)
    assert [part.name for part in spec.parts] == ["GROUP BY a"] * 3
    assert [rows.names for rows in spec.inputs] == [["a", "v"], ["a", "w"], ["a", "x"]]
    assert [part.spread for part in spec.parts] == [("a",)] * 3
    (feeds,) = spec.parts[-1].inputs
    assert [(feed.source, feed.inner) for feed in feeds] == [(0, True), (1, True), (2, False)]


# The same table and changes, fused and not


KEYS = ["a", "b", "c"]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Aggregates over aggregates, by keys that may or may not share a distribution, with filters between."""
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    sql = f"SELECT {', '.join(keys)}, SUM(v) AS x, COUNT(*) AS y FROM t GROUP BY {', '.join(keys)}"
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            sql = f"SELECT * FROM ({sql}) WHERE x > {draw(st.integers(-3, 6))}"
        if draw(st.integers(0, 5)) == 0:
            named = (f"{'CAST(v AS INT)' if key == 'z' else key} AS {key}" for key in keys)
            sql = (
                f"SELECT * FROM ({sql}) UNION ALL SELECT {', '.join(named)}, v AS x, v AS y FROM t"
            )
        every = keys if "z" in keys else [*keys, "y"]
        keys = draw(st.lists(st.sampled_from(every), min_size=1, max_size=2, unique=True))
        call = draw(st.sampled_from(["SUM(x)", "MAX(x)", "COUNT(x)", "MIN(x)"]))
        named = [key if key != "y" else "y AS z" for key in keys]
        sql = f"SELECT {', '.join(named)}, {call} AS x, COUNT(*) AS y FROM ({sql}) GROUP BY {', '.join(keys)}"
        keys = [key if key != "y" else "z" for key in keys]
    return sql


ROWS = st.tuples(
    st.sampled_from(["+I", "+I", "-D"]),
    st.one_of(st.none(), st.integers(0, 2)),
    st.integers(0, 3),
    st.booleans(),
    st.integers(-4, 4),
)


def net(changes: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Changes as a multiset without what cancels: operators may say in other orders what becomes of other keys."""
    found: Counter[tuple[Any, ...]] = Counter()
    for kind, *row in changes:
        found[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in found.items() if count})


@examples(25)
@given(
    sql=queries(),
    bundles=st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=4),
    buckets=st.integers(1, 4),
    per_record=st.booleans(),
    restart=st.integers(0, 3),
)
def test_fused_and_apart_say_the_same(
    sql: str, bundles: list[list[Any]], buckets: int, per_record: bool, restart: int
) -> None:
    options = {"backend": "python", "mini_batch_enabled": not per_record, "buckets": buckets}
    fused = Harness.from_sql(sql, TABLES, **options)  # type: ignore[arg-type]
    apart = Harness.from_sql(sql, TABLES, fragments_enabled=False, **options)  # type: ignore[arg-type]
    for number, rows in enumerate(bundles):
        if number == restart:
            state = fused.snapshot()
            fused = Harness.from_sql(sql, TABLES, **options)  # type: ignore[arg-type]
            fused.restore(state)
        for each in (fused, apart):
            each.process(rows)
            each.flush()
        assert net(fused.changes()) == net(apart.changes())
    assert fused.table() == apart.table() or per_record


TOP = (
    "SELECT a, b, s, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY s DESC, b) AS n "
    "FROM (SELECT a, b, SUM(v) AS s FROM t GROUP BY a, b)) WHERE n <= 2"
)
LAST = (
    "SELECT a, b, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a, b ORDER BY PROCTIME() DESC) AS n "
    "FROM t) WHERE n = 1"
)


@pytest.mark.parametrize(
    ("sql", "operators", "changes"),
    [
        (TOP, 2, "retract"),
        (
            f"SELECT a, COUNT(*) AS c, SUM(s) AS s, MAX(n) AS m FROM ({TOP}) GROUP BY a",
            3,
            "retract",
        ),
        (f"SELECT a, COUNT(*) AS c, MIN(v) AS m FROM ({LAST}) GROUP BY a", 2, "append"),
    ],
)
def test_ranks_and_last_rows_join_in(sql: str, operators: int, changes: str) -> None:
    rng = random.Random(7)
    options = {"backend": "python", "buckets": 3, "input_changes": changes}
    fused = Harness.from_sql(sql, TABLES, **options)  # type: ignore[arg-type]
    apart = Harness.from_sql(sql, TABLES, fragments_enabled=False, **options)  # type: ignore[arg-type]
    assert [len(each.operators) for each in fused.pipeline.fragments] == [operators] * 3
    assert len(apart.pipeline.fragments) == operators * 3
    rows: list[tuple[Any, ...]] = []
    for number in range(12):
        bundle = [
            ("+I", rng.randrange(4), rng.randrange(3), True, rng.randrange(-5, 9))
            for _ in range(rng.randrange(8))
        ]
        if changes == "retract":
            bundle += [("-D", *row[1:]) for row in rng.sample(rows, min(2, len(rows)))]
            rows = [row for row in rows if ("-D", *row[1:]) not in bundle]
        rows += [row for row in bundle if row[0] == "+I"]
        if number == 6:
            state = fused.snapshot()
            fused = Harness.from_sql(sql, TABLES, **options)  # type: ignore[arg-type]
            fused.restore(state)
        for each in (fused, apart):
            each.process(bundle)
            each.flush()
        assert net(fused.changes()) == net(apart.changes())
        assert fused.table() == apart.table()
    assert fused.table()


def test_rows_of_two_tables_are_seen_at_once() -> None:
    """A transfer between two tables: its sum is 0 after every bundle, whatever comes first."""
    sql = (
        "SELECT 1 AS one, SUM(x) AS s FROM (SELECT a, SUM(v) AS x FROM t GROUP BY a UNION ALL "
        "SELECT a, SUM(w) FROM u GROUP BY a) GROUP BY a"
    )
    harness = Harness.from_sql(sql, TABLES, backend="python", buckets=2)
    assert len(harness.pipeline.fragments) == 2
    for amount in (5, 7, -3):
        harness.process([("+I", 1, 0, True, amount)], table="t")
        harness.process([("+I", 1, -amount, None)], table="u")
        harness.flush()
        assert {row[-1] for row in harness.table()} == {0}


# The log, by input; state and why, by operator


def recorded(sql: str) -> Recorded:
    return Recorded(Harness.from_sql(sql, TABLES, backend="python", buckets=2))


def test_the_log_of_several_inputs_is_replayed() -> None:
    kept = recorded(BOTH)
    harness = kept.harness
    for number in range(4):
        harness.process([("+I", number % 3, number, True, number)], table="t")
        harness.process([("+I", 1, number, None)], table="u")
        harness.flush()
    rows = []
    for files in kept.files(0, 0):
        (stored,) = kept.buckets(0, 0, [files])
        description = stored.description(False)
        again = description.open(description.handlers(b'"plain.state"'), stored.bucket)
        stored.store(description).rebuild(stored.head, again)
        batch, kinds = again.contents()
        rows += [
            (KIND_NAMES[kind], *row.values())
            for kind, row in zip(kinds, batch.to_pylist(), strict=True)
        ]
    assert sorted(fold(rows)) == harness.table()


def test_each_operator_of_a_fragment_can_be_looked_at() -> None:
    kept = recorded(f"SELECT a, MAX(s) AS m FROM ({AB}) WHERE s > 1 GROUP BY a")
    for rows in (
        [("+I", 1, 1, True, 5), ("+I", 1, 2, True, 7), ("+I", 2, 1, True, 1)],
        [("-D", 1, 2, True, 7)],
    ):
        kept.harness.process(rows)
        kept.harness.flush()
    lower, upper = kept.look(part=0), kept.look(part=1)
    assert (lower.number, upper.number) == ("0.0", "0.1")
    assert lower.state(None, None).keys == 2 and upper.state(None, None).keys == 1
    told = upper.why({"a": 1})
    assert [[change.kind for change in each.changes] for each in told.bundles] == [
        ["+I", "+I"],
        ["-D"],
    ]
    assert [part.results for part in told.now] == [{"m": 5}]
    below = lower.why({"a": 1, "b": 2})
    assert [each.emitted[-1][0] for each in below.bundles] == ["+I", "-D"]


def test_a_bundle_may_bring_nothing_to_an_input() -> None:
    spec = fragment(BOTH)
    handlers = []
    from aggloom.codegen import generate, load

    for each in spec.handler_specs:
        assert each is not None
        handlers.append(load(generate(each, backend="python")))
    made = spec.make(handlers)
    batch, kinds = made.run(made.empty_inputs(), Clock())
    assert batch.num_rows == 0 and len(kinds) == 0
    assert made.next_timers() == (None, None)
    other = spec.make(handlers)
    other.restore(made.snapshot())
    with pytest.raises(Exception, match="operators"):
        fragment(f"SELECT a, COUNT(*) FROM ({AB}) GROUP BY a").make(handlers[:2]).restore(
            made.snapshot()
        )


# Spark


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.spark
def test_a_fragment_of_two_tables_on_spark_over_restarts(spark: Any, tmp_path: Path) -> None:
    import aggloom as al
    from aggloom.runtime.inspection.checkpoint import state, why
    from aggloom.runtime.spark.failures import await_end

    schemas = {"t": "a INT, b INT, c BOOLEAN, v BIGINT", "u": "a INT, w BIGINT, ts TIMESTAMP"}
    harness = Harness.from_sql(BOTH, TABLES, backend="python")

    def run(sql: str = BOTH, **options: Any) -> None:
        tables = {
            name: al.read_changes(spark, str(tmp_path / name), "jsonl", ddl)
            for name, ddl in schemas.items()
        }
        df = al.sql(sql, tables=tables, **options)
        query = al.write_changes(df, "table", tmp_path / "checkpoint")
        await_end(query)

    for number in range(3):
        rows = [{"a": k, "b": k + number, "c": k % 2 == 0, "v": number + k} for k in range(4)]
        more = [{"a": number, "w": 10 * number, "ts": None}] if number != 1 else []
        lines(tmp_path / "t" / f"{number}.jsonl", rows)
        lines(tmp_path / "u" / f"{number}.jsonl", more)
        harness.process([("+I", *row.values()) for row in rows], table="t")
        harness.process([("+I", row["a"], row["w"], None) for row in more], table="u")
        harness.flush()
        run()
        kept = al.read_table(tmp_path / "checkpoint").to_pylist()
        assert sorted(tuple(row.values()) for row in kept) == harness.table()
    held = state(tmp_path / "checkpoint", spark=spark)
    assert [(each.number, each.part) for each in held.operators] == [(0, 0), (0, 1), (0, 2)]
    told = why(tmp_path / "checkpoint", key={"a": 2}, operator="0.2", spark=spark)
    assert [part.results for part in told.now] == [
        {"s": row[1], "n": row[2]} for row in harness.table() if row[0] == 2
    ]
    with pytest.raises(
        CheckpointError, match=r"no operator 0\.7 of aggloom; there is 0\.0, 0\.1, 0\.2"
    ):
        why(tmp_path / "checkpoint", key={"a": 2}, operator="0.7", spark=spark)
    with pytest.raises(StateMismatchError, match="operators: "):
        run(fragments_enabled=False)


SELF = (
    f"WITH g AS ({AB}) SELECT g.a, g.b, g.n, m.top FROM g JOIN "
    "(SELECT s, MAX(n) AS top FROM g WHERE n > 0 GROUP BY s) AS m ON g.s = m.s"
)


def test_what_two_inputs_read_alike_comes_once() -> None:
    plan = planned(SELF)
    text = as_tree(plan)
    assert text.count("Reused(reference_id=[1]") == text.count("reuse_id=[1]") == 1
    assert text.count("TableSourceScan") == 1
    # The join, the aggregate that it reads, and the groups once.
    assert [node.name for node in list_stateful_nodes(plan)] == [
        "INNER JOIN ON (s = m.s)",
        "GROUP BY a, b",
        "GROUP BY s",
    ]
    (top,) = (node for node in walk(plan.root) if isinstance(node, Join))
    spec, inputs, nodes = fragment_of(top, plan.options)
    assert len(inputs) == len(spec.inputs) == 1 and len(nodes) == 2
    assert [part.name for part in spec.consumers(0)] == ["GROUP BY s", "INNER JOIN ON (s = m.s)"]


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        (SELF, {"fragments_enabled": False}),
        (SELF.replace("g.s = m.s", "g.b = m.s"), {}),
        (SELF.replace(" FROM g WHERE", f" FROM ({AB.replace('SUM', 'MAX')}) AS o WHERE"), {}),
        (
            SELF.replace("SELECT s, MAX", "SELECT s + 1 AS s, MAX").replace(
                "GROUP BY s)", "GROUP BY s + 1)"
            ),
            {},
        ),
    ],
)
def test_what_differs_comes_by_itself(sql: str, options: dict[str, Any]) -> None:
    assert "Reused" not in as_tree(planned(sql, **options))
