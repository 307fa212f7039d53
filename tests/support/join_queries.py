"""Random queries with joins of two to four sources, below and above aggregates and unions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from queries import Columns, Query, Steps

_KINDS = (
    *("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"),
    *("LEFT SEMI JOIN", "LEFT ANTI JOIN"),
)
_COMPARED = ("<", "<=", ">", ">=", "<>")


class _Joins(Steps):
    """Queries as they are drawn, of which most join."""

    def block(self, depth: int) -> tuple[str, Columns]:
        """A query, and the columns of its result."""
        if depth and self.any(True, True, False):
            return self.join_sources(depth)
        return super().block(depth)

    def join_sources(self, depth: int) -> tuple[str, Columns]:
        """Two or more sources joined from the left, the columns of all under names of their own."""
        tables: dict[str, Columns] = {}
        first = self.name("j")
        source, columns = self.source(depth - 1)
        tables[first] = columns
        text, shown = f"{self.inner(source)} AS {first}", {first}
        for _ in range(self.any(1, 1, 1, 2, 3)):
            source, columns = self.source(self.any(0, depth - 1))
            name, kind = self.name("j"), self.any(*_KINDS)
            on = self.on({n: tables[n] for n in shown}, name, columns, kind == "JOIN")
            if on is None:
                continue
            text += f" {kind} {self.inner(source)} AS {name} ON {on}"
            tables[name] = columns
            if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
                shown.add(name)
        every = [(table, column) for table in sorted(shown) for column in tables[table]]
        items, out = [], Columns()
        for table, column in self.some(every, 1, 5):
            items.append(f"{table}.{column} AS {(name := self.name('o'))}")
            out[name] = tables[table][column]
        conditions = []
        for table, column in self.some(every, 0, 2):
            if self.any(True, False, False):
                condition = self.condition({column: tables[table][column]})
                conditions.append(self.qualify(condition, column, table))
        where = f" WHERE {' AND '.join(f'({each})' for each in conditions)}" if conditions else ""
        return f"SELECT {', '.join(items)} FROM {text}{where}", out

    def inner(self, source: str) -> str:
        """A source without the name that it may have."""
        return source.rpartition(" AS ")[0] if source.startswith("(") else source

    def on(
        self, lefts: dict[str, Columns], right: str, columns: Columns, plain: bool
    ) -> str | None:
        """A condition of a join; None if the sides have no columns to compare."""
        pairs = [
            (f"{table}.{column}", f"{right}.{other}", kind)
            for table, own in lefts.items()
            for column, kind in own.items()
            for other, theirs in columns.items()
            if kind == theirs
        ]
        if not pairs:
            return None
        parts = []
        for one, other, _ in self.some(pairs, 1, 2):
            equal = self.any("=", "=", "=", "IS NOT DISTINCT FROM")
            parts.append(self.any(f"{one} {equal} {other}", f"{other} {equal} {one}"))
        if self.any(True, False, False):
            numbers = [pair for pair in pairs if pair[2] in ("int", "dec", "real")]
            for one, other, _ in self.some(numbers, 0, 1):
                parts.append(f"{one} {self.any(*_COMPARED)} {other}")
        if self.any(True, False, False):
            table = self.any(right, *lefts)
            column = self.any(*(columns if table == right else lefts[table]))
            kind = (columns if table == right else lefts[table])[column]
            parts.append(self.qualify(self.condition({column: kind}), column, table))
        if plain and self.any(True, *[False] * 5):
            return parts[-1]
        return " AND ".join(f"({part})" for part in parts)

    def qualify(self, condition: str, column: str, table: str) -> str:
        """A condition over a column with its table's name."""
        words = condition.split(" ")
        return " ".join(f"{table}.{column}" if word == column else word for word in words)


def join_query_of(seed: int, depth: int = 2) -> Query:
    """A random query of up to `depth` steps above its tables, with a join in most."""
    steps = _Joins(seed)
    last, _ = steps.block(steps.random.randint(1, depth))
    query = Query(tuple(steps.made), last, steps.any("with", "views"))
    return query if "AVG" in query.sql else replace(query, dialect=steps.any("spark", "flink"))


join_queries = st.builds(join_query_of, st.integers(0, 10**9))
"""Random queries with joins."""
