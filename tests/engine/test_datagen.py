"""Made rows (`datagen`), printed changes (`print`) and a sink that keeps nothing (`blackhole`)."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from engine_jobs import rows_of_table, run_to_end

from aggloom.cli import main
from aggloom.codegen import to_schema
from aggloom.engine_choice import choose_engine
from aggloom.errors import AggloomError, SpecError
from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.datagen.options import DatagenSource
from aggloom.runtime.connectors.datagen.rows import RowMaker
from aggloom.script import jobs_of

DDL = """a TINYINT, b INT, c BIGINT, d DECIMAL(30, 3), e DOUBLE, f STRING, g BINARY, h BOOLEAN, i DATE, j TIMESTAMP,
  k TIMESTAMP_NTZ, l ARRAY<INT>, m MAP<STRING, INT>, n STRUCT<x: INT, y: STRING>, o INT"""
RULES: dict[str, dict[str, str]] = {
    "b": {"min": "-3", "max": "7"},
    "d": {"min": "0.5", "max": "1.25"},
    "e": {"min": "-1", "max": "1"},
    "f": {"length": "5", "var-len": "true"},
    "j": {"max-past": "10 s"},
    "l": {"length": "2", "null-rate": "0.5"},
    "l.element": {"max": "9", "min": "9"},
    "n.x": {"kind": "sequence", "start": "1", "end": "9000"},
    "o": {"kind": "sequence", "start": "-5", "end": "8000"},
}
AT = 1_700_000_000_123


def maker_of(seed: int = 1, **more: Any) -> RowMaker:
    return RowMaker(DatagenSource(seed=seed, rules=RULES, **more), to_schema(DDL), "table t")


@pytest.mark.parametrize("seed", range(3))
def test_rows_do_not_depend_on_how_they_are_cut(seed: int) -> None:
    draw, maker = random.Random(seed), maker_of()
    assert maker.total == 8006
    whole = maker.make(0, 8006, AT)
    cuts = sorted({0, 8006, *(draw.randrange(8006) for _ in range(5))})
    parts = [maker_of().make(start, end, AT) for start, end in pairwise(cuts)]
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([whole]).combine_chunks())
    assert not maker_of(seed=2).make(0, 100, AT).equals(whole.slice(0, 100))


def test_values_follow_their_rules() -> None:
    rows = maker_of(number_of_rows=5000).make(0, 5000, AT).to_pylist()
    of: Callable[[str], list[Any]] = lambda name: [row[name] for row in rows]  # noqa: E731
    assert of("o") == list(range(-5, 4995)) and [n["x"] for n in of("n")] == list(range(1, 5001))
    assert set(of("b")) == set(range(-3, 8)) and set(of("h")) == {True, False}
    assert len(set(of("a"))) == 256 and len(set(of("c"))) == 5000
    assert min(of("d")) >= Decimal("0.5") and max(of("d")) <= Decimal("1.25")
    assert -1 <= min(of("e")) < -0.9 and 0.9 < max(of("e")) <= 1
    assert {len(text) for text in of("f")} == {1, 2, 3, 4, 5} and {len(g) for g in of("g")} == {100}
    past = [AT / 1000 - time.timestamp() for time in of("j")]
    assert 0 <= min(past) < 1 and 9 < max(past) <= 10
    assert {k.isoformat() for k in of("k")} == {"2023-11-14T22:13:20.123000"}
    assert {i.isoformat() for i in of("i")} == {"2023-11-14"}
    missing = of("l").count(None)
    assert 2300 < missing < 2700 and [9, 9] in of("l") and all(len(m) == 3 for m in of("m"))


SCRIPT = """CREATE TABLE d (id INT, v INT) WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '3000', 'fields.v.max' = '9',
  'fields.v.min' = '0', 'seed' = '7');"""
SUMS = "SELECT COUNT(*) AS n, SUM(id) AS s, SUM(v) AS v, MIN(id) AS a, MAX(id) AS b FROM d"


def job_of(checkpoint: Path, rate: int = 100_000) -> Job:
    base = Job(SCRIPT.format(rate=rate) + SUMS, (), checkpoint=checkpoint, sink="table")
    (job,), _ = jobs_of(base)
    return job


def expected_sums() -> tuple[int, ...]:
    maker = RowMaker(job_of(Path("x")).tables[0].datagen, to_schema("id INT, v INT"), "t")  # type: ignore[arg-type]
    rows = maker.make(0, 3000, 0).to_pylist()
    return (3000, 3000 * 3001 // 2, sum(row["v"] for row in rows), 1, 3000)


def test_a_run_stops_and_goes_on(tmp_path: Path) -> None:
    # So slowly that a second run has rows left.
    query = open_query(job_of(tmp_path / "c", 300), tmp_path / "c")
    assert query.run_batch()
    made = query.counts.rows
    query.close()
    assert 0 < made < 3000
    run_to_end(job_of(tmp_path / "c"))
    assert rows_of_table(tmp_path / "c") == [expected_sums()]


def test_a_batch_that_was_planned_has_the_same_rows(tmp_path: Path) -> None:
    query = open_query(job_of(tmp_path / "c"), tmp_path / "c")
    planned = query._plan_batch()
    query.close()
    assert planned is not None
    again = open_query(job_of(tmp_path / "c"), tmp_path / "c")
    assert again.checkpoint.planned == planned
    again.close()
    run_to_end(job_of(tmp_path / "c"))
    assert rows_of_table(tmp_path / "c") == [expected_sums()]


def run(script: str, tmp_path: Path, command: str = "run") -> Any:
    (tmp_path / "job.sql").write_text(script)
    options = ["--engine", "local"] if command == "run" else []
    return CliRunner().invoke(
        main, [command, str(tmp_path / "job.sql"), "--backend", "python", *options]
    )


@pytest.mark.parametrize("command", ["run", "sql"])
def test_printed_and_kept_nowhere(command: str, tmp_path: Path) -> None:
    made = SCRIPT.format(rate=1_000_000)
    sinks = """CREATE TABLE p (n BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'out');
      CREATE TABLE e (n BIGINT) WITH ('connector' = 'print', 'standard-error' = 'true');
      CREATE TABLE b (id INT) WITH ('connector' = 'blackhole');"""
    found = run(f"{made}{sinks} INSERT INTO b SELECT id FROM d", tmp_path, command)
    assert found.exit_code == 0 and found.stdout == ""
    found = run(
        f"{made}{sinks} INSERT INTO p SELECT COUNT(*) FROM d WHERE id < 9", tmp_path, command
    )
    assert found.exit_code == 0, found.output
    if command == "run":
        assert found.stdout.splitlines()[-1].endswith("[8]") and found.stdout.startswith("out> +")
        found = run(f"{made}{sinks} INSERT INTO e SELECT COUNT(*) FROM d WHERE id < 9", tmp_path)
        assert "[8]" in found.stderr and found.stdout == ""


def test_a_print_shows_every_change(tmp_path: Path) -> None:
    sink = "CREATE TABLE p (id INT) WITH ('connector' = 'print', 'print-identifier' = 'x');"
    text = f"{SCRIPT.format(rate=1_000_000)}{sink} INSERT INTO p SELECT id FROM d"
    lines = run(text, tmp_path).stdout.splitlines()
    assert lines == [f"x> +I[{number}]" for number in range(1, 3001)]


def test_a_job_without_an_engine_takes_the_local_one(tmp_path: Path) -> None:
    assert choose_engine([job_of(tmp_path)]) == "local"
    with pytest.raises(SpecError, match="rows of datagen are made on the local engine"):
        job_of(tmp_path).tables[0].frame(None)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("id INT", "'fields.id.kind' = 'squence'", "Did you mean 'sequence'?"),
        ("id INT", "'fields.id.kind' = 'sequence'", "a sequence needs 'fields.id.start'"),
        ("id INT", "'fields.id.knd' = 'sequence'", "there is no option 'fields.id.knd'"),
        ("id INT", "'fields.di.min' = '1'", "'fields.di' names no column. Known: 'id'"),
        ("id INT", "'fields.id.min' = 'x'", "'fields.id.min' is 'x'; it must be a number"),
        ("id TINYINT", "'fields.id.max' = '200'", "the column holds -128 to 127"),
        ("id INT", "'fields.id.min' = '5', 'fields.id.max' = '4'", "more than the max, 4"),
        ("s STRING", "'fields.s.length' = '0'", "it must be 1 at least"),
        ("s STRING", "'fields.s.var-len' = 'yes'", "it must be true or false"),
        ("id INT", "'fields.id.null-rate' = '2'", "it must lie between 0 and 1"),
        ("t TIMESTAMP", "'fields.t.max-past' = 'long'", "fields.t.max-past"),
        ("id INT", "'rows-per-second' = '0'", "'rows-per-second' is 0"),
        ("id INT", "'rows-per-secnd' = '1'", "Did you mean 'rows-per-second'?"),
        ("id INT", "'format' = 'json'", "there is no option 'format' here"),
        (
            "id INT",
            "'fields.id.kind' = 'sequence', 'fields.id.start' = '3', 'fields.id.end' = '1'",
            "a sequence needs",
        ),
    ],
)
def test_what_is_no_rule_is_refused(columns: str, options: str, said: str) -> None:
    script = (
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'datagen', {options}); SELECT * FROM t"
    )
    with pytest.raises(AggloomError) as raised:
        (job,), _ = jobs_of(Job(script, ()))
        RowMaker(job.tables[0].datagen, to_schema(columns), "table t")  # type: ignore[arg-type]
    assert said in str(raised.value)


def test_the_shell_needs_an_end(tmp_path: Path) -> None:
    text = "CREATE TABLE t (id INT) WITH ('connector' = 'datagen'); SELECT COUNT(*) FROM t"
    found = run(text, tmp_path, "sql")
    assert found.exit_code == 2 and "its rows have no end" in found.output + str(found.exception)
