"""`aggloom forget`: the subject is gone from every byte of a checkpoint, all else is as if it had never come."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from engine_jobs import QUERIES, expected_rows, job_over, rows_of_table, run_to_end, write_files

from aggloom import durable_files
from aggloom.cli import main
from aggloom.errors import AggloomError, CheckpointError, SpecError
from aggloom.forget import Receipt, forget
from aggloom.job import Job
from aggloom.run_local import open_query
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, read_table_file
from aggloom.runtime.engine.state_reader import LocalStateReader
from aggloom.runtime.hosting import bucket_store
from aggloom.runtime.hosting.checkpoint_paths import FORGET_FILE
from aggloom.runtime.inspection.checkpoint import state
from aggloom.runtime.inspection.comparison import open_nodes
from aggloom.runtime.values.changelog import sort_key

SUBJECT = "Subject-Zebra-4711"
OTHERS = {
    "over": "SELECT id, customer, SUM(amount) OVER (PARTITION BY customer ORDER BY id) AS s FROM orders",
    "last": "SELECT id, customer, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id DESC)"
    " AS r FROM orders) WHERE r = 1",
    "three": "SELECT a.id, b.id AS b, c.id AS c, a.customer FROM orders a JOIN orders b ON a.customer = b.customer JOIN"
    " orders c ON a.customer = c.customer WHERE a.amount > 4 AND b.amount > 3 AND c.amount > 4",
    "texts": "SELECT customer, COLLECT_LIST(concat('-', amount)) AS l FROM orders GROUP BY customer",
    "spread": "SELECT amount, COUNT(*) AS n, MIN(m) AS m FROM (SELECT customer, amount, MAX(id) AS m FROM orders"
    " GROUP BY customer, amount) GROUP BY amount",
}
KEYED = ["sums", "nested", "distinct", "join", "rank", "unnest", *OTHERS]
"""Queries whose operators have the customer in their keys, or are fed by those that have."""
Change = tuple[str, tuple[Any, ...]]


def draw_changes(seed: int, rows: int, retracts: bool = True) -> list[Change]:
    """Random changes of orders of four customers, the subject among them."""
    draw = random.Random(seed)
    live: list[tuple[Any, ...]] = []
    found: list[Change] = []
    for number in range(rows):
        if retracts and live and draw.random() < 0.3:
            found.append(("delete", live.pop(draw.randrange(len(live)))))
            continue
        at = f"2026-01-01 00:{number // 60 % 60:02d}:{number % 60:02d}"
        customer = draw.choice(["Ada", SUBJECT, "Subject-Zebra-4712", None])
        live.append((number, customer, draw.choice([None, *range(6)]), at))
        found.append(("insert", live[-1]))
    return found


def without(changes: Sequence[Change], subject: str | None = SUBJECT) -> list[Change]:
    return [each for each in changes if each[1][1] != subject]


def run_query(root: Path, query: str, changes: Sequence[Change], **given: Any) -> Job:
    write_files(root / "in", changes, 6)
    job = job_of(root / "in", query, root / "state", **given)
    run_to_end(replace(job, keep_open=True))
    return job


def job_of(folder: Path, query: str, checkpoint: Path, **given: Any) -> Job:
    """The job of one of the queries."""
    if query not in OTHERS:
        return job_over(folder, query, checkpoint, **given)
    return replace(job_over(folder, "sums", checkpoint, **given), sql=OTHERS[query])


def rows_without(root: Path, query: str, changes: Sequence[Change]) -> list[tuple[Any, ...]]:
    """The rows of a query over the changes of all others, by the harness."""
    write_files(root / "others", without(changes), 6)
    job = job_of(root / "others", query, root / "unused")
    return sorted(expected_rows(job), key=lambda row: [sort_key(value) for value in row])


def texts_in(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a checkpoint, and every part of its state as it is before it is compressed."""
    for file in root.rglob("*"):
        if file.is_file():
            yield str(file.relative_to(root)), file.read_bytes()
    for place, node in open_nodes(LocalStateReader(str(root)), None, False).items():
        for bucket in node.files:
            fragment = node.fragment(bucket)
            assert fragment is not None
            for number, operator in enumerate(fragment.operators):
                operator.snapshot()
                for arena in operator.arenas:
                    for name, array in arena:
                        yield f"{place}.{number}, bucket {bucket}, {name}", array.tobytes()
    if (root / TABLE_FILE).exists():
        out = pa.BufferOutputStream()
        table = read_table_file(root / TABLE_FILE)
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
        yield TABLE_FILE, out.getvalue().to_pybytes()


def places_with(root: Path, text: str = SUBJECT) -> set[str]:
    return {name for name, data in texts_in(root) if text.encode() in data}


@pytest.fixture(params=[2, bucket_store.LOG_MAXIMUM_ENTRIES])
def entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs with and without snapshots before them."""
    monkeypatch.setattr(bucket_store, "LOG_MAXIMUM_ENTRIES", request.param)


@pytest.mark.parametrize("backend", ["python", "numba"])
@pytest.mark.parametrize("query", KEYED)
@pytest.mark.sampled(11)
def test_all_else_is_as_if_the_subject_had_never_come(
    query: str, backend: str, tmp_path: Path, entries: None
) -> None:
    changes = draw_changes(5, 150)
    job = run_query(tmp_path, query, changes, backend=backend)
    assert places_with(tmp_path / "state")
    receipt = forget(tmp_path / "state", {"customer": SUBJECT})
    assert places_with(tmp_path / "state") == set()
    assert rows_of_table(tmp_path / "state") == rows_without(tmp_path, query, changes)
    assert sum(part.keys for part in receipt.removed) > 0
    assert receipt.is_of({"customer": SUBJECT})
    assert not receipt.is_of({"customer": "Ada"})
    assert SUBJECT not in receipt.to_json()
    # The query goes on, with rows of others and of the subject, who is new to it.
    more = [
        ("insert", (900 + n, name, n, "2026-01-02 00:00:00"))
        for n, name in enumerate(["Ada", SUBJECT])
    ]
    write_files(tmp_path / "in", more, 1, start=6)
    write_files(tmp_path / "others", more, 1, start=6)
    run_to_end(job)
    others = job_of(tmp_path / "others", query, tmp_path / "unused")
    rows = sorted(expected_rows(others), key=lambda row: [sort_key(value) for value in row])
    assert rows_of_table(tmp_path / "state") == rows


def test_windows_lose_the_subject_while_they_are_open(tmp_path: Path, entries: None) -> None:
    changes = draw_changes(6, 100, retracts=False)
    job = run_query(tmp_path, "windows", changes)
    emitted = [row for row in rows_of_table(tmp_path / "state") if row[1] == SUBJECT]
    receipt = forget(tmp_path / "state", {"customer": SUBJECT})
    assert places_with(tmp_path / "state") == set()
    assert [part.keys > 0 for part in receipt.removed] == [True, True]
    assert receipt.removed[-1].keys == len(emitted)
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == rows_without(tmp_path, "windows", changes)


def test_null_is_a_subject(tmp_path: Path) -> None:
    changes = draw_changes(7, 100)
    run_query(tmp_path, "sums", changes)
    forget(tmp_path / "state", {"customer": None})
    write_files(tmp_path / "others", without(changes, None), 3)
    others = job_over(tmp_path / "others", "sums", tmp_path / "unused")
    assert rows_of_table(tmp_path / "state") == sorted(expected_rows(others))


def test_a_subject_that_is_not_there_leaves_all_as_it_was(tmp_path: Path) -> None:
    run_query(tmp_path, "sums", draw_changes(7, 100))
    before = rows_of_table(tmp_path / "state")
    receipt = forget(tmp_path / "state", {"customer": "Nobody"})
    assert [part.keys for part in receipt.removed] == [0, 0]
    assert rows_of_table(tmp_path / "state") == before


class Killed(BaseException):
    """The end of a process, played."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int, *modules: str) -> Callable[[], int]:
    """Let a process end before or after one of its writes and deletions; the function says how many there were.

    modules: further ones that write.
    """
    steps = 0
    write, unlink, rename = durable_files.write_whole, Path.unlink, Path.replace

    def count(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step:
                raise Killed
            found = call(*given, **named)
            steps += 1
            if steps == step:
                raise Killed
            return found

        return wrapped

    for module in (
        "aggloom.forget.in_local",
        "aggloom.forget.note",
        "aggloom.runtime.engine.checkpoint",
        *modules,
    ):
        monkeypatch.setattr(f"{module}.write_whole", count(write))
    monkeypatch.setattr(Path, "unlink", count(unlink))
    monkeypatch.setattr(Path, "replace", count(rename))
    return lambda: steps


@pytest.mark.thorough
def test_a_kill_at_any_step_is_made_good(tmp_path: Path) -> None:
    changes = draw_changes(8, 80)
    wanted = rows_without(tmp_path, "nested", changes)
    step, killed = 0, True
    while killed:
        step += 1
        root = tmp_path / str(step)
        root.mkdir()
        job = run_query(root, "nested", changes)
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, step)
            try:
                forget(root / "state", {"customer": SUBJECT})
                killed = False
            except Killed:
                pass
        if (root / "state" / FORGET_FILE).exists():
            # No other run may go on from what is half done.
            with pytest.raises(CheckpointError, match="interrupted"):
                open_query(job, root / "state")
            with pytest.raises(CheckpointError, match="another subject"):
                forget(root / "state", {"customer": "Ada"})
        if killed:
            forget(root / "state", {"customer": SUBJECT})
        assert places_with(root / "state") == set()
        assert rows_of_table(root / "state") == wanted
        assert not (root / "state" / FORGET_FILE).exists()
        assert list((root / "state" / "receipts").iterdir())
    assert step > 20


REFUSED: list[tuple[str, dict[str, str | None], type[AggloomError], str]] = [
    (QUERIES["sums"], {"custmer": "Ada"}, SpecError, "Did you mean 'customer'"),
    (QUERIES["sums"], {}, SpecError, "no column"),
    (QUERIES["filter"], {"id": "3"}, SpecError, "there are none"),
    (QUERIES["global"], {"customer": "Ada"}, SpecError, "in its key"),
    (
        "SELECT amount, COLLECT_LIST(customer) AS c FROM orders GROUP BY amount",
        {"customer": "Ada"},
        CheckpointError,
        "not under that key",
    ),
    (
        "SELECT a.id, a.customer FROM orders a JOIN orders b ON a.amount = b.id",
        {"customer": "Ada"},
        CheckpointError,
        "not under that key",
    ),
    (QUERIES["unnest"], {"e": "many"}, CheckpointError, "many"),
]


@pytest.mark.parametrize(("sql", "key", "error", "words"), REFUSED)
def test_what_cannot_be_forgotten_is_refused_and_nothing_changes(
    sql: str, key: dict[str, str | None], error: type[AggloomError], words: str, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", draw_changes(9, 60), 3)
    job = replace(job_over(tmp_path / "in", "sums", tmp_path / "state"), sql=sql)
    run_to_end(job)
    rows, last = rows_of_table(tmp_path / "state"), sorted(
        (tmp_path / "state" / "commits").iterdir()
    )
    with pytest.raises(error, match=words):
        forget(tmp_path / "state", key)
    assert rows_of_table(tmp_path / "state") == rows
    assert sorted((tmp_path / "state" / "commits").iterdir()) == last
    assert not (tmp_path / "state" / FORGET_FILE).exists()
    assert run_to_end(job).counts.rows == 0


_TWICE = (
    "(SELECT customer, concat(customer, '') AS other, id FROM orders UNION ALL "
    "SELECT 'all' AS customer, customer AS other, id FROM orders)"
)
"""The orders, and once more under one key with the customer as a value."""


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT customer, COUNT(*) AS n, MAX(other) AS o FROM {_TWICE} GROUP BY customer",
        "SELECT customer, id, other FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id DESC) AS r "
        f"FROM {_TWICE}) WHERE r <= 60",
    ],
    ids=["accumulators", "rows"],
)
def test_a_text_that_stands_elsewhere_in_a_state_is_found(sql: str, tmp_path: Path) -> None:
    """The subject under another name of a column, which no plan tells."""
    write_files(tmp_path / "in", draw_changes(9, 60), 3)
    job = replace(job_over(tmp_path / "in", "sums", tmp_path / "state"), sql=sql)
    run_to_end(job)
    rows = rows_of_table(tmp_path / "state")
    with pytest.raises(CheckpointError, match="outside of its key"):
        forget(tmp_path / "state", {"customer": SUBJECT})
    assert rows_of_table(tmp_path / "state") == rows
    assert not (tmp_path / "state" / FORGET_FILE).exists()
    assert state(tmp_path / "state", key={"customer": SUBJECT}).operators[0].key.parts
    run_to_end(job)
    assert rows_of_table(tmp_path / "state") == rows


def test_a_query_that_runs_is_left_alone(tmp_path: Path) -> None:
    job = run_query(tmp_path, "sums", draw_changes(9, 60))
    with (
        closing(open_query(job, tmp_path / "state")),
        pytest.raises(CheckpointError, match="another run"),
    ):
        forget(tmp_path / "state", {"customer": "Ada"})


def test_other_sinks_are_given_deletions_and_named(tmp_path: Path) -> None:
    changes = draw_changes(3, 80)
    out = tmp_path / "out"
    run_query(tmp_path, "sums", changes, sink=f"jsonl:{out}")
    before = {file.name for file in out.glob("part-*")}
    receipt = forget(tmp_path / "state", {"customer": SUBJECT})
    (new,) = [file for file in out.glob("part-*") if file.name not in before]
    (line,) = [json.loads(line) for line in new.read_text().splitlines()]
    assert (line["customer"], line["_change_type"]) == (SUBJECT, "delete")
    assert any(str(out) in each for each in receipt.not_reached)
    assert places_with(tmp_path / "state") == set()


def test_the_command(tmp_path: Path) -> None:
    run_query(tmp_path, "sums", draw_changes(3, 80))
    place = str(tmp_path / "state")
    result = CliRunner().invoke(main, ["forget", place, "--key", f"customer={SUBJECT}"])
    assert result.exit_code == 0, result.output
    assert "GROUP BY customer: 1 removed, 1 rows retracted" in result.output
    (file,) = (tmp_path / "state" / "receipts").iterdir()
    receipt = Receipt(**json.loads(file.read_text()))
    assert str(file) in result.output
    assert set(receipt.checksums) == {TABLE_FILE, f"commits/{receipt.batch}"}
    again = CliRunner().invoke(main, ["verify", place])
    assert again.exit_code == 1
    assert "subjects that were forgotten, and that the input still has: 1" in again.output
    as_json = CliRunner().invoke(
        main, ["forget", place, "--key", "customer=Ada", "--format", "json"]
    )
    assert json.loads(as_json.output)["columns"] == ["customer"]
    for arguments in ([place], [place, "--key", "customer"], ["nowhere", "--key", "a=b"]):
        wrong = CliRunner().invoke(main, ["forget", *arguments])
        assert wrong.exit_code == 2
        assert "Traceback" not in wrong.output
