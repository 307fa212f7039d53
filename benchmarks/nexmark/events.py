"""The events: three streams in the published proportions, the same for the same seed, alone or with corrections."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from rows import DATA, once

from nexmark import rows
from nexmark.corrections import Corrections

BLOCK: Final = 100_000
"""Events that are drawn at once; a multiple of an epoch."""
SIDE_ROWS: Final = 10_000
_EARLIEST: Final = 1_700_000_000
SCHEMAS: Final = {
    "person": "id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, state STRING, "
    "date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
    "date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, "
    "extra STRING",
}
SIDE_SCHEMA: Final = "key BIGINT, value STRING"


@dataclass(frozen=True)
class Events:
    """So many events; `rate`: how many a second of their own time. With corrections a tenth of auctions and bids are
    updated or deleted later, bids have an `id`, and each row says in `op` what it does."""

    count: int
    corrections: bool = False
    rate: int = 10_000
    seed: int = 7
    files: int = 10
    """Number of Parquet files of each stream; the n-th of all of them hold the same events."""

    def schema(self, table: str) -> str:
        """A table's columns as DDL, without the change column."""
        own = SCHEMAS[table]
        return f"id BIGINT, {own}" if self.corrections and table == "bid" else own

    def changes(self, table: str) -> bool:
        """Tell whether rows of a table are updated and deleted."""
        return self.corrections and table != "person"

    def blocks(self) -> Iterator[dict[str, pa.Table]]:
        """The streams' rows, a block of events after the other."""
        corrections = Corrections(self.count, self.rate) if self.corrections else None
        for begin in range(0, self.count, BLOCK):
            draw = np.random.default_rng((self.seed, begin))
            made = self._block(draw, begin)
            end = min(begin + BLOCK, self.count)
            kept = {
                name: self._until(table, numbers, end) for name, (table, numbers) in made.items()
            }
            if corrections is not None:
                kept = {
                    name: (
                        corrections.weave_corrections(name, draw, *parts, end)
                        if self.changes(name)
                        else parts
                    )
                    for name, parts in kept.items()
                }
            yield {name: self._drop_helpers(name, table) for name, (table, _) in kept.items()}

    def tables(self) -> dict[str, pa.Table]:
        """The whole streams."""
        parts = list(self.blocks())
        return {name: pa.concat_tables([part[name] for part in parts]) for name in SCHEMAS}

    @staticmethod
    def side() -> pa.Table:
        """The table that does not stream: a text for each key."""
        keys = range(SIDE_ROWS)
        return pa.table({"key": keys, "value": [f"note {key * 31 % 977}" for key in keys]})

    @property
    def folder(self) -> Path:
        """Parquet files, a folder for each stream; written if they are not there."""
        return once(DATA / self._tag, self._write_parquet)

    @property
    def csv(self) -> Path:
        """The same as two CSV files for each stream, times as milliseconds. All changes of a row are in one of them,
        for two readers do not wait for each other."""
        return once(DATA / f"{self._tag}-csv", self._write_csv)

    @property
    def halves(self) -> Path:
        """The Parquet files once more as two for each stream, cut as the CSV files are."""
        return once(DATA / f"{self._tag}-halves", self._write_halves)

    @property
    def _tag(self) -> str:
        form = "nexmark-corrections" if self.corrections else "nexmark"
        return f"{form}-{self.count}-{self.rate}-{self.seed}-{self.files}"

    def _block(self, draw: rows.Draw, begin: int) -> dict[str, tuple[pa.Table, rows.Ints]]:
        numbers = np.arange(begin, begin + BLOCK if self.count > BLOCK else _epochs(self.count))
        times = rows.moments(draw, numbers, self.rate)
        place = numbers % rows.EPOCH
        is_person = place < rows.PERSONS
        is_bid = place >= rows.PERSONS + rows.AUCTIONS
        is_auction = ~is_person & ~is_bid
        return {
            "person": (
                rows.persons(draw, numbers[is_person], times[is_person]),
                numbers[is_person],
            ),
            "auction": (
                rows.auctions(draw, numbers[is_auction], times[is_auction], self.rate),
                numbers[is_auction],
            ),
            "bid": (rows.bids(draw, numbers[is_bid], times[is_bid]), numbers[is_bid]),
        }

    @staticmethod
    def _until(table: pa.Table, numbers: rows.Ints, end: int) -> tuple[pa.Table, rows.Ints]:
        kept = int(np.searchsorted(numbers, end))
        return table.slice(0, kept), numbers[:kept]

    def _drop_helpers(self, name: str, table: pa.Table) -> pa.Table:
        if self.changes(name):
            return table
        return table.drop_columns("id") if name == "bid" and not self.corrections else table

    def size(self, table: str) -> int:
        """Count the rows in the files of a stream."""
        files = (self.folder / table).glob("*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files)

    def make_closing_rows(self, table: str) -> pa.Table:
        """One row an hour after all others: with it windows end that have rows."""
        draw, far = np.random.default_rng(0), self.count + 3_600 * self.rate
        number = np.array([far])
        times = rows.moments(draw, number, self.rate)
        if table == "person":
            made = rows.persons(draw, number, times)
        elif table == "auction":
            made = rows.auctions(draw, number, times, self.rate)
        else:
            made = rows.bids(draw, number, times)
        if self.changes(table):
            made = made.append_column("op", pa.array(["+I"]))
        return self._drop_helpers(table, made)

    def _write_parquet(self, folder: Path) -> None:
        (folder / "closing").mkdir()
        for name in SCHEMAS:
            pq.write_table(self.make_closing_rows(name), folder / "closing" / f"{name}.parquet")
        bounds = [self.count * part // self.files for part in range(1, self.files + 1)]
        parts: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
        for name in SCHEMAS:
            (folder / name).mkdir()
        done = file = 0
        for block in self.blocks():
            done = min(done + BLOCK, self.count)
            for name, table in block.items():
                parts[name].append(table)
            if self.count < BLOCK * self.files:
                continue
            if done >= bounds[file]:
                _write_file(folder, file, parts)
                parts = {name: [] for name in SCHEMAS}
                file += 1
        if self.count < BLOCK * self.files:
            whole = {name: pa.concat_tables(tables) for name, tables in parts.items()}
            for file in range(self.files):
                own = {name: [_share(rows, file, self.files)] for name, rows in whole.items()}
                _write_file(folder, file, own)

    def _write_halves(self, folder: Path) -> None:
        for name in SCHEMAS:
            (folder / name).mkdir()
            files = sorted((self.folder / name).glob("*.parquet"))
            schema = pq.read_schema(files[0])
            writers = [
                pq.ParquetWriter(
                    folder / name / f"part-{reader}.parquet", schema, **_parquet_options(schema)
                )
                for reader in range(2)
            ]
            for file in files:
                table = pq.read_table(file)
                place = _reader(table)
                for reader, writer in enumerate(writers):
                    writer.write_table(table.filter(pa.array(place == reader)))
            for writer in writers:
                writer.close()

    def _write_csv(self, folder: Path) -> None:
        bare = pa.csv.WriteOptions(include_header=False, quoting_style="none")
        writers: dict[tuple[str, int], Any] = {}
        for block in self.blocks():
            for name, table in block.items():
                place = _reader(table)
                for column, field in enumerate(table.schema):
                    if pa.types.is_timestamp(field.type):
                        ms = pc.divide(pc.cast(table[field.name], pa.int64()), 1000)
                        table = table.set_column(column, field.name, ms)
                for reader in range(2):
                    if (name, reader) not in writers:
                        (folder / name).mkdir(exist_ok=True)
                        file = str(folder / name / f"part-{reader}.csv")
                        writers[name, reader] = pa.csv.CSVWriter(
                            file, table.schema, write_options=bare
                        )
                    writers[name, reader].write(table.filter(pa.array(place == reader)))
        for writer in writers.values():
            writer.close()


def _reader(table: pa.Table) -> rows.Ints:
    """Which of two readers gets each row: all changes of a row go to one."""
    key = table["id"] if "id" in table.column_names else table["auction"]
    place: rows.Ints = key.to_numpy() % 2
    return place


def _epochs(count: int) -> int:
    return -(-count // rows.EPOCH) * rows.EPOCH


def _share(table: pa.Table, part: int, parts: int) -> pa.Table:
    begin, end = (table.num_rows * place // parts for place in (part, part + 1))
    return table.slice(begin, end - begin)


def _parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Return the options by which a Parquet file stores the columns."""
    few = [each for each in ("channel", "state", "city", "op") if each in schema.names]
    return {"compression": "lz4", "use_dictionary": few}


def _write_file(folder: Path, number: int, parts: dict[str, list[pa.Table]]) -> None:
    for name, tables in parts.items():
        file = folder / name / f"part-{number:03}.parquet"
        whole = pa.concat_tables(tables)
        pq.write_table(whole, file, **_parquet_options(whole.schema))
        # Spark reads files in order of their time.
        os.utime(file, (_EARLIEST + number, _EARLIEST + number))
