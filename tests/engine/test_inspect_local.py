"""`state` and `why` on checkpoints of the local engine: at any batch, while the query runs, and over damage."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from engine_jobs import job_over, random_changes, rows_of_table, run_to_end, write_files

from aggloom.cli import main
from aggloom.errors import CheckpointError, StateError
from aggloom.run_local import open_query
from aggloom.runtime.engine import checkpoint as checkpoint_module
from aggloom.runtime.engine.checkpoint import RETAINED
from aggloom.runtime.engine.state_reader import LocalStateReader
from aggloom.runtime.hosting import bucket_store
from aggloom.runtime.inspection.checkpoint import state, why
from aggloom.verify import verify

FILES, ROWS = 6, 90
CUSTOMERS = ("Ada", "Zoë", "", None)
Change = tuple[str, tuple[Any, ...]]


def sums_of(changes: Sequence[Change], customer: str | None) -> dict[str, Any] | None:
    """The row of query "sums" for a customer, in plain Python; None if it has none."""
    amounts: list[Any] = []
    for kind, (_, name, amount, _) in changes:
        if name == customer:
            amounts.append(amount) if kind == "insert" else amounts.remove(amount)
    known = [amount for amount in amounts if amount is not None]
    if not amounts:
        return None
    return {
        "n": len(amounts),
        "s": sum(known) if known else None,
        "m": max(known, default=None),
    }


def files_of(root: Path) -> dict[str, tuple[int, int]]:
    """Every file of a checkpoint, with its size and time."""
    found = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


@pytest.fixture(scope="module")
def changes() -> list[Change]:
    return random_changes(21, ROWS)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, changes: list[Change]) -> Path:
    """Query "sums" after six batches."""
    root = tmp_path_factory.mktemp("inspect")
    write_files(root / "in", changes, FILES)
    run_to_end(job_over(root / "in", "sums", root / "state"))
    return root / "state"


@pytest.mark.parametrize("batch", [*range(FILES), None])
def test_state_at_every_batch_is_that_of_plain_python(
    batch: int | None, checkpoint: Path, changes: list[Change]
) -> None:
    before = files_of(checkpoint)
    number = FILES - 1 if batch is None else batch
    seen = changes[: (number + 1) * ROWS // FILES]
    expected = {name: sums_of(seen, name) for name in CUSTOMERS}
    (operator,) = state(checkpoint, batch=batch).operators
    assert (operator.batch, operator.first_batch, operator.last_batch) == (number, 0, FILES - 1)
    assert operator.keys == sum(row is not None for row in expected.values())
    assert all(each.partition is None for each in operator.largest)
    for name, row in expected.items():
        (found,) = state(checkpoint, key={"customer": name}, batch=batch).operators
        assert found.key is not None
        assert [part.results for part in found.key.parts] == ([] if row is None else [row])
    assert files_of(checkpoint) == before


@pytest.mark.parametrize("name", CUSTOMERS)
def test_why_names_each_change_with_its_effect(
    name: str | None, checkpoint: Path, changes: list[Change]
) -> None:
    story = why(checkpoint, key={"customer": name})
    assert story.agrees and not story.has_snapshot
    told = [change for bundle in story.bundles for change in bundle.changes]
    own = [at for at, (_, row) in enumerate(changes) if row[1] == name]
    assert len(told) == len(own)
    for change, at in zip(told, own, strict=True):
        kind, (_, _, amount, _) = changes[at]
        assert (change.kind, change.row) == ("+I" if kind == "insert" else "-D", {"amount": amount})
        (effect,) = change.effects
        assert effect.before == sums_of(changes[:at], name)
        assert effect.after == sums_of(changes[: at + 1], name)
    # What was emitted last is the row of the table.
    emitted = [row for bundle in story.bundles for _, row in bundle.emitted]
    assert emitted[-1] == sums_of(changes, name)


@pytest.mark.parametrize("query", ["join", "rank", "nested", "distinct", "windows", "global"])
def test_every_kind_of_operator_is_shown(query: str, tmp_path: Path) -> None:
    written = random_changes(5, 60, retracts=query != "windows")
    write_files(tmp_path / "in", written, 3)
    run_to_end(job_over(tmp_path / "in", query, tmp_path / "state", keep_open=True))
    report = state(tmp_path / "state")
    assert report.text() and json.dumps(report.to_dict())
    keys = {operator.name: operator.keys for operator in report.operators}
    if query == "global":
        (operator,) = state(tmp_path / "state", key={}).operators
        assert operator.key is not None
        ((count, total),) = rows_of_table(tmp_path / "state")
        assert operator.key.parts[0].results == {"n": count, "s": total}
    elif query == "nested":
        # The counts of customers are one operator, how often each count is there another.
        assert sorted(keys.values()) == sorted(
            [len(CUSTOMERS), len(rows_of_table(tmp_path / "state"))]
        )
    elif query == "windows":
        # The watermark is 5 s behind the newest of 60 rows, a second apart: the last window is open.
        (operator,) = report.operators
        assert operator.windows and operator.held == len(CUSTOMERS)
        for name in CUSTOMERS:
            key = {"customer": name, "window_start": "2026-01-01 00:00:50"}
            (found,) = state(tmp_path / "state", key=key).operators
            assert found.key is not None
            (part,) = found.key.parts
            amounts = [row[2] for _, row in written[50:] if row[1] == name]
            known = [amount for amount in amounts if amount is not None]
            assert part.results == {"s": sum(known) if known else None}
            gone = {**key, "window_start": "2026-01-01 00:00:40"}
            (closed,) = state(tmp_path / "state", key=gone).operators
            assert closed.key is not None and not closed.key.parts
    else:
        # Rows without a customer match nothing in a join.
        wanted_keys = len(CUSTOMERS) - (query == "join")
        assert list(keys.values()) == [wanted_keys], keys


def test_an_over_is_found_by_its_partition(tmp_path: Path) -> None:
    """Its aggregates are those of rows, so that their spec has no key."""
    write_files(tmp_path / "in", random_changes(5, 60), 3)
    sql = (
        "SELECT customer, id, SUM(amount) OVER (PARTITION BY customer ORDER BY id) AS s FROM orders"
    )
    job = replace(job_over(tmp_path / "in", "sums", tmp_path / "state"), sql=sql)
    run_to_end(job)
    rows = [row for row in rows_of_table(tmp_path / "state") if row[0] == "Ada"]
    (found,) = state(tmp_path / "state", key={"customer": "Ada"}).operators
    assert found.key is not None
    assert sorted(part.results["id"] for part in found.key.parts) == sorted(row[1] for row in rows)
    assert why(tmp_path / "state", key={"customer": "Ada"}).bundles
    assert verify(tmp_path / "state").is_equal
    with pytest.raises(StateError, match="Did you mean 'customer'"):
        state(tmp_path / "state", key={"custmer": "Ada"})


def test_snapshots_in_commits_and_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[Change]
) -> None:
    monkeypatch.setattr(bucket_store, "LOG_MAXIMUM_ENTRIES", 2)
    write_files(tmp_path / "in", changes, FILES)
    for name, largest in (("inside", 1 << 20), ("beside", 0)):
        monkeypatch.setattr(checkpoint_module, "IN_COMMIT", largest)
        run_to_end(job_over(tmp_path / "in", "sums", tmp_path / name))
        assert any((tmp_path / name / "snapshots").iterdir()) == (name == "beside")
        for batch in range(FILES):
            seen = changes[: (batch + 1) * ROWS // FILES]
            for customer in CUSTOMERS:
                key = {"customer": customer}
                (found,) = state(tmp_path / name, key=key, batch=batch).operators
                row = sums_of(seen, customer)
                assert found.key is not None
                assert [part.results for part in found.key.parts] == ([row] if row else [])
        (operator,) = state(tmp_path / name).operators
        assert operator.snapshot_bytes > 0
        assert why(tmp_path / name, key={"customer": "Ada"}).has_snapshot


def test_batches_that_are_gone_are_refused(tmp_path: Path) -> None:
    later = [("insert", (n, "often", 1, "2026-01-01 00:00:00")) for n in range(20)]
    write_files(tmp_path / "in", later, 20)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    (operator,) = state(tmp_path / "state").operators
    assert (operator.first_batch, operator.last_batch) == (19 - RETAINED, 19)
    for batch in range(9, 20):
        (found,) = state(tmp_path / "state", key={"customer": "often"}, batch=batch).operators
        assert found.key is not None and found.key.parts[0].results == {
            "n": batch + 1,
            "s": batch + 1,
            "m": 1,
        }
    for batch in (8, 20, -1):
        with pytest.raises(CheckpointError, match="cannot be read; 9 to 19 can"):
            state(tmp_path / "state", batch=batch)


@pytest.mark.thorough
def test_damage_is_named_or_changes_nothing(checkpoint: Path, changes: list[Change]) -> None:
    draw = random.Random(3)
    key = {"customer": "Ada"}
    told = why(checkpoint, key=key).text(), state(checkpoint).text()
    named = 0
    files = [path for path in sorted(checkpoint.rglob("*")) if path.is_file()]
    for file in files:
        whole = file.read_bytes()
        for _ in range(5 if whole else 0):
            damaged = bytearray(whole)
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
            cut = bytes(damaged) if draw.random() < 0.8 else whole[: draw.randrange(len(whole))]
            file.write_bytes(cut)
            try:
                assert (why(checkpoint, key=key).text(), state(checkpoint).text()) == told
            except StateError as error:
                assert "Restore" in str(error) or "version" in str(error)
                named += 1
            finally:
                file.write_bytes(whole)
    # Each commit is needed, and the mark.
    assert named >= 5 * (FILES + 1)
    for name in ("commits/0", f"commits/{FILES - 2}", "aggloom-local.json"):
        whole = (checkpoint / name).read_bytes()
        (checkpoint / name).unlink()
        with pytest.raises(StateError, match="is missing"):
            state(checkpoint)
        (checkpoint / name).write_bytes(whole)


def test_a_running_query_is_read_and_not_disturbed(tmp_path: Path) -> None:
    files = 150
    rows = [("insert", (n, "often", 1, "2026-01-01 00:00:00")) for n in range(files)]
    write_files(tmp_path / "in", rows, files)
    query = open_query(job_over(tmp_path / "in", "sums", tmp_path / "state"), tmp_path / "state")
    failures: list[BaseException] = []

    def run() -> None:
        try:
            query.run()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    seen = set()
    while thread.is_alive():
        try:
            (found,) = state(tmp_path / "state", key={"customer": "often"}).operators
        except CheckpointError as error:
            assert "once it has committed a batch" in str(error) and not seen
            continue
        seen.add(found.batch)
        count = found.batch + 1
        assert found.key is not None
        assert found.key.parts[0].results == {"n": count, "s": count, "m": 1}
    thread.join()
    query.close()
    assert not failures and seen
    assert rows_of_table(tmp_path / "state") == [("often", files, files, 1)]


def test_a_batch_stays_readable_once_it_is_opened(tmp_path: Path) -> None:
    rows = [("insert", (n, "often", 1, "2026-01-01 00:00:00")) for n in range(40)]
    write_files(tmp_path / "in", rows[:3], 3)
    run_to_end(job_over(tmp_path / "in", "sums", tmp_path / "state"))
    reader = LocalStateReader(str(tmp_path / "state"))
    (operator,) = reader.operators()
    wanted = reader.files(operator.number, 2)
    for file in (tmp_path / "state" / "commits").iterdir():
        file.unlink()
    (bucket,) = reader.buckets(operator.number, 2, wanted)
    assert len(bucket.log) == 3


def test_what_a_user_asks_wrongly_is_said(checkpoint: Path, tmp_path: Path) -> None:
    (operator,) = state(checkpoint, key={"customer": "ada"}).operators
    assert operator.key is not None and operator.key.nearest == ("Ada",)
    with pytest.raises(CheckpointError, match="customr"):
        state(checkpoint, key={"customr": "Ada"})
    with pytest.raises(CheckpointError, match="no operator 7"):
        state(checkpoint, operator=7)
    with pytest.raises(CheckpointError, match="no such directory"):
        state(tmp_path / "none")
    write_files(tmp_path / "in", random_changes(1, 4), 1)
    run_to_end(job_over(tmp_path / "in", "filter", tmp_path / "stateless"))
    with pytest.raises(CheckpointError, match="no state of a stateful query"):
        state(tmp_path / "stateless")


def test_the_commands_say_the_same(checkpoint: Path, changes: list[Change]) -> None:
    result = CliRunner().invoke(main, ["state", str(checkpoint), "--key", "customer=Ada"])
    row = sums_of(changes, "Ada")
    assert row is not None and result.exit_code == 0
    assert f"n={row['n']}, s={row['s']}, m={row['m']}" in result.output
    result = CliRunner().invoke(main, ["why", str(checkpoint), "--key", "customer=NULL"])
    assert result.exit_code == 0 and "key customer=NULL" in result.output
    below = CliRunner().invoke(main, ["state", str(checkpoint.parent)])
    assert below.exit_code and "There are some below it: state." in below.output + below.stderr


def test_it_has_no_partitions(checkpoint: Path) -> None:
    before = files_of(checkpoint)
    result = CliRunner().invoke(main, ["repartition", str(checkpoint), "--partitions", "3"])
    assert result.exit_code
    assert "has no partitions" in str(result.exception) + result.output
    assert files_of(checkpoint) == before
