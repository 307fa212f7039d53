"""Random queries in which any operator may stand over any other: joins, sub-queries, OVER, ranks, limits, sets, sums,
unnested arrays, and the constructs of `nested_constructs` and `nested_values`.

Where ties would leave the answer open, rows are ordered by all of their columns.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import strategies as st
from nested_values import ValueSteps
from queries import TABLES, Columns, Query, either

from aggloom.codegen.planner import plan_query
from aggloom.errors import UnsupportedSqlError

_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_FRAMES = (
    "",
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
    "GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE TIES",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE NO OTHERS",
)


class NestedSteps(ValueSteps):
    """The named queries of a script of all operators."""

    def block(self, depth: int) -> tuple[str, Columns]:
        kinds = [self.aggregate] * 3 + [self.project] * 2 + [self.join_sources] * 3
        kinds += [
            self.ask_subquery,
            self.number_rows,
            self.number_rows,
            self.limit_rows,
            self.itself,
        ]
        kinds += [self.unnest_rows, self.list_values, self.ask_laterally, self.pivot_rows]
        kinds += [self.unpivot_rows, self.keep_firsts, self.open_rows, self.recur]
        kinds += [self.ask_anything, self.ask_anything, self.explode_rows]
        if depth:
            kinds += [self.unite_sources]
        made: tuple[str, Columns] = self.any(*kinds)(depth)
        return made

    def where(self, columns: Columns) -> str:
        """A WHERE, or nothing; perhaps one with the clock, which every clock since 1970 answers alike."""
        if self.any(*[False] * 5, True):
            late, early = "DATE '2900-01-01'", "DATE '1900-01-01'"
            end = f"CASE WHEN {self.condition(columns)} THEN {late} ELSE {early} END"
            timed = self.any(f"{end} > CURRENT_DATE", f"CURRENT_DATE + 7 >= {end}")
            timed = self.any(timed, timed, f"({self.condition(columns)} OR {timed})")
            return f" WHERE {timed} AND {self.condition(columns)}"
        return super().where(columns)

    def join_sources(self, depth: int) -> tuple[str, Columns]:
        """Two sources, joined by columns of the same kind, perhaps under a further condition."""
        left, _, own = self.alias_source(depth)
        right, _, other = self.alias_source(max(depth - 1, 0))
        pairs = [(a, b) for a in own for b in other if own[a] == other[b] != "real"]
        if not pairs:
            return self.aggregate(0)
        (a, b), how = self.any(*pairs), self.any(*_JOINS)
        more = f" AND {self.condition(own | other)}" if self.any(True, False, False) else ""
        there = own if how in _JOINS[-2:] else own | other
        chosen = {name: self.name("j") for name in self.some(list(there), 1, 4)}
        select = ", ".join(f"{name} AS {alias}" for name, alias in chosen.items())
        sql = f"SELECT {select} FROM {left} {how} {right} ON {a} = {b}{more}"
        return sql, {alias: there[name] for name, alias in chosen.items()}

    def itself(self, depth: int) -> tuple[str, Columns]:
        """The groups of an aggregate, joined with an aggregate of them."""
        sql, columns = self.aggregate(depth)
        groups = self.step(sql)
        exact = [name for name, kind in columns.items() if kind != "real"]
        if not exact:
            return f"SELECT * FROM {groups}", columns
        key, value = self.any(*exact), self.any(*exact)
        call = (
            self.any(f"MAX({value})", f"MIN({value})") if columns[value] != "bool" else "COUNT(*)"
        )
        same, most, how = self.name("same"), self.name("most"), self.any(*_JOINS[:4])
        below = f"SELECT {key} AS {same}, {call} AS {most} FROM {groups}{self.where(columns)} GROUP BY {key}"
        on = f"a.{key} = b.{same}"
        if how == "JOIN" and "(*)" not in call and self.any(True, False):
            on += f" AND a.{value} = b.{most}"
        kind = "int" if call == "COUNT(*)" else columns[value]
        return f"SELECT a.*, b.{most} FROM {groups} AS a {how} ({below}) AS b ON {on}", {
            **columns,
            most: kind,
        }

    def ask_subquery(self, depth: int) -> tuple[str, Columns]:
        """Rows of a source about which a sub-query over another one is asked."""
        left, _, own = self.alias_source(depth)
        right, _, other = self.alias_source(max(depth - 1, 0))
        pairs = [(a, b) for a in own for b in other if own[a] == other[b] not in ("real", "bool")]
        if not pairs:
            return self.aggregate(0)
        a, b = self.any(*pairs)
        no = self.any("", "NOT ")
        question = self.any(
            f"{a} {no}IN (SELECT {b} FROM {right})",
            f"{no}EXISTS (SELECT 1 FROM {right} WHERE {a} = {b} AND {self.condition(other)})",
            f"{a} {self.any('=', '>', '<=')} (SELECT {self.any('MIN', 'MAX')}({b}) FROM {right})",
            f"({a} {no}IN (SELECT {b} FROM {right}{self.where(other)}) OR {self.condition(own)})",
            f"(SELECT COUNT(*) FROM {right} WHERE {a} = {b}) {self.any('>', '<')} {self.any(1, 2)}",
            f"{a} {self.any('>=', '<')} {self.any('ANY', 'ALL')} (SELECT {b} FROM {right} WHERE {b} IS NOT NULL)",
            f"{no}EXISTS (SELECT {b} FROM {right} WHERE {b} = {a} GROUP BY {b} HAVING COUNT(*) > 1)",
        )
        chosen = {name: self.name("q") for name in self.some(list(own), 1, 4)}
        select = ", ".join(f"{name} AS {alias}" for name, alias in chosen.items())
        sql = f"SELECT {select} FROM {left} WHERE {question}"
        return sql, {alias: own[name] for name, alias in chosen.items()}

    def number_rows(self, depth: int) -> tuple[str, Columns]:
        """A source with what OVER says of each row; of ranks perhaps the first ones alone."""
        source, columns = self.exact(depth)
        name, by = self.any(*columns), self.any("", f"PARTITION BY {self.any(*columns)} ")
        over = f"OVER ({by}ORDER BY {self.order(columns)}"
        rank = f"{self.any('ROW_NUMBER', 'RANK', 'DENSE_RANK')}() {over})"
        calls = [(rank, "int"), (rank, "int")]
        calls += [(f"COUNT({name}) {over} {self.any(*_FRAMES)})", "int")]
        calls += [(f"{self.any('LAG', 'LEAD')}({name}) {over})", columns[name])]
        calls += [(f"{self.any('FIRST_VALUE', 'LAST_VALUE')}({name}) {over})", columns[name])]
        calls += [(f"{self.any('LAG', 'LEAD')}({name}, 2) {over})", columns[name])]
        calls += [(f"NTILE(2) {over})", "int")]
        if columns[name] == "int":
            calls += [(f"SUM({name}) {over} {self.any(*_FRAMES)})", "int")]
        if columns[name] != "bool":
            calls += [(f"MAX({name}) {over} {self.any(*_FRAMES)})", columns[name])]
        (call, kind), own = self.any(*calls), self.name("o")
        sql = f"SELECT {', '.join(columns)}, {call} AS {own} FROM {source}{self.where(columns)}"
        if call == rank and self.any(True, True, False):
            sql = f"SELECT * FROM ({sql}) AS {self.name('s')} WHERE {own} <= {self.any(1, 2, 3)}"
        return sql, {**columns, own: kind}

    def limit_rows(self, depth: int) -> tuple[str, Columns]:
        """The first rows of a source."""
        source, columns = self.exact(depth)
        limit = f"LIMIT {self.any(1, 2, 4)}{self.any('', '', ' OFFSET 1')}"
        sql = f"SELECT {', '.join(columns)} FROM {source} ORDER BY {self.order(columns)} {limit}"
        return sql, columns

    def unnest_rows(self, depth: int) -> tuple[str, Columns]:
        """A source with rows of arrays made of its columns, or of numbers up to one of them."""
        source, _, columns = self.alias_source(depth)
        kind = self.any(*(set(columns.values()) - {"bool"} or {"bool"}))
        alike = [name for name, own in columns.items() if own == kind]
        items = [self.any(*alike) for _ in range(self.any(1, 2, 3))]
        array = f"ARRAY[{', '.join(items)}]"
        if kind == "int" and self.any(True, False):
            end = f"CAST({items[0]} % 4 AS BIGINT)"
            array = f"GENERATE_SERIES(0, {end})"
            if self.any(True, False):
                down = f"CASE WHEN {end} < 0 THEN GENERATE_SERIES(0, {end}, -1) ELSE {array} END"
                array = either(f"SEQUENCE(0, {end})", f"SEQUENCE(0, {end})", down)
        by = self.any("", " WITH ORDINALITY")
        how, on = self.any((", ", ""), (" CROSS JOIN ", ""), (" LEFT JOIN ", " ON TRUE"))
        table, made = self.name("u"), {self.name("n"): kind}
        made |= {self.name("n"): "int"} if by else {}
        there = {**columns, **{f"{table}.{name}": own for name, own in made.items()}}
        where = self.where(there)
        chosen = {name: self.name("r") for name in self.some(list(there), 1, 4)}
        select = ", ".join(f"{name} AS {own}" for name, own in chosen.items())
        unnested = f"UNNEST({array}){by} AS {table}({', '.join(made)})"
        sql = f"SELECT {select} FROM {source}{how}{unnested}{on}{where}"
        return sql, {own: there[name] for name, own in chosen.items()}


_REFUSED = ("two levels out", "in a sub-query with")
"""Words of the refusals of sub-queries that a random query may meet."""


def nested_query(seed: int, depth: int = 3) -> Query:
    """A random query of up to `depth` operators above one another, which is none of those that are refused by plan."""
    for attempt in count():
        steps = NestedSteps(seed + attempt * 10**10)
        last, _ = steps.block(steps.random.randint(1, depth))
        query = Query(tuple(steps.made), last, steps.any("with", "views"))
        # Flink's means of integers are integers, and its first and last values skip NULLs; DuckDB's do neither.
        if not any(call in query.sql for call in ("AVG", "FIRST_VALUE", "LAST_VALUE")):
            query = replace(query, dialect=steps.any("spark", "flink"))
        try:
            plan_query(query.sql, TABLES, dialect=query.dialect)
        except UnsupportedSqlError as error:
            if any(words in str(error) for words in _REFUSED):
                continue
        return query
    raise AssertionError


nested_queries = st.builds(nested_query, st.integers(0, 10**9))
"""Random queries of all operators."""
