"""A harness of a whole script: several queries, as those of a statement set, fed with the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from aggloom.codegen import (
    Arguments,
    SchemaLike,
    bind_parameters,
    insertions,
    read_script,
    tables_read,
)
from aggloom.errors import SpecError, UnknownTableError, nearest
from aggloom.runtime.local.harness import Harness


class ScriptHarness(Mapping[str, Harness]):
    """The queries of a script, each in a harness under the name of the table that it writes into.

    Rows, watermarks and clocks go to every query that reads the table. A SELECT that no INSERT INTO precedes has
    its number among the queries as its name: "query 2".

    sql: the script. tables: columns of the tables that it does not create. watermarks, args, options: as of
    Harness.from_sql. Raises SpecError and its kin, also where two queries go into one table.

    Example:
        >>> import aggloom as al
        >>> script = '''
        ... CREATE TABLE totals (shop STRING, amount BIGINT) WITH ('connector' = 'print');
        ... CREATE TABLE counts (n BIGINT) WITH ('connector' = 'print');
        ... EXECUTE STATEMENT SET BEGIN
        ...     INSERT INTO totals SELECT shop, SUM(amount) FROM orders GROUP BY shop;
        ...     INSERT INTO counts SELECT COUNT(*) FROM orders;
        ... END;'''
        >>> tables = {"orders": "shop STRING, amount INT"}
        >>> with al.ScriptHarness(script, tables, backend="python") as queries:
        ...     queries.process([("+I", "a", 3), ("+I", "a", 4)], table="orders")
        ...     queries.flush()
        ...     print(queries["totals"].table(), queries["counts"].table())
        [('a', 7)] [(2,)]
    """

    def __init__(
        self,
        sql: str,
        tables: Mapping[str, SchemaLike] | None = None,
        *,
        watermarks: Mapping[str, tuple[str, Any]] | None = None,
        args: Arguments | None = None,
        **options: Any,
    ) -> None:
        known, followed = dict(tables or {}), dict(watermarks or {})
        self._harnesses: dict[str, Harness] = {}
        dialect = options.get("dialect", "spark")
        for number, text in enumerate(insertions(bind_parameters(sql, args, dialect)), 1):
            script = read_script(text, dialect)
            name = f"query {number}" if script.target is None else script.target.name
            if name in self._harnesses:
                raise SpecError(
                    f"two queries of the script go into {name}; give each a table, or UNION ALL them."
                )
            read = {*script.streams, *tables_read(text)}
            own = {table: followed[table] for table in followed if table in read}
            self._harnesses[name] = Harness.from_sql(text, known, watermarks=own, **options)
        for table in followed:
            self._readers(table)

    def __repr__(self) -> str:
        lines = (f"{name}: {harness!r}" for name, harness in self._harnesses.items())
        return f"{type(self).__name__}({', '.join(lines)})"

    def __getitem__(self, name: str) -> Harness:
        if name not in self._harnesses:
            hint = nearest(name, list(self._harnesses))
            raise UnknownTableError(f"no query of the script writes into {name!r}. {hint}")
        return self._harnesses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._harnesses)

    def __len__(self) -> int:
        return len(self._harnesses)

    def __contains__(self, name: object) -> bool:
        return name in self._harnesses

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack = ExitStack()
        for harness in self.values():
            stack.push(harness)
        stack.__exit__(kind, error, trace)

    def process(self, rows: Any, kinds: Any = None, table: str | None = None) -> None:
        """Give rows to every query that reads the table; see Harness.process.

        table: may be left out if the queries read one table in all.
        """
        name = self._only_table() if table is None else table
        for harness in self._readers(name):
            harness.process(rows, kinds, name)

    def watermark(self, ms: int, table: str | None = None) -> None:
        """Say that no row of a table, or of all of them, is expected any more up to a time; see Harness.watermark.

        ms: milliseconds since 1970.
        """
        for harness in self.values() if table is None else self._readers(table):
            harness.watermark(ms, table)

    def idle(self, table: str) -> None:
        """Let a table no longer hold back the watermark of the queries that read it, until it has rows."""
        for harness in self._readers(table):
            harness.idle(table)

    def processing_time(self, ms: int) -> None:
        """Set the clock of all queries, in milliseconds since 1970; see Harness.processing_time."""
        for harness in self.values():
            harness.processing_time(ms)

    def flush(self) -> None:
        """End the bundle of every query."""
        for harness in self.values():
            harness.flush()

    def end_of_input(self) -> None:
        """Say that no row comes any more: every window in event time fires."""
        for harness in self.values():
            harness.end_of_input()

    def close(self) -> None:
        """Let the state of every query go."""
        with ExitStack() as stack:
            for harness in self.values():
                stack.callback(harness.close)

    def _tables(self) -> list[str]:
        """The tables that the queries read, each once."""
        return list(dict.fromkeys(name for harness in self.values() for name in harness.plan.scans))

    def _only_table(self) -> str:
        tables = self._tables()
        if len(tables) != 1:
            raise UnknownTableError(
                f"process: the queries read the tables {', '.join(tables)}; say which by table="
            )
        return tables[0]

    def _readers(self, table: str) -> list[Harness]:
        """The harnesses of the queries that read a table; raises UnknownTableError if there is none."""
        readers = [harness for harness in self.values() if table in harness.plan.scans]
        if not readers:
            hint = nearest(table, self._tables())
            raise UnknownTableError(f"no query of the script reads a table {table!r}. {hint}")
        return readers
