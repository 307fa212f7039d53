"""The changes of the last batches in a checkpoint: what was emitted, bounded, harmless where it is damaged."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine_jobs import changes_in, job_over, random_changes, rows_of_table, run_to_end, write_files

from aggloom.runtime.hosting import recent_changes
from aggloom.runtime.hosting.recent_changes import (
    CHANGES_DIRECTORY,
    KEPT,
    drop_changes,
    note_changes,
    read_changes,
)
from aggloom.runtime.page.changes_view import changes_of
from aggloom.runtime.page.result_view import Results
from aggloom.runtime.values.changelog import CHANGE_TYPES


@pytest.mark.parametrize("query", ["sums", "join", "rank"])
def test_they_are_the_changes_that_a_sink_has_got(tmp_path: Path, query: str) -> None:
    write_files(tmp_path / "in", random_changes(5, 300), KEPT + 4)
    run_to_end(job_over(tmp_path / "in", query, tmp_path / "state", f"jsonl:{tmp_path / 'out'}"))
    found = list(read_changes(tmp_path / "state"))
    # Those of the last batches that had changes.
    batches = [each.batch for each in found]
    assert batches == sorted(batches, reverse=True) and len(batches) <= KEPT
    listed = [
        {**row, "_change_type": CHANGE_TYPES[kind]}
        for each in reversed(found)
        for row, kind in zip(each.rows.to_pylist(), each.kinds.tolist(), strict=True)
    ]
    written = list(changes_in(tmp_path / "out"))
    assert listed == written[-len(listed) :] and len(listed) > 20
    assert [each.total for each in found] == [each.rows.num_rows for each in found]


def test_they_lead_from_one_table_to_the_next(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(6, 200), 8)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    before = rows_of_table(tmp_path / "state")
    write_files(tmp_path / "in", random_changes(7, 60), 1, start=50)
    run_to_end(job)
    last, *_ = read_changes(tmp_path / "state")
    table = list(before)
    for row, kind in zip(last.rows.to_pylist(), last.kinds.tolist(), strict=True):
        values = tuple(row.values())
        table.remove(values) if kind % 2 else table.append(values)
    assert sorted(table, key=repr) == sorted(rows_of_table(tmp_path / "state"), key=repr)


def test_an_update_stands_on_a_line_and_what_it_changed_is_marked(tmp_path: Path) -> None:
    rows = pa.table(
        {"k": ["<b>", "<b>", "z", "y", "x"], "n": [1, 2, 5, 6, 7], "m": [3, 3, 5, 6, 7]}
    )
    note_changes(tmp_path, rows, np.array([1, 2, 0, 3, 1], np.int8), 4)
    note_changes(tmp_path, rows.slice(2, 1), np.array([3], np.int8), 5)
    found = changes_of(tmp_path)
    assert found is not None and found.columns == ["k", "n", "m"]
    assert found.words == "6 changes in batches 4 to 5, the newest batch first."
    assert [(line.batch, line.words) for line in found.lines] == [
        *((5, "delete"), (4, "update"), (4, "insert"), (4, "delete"), (4, "update from")),
    ]
    assert found.lines[1].cells == ["<b>", "<del>1</del> <ins>2</ins>", "3"]
    # Rows before and after are searched, and without regard to case.
    assert [len(changes_of(tmp_path, text).lines) for text in ("1", "Z", "<B", "q")] == [1, 2, 1, 0]  # type: ignore[union-attr]
    other = pa.table({"k": ["a"]})
    note_changes(tmp_path, other, np.array([0], np.int8), 6)
    # After the columns have changed, batches with other columns are left out.
    assert changes_of(tmp_path).words == "1 changes in batch 6, the newest batch first."  # type: ignore[union-attr]


def test_they_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_changes, "ROWS", 100)
    rows = pa.table({"k": ["é" * 50_000] * 40 + ["a"] * 200})
    kinds = np.zeros(240, np.int8)
    note_changes(tmp_path, rows, kinds, 0)
    note_changes(tmp_path, rows.slice(40), kinds[40:], 1)
    note_changes(tmp_path, pa.table({"k": ["x" * (3 << 20)]}), kinds[:1], 2)
    note_changes(tmp_path, rows.slice(0, 0), kinds[:0], 3)
    last, small, large = read_changes(tmp_path)
    assert (last.total, last.rows.num_rows) == (1, 0)
    assert (small.total, small.rows.num_rows) == (200, 100)
    assert large.total == 240 and 0 < large.rows.num_rows < 20
    assert "of a batch the first 0 changes are kept" in changes_of(tmp_path).words  # type: ignore[union-attr]
    for batch in range(4, 50):
        note_changes(tmp_path, rows.slice(200), kinds[200:], batch)
    assert len(list((tmp_path / CHANGES_DIRECTORY).iterdir())) == KEPT
    drop_changes(tmp_path)
    assert list(tmp_path.iterdir()) == [] and changes_of(tmp_path) is None


def test_damage_and_a_full_disk_stop_nothing(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = pa.table({"k": [f"k{n}" for n in range(50)], "n": list(range(50))})
    note_changes(tmp_path, rows, np.zeros(50, np.int8), 7)
    file = tmp_path / CHANGES_DIRECTORY / "7"
    whole = file.read_bytes()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        file.write_bytes(data[: draw.randrange(len(data))] if draw.random() < 0.3 else data)
        changes_of(tmp_path, "k1")
    file.unlink()
    file.mkdir()
    assert changes_of(tmp_path) is None
    note_changes(tmp_path, rows, np.zeros(50, np.int8), 7)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / CHANGES_DIRECTORY).write_text("in the way")
    note_changes(tmp_path / "other", rows, np.zeros(50, np.int8), 7)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / CHANGES_DIRECTORY).symlink_to(tmp_path / CHANGES_DIRECTORY)
    drop_changes(tmp_path / "link")
    assert file.is_dir()


def test_a_result_is_read_anew_only_where_it_has_changed(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(8, 100), 1)
    job = job_over(tmp_path / "in", "sums", tmp_path / "state")
    run_to_end(job)
    results, small = Results(), Results(cache_bytes=10)
    first = results.find(tmp_path / "state", "ada")
    file = tmp_path / "state" / "aggloom-table.arrow"
    assert results.find(tmp_path / "state", "ada") == first == small.find(tmp_path / "state", "ada")
    assert len(results._loaded) == 1 and not small._loaded
    write_files(tmp_path / "in", random_changes(9, 100), 1, start=40)
    run_to_end(job)
    again = results.find(tmp_path / "state", "ada")
    assert again != first and again == small.find(tmp_path / "state", "ada")
    assert len(results._loaded) == 1 and file.exists()


def test_a_search_finds_what_each_cell_shows(tmp_path: Path) -> None:
    draw = random.Random(4)
    write_files(tmp_path / "in", random_changes(11, 400), 1)
    run_to_end(job_over(tmp_path / "in", "rank", tmp_path / "state"))
    results = Results()
    rows = rows_of_table(tmp_path / "state")
    for text in (
        "1",
        "a",
        "ADA",
        "ZOË",
        "39",
        "3 ",
        "\x00",
        *(str(draw.randrange(400)) for _ in range(9)),
    ):
        wanted = [
            row for row in rows if any(text.lower() in str(v).lower() for v in row if v is not None)
        ]
        found = results.find(tmp_path / "state", text)
        assert found.words.startswith(f"{len(wanted):,} of {len(rows):,} rows"), text
