"""Values, conditions and sub-queries that random nested queries have beside those of `nested_constructs`: rows beside
rows, lists of patterns, sub-queries tied by any condition, records of CSV and JSON, TRY_CAST, Spark's generators.
"""

from __future__ import annotations

from nested_constructs import EXACT, LITERALS, PATTERNS, ConstructSteps
from queries import Columns, either
from subquery_queries import Shapes

_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
_RECORD_TYPES = {
    "int": "BIGINT",
    "text": "STRING",
    "dec": "DECIMAL(12, 2)",
    "date": "DATE",
    "bool": "BOOLEAN",
    "real": "DOUBLE",
}
_TYPES_OF_SUBQUERIES = {"int": ("g", "x", "y"), "text": ("k",), "dec": ("d",)}


class ValueSteps(ConstructSteps):
    """The named queries of a script, with the newer values, conditions and sub-queries."""

    # Expressions.

    def _conversions(self, name: str, kind: str, keep: bool) -> list[tuple[str, str]]:
        made = super()._conversions(name, kind, keep)
        made += [(each, kind) for each in self._records(name, kind)]
        rest = f"{name} % 4"
        if kind == "int":
            sizes = f"SEQUENCE({rest}, 3)"
            size = either(f"SIZE({sizes})", f"CARDINALITY({sizes})", f"ABS(3 - {rest}) + 1")
            top = f"ARRAY_MAX(SEQUENCE(0, {rest}))"
            greatest = f"CASE WHEN {rest} > 0 THEN {rest} WHEN {rest} <= 0 THEN 0 END"
            made += [(size, "int"), (either(top, top, greatest), "int")]
            made += [(f"TRY_CAST(CAST({name} AS STRING) AS BIGINT)", "int")]
            parsed = f"CAST(PARSE_JSON(CAST({name} AS STRING)) AS BIGINT)"
            made += [(either(parsed, parsed, name), "int")]
        if kind == "text":
            number = f"TRY_CAST(REPLACE({name}, '.', 'x') AS INT)"
            made += [(number, "int"), (f"TRY_CAST({name} AS DATE)", "date")] * (not keep)
            record = f"REPLACE(TO_CSV(NAMED_STRUCT('p', {name}, 'q', 1)), '\"', '')"
            made += [(either(record, record, f"COALESCE({name}, '') || ',1'"), "text")]
        if kind == "date":
            made += [(f"TRY_CAST(CAST({name} AS STRING) AS DATE)", "date")]
        return made

    def _records(self, name: str, kind: str) -> list[str]:
        """A value through a record of CSV and of JSON."""
        fields, schema = f"NAMED_STRUCT('p', {name}, 'q', 'a,b')", f"p {_RECORD_TYPES[kind]}"
        csv = f"FROM_CSV(TO_CSV({fields}), '{schema}, q STRING').p"
        json = f"FROM_JSON(TO_JSON({fields}), '{schema}').p"
        # A field of CSV that is empty is NULL, since `nullValue` is empty, also where it stands in quotes.
        read = f"NULLIF({name}, '')" if kind == "text" else name
        return [either(csv, csv, read), either(json, json, name)]

    # Conditions.

    def condition(self, columns: Columns) -> str:
        exact = [name for name, kind in columns.items() if kind in EXACT]
        texts = [name for name, kind in columns.items() if kind == "text"]
        if exact and self.any(*[False] * 6, True):
            return self._compare_rows(exact, columns)
        if texts and self.any(*[False] * 8, True):
            return self._match_list(self.any(*texts))
        return super().condition(columns)

    def _compare_rows(self, exact: list[str], columns: Columns) -> str:
        """Two rows beside each other; a NULL field is a value in Spark alone."""
        names = [self.any(*exact) for _ in "ab"]
        left = f"({', '.join(names)})"
        rows = [[self._beside(name, exact, columns) for name in names] for _ in "ab"]
        low, high = (f"({', '.join(row)})" for row in rows)
        form = self.any("sign", "sign", "BETWEEN", "IN", "DISTINCT")
        no = self.any("", "NOT ")
        if form == "sign":
            sign = self.any(*_SIGNS)
            ours, parts = f"{left} {sign} {low}", [(sign, rows[0])]
        elif form == "BETWEEN":
            ours, parts = f"{left} {no}BETWEEN {low} AND {high}", [(">=", rows[0]), ("<=", rows[1])]
        elif form == "IN":
            ours, parts = f"{left} {no}IN ({low}, {high})", [("=", rows[0]), ("=", rows[1])]
        else:
            ours, parts = f"{left} IS {no}DISTINCT FROM {low}", [("<>" if not no else "=", rows[0])]
        texts = []
        for flink in (False, True):
            nulls = flink and form != "DISTINCT"
            each = [_row_text(sign, names, row, nulls) for sign, row in parts]
            joined = f"({(' OR ' if form == 'IN' else ' AND ').join(each)})"
            texts.append(f"(NOT {joined})" if no and form in ("BETWEEN", "IN") else joined)
        return either(ours, ours, *texts)

    def _beside(self, name: str, exact: list[str], columns: Columns) -> str:
        """A literal or a column that a column can be compared with."""
        alike = [each for each in exact if columns[each] == columns[name]]
        literal: str = self.any(*LITERALS[columns[name]])
        picked: str = self.any(literal, literal, self.any(*alike))
        return picked

    def _match_list(self, name: str) -> str:
        """LIKE beside a list of patterns."""
        no, word = self.any("", "NOT "), self.any("LIKE", "LIKE", "ILIKE")
        listed = self.any("ANY", "SOME", "ALL")
        patterns = self.some((*PATTERNS, "'A%'"), 1, 3)
        connect = " AND " if listed == "ALL" else " OR "
        duck = connect.join(f"{name} {no}{word} {pattern}" for pattern in patterns)
        ours = f"{name} {no}{word} {listed} ({', '.join(patterns)})"
        return either(ours, ours, f"({duck})")

    # Queries.

    def ask_anything(self, depth: int) -> tuple[str, Columns]:
        """A source beside sub-queries that are tied to it by any condition, stand below aggregates, or are values."""
        source, _, columns = self.alias_source(depth)
        kinds = [kind for kind in columns.values() if kind in _TYPES_OF_SUBQUERIES]
        if not kinds:
            return self.aggregate(0)
        kind = self.any(*kinds)
        alike = [name for name, own in columns.items() if own == kind]
        return _Asked(self, kind, max(depth - 1, 0)).ask(source, self.some(alike, 1, 3))

    def explode_rows(self, depth: int) -> tuple[str, Columns]:
        """A source with the rows of a generator of Spark."""
        source, _, columns = self.alias_source(depth)
        kind = self.any(*columns.values())
        alike = [name for name, own in columns.items() if own == kind]
        first, second = self.any(*alike), self.any(*alike)
        array = f"ARRAY[{first}, {second}]"
        some = self.any(array, f"CASE WHEN {self.condition(columns)} THEN {array} END")
        select, made = self.select(columns)
        place, value, table = self.name("n"), self.name("n"), self.name("u")
        where = self.where(columns)
        form = self.any("explode", "explode", "posexplode", "stack", "inline", "select")
        outer = self.any("", "OUTER ") if form in ("explode", "posexplode") else ""
        how, on = ("LEFT JOIN", " ON TRUE") if outer else ("CROSS JOIN", "")
        view = f"{source} LATERAL VIEW {outer}"
        if form == "select":
            ours = f"SELECT {select}, EXPLODE({some}) AS {value} FROM {source}{where}"
            duck = f"SELECT {select}, {value} FROM {source} CROSS JOIN UNNEST({some}) AS {table}({value}){where}"
            return either(ours, ours, duck), {**made, value: kind}
        if form == "posexplode":
            ours = f"{view}POSEXPLODE({some}) {table} AS {place}, {value}"
            numbered = f"UNNEST({some}) WITH ORDINALITY AS {table}({value}, {place})"
            text, theirs = f"{source} {how} {numbered}{on}", f"{place} - 1 AS {place}"
            made = {**made, place: "int", value: kind}
        elif form in ("stack", "inline"):
            both = f"ARRAY[NAMED_STRUCT('p', 1, 'q', {first}), NAMED_STRUCT('p', 2, 'q', {second})]"
            rows = f"STACK(2, 1, {first}, 2, {second})" if form == "stack" else f"INLINE({both})"
            ours, theirs = f"{view}{rows} {table} AS {place}, {value}", place
            text = f"{source} CROSS JOIN LATERAL (VALUES (1, {first}), (2, {second})) AS {table}({place}, {value})"
            made = {**made, place: "int", value: kind}
        else:
            ours = f"{view}EXPLODE({some}) {table} AS {value}"
            text, theirs = f"{source} {how} UNNEST({some}) AS {table}({value}){on}", ""
            made = {**made, value: kind}
        ends = (f", {place}", f", {theirs}") if theirs else ("", "")
        mine, duck = (f"SELECT {select}{end}, {value} FROM {{}}{where}" for end in ends)
        return either(mine.format(ours), mine.format(ours), duck.format(text)), made


class _Asked(Shapes):
    """Sub-queries over sources of nested steps."""

    def __init__(self, steps: ValueSteps, kind: str, depth: int) -> None:
        self.steps, self.kind, self.depth = steps, kind, depth
        self.random = steps.random

    def name(self, stem: str) -> str:
        return self.steps.name(stem)

    def source(self) -> tuple[str, list[str]]:
        deep = self.depth if self.chance(0.3) else 0
        source, alias, columns = self.steps.alias_source(deep)
        names = [name for name, kind in columns.items() if kind == self.kind]
        if not names:
            alias = self.name("a")
            source = f"t AS {alias}"
            names = [f"{alias}.{name}" for name in _TYPES_OF_SUBQUERIES[self.kind]]
        return source, names


def _row_text(sign: str, left: list[str], right: list[str], nulls: bool) -> str:
    """A comparison of rows field by field; nulls: one with a NULL field may be unknown."""

    def equal(one: str, other: str) -> str:
        return f"({one} = {other})" if nulls else f"({one} IS NOT DISTINCT FROM {other})"

    def less(one: str, other: str) -> str:
        known = f"{one} < {other}"
        first = f"({one}) IS NULL AND ({other}) IS NOT NULL"
        return f"({known})" if nulls else f"COALESCE({known}, {first})"

    def before(one: list[str], other: list[str]) -> str:
        tie = equal(one[0], other[0])
        return f"({less(one[0], other[0])} OR ({tie} AND {less(one[1], other[1])}))"

    tie = " AND ".join(equal(*pair) for pair in zip(left, right, strict=True))
    strict = before(left, right) if "<" in sign else before(right, left)
    texts = {"=": f"({tie})", "<>": f"(NOT ({tie}))", "<": strict, ">": strict}
    return texts.get(sign, f"({strict} OR ({tie}))")
