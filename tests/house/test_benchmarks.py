"""The benchmarks measure what they say: the rows, the matrix, the ratios, the picture, and the contenders' results."""

from __future__ import annotations

import itertools
import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

pytest.importorskip("pyspark")

import matrix
import rows as rows_module
import servers
import throughput
from measure import Run, Series, ratios, spread, take_turns
from picture import Bar, draw
from rows import Rows

from aggloom.runtime.formats.base import Message
from aggloom.runtime.formats.decoder import decoder


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written into a directory of the test."""
    monkeypatch.setattr(rows_module, "DATA", tmp_path)


def replay(rows: Rows) -> tuple[Counter[Any], list[dict[str, Any]]]:
    """Return the rows that are there after all changes, each of which must find its row; and the changes."""
    there: Counter[Any] = Counter()
    changes = rows.table().to_pylist()
    for change in changes:
        op = change.get("op", "+I")
        row = tuple(value for name, value in change.items() if name != "op")
        if op in ("+I", "+U"):
            there[row] += 1
        else:
            assert there[row] > 0, f"{change} takes back what is not there"
            there[row] -= 1
    return there, changes


@pytest.mark.parametrize("columns", [("v",), ("u",), ("v", "u", "w")])
def test_updates_take_back_rows_that_are_there(columns: tuple[str, ...]) -> None:
    _, changes = replay(Rows(5_000, 40, "retract", columns=columns))
    kinds = Counter(change["op"] for change in changes)
    assert len(changes) == 5_000
    share = kinds["+U"] / (kinds["+U"] + kinds["+I"])
    assert abs(share - 0.3) < 0.03
    for before, after in itertools.pairwise(changes):
        if before["op"] == "-U":
            assert after["op"] == "+U" and after["k"] == before["k"]


def test_deletes_take_the_greatest_of_a_key() -> None:
    there, changes = replay(Rows(900, 7, "top"))
    live: dict[int, list[int]] = defaultdict(list)
    for change in changes:
        if change["op"] == "+I":
            live[change["k"]].append(change["v"])
        else:
            assert change["v"] == max(live[change["k"]])
            live[change["k"]].remove(change["v"])
    assert sum(there.values()) == 100


def test_keys_are_as_described() -> None:
    once = Rows(500, 500, "once").table()["k"].to_pylist()
    assert sorted(once) == list(range(500))
    zipf = Counter(Rows(50_000, 1_000, zipf=True).table()["k"].to_pylist()).most_common(2)
    weights = [rank**-1.2 for rank in range(1, 1_001)]
    assert abs(zipf[0][1] / 50_000 - weights[0] / sum(weights)) < 0.01
    named = Rows(10, 5, strings=True).table()["k"].to_pylist()
    assert all(name.startswith("customer-") for name in named)


@pytest.mark.parametrize("changes", ["append", "retract", "top"])
def test_files_and_csv_hold_the_same_rows(changes: str) -> None:
    rows = Rows(2_000, 30, changes, files=4, tail=2)
    wanted = rows.table().to_pylist()
    files = sorted(rows.folder.iterdir(), key=lambda file: file.stat().st_mtime)
    sizes = [pq.read_metadata(file).num_rows for file in files]
    assert sizes == [500] * 4 + [1_000] * 2
    assert [row for file in files for row in pq.read_table(file).to_pylist()] == wanted
    options = pyarrow.csv.ReadOptions(column_names=list(rows.names))
    halves = [pyarrow.csv.read_csv(file, options).to_pylist() for file in rows.csv.iterdir()]
    assert Counter(map(str, halves[0] + halves[1])) == Counter(map(str, wanted))
    if rows.retracts:
        assert not {row["k"] for row in halves[0]} & {row["k"] for row in halves[1]}
        by_key = [row for row in wanted if row["k"] == wanted[0]["k"]]
        assert by_key in [[row for row in half if row["k"] == wanted[0]["k"]] for half in halves]


def test_the_matrix_shows_every_axis() -> None:
    found = [case.rows for case in matrix.CASES]
    assert {1_000, 100_000, 1_000_000, 10_000_000} == {rows.keys for rows in found}
    assert {rows.changes for rows in found} == {"append", "retract", "top"}
    assert any(rows.zipf for rows in found) and any(rows.strings for rows in found)
    assert {case.query.name for case in matrix.CASES} == {
        *("COUNT", "SUM, MAX, COUNT", "20 mixed calls", "COUNT(DISTINCT)", "MAX", "cascade")
    }
    setups = {setup for case in matrix.CASES for setup in case.flink}
    assert {setup.plan for setup in setups} == {"plain", "mini-batch", "two-phase"}
    assert {setup.backend for setup in setups} == {"heap", "rocksdb"}
    assert {setup.checkpoints for setup in setups} == {True, False}
    assert all(set(case.query.columns) == set(case.rows.columns) for case in matrix.CASES)
    quick = matrix.cases(quick=True)
    assert 0 < len(quick) < len(matrix.CASES)
    assert all(case.rows.rows <= 2_000_000 for case in quick)


def test_contenders_take_turns_and_ratios_are_of_one_round() -> None:
    order: list[str] = []

    def run(name: str, seconds: list[float]) -> Any:
        def made() -> Run:
            order.append(name)
            return Run(100, seconds[order.count(name) - 1])

        return made

    runs = {"a": run("a", [1.0, 2.0, 4.0]), "b": run("b", [2.0, 2.0, 2.0]), "c": "not here"}
    ours, theirs, absent = take_turns("case", runs, 3)
    assert "".join(order) == "ababab"
    assert ratios(ours.rates, theirs.rates) == [2.0, 1.0, 0.5]
    assert spread(ratios(ours.rates, theirs.rates)) == "1 (0.5..2)"
    assert absent.absent == "not here" and not absent.runs


def test_a_kept_page_shows_what_the_matrix_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = matrix.CASES[:2]
    titles = [throughput.title(case) for case in (first, second)]
    before = [Series(case, "a", runs=[Run(10, 2.0)]) for case in ("gone", *reversed(titles))]
    text = json.dumps({"measurements": [asdict(each) for each in before]})
    (tmp_path / "page.json").write_text(text)
    monkeypatch.setattr(throughput, "RESULTS", tmp_path)
    made = [Series(titles[1], "a", runs=[Run(10, 1.0)])]
    shown = throughput.on_page("page", (first, second), made)
    assert [each.case for each in shown] == titles
    assert [each.rates for each in shown] == [[5.0], [10.0]]
    assert throughput.on_page("no page", (first, second), made) == made


@pytest.mark.parametrize("quick", [False, True])
def test_a_kept_page_has_room_for_every_case_that_can_be_named(quick: bool) -> None:
    on_page = [throughput.title(case) for case in matrix.cases(quick, matrix.NAMES)]
    for name in matrix.NAMES:
        (case,) = matrix.cases(quick, (name,))
        assert on_page.count(throughput.title(case)) == 1


def test_the_picture_is_svg_with_a_bar_for_each_contender() -> None:
    bars = [Bar("a <b>", "x", [2.0, 4.0]), Bar("a <b>", "y", [0.5]), Bar("c", "x", [30.0])]
    root = ElementTree.fromstring(draw("speeds & spreads", bars))
    marks = [mark for mark in root.iter() if mark.get("class") in ("more", "less")]
    assert [mark.get("class") for mark in marks] == ["more", "less", "more"]
    widths = [float(mark.get("width", "")) for mark in marks]
    assert widths[1] < widths[0] < widths[2]


def test_a_wrong_table_is_told() -> None:
    tie = 119.7159375
    right = Counter({(1, tie): 1, (2, 3.0): 1, (3, None): 2})
    tables = {
        "near": Counter({(1, tie - 1e-11): 1, (2, 3.0): 1, (3, None): 2}),
        "wrong": Counter({(1, tie): 1, (2, 3.00001): 1, (3, None): 2}),
        "less": Counter({(1, tie): 1, (2, 3.0): 1, (3, None): 1}),
        "more": Counter({(1, tie): 1, (2, 3.0): 1, (3, None): 2, (4, 0.0): 1}),
    }
    lines = throughput.differences(right, tables)
    assert [line.split(":")[0] for line in lines] == ["wrong", "less", "more"]
    assert all("1 rows differ" in line for line in lines)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["retract-100k", "append-100k"])
def test_contenders_agree_with_duckdb(spark: Any, name: str) -> None:
    (case,) = matrix.cases(False, (name,))
    few = replace(case.few(), rows=replace(case.rows, rows=800, keys=20, files=4))
    tables = throughput.compute_tables(spark, None, few)
    assert len(tables) == 1 + len(few.own) + bool(few.by_hand)
    assert (
        throughput.differences(throughput.compute_expected(few.rows, few.query.sql), tables) == []
    )


@pytest.mark.parametrize("changes", ["append", "retract"])
def test_messages_say_what_the_rows_say(changes: str) -> None:
    rows = Rows(2_001, 40, changes)
    topic = servers.Topic(rows, "", changes != "append")
    made = decoder("debezium-json" if topic.changes else "jsonl", rows.schema)
    found = made.decode([Message(value.encode()) for _, value in topic.messages()])
    signs = [
        1 if word in ("insert", "update_postimage") else -1 for word in found.words.to_pylist()
    ]
    left: Counter[Any] = Counter()
    for sign, *row in zip(signs, *(column.to_pylist() for column in found.columns), strict=True):
        left[tuple(row)] += sign
    assert {row: n for row, n in left.items() if n} == dict(+replay(rows)[0])
