"""Nexmark, small: every query beside DuckDB, append-only and with corrections, in batches, over a restart."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from nexmark import events as events_module
from nexmark import local, rows
from nexmark.catalogue import NAMES, QUERIES, Query
from nexmark.events import SCHEMAS, Events
from nexmark.oracle import Oracle

FORMS = {
    "append-only": Events(2_000, rate=50, files=4),
    "corrections": Events(2_000, True, 50, files=4),
}
_MADE: dict[str, tuple[dict[str, pa.Table], Oracle]] = {}


def made(form: str) -> tuple[Events, dict[str, pa.Table], Oracle]:
    """The events of a form, their rows and what DuckDB makes of them; made once."""
    events = FORMS[form]
    if form not in _MADE:
        tables = events.tables()
        _MADE[form] = tables, Oracle(events, tables)
    return events, *_MADE[form]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_tables_are_those_of_duckdb(query: Query, form: str) -> None:
    events, tables, oracle = made(form)
    whole = query.whole_with_corrections and events.corrections
    # The first form is cut where a stream reads files, the second in more and other places.
    cuts = 1 if whole else 7 if events.corrections else 4
    told = local.run(query, events, tables, cuts, restart=not whole, backend="python")
    assert oracle.changes_differ(query, told) == []
    assert oracle.count(query) > 0


def test_a_wrong_table_is_told() -> None:
    events, tables, oracle = made("append-only")
    (query,) = (each for each in QUERIES if each.name == "q17")
    told = local.run(query, events, tables, backend="python")
    first = told.slice(0, 1)
    assert "too many" in oracle.changes_differ(query, pa.concat_tables([told, first]))[0]
    assert "missing" in oracle.changes_differ(query, told.slice(0, told.num_rows - 1))[0]


def test_events_are_as_published_and_the_same_each_time() -> None:
    events = FORMS["append-only"]
    tables = events.tables()
    sizes = {name: table.num_rows for name, table in tables.items()}
    assert sizes == {"person": 40, "auction": 120, "bid": 1_840}
    assert all(tables[name].equals(again) for name, again in events.tables().items())
    assert not tables["bid"].equals(replace(events, seed=8).tables()["bid"])
    times = pc.cast(tables["bid"]["date_time"], pa.int64()).to_numpy() // 1000
    furthest = np.maximum.accumulate(times) - times
    assert 0 < furthest.max() < rows.DISORDER
    for table, column, least in (("bid", "auction", 0.4), ("bid", "bidder", 0.6)):
        places = tables[table][column].to_numpy() - rows.FIRST_ID
        hot = (places % rows.HOT_EVERY) <= 1
        assert hot.mean() > least


def test_corrections_take_back_what_is_there() -> None:
    tables = FORMS["corrections"].tables()
    for name in ("auction", "bid"):
        there: dict[int, Any] = {}
        kinds: Counter[str] = Counter()
        for row in tables[name].to_pylist():
            kind, key = row.pop("op"), row["id"]
            kinds[kind] += 1
            if kind in ("-U", "-D"):
                assert there.pop(key) == row
            else:
                assert key not in there
                there[key] = row
        corrected = (kinds["-U"] + kinds["-D"]) / kinds["+I"]
        assert 0.05 < corrected < 0.15 and kinds["-U"] == kinds["+U"] and kinds["-D"] > 0
    assert "op" not in tables["person"].column_names


def test_files_hold_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "DATA", tmp_path)
    events = FORMS["corrections"]
    tables = events.tables()
    for name in SCHEMAS:
        files = sorted((events.folder / name).iterdir())
        assert len(files) == events.files
        read = pa.concat_tables([pq.read_table(file) for file in files])
        assert read.select(tables[name].column_names).to_pylist() == tables[name].to_pylist()
        halves = [pa.csv.read_csv(file) for file in (events.csv / name).iterdir()]
        assert len(halves) == 2
    assert events.size("bid") == tables["bid"].num_rows


@pytest.mark.spark
@pytest.mark.parametrize(("name", "form"), [("q5", "append-only"), ("q17", "corrections")])
@pytest.mark.sampled(1)
def test_on_spark_over_a_restart(
    spark: Any, name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nexmark import stream

    monkeypatch.setattr(events_module, "DATA", tmp_path)
    monkeypatch.setattr(stream, "BATCHES", 2)
    events = replace(FORMS[form], files=2)
    (query,) = (each for each in QUERIES if each.name == name)
    assert stream.differences(spark, query, events, Oracle(events), 300) == []
