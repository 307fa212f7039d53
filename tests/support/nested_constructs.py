"""Constructs that random nested queries have beside joins and ranks: constant rows, LATERAL, PIVOT, rows and arrays
as values, QUALIFY, DISTINCT ON, recursion.

Where DuckDB writes one of them in another way, or lacks it, the text has both (`either`).
"""

from __future__ import annotations

from queries import Columns, Steps, either

_WAYS = ("ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST")
LITERALS = {
    "int": ("0", "1", "2", "-1", "NULL"),
    "text": ("'a'", "'b'", "''", "NULL"),
    "dec": ("0.00", "1.50", "-2.25"),
    "bool": ("TRUE", "FALSE"),
    "date": ("DATE '2024-01-31'", "DATE '2024-02-29'"),
    "real": ("CAST(0.5 AS DOUBLE)", "CAST(-1.25 AS DOUBLE)"),
}
PATTERNS = ("'a%'", "'%b'", "'_'", "'%'")
EXACT = ("int", "text", "dec", "date")
"""The kinds of which all rows have one order in DuckDB and aggloom."""


class ConstructSteps(Steps):
    """The named queries of a script, with values of more kinds and more forms of a query."""

    # Expressions.

    def expression(self, name: str, kind: str, keep: bool = False) -> tuple[str, str]:
        if self.any(True, True, False):
            return super().expression(name, kind, keep)
        options = [(f"NULLIF({name}, {name})", kind)] if self.any(*[False] * 5, True) else []
        options += [self._of_collections(name, kind), self._of_rows(name, kind)]
        options += self._conversions(name, kind, keep)
        picked: tuple[str, str] = self.any(*options)
        return picked

    def _of_collections(self, name: str, kind: str) -> tuple[str, str]:
        """An item of an array or a map."""
        other = self.any(name, name, self.any(*LITERALS[kind]))
        items = [name, other] if self.any(True, False) else [other, name]
        array = f"ARRAY[{', '.join(items)}]"
        options = [
            either(f"{array}[0]", f"{array}[1]", f"{array}[1]"),
            either(f"ELEMENT_AT({array}, -1)", f"ELEMENT_AT({array}, -1)", f"({array})[-1]"),
            either(
                f"MAP['p', {items[0]}, 'q', {items[1]}]['q']",
                f"MAP['p', {items[0]}, 'q', {items[1]}]['q']",
                f"MAP {{'p': {items[0]}, 'q': {items[1]}}}['q']",
            ),
        ]
        if kind in EXACT:
            same = f"ARRAY_MAX({array})"
            options.append(either(same, same, f"LIST_MAX({array})"))
        return self.any(*options), kind

    def _of_rows(self, name: str, kind: str) -> tuple[str, str]:
        """A field of a row."""
        ours = f"NAMED_STRUCT('p', 7, 'q', {name}).q"
        return either(ours, ours, f"{{'p': 7, 'q': {name}}}.q"), kind

    def _conversions(self, name: str, kind: str, keep: bool) -> list[tuple[str, str]]:
        """Casts, JSON, texts and dates of a value, and back."""
        small = f"CAST({name} % 40 AS INT)"
        json = f"JSON_VALUE(JSON_OBJECT('v' VALUE {name}), '$.v')"
        from_json = either(json, json, f"JSON_EXTRACT_STRING(JSON_OBJECT('v', {name}), '$.v')")
        made: list[tuple[str, str]] = []
        if kind == "int":
            made += [(f"CAST(CAST({name} AS STRING) AS BIGINT)", "int"), (f"ABS({name})", "int")]
            made += [(f"CAST({from_json} AS BIGINT)", "int")]
            made += [(f"EXTRACT(DAY FROM DATE '2024-01-31' + {small})", "int")]
            made += [(f"CASE {name} WHEN 1 THEN 10 WHEN 2 THEN NULL ELSE {name} END", "int")]
            made += [(f"DATE '2024-02-10' + {small}", "date")] * (not keep)
        if kind == "text":
            made += [(from_json, "text"), (f"UPPER({name})", "text")]
            # DuckDB's CONCAT passes over NULL; Spark's and Flink's is NULL then.
            concat = f"CONCAT('<', {name} || '>')"
            duck = f"'<' || {name} || '>'"
            made += [(either(concat, concat, duck), "text"), (f"TRIM({name} || ' ')", "text")]
            made += [(f"COALESCE(LENGTH({name}), TRY_CAST({name} AS INT))", "int")] * (not keep)
        if kind == "dec":
            made += [(f"CAST(CAST({name} AS STRING) AS DECIMAL(12, 2))", "dec")]
            made += [(f"CAST({name} AS STRING)", "text")] * (not keep)
        if kind == "date":
            made += [(f"CAST(CAST({name} AS STRING) AS DATE)", "date")]
            made += [(f"CAST({name} - INTERVAL '1' MONTH AS DATE)", "date")]
            made += [(f"EXTRACT(MONTH FROM {name})", "int")] * (not keep)
        return made

    def condition(self, columns: Columns) -> str:
        name = self.any(*columns)
        kind = columns[name]
        if kind == "real" or (kind != "date" and self.any(True, True, False)):
            return super().condition({name: kind})
        first, second = (self.any(*[x for x in LITERALS[kind] if x != "NULL"]) for _ in "ab")
        options = [
            f"{name} IS DISTINCT FROM {first}",
            f"{name} {self.any('', 'NOT ')}IN ({first}, {second}{self.any('', ', NULL')})",
            f"COALESCE(ARRAY_CONTAINS(ARRAY[{name}, {second}], {first}), FALSE)",
            f"({name} = {first} OR {name} IS NULL)",
        ]
        options[2] = either(options[2], options[2], f"LIST_CONTAINS([{name}, {second}], {first})")
        if kind != "bool":
            options.append(f"{name} {self.any('', 'NOT ')}BETWEEN {first} AND {second}")
        if kind == "text":
            options.append(f"{name} {self.any('', 'NOT ')}LIKE {self.any(*PATTERNS)}")
        picked: str = self.any(*options)
        return picked

    def call(self, columns: Columns) -> tuple[str, str]:
        name = self.any(*columns)
        kind = columns[name]
        if kind not in EXACT or self.any(True, True, False):
            return super().call(columns)
        condition = self.any("", f" FILTER (WHERE {self.condition(columns)})")
        known = f" FILTER (WHERE {name} IS NOT NULL AND {self.condition(columns)})"
        (value, result), at = self.expression(name, kind), self.any(1, 2)
        end = self.any("MAX", "MIN")
        ordered = f"ARRAY_AGG({name} ORDER BY {name}){known}"
        # DuckDB's MAX_BY passes over a NULL value, also beside the greatest name.
        best = either(
            *[f"{end}_BY({value}, {name}){condition}"] * 2,
            f"ARG_{end}_NULL({value}, {name}){condition}",
        )
        most = f"TRY_ELEMENT_AT({end}_BY({value}, {name}, 2){condition}, {at})"
        present = (
            condition.replace("(WHERE ", f"(WHERE {name} IS NOT NULL AND ", 1)
            or f" FILTER (WHERE {name} IS NOT NULL)"
        )
        downward = " DESC" if end == "MAX" else ""
        listed = f"(LIST({value} ORDER BY {name}{downward}){present})[{at}]"
        options = [
            (best, result),
            (either(most, most, listed), result),
            (_item(ordered, at), kind),
            (f"COUNT(DISTINCT {value}){condition}", "int"),
            (f"MAX({value}) - MIN({value})", "int") if result == "int" else ("COUNT(*)", "int"),
        ]
        if kind == "text":
            ours = f"LISTAGG({name}, ',') WITHIN GROUP (ORDER BY {name}){condition}"
            duck = f"STRING_AGG({name}, ',' ORDER BY {name}){condition}"
            options.append((either(ours, ours, duck), "text"))
        picked: tuple[str, str] = self.any(*options)
        return picked

    # Sources.

    def alias_source(self, depth: int) -> tuple[str, str, Columns]:
        """A source with a name of its own, and its columns under that name."""
        source, columns = self.source(depth)
        alias = self.name("a")
        if source.startswith("("):
            alias = source.rpartition(" AS ")[2]
        else:
            source = f"{source} AS {alias}"
        return source, alias, {f"{alias}.{name}": kind for name, kind in columns.items()}

    def exact(self, depth: int) -> tuple[str, Columns]:
        """A source of columns whose order DuckDB and aggloom cannot see differently."""
        source, columns = self.source(depth)
        exact = [name for name, kind in columns.items() if kind != "real"]
        if not exact:
            source, columns = "t", {"k": "text", "g": "int", "x": "int", "d": "dec"}
            exact = list(columns)
        return source, {name: columns[name] for name in self.some(exact, 1, 4)}

    def order(self, columns: Columns, first: list[str] | None = None) -> str:
        """An order of rows by all of their columns."""
        names = [each for each in columns if each not in (first or [])]
        names = [*(first or []), *self.some(names, len(names), len(names))]
        return ", ".join(f"{name} {self.any(*_WAYS)}" for name in names)

    # Queries.

    def list_values(self, depth: int) -> tuple[str, Columns]:
        """Constant rows beside a source."""
        source, _, columns = self.alias_source(depth)
        name = self.any(*columns)
        kind = columns[name] if columns[name] not in ("real", "bool") else "int"
        rows = ", ".join(f"({self.any(*LITERALS[kind])}, {number})" for number in range(3))
        rows = f"({self.any(*[x for x in LITERALS[kind] if x != 'NULL'])}, 7), {rows}"
        alias, value, number = self.name("l"), self.name("n"), self.name("n")
        there = columns | {f"{alias}.{value}": kind, f"{alias}.{number}": "int"}
        how = self.any("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        on = f"{name} = {alias}.{value}" if columns[name] == kind else f"{alias}.{number} = 7"
        select, made = self.select(there)
        listed = f"(VALUES {rows}) AS {alias}({value}, {number})"
        if columns[name] != kind:
            how = "JOIN"
        return f"SELECT {select} FROM {source} {how} {listed} ON {on}", made

    def select(self, columns: Columns) -> tuple[str, Columns]:
        """Some of the columns under names of their own."""
        chosen = {name: self.name("r") for name in self.some(list(columns), 1, 4)}
        text = ", ".join(f"{name} AS {own}" for name, own in chosen.items())
        return text, {own: columns[name] for name, own in chosen.items()}

    def ask_laterally(self, depth: int) -> tuple[str, Columns]:
        """A source with aggregates of what another one has for each of its rows."""
        left, _, own = self.alias_source(depth)
        right, _, other = self.alias_source(max(depth - 1, 0))
        pairs = [(a, b) for a in own for b in other if own[a] == other[b] not in ("real", "bool")]
        if not pairs:
            return self.aggregate(0)
        (a, b), alias = self.any(*pairs), self.name("l")
        calls = [self.call(other), *[("COUNT(*)", "int")] * self.any(0, 1)]
        # Arrays are refused here: dialects do not agree on the array of no rows.
        if "TRY_ELEMENT_AT" in calls[0][0]:
            calls[0] = (f"MAX({b})", other[b])
        made = {self.name("n"): kind for _, kind in calls}
        items = ", ".join(f"{sql} AS {name}" for (sql, _), name in zip(calls, made, strict=True))
        where = f"{a} = {b}{self.any('', f' AND {self.condition(other)}')}"
        if self.any(True, False, False):
            value, name = self.any(*other), self.name("n")
            first = ""
            if other[value] != "real" and "real" not in other.values():
                first = self.any(
                    "", f" ORDER BY {self.order(other, [value])} LIMIT {self.any(1, 2)}"
                )
            how, on = self.any((", ", ""), (" LEFT JOIN ", " ON TRUE"))
            rows = f"SELECT {value} AS {name} FROM {right} WHERE {where}{first}"
            select, out = self.select(own | {f"{alias}.{name}": other[value]})
            return f"SELECT {select} FROM {left}{how}LATERAL ({rows}) AS {alias}{on}", out
        if self.any(True, False):
            lateral = f"{self.any(', ', ' CROSS JOIN ')}LATERAL (SELECT {items} FROM {right} WHERE {where}) AS {alias}"
            select, out = self.select(
                own | {f"{alias}.{name}": kind for name, kind in made.items()}
            )
            return f"SELECT {select} FROM {left}{lateral}", out
        select, out = self.select(own)
        (sql, kind), name = calls[0], next(iter(made))
        return (
            f"SELECT {select}, (SELECT {sql} FROM {right} WHERE {where}) AS {name} FROM {left}",
            out | {name: kind},
        )

    def pivot_rows(self, depth: int) -> tuple[str, Columns]:
        """Columns of the rows of each key."""
        source, columns = self.exact(depth)
        by = self.any(*columns)
        if columns[by] == "bool":
            return self.aggregate(0)
        name = self.any(*columns)
        key, on, value = self.name("p"), self.name("p"), self.name("p")
        call = self.any("COUNT({v})", "COUNT(*)", *(["MAX({v})"] * (columns[name] != "bool")))
        kind = columns[name] if "MAX" in call else "int"
        group = self.any(*columns)
        # Rows are grouped by all columns that neither the call nor FOR names.
        more = f", {name} AS {value}" if "{v}" in call else ""
        below = f"SELECT {group} AS {key}, {by} AS {on}{more} FROM {source}{self.where(columns)}"
        known = [each for each in LITERALS[columns[by]] if each != "NULL"]
        cells = {self.name("c"): literal for literal in self.some(known, 1, 3)}
        names = ", ".join(f"{literal} AS {cell}" for cell, literal in cells.items())
        call = call.format(v=value)
        ours = f"SELECT * FROM ({below}) AS {self.name('s')} PIVOT ({call} FOR {on} IN ({names}))"
        theirs = ", ".join(
            f"CASE WHEN COUNT(*) FILTER (WHERE {on} = {literal}) > 0 "
            f"THEN {call} FILTER (WHERE {on} = {literal}) END AS {cell}"
            for cell, literal in cells.items()
        )
        duck = f"SELECT {key}, {theirs} FROM ({below}) GROUP BY {key}"
        return either(ours, ours, duck), {key: columns[group], **dict.fromkeys(cells, kind)}

    def unpivot_rows(self, depth: int) -> tuple[str, Columns]:
        """A row of each of several columns."""
        source, columns = self.exact(depth)
        kind = self.any(*columns.values())
        alike = [name for name, own in columns.items() if own == kind]
        value, name, first, second = (self.name("p") for _ in range(4))
        own, one, other = self.any(*columns), self.any(*alike), self.any(*alike)
        below = f"SELECT {own} AS {first}0, {one} AS {first}, {other} AS {second}"
        nulls = self.any("", "INCLUDE NULLS ")
        sql = f"SELECT * FROM ({below} FROM {source}{self.where(columns)}) AS {self.name('s')} "
        sql += f"UNPIVOT {nulls}({value} FOR {name} IN ({first}, {second}))"
        return sql, {f"{first}0": columns[own], name: "text", value: kind}

    def keep_firsts(self, depth: int) -> tuple[str, Columns]:
        """The first row of a key by DISTINCT ON, or the rows of which QUALIFY is true."""
        source, columns = self.exact(depth)
        names, key = ", ".join(columns), self.some(list(columns), 1, 2)
        if len(key) < len(columns) and self.any(True, False, False):
            on, order = ", ".join(key), self.order(columns, key)
            sql = f"SELECT DISTINCT ON ({on}) {names} FROM {source}{self.where(columns)} ORDER BY {order}"
            return sql, columns
        by, order = f"PARTITION BY {key[0]}", self.order(columns)
        rank, own = self.any("ROW_NUMBER", "RANK", "DENSE_RANK"), self.name("o")
        options = [f"{rank}() OVER ({by} ORDER BY {order}) <= {self.any(1, 2)}"]
        options += [f"COUNT(*) OVER ({by}) > 1", f"{own} IS NOT NULL AND {self.condition(columns)}"]
        value = (
            f"MAX({key[-1]}) OVER ({by})" if columns[key[-1]] != "bool" else f"COUNT(*) OVER ({by})"
        )
        kind = columns[key[-1]] if columns[key[-1]] != "bool" else "int"
        sql = f"SELECT {names}, {value} AS {own} FROM {source}{self.where(columns)} QUALIFY {self.any(*options)}"
        return sql, {**columns, own: kind}

    def open_rows(self, depth: int) -> tuple[str, Columns]:
        """The fields of a row as columns."""
        source, columns = self.source(depth)
        fields = {self.name("z"): name for name in self.some(list(columns), 1, 3)}
        ours = ", ".join(f"'{own}', {name}" for own, name in fields.items())
        duck = ", ".join(f"'{own}': {name}" for own, name in fields.items())
        row = either(f"NAMED_STRUCT({ours})", f"NAMED_STRUCT({ours})", f"{{{duck}}}")
        alias, value = self.name("s"), self.name("w")
        below = f"SELECT {row} AS {value} FROM {source}{self.where(columns)}"
        one, of = next(iter(fields.items()))
        if self.any(True, False, False):
            return f"SELECT {alias}.{value}.{one} FROM ({below}) AS {alias}", {one: columns[of]}
        star = either(f"{alias}.{value}.*", f"{alias}.{value}.*", f"{value}.*")
        out = {own: columns[name] for own, name in fields.items()}
        return f"SELECT {star} FROM ({below}) AS {alias}", out

    def recur(self, depth: int) -> tuple[str, Columns]:
        """A recursive query of two further steps."""
        source, _, columns = self.alias_source(depth)
        numbers = [name for name, kind in columns.items() if kind == "int"]
        if not numbers:
            return self.aggregate(0)
        name, own, level = self.name("rec"), self.name("n"), self.name("n")
        start, end = (f"CAST({self.any(*numbers)} AS BIGINT)" for _ in "ab")
        step = f"SELECT {own} + 1, {level} + 1 FROM {name} WHERE {level} < 2"
        if self.any(True, False):
            on = f"{name}.{own} = {self.any(*numbers)}"
            step = f"SELECT {end}, {name}.{level} + 1 FROM {name} JOIN {source} ON {on} WHERE {name}.{level} < 2"
        word = self.any("UNION ALL", "UNION")
        first = f"SELECT {start}, 0 FROM {source}{self.where(columns)}"
        inner = f"WITH RECURSIVE {name}({own}, {level}) AS ({first} {word} {step}) SELECT {own}, {level} FROM {name}"
        return f"SELECT {own}, {level} FROM ({inner}) AS {self.name('s')}", {
            own: "int",
            level: "int",
        }


def _item(array: str, at: int) -> str:
    """An item of an array, NULL beyond its end."""
    ours = f"TRY_ELEMENT_AT({array}, {at})"
    return either(ours, ours, f"({array})[{at}]")
