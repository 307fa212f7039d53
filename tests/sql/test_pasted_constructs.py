"""Constructs of Flink's and Spark's SQL as users paste them: each runs and gives rows by hand, or an error names it."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from pasted_constructs import PROBES, ROWS, TABLES, Probe, register_all, unregister_all

import aggloom as al
from aggloom.errors import AggloomError


@pytest.fixture(scope="module", autouse=True)
def functions() -> Iterator[None]:
    register_all()
    yield
    unregister_all()


def test_most_of_the_constructs_run() -> None:
    assert len(PROBES) >= 143
    assert sum(not probe.refused for probe in PROBES) * 143 >= 125 * len(PROBES)
    assert {probe.part for probe in PROBES} == set(range(1, 8))


def rows_of(probe: Probe) -> list[tuple[Any, ...]]:
    """The rows of a text over those of its tables."""
    options: dict[str, Any] = {"dialect": probe.dialect, "args": probe.args}
    with warnings.catch_warnings():
        # A setting that means nothing here is named once.
        warnings.simplefilter("ignore")
        harness = al.Harness.from_sql(
            probe.sql, TABLES, input_changes="append", backend="python", **options
        )
    with harness:
        for name in harness.plan.scans:
            rows = probe.tables.get(name, ROWS.get(name, []))
            harness.process([("+I", *row) for row in rows], table=name)
        if probe.clock is not None:
            harness.flush()
            harness.processing_time(int(probe.clock.timestamp() * 1000))
        harness.end_of_input()
        return [tuple(row) for row in harness.table()]


def comparable(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Rows in order, with times as in UTC."""
    return sorted(
        repr([each.replace(tzinfo=None) if isinstance(each, dt.datetime) else each for each in row])
        for row in rows
    )


@pytest.mark.parametrize("probe", PROBES, ids=[f"{p.part}: {p.sql[:50]}" for p in PROBES])
def test_a_pasted_construct(probe: Probe) -> None:
    if probe.refused:
        with pytest.raises(AggloomError) as raised:
            rows_of(probe)
        assert probe.refused in str(raised.value).partition("\n")[0]
    elif probe.rows is None:
        explained = al.explain(
            probe.sql, tables=TABLES, dialect=probe.dialect, input_changes="append"
        )
        assert probe.plan in str(explained)
    else:
        assert comparable(rows_of(probe)) == comparable(probe.rows)
