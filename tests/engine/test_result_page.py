"""The rows of a result on the page, with a search; the index with failed queries first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from engine_jobs import job_over, random_changes, rows_of_table, run_to_end, write_files

from aggloom.errors import CheckpointError
from aggloom.run_local import open_query
from aggloom.runtime.page import Checkpoints, PageServer
from aggloom.runtime.page.result_view import SHOWN, Results


@contextmanager
def served(*checkpoints: Path) -> Iterator[str]:
    with PageServer(Checkpoints(list(map(str, checkpoints)))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.address


def read(address: str) -> str:
    with urlopen(address) as answer:
        return str(answer.read().decode())


def test_the_rows_and_a_search_among_them(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(8, 300), 3)
    run_to_end(job_over(tmp_path / "in", "join", tmp_path / "state"))
    rows = rows_of_table(tmp_path / "state")
    whole = Results().find(tmp_path / "state")
    assert whole.words == f"{len(rows):,} rows after batch 2, the first {SHOWN} are shown."
    wanted = [row for row in rows if any("17" in str(value) for value in row)]
    assert 0 < len(wanted) < len(rows)
    found = Results().find(tmp_path / "state", "17")
    assert found.words.startswith(f"{len(wanted):,} of {len(rows):,} rows")
    assert sorted(found.rows) == sorted([*map(str, row)] for row in wanted)[: len(found.rows)]


def test_texts_are_found_without_regard_to_case_and_are_no_markup(tmp_path: Path) -> None:
    rows = [
        ("insert", (1, "<b>Ada</b>", 3, "2026-01-01 00:00:00")),
        ("insert", (2, "Zoë", 4, "2026-01-01 00:00:00")),
    ]
    write_files(tmp_path / "in", rows, 1)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    assert [row[0] for row in Results().find(tmp_path / "state", "ZOË").rows] == ["Zoë"]
    with served(tmp_path / "state") as address:
        page = read(f"{address}c/0/result?find={quote('<b>ada')}")
        assert "1 of 2 rows after batch 0." in page
        assert "&lt;b&gt;Ada" in page
        assert "<b>" not in page
        assert 'value="&lt;b&gt;ada"' in page
        assert "/c/0/result" in read(f"{address}c/0")


def test_a_result_that_lies_elsewhere_is_said(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(8, 30), 1)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state", f"jsonl:{tmp_path / 'out'}"))
    with pytest.raises(CheckpointError, match="another one"):
        Results().find(tmp_path / "state")
    with served(tmp_path / "state") as address:
        assert "its sink is another one" in read(f"{address}c/0/result")


def test_failed_queries_come_first_with_their_number(tmp_path: Path) -> None:
    write_files(tmp_path / "in", random_changes(8, 30), 1)
    for name in ("a", "b", "c"):
        run_to_end(job_over(tmp_path / "in", "sums", tmp_path / name))
    query = open_query(job_over(tmp_path / "in", "sums", tmp_path / "b"), tmp_path / "b")
    query.journal.begin(query.plan, "", query._host)
    query.journal.end(RuntimeError("a fault"))
    query.close()
    with served(tmp_path / "a", tmp_path / "b", tmp_path / "c") as address:
        page = read(address)
    assert (
        '3 checkpoints: <span class="bad">1 failed</span>, <span class="rest">2 ended</span>'
        in page
    )
    places = [page.index(f'href="/c/{number}"') for number in (1, 0, 2)]
    assert places == sorted(places)
    assert "The query failed. RuntimeError(&#39;a fault&#39;)" in page
