"""DuckDB's answers over the same events, and the differences of a table from them."""

from __future__ import annotations

from typing import Final

import duckdb
import pyarrow as pa

from nexmark.catalogue import Query
from nexmark.events import SCHEMAS, Events

_TABLE: Final = """CREATE TABLE {name} AS SELECT * EXCLUDE (op) FROM {name}_log
QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY arrival DESC) = 1 AND op IN ('+I', '+U')"""
_EVER: Final = """CREATE VIEW bid_ever AS
SELECT bidder, date_time, SUM(CASE WHEN op IN ('+I', '+U') THEN 1 ELSE -1 END) AS stays
FROM bid_log GROUP BY id, bidder, date_time"""


class Oracle:
    """The tables that the events make, in DuckDB, and the answers to the queries over them."""

    def __init__(self, events: Events, tables: dict[str, pa.Table] | None = None) -> None:
        """tables: the streams' rows; of the events' files if they are not given."""
        self._db = duckdb.connect()
        self._db.execute("SET TimeZone = 'UTC'")
        for name in SCHEMAS:
            if tables is None:
                source = f"read_parquet('{events.folder / name}/*.parquet')"
            else:
                source = f"given_{name}"
                self._db.register(source, tables[name])
            log = f"{name}_log" if events.changes(name) else name
            rows = f"SELECT *, ROW_NUMBER() OVER () AS arrival FROM {source}"
            self._db.execute(f"CREATE TABLE {log} AS {rows}")
            if events.changes(name):
                self._db.execute(_TABLE.format(name=name))
        if events.corrections:
            self._db.execute(_EVER)
        else:
            self._db.execute(
                "CREATE VIEW bid_ever AS SELECT bidder, date_time, 1 AS stays FROM bid"
            )
        # Of rows with one time deduplication keeps the last that came; a Top-1 over changes keeps the first.
        first = "arrival" if events.corrections else "-arrival"
        self._db.execute(f"CREATE MACRO last_of_equals(arrival) AS {first}")
        self._db.register("given_side", events.side())
        self._db.execute("CREATE TABLE side AS FROM given_side")

    def changelog(self, query: Query, source: str, kinds: str) -> list[str]:
        """List the differences between the table of a changelog and the answer.

        source: the changelog, as DuckDB reads it; kinds: its change column.
        """
        columns = self._columns(source, kinds)
        taken = "('-U', '-D', 'delete', 'update_preimage')"
        self._db.execute(
            f"CREATE OR REPLACE TABLE emitted AS SELECT {columns} FROM (SELECT {columns}, "
            f"SUM(CASE WHEN {kinds} IN {taken} THEN -1 ELSE 1 END)::BIGINT AS times FROM {source} GROUP BY ALL), "
            "range(times)"
        )
        owed = self._number(
            f"SELECT COUNT(*) FROM (SELECT SUM(CASE WHEN {kinds} IN {taken} THEN -1 ELSE 1 END) AS times "
            f"FROM {source} GROUP BY {columns}) WHERE times < 0"
        )
        return self._differences(query) + (
            [f"{owed} rows are taken back too often"] if owed else []
        )

    def changes_differ(self, query: Query, emitted: pa.Table) -> list[str]:
        """List the differences between the table of a changelog in memory, whose kinds are in `op`, and the answer."""
        self._db.register("given_changes", emitted)
        return self.changelog(query, "given_changes", "op")

    def _differences(self, query: Query) -> list[str]:
        self._db.execute(f"CREATE OR REPLACE TABLE mine AS {query.judged}")
        self._db.execute(f"CREATE OR REPLACE TABLE right_ AS {query.text('duckdb')}")
        mine, right = self._comparable("mine"), self._comparable("right_")
        found = []
        for word, one, other in (("missing", right, mine), ("too many", mine, right)):
            extra = f"({one} EXCEPT ALL {other})"
            count = self._number(f"SELECT COUNT(*) FROM {extra}")
            if count:
                rows = self._db.sql(f"SELECT * FROM {extra} LIMIT 2").fetchall()
                found.append(f"{count} rows {word}, such as {rows}")
        return found

    def count(self, query: Query) -> int:
        """Count the rows of the answer."""
        return self._number(f"SELECT COUNT(*) FROM ({query.text('duckdb').strip()})")

    def _comparable(self, table: str) -> str:
        columns = []
        for name, kind, *_ in self._db.sql(f"DESCRIBE {table}").fetchall():
            if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
                columns.append(f'ROUND("{name}"::DOUBLE, 3)')
            elif kind.startswith("TIMESTAMP"):
                columns.append(f'epoch_ms("{name}")')
            elif kind.endswith("INT") or kind == "INTEGER":
                columns.append(f'"{name}"::BIGINT')
            else:
                columns.append(f'"{name}"')
        return f"SELECT {', '.join(columns)} FROM {table}"

    def _columns(self, source: str, kinds: str) -> str:
        names = [row[0] for row in self._db.sql(f"DESCRIBE SELECT * FROM {source}").fetchall()]
        return ", ".join(f'"{name}"' for name in names if name != kinds)

    def _number(self, sql: str) -> int:
        ((number,),) = self._db.execute(sql).fetchall()
        return int(number)
