"""The Iceberg sink and source, over a catalog in SQLite: each batch once whatever fails; what is read folds back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lakes
import numpy as np
import pyarrow as pa
import pytest
from lakes import batch, raised

from aggloom.errors import CheckpointError, InputFormatError, MissingFileError, SinkError, SpecError
from aggloom.runtime.connectors.iceberg.changes import IcebergLake
from aggloom.runtime.connectors.iceberg.options import IcebergSource, iceberg_options
from aggloom.runtime.connectors.iceberg.sink import IcebergSink

library = pytest.importorskip("pyiceberg.catalog")

KEY = ("k", "f")


def connect(path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{path}/c.db", "warehouse": f"file://{path}/w"}


def opened(path: Path, name: str = "db.t") -> Any:
    return library.load_catalog("default", **connect(path)).load_table(name)


def sink(path: Path, key: Any = KEY, before: bool | None = True, **more: Any) -> IcebergSink:
    told = {"table": "db.t", "connect": connect(path), **more}
    return IcebergSink(iceberg_options(told), key, before)


def rows(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    """The table's rows, by the library's own reader."""
    found = opened(path).scan(selected_fields=columns or ("*",)).to_arrow()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def others(path: Path) -> None:
    """Somebody else's commit, which changes no row."""
    with opened(path).transaction() as work:
        work.append(opened(path).schema().as_arrow().empty_table())


@pytest.mark.parametrize("seed", range(3))
def test_the_table_is_the_result_whatever_fails(seed: int, tmp_path: Path) -> None:
    def look(wanted: list[lakes.Row]) -> None:
        assert lakes.in_words(rows(tmp_path)) == lakes.in_words(wanted)

    more = {"partition_by": "v"} if seed == 2 else {}
    make = lambda: sink(tmp_path, **more)  # noqa: E731
    assert lakes.driven(make, seed, 10, lambda: others(tmp_path), look)


def test_a_changelog_folds_to_the_result_whatever_fails(tmp_path: Path) -> None:
    short = dict(
        zip(("insert", "update_preimage", "update_postimage", "delete"), lakes.WORDS, strict=True)
    )

    def look(wanted: list[lakes.Row]) -> None:
        told = [(short[word], own) for *own, word in rows(tmp_path)]
        assert lakes.folded(told) == lakes.in_words(wanted)

    make = lambda: sink(tmp_path, None, form="changelog")  # noqa: E731
    assert lakes.driven(make, 4, 8, lambda: others(tmp_path), look)
    with pytest.raises(CheckpointError, match="runs this batch again with other rows"):
        make().write(*batch([("+I", (99, 9.0, "z"))]), 7, "c1")


def test_every_type_is_stored_and_is_a_key(tmp_path: Path) -> None:
    import tests.sinks.test_delta_sink as own

    table, kinds = batch([("+I", row) for row in own.ROWS], own.EVERY)
    wanted = lakes.in_words(own.ROWS)
    made = sink(tmp_path, ("k",))
    made.write(table, kinds, 0, "c")
    for number, name in enumerate(own.EVERY.names):
        made.key = (name,)
        made.write(
            pa.concat_tables([table, table]), np.array([1, 1, 2, 2], np.int8), number + 1, "c"
        )
        assert lakes.in_words(rows(tmp_path)) == wanted, name


def test_what_options_say() -> None:
    for given, said in (
        ({}, "give it table, as in"),
        ({"table": "totals"}, "write it with its namespace"),
        ({"table": "db.t", "conect": {}}, "Did you mean 'connect'"),
        ({"table": "db.t", "form": "log"}, "known are table, changelog"),
        ({"table": "db.t", "attempts": 0}, "must be 1 at least"),
    ):
        with pytest.raises(SpecError, match=said):
            iceberg_options(given)


def test_other_checkpoints_and_older_ones(tmp_path: Path) -> None:
    one = batch([("+I", (1, 1.0, "a"))])
    assert sink(tmp_path).write(*one, 0, "c1")
    assert sink(tmp_path).write(*batch([("+I", (2, 1.0, "b"))]), 1, "c1")
    assert sink(tmp_path).write(*batch([]), 2, "c1")
    for call, kind, said in (
        (
            lambda: sink(tmp_path).write(*one, 4, "c1"),
            CheckpointError,
            "has batch 2 .* batch 4 is next",
        ),
        (lambda: sink(tmp_path).write(*one, 1, "c1"), CheckpointError, "runs batch 1 again"),
        (lambda: sink(tmp_path).write(*one, 0, "c2"), SinkError, "did not write. existing=replace"),
        (lambda: sink(tmp_path).write(*one, 2, "c2"), CheckpointError, "no batch of this"),
    ):
        with pytest.raises(kind, match=said):
            call()
    assert sink(tmp_path, existing="keep").write(*batch([("+I", (9, 1.0, "z"))]), 0, "c2")
    assert sorted(rows(tmp_path)) == [(1, 1.0, "a"), (2, 1.0, "b"), (9, 1.0, "z")]
    assert sink(tmp_path, existing="replace").write(*batch([("+I", (7, 1.0, "y"))]), 0, "c3")
    assert rows(tmp_path) == [(7, 1.0, "y")]
    with pytest.raises(CheckpointError, match="no batch of this checkpoint, and batch 3 is next"):
        sink(tmp_path).write(*one, 3, "c1")
    table = opened(tmp_path)
    assert [name for name in table.properties if name.startswith("aggloom.")] == ["aggloom.c3"]
    told = table.current_snapshot().summary.additional_properties
    assert (told["aggloom.checkpoint"], told["aggloom.batch"]) == ("c3", "0")
    # Snapshots that were expired do not matter; a table that was rolled back is told.
    now = table.current_snapshot().snapshot_id
    made = sink(tmp_path)
    made.write(*batch([("-U", (7, 1.0, "y")), ("+U", (7, 1.0, "x"))]), 1, "c3")
    table = opened(tmp_path)
    table.manage_snapshots().rollback_to_snapshot(now).commit()
    assert rows(tmp_path) == [(7, 1.0, "y")]
    with pytest.raises(
        CheckpointError, match="rolled back to batch 0 of this checkpoint, which has written 1"
    ):
        made.write(*batch([]), 2, "c3")


def test_tables_of_ones_own(tmp_path: Path) -> None:
    add = batch([("+I", (1, 1.0, "a"))])
    with pytest.raises(SinkError, match="there is no such table; make it"):
        sink(tmp_path, create=False).write(*add, 0, "c")
    with pytest.raises(SpecError, match="partition_by names 'w'"):
        sink(tmp_path, partition_by="w").write(*add, 0, "c")
    catalog = library.load_catalog("default", **connect(tmp_path))
    wide = pa.schema([lakes.SCHEMA.field(n) for n in ("v", "k", "f")])
    catalog.create_namespace("db")
    catalog.create_table("db.t", wide.append(pa.field("more", pa.int64())))
    sink(tmp_path).write(*add, 0, "c")
    assert rows(tmp_path, "k", "v", "more") == [("a", 1, None)]
    lacks = pa.schema([*lakes.SCHEMA, pa.field("new", pa.int32())])
    with pytest.raises(SinkError, match=r"no column 'new'. ALTER TABLE db.t ADD COLUMN new"):
        sink(tmp_path).write(*batch([], lacks), 1, "c")
    other = pa.schema([("k", pa.string()), ("f", pa.float64()), ("v", pa.string())])
    with pytest.raises(
        SinkError, match=r"'k' is int64 in the table, and string in the result. CAST"
    ):
        sink(tmp_path).write(*batch([], other), 1, "c")


def test_a_global_aggregate_is_one_row(tmp_path: Path) -> None:
    made = sink(tmp_path, ())
    made.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    made.write(*batch([("-U", (1, 1.0, "a")), ("+U", (2, 1.0, "b"))]), 1, "c")
    made.write(*batch([]), 2, "c")
    assert rows(tmp_path) == [(2, 1.0, "b")]
    made.write(*batch([("-D", (2, 1.0, "b"))]), 3, "c")
    assert rows(tmp_path) == []


def test_writers_who_never_rest(tmp_path: Path) -> None:
    made = sink(tmp_path, attempts=3)
    made.write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    commit, waits = made._commit, list[float]()

    def disturbed(*told: Any) -> None:
        others(tmp_path)
        commit(*told)

    made._commit, made.pause = disturbed, waits.append  # type: ignore[method-assign]
    error = raised(lambda: made.write(*batch([("+I", (2, 1.0, "b"))]), 1, "c"))
    assert "3 times others have committed to the table while batch 1 was written" in str(error)
    assert len(waits) == 2
    assert rows(tmp_path) == [(1, 1.0, "a")]
    assert "commit.retry.num-retries" not in opened(tmp_path).properties


def source(path: Path, schema: pa.Schema | None = None, **more: Any) -> IcebergLake:
    return IcebergLake.of(IcebergSource(table="db.t", connect=connect(path), **more), schema)


@pytest.mark.parametrize("seed", range(2))
def test_what_it_reads_folds_to_the_table(seed: int, tmp_path: Path) -> None:
    made: Any = None
    at: Any = None
    told: list[tuple[str, lakes.Row]] = []
    for number, (some, wanted) in enumerate(lakes.random_batches(seed + 20, 9)):
        sink(tmp_path, partition_by="v" if seed else []).write(*batch(some), number, "c")
        if number % 3 == 1:
            if made is None:
                made = source(tmp_path)
                at = made.first()
            while (end := made.latest(at, number % 4 + 1)) != at:
                told += lakes.read(made, at, end)
                assert str(lakes.read(made, at, end)) == str(lakes.read(source(tmp_path), at, end))
                at = end
            lakes.sound(told)
            assert lakes.folded(told) == lakes.in_words(wanted)
    assert len(told) > 10


def test_every_type_is_read(tmp_path: Path) -> None:
    import tests.sinks.test_delta_sink as own

    table, kinds = batch([("+I", row) for row in own.ROWS], own.EVERY)
    sink(tmp_path, ("k",)).write(table, kinds, 0, "c")
    made = source(tmp_path)
    told = lakes.read(made, made.first(), made.latest(made.first(), None))
    assert lakes.folded(told) == lakes.in_words(own.ROWS)


def test_a_changelog_is_read_back(tmp_path: Path) -> None:
    every = list(lakes.random_batches(3, 6))
    for number, (some, _) in enumerate(every):
        sink(tmp_path, None, form="changelog").write(*batch(some), number, "c")
    made = source(tmp_path)
    told = lakes.read(made, made.first(), made.latest(made.first(), None))
    assert list(map(repr, told)) == [repr(one) for some, _ in every for one in some]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such table"):
        source(tmp_path)
    for number in range(3):
        sink(tmp_path).write(*batch([("+I", (number, 1.0, "a"))]), number, "c")
    first, middle, _ = opened(tmp_path).snapshots()
    made = source(tmp_path, start=first.snapshot_id)
    at = made.first()
    end = made.latest(at, 1)
    assert lakes.read(made, at, end) == [("+I", (1, 1.0, "a"))]
    assert source(tmp_path, start="latest").first() == made.latest(at, None)
    assert source(tmp_path, schema=pa.schema([("v", pa.string())])).schema.names == ["v"]
    for start, said in (
        ("soon", "it must be snapshot, latest"),
        (17, "which is no snapshot of it"),
    ):
        with pytest.raises(SpecError, match=said):
            source(tmp_path, start=start).first()
    table = opened(tmp_path)
    table.maintenance.expire_snapshots().by_ids([first.snapshot_id, middle.snapshot_id]).commit()
    error = raised(lambda: made.pieces(at, made.latest(at, None)))
    assert isinstance(error, MissingFileError)
    assert "were expired before they were read" in str(error)
    with opened(tmp_path).update_schema() as update:
        update.delete_column("v")
    now = source(tmp_path, start="latest").first()
    sink_of_others = opened(tmp_path)
    sink_of_others.append(pa.table({"k": [5], "f": [1.0]}))
    with pytest.raises(InputFormatError, match="column 'v' is gone"):
        made.pieces(now, made.latest(now, None))
    library.load_catalog("default", **connect(tmp_path)).drop_table("db.t")
    sink(tmp_path).write(*batch([]), 0, "c")
    with pytest.raises(CheckpointError, match="it was created again, or rolled back"):
        made.latest(now, None)


def test_delete_files_are_refused(tmp_path: Path) -> None:
    from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

    sink(tmp_path).write(*batch([("+I", (1, 1.0, "a"))]), 0, "c")
    made = source(tmp_path)
    file = SimpleNamespace(content=DataFileContent.POSITION_DELETES)
    entry = SimpleNamespace(snapshot_id=7, status=ManifestEntryStatus.ADDED, data_file=file)
    manifest = SimpleNamespace(fetch_manifest_entry=lambda io, discard_deleted: [entry])
    snapshot = SimpleNamespace(snapshot_id=7, manifests=lambda io: [manifest])
    with pytest.raises(InputFormatError, match=r"snapshot 7 has delete files.* 'copy-on-write'"):
        list(made._files(opened(tmp_path), snapshot))
