"""Rows that do not reach the result: a warning of each kind when it occurs, and of the total at the end."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.errors import DroppedRowsWarning

START = dt.datetime(2026, 1, 1)
COUNTS = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
MINUTES = (
    "SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE) "
    "GROUP BY window_start, window_end"
)


def drop_orphan(folder: Path, **options: Any) -> al.Harness:
    harness = al.Harness.from_sql(COUNTS, {"t": "k STRING, v BIGINT"}, **options)
    harness.process([("-D", "a", 1)])
    harness.flush()
    return harness


def drop_late(folder: Path, **options: Any) -> al.Harness:
    tables = {"t": "k STRING, ts TIMESTAMP"}
    harness = al.Harness.from_sql(MINUTES, tables, watermarks={"t": ("ts", 0)}, **options)
    for minutes in (5, 1):
        harness.process([("+I", "a", START + dt.timedelta(minutes=minutes))])
    return harness


def drop_unreadable(folder: Path, **options: Any) -> al.Harness:
    (folder / "rows.jsonl").write_text('{"k": "a", "v": 1}\nnonsense\n')
    harness = al.Harness.from_sql(COUNTS, {"t": "k STRING, v BIGINT"}, **options)
    harness.read(folder, "jsonl", unreadable="drop")
    return harness


KINDS = [
    pytest.param(drop_orphan, "1 orphan retraction dropped so far by GROUP BY k", "order='name'"),
    pytest.param(drop_late, "1 late row dropped so far by GROUP BY", "allowed_lateness"),
    pytest.param(drop_unreadable, "1 unreadable row dropped so far", "unreadable='error'"),
]
MODES = ("mini_batch", "per_record")


def caught(call: Callable[[], Any]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [each for each in found if issubclass(each.category, DroppedRowsWarning)]


@pytest.mark.parametrize("mini_batch", [True, False])
@pytest.mark.parametrize(("drop", "said", "fix"), KINDS)
def test_each_kind_is_warned_of_where_it_occurs(
    tmp_path: Path, drop: Any, said: str, fix: str, mini_batch: bool
) -> None:
    (warning,) = caught(lambda: drop(tmp_path, mini_batch_enabled=mini_batch))
    text = str(warning.message)
    assert text.startswith(said) and fix in text
    # The line of the caller, so that filters by module work.
    assert warning.filename == __file__


def test_the_total_follows_at_the_end_and_no_bundle_repeats_it(tmp_path: Path) -> None:
    harness = drop_orphan(tmp_path)

    def more() -> None:
        for _ in range(3):
            harness.process([("-D", "a", 1)])
            harness.flush()

    assert caught(more) == []
    (total,) = caught(harness.end_of_input)
    assert str(total.message).startswith("4 orphan retractions dropped in all by GROUP BY k")
    assert caught(harness.close) == []


def test_a_run_without_an_end_has_its_total_when_it_is_closed(tmp_path: Path) -> None:
    harness = drop_orphan(tmp_path)
    harness.process([("-D", "b", 1)])
    harness.flush()
    (total,) = caught(harness.close)
    assert str(total.message).startswith("2 orphan retractions dropped in all")


@pytest.mark.parametrize(("drop", "said", "fix"), KINDS)
def test_as_an_error_it_cuts_no_work_short(tmp_path: Path, drop: Any, said: str, fix: str) -> None:
    def whole() -> list[tuple[Any, ...]]:
        harness: al.Harness = drop(tmp_path)
        harness.end_of_input()
        return harness.table()

    expected = whole()
    harness: al.Harness | None = None
    made = al.Harness.from_sql

    def keep(*args: Any, **keywords: Any) -> al.Harness:
        nonlocal harness
        harness = made(*args, **keywords)
        return harness

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error", DroppedRowsWarning)
        patch.setattr(al.Harness, "from_sql", keep)
        with pytest.raises(DroppedRowsWarning, match=said):
            drop(tmp_path)
        assert harness is not None
        harness.end_of_input()
        assert harness.table() == expected


def test_an_error_in_a_file_of_many_blocks_comes_behind_all_of_them(tmp_path: Path) -> None:
    rows = "".join(f'{{"k": "a", "v": {number}}}\n' for number in range(25_000))
    (tmp_path / "rows.jsonl").write_text("nonsense\n" + rows)
    harness = al.Harness.from_sql(COUNTS, {"t": "k STRING, v BIGINT"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", DroppedRowsWarning)
        with pytest.raises(DroppedRowsWarning):
            harness.read(tmp_path, "jsonl", unreadable="drop")
    harness.flush()
    assert harness.table() == [("a", 25_000)]


def test_rows_that_are_handed_out_or_kept_are_not_lost(tmp_path: Path) -> None:
    assert caught(lambda: drop_late(tmp_path, late_rows=True)) == []
    assert caught(lambda: drop_orphan(tmp_path, on_orphan_retraction="keep").close()) == []


def test_a_failure_is_not_hidden_by_a_warning(tmp_path: Path) -> None:
    def fail() -> None:
        with al.Harness.from_sql(COUNTS, {"t": "k STRING, v BIGINT"}) as harness:
            harness.process([("-D", "a", 1)])
            raise RuntimeError("mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error", DroppedRowsWarning)
        with pytest.raises(RuntimeError, match="mine"):
            fail()
