"""Two thousand random scripts, right and wrong: each is planned, or refused in words that show the place."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from aggloom.codegen.planner import plan_query
from aggloom.errors import AggloomError, SqlError

TABLES = {
    "t": "k STRING, g INT, x INT, y BIGINT, d DECIMAL(10,2), f DOUBLE, ok BOOLEAN, ts TIMESTAMP",
    "u": "k STRING, g INT, x INT, m MAP<INT,INT>, l ARRAY<INT>",
    "odd": "`a b` INT, `'` INT, `größe` INT, `$h0` INT, `select` INT, A INT, a INT",
}
PIECES = [
    *("t", "u", "k", "x", "(", ")", ",", "*", "SELECT", "FROM", "GROUP BY", "DISTINCT", "UNION"),
    *("'", "`", ";", "--", "/*", "1", "-1", "NULL", "AND", "COUNT(", "OVER", "WITH", "AS", "CUBE"),
    *("GROUPING SETS", "HAVING", "ORDER BY", "LIMIT 1", "$e", "\\", "::", "?", "@", "{", "é", "0"),
]


class Grammar:
    """Draws scripts. Each has its own share of mistakes and of what is not supported, often none."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.share = self.random.choice([0.0, 0.0, 0.03, 0.1, 0.4])

    def any(self, *options: str) -> str:
        return self.random.choice(options)

    def chance(self, chance: float) -> bool:
        return self.random.random() < chance

    def most(self, right: Sequence[str], wrong: Sequence[str]) -> str:
        """Something that can be planned where it stands well, or else what seldom can."""
        return self.random.choice(wrong if self.chance(self.share) else right)

    def many(self, part: Callable[[], str], most: int = 3) -> str:
        return ", ".join(part() for _ in range(self.random.randint(1, most)))

    def script(self) -> str:
        """A script, now and then torn."""
        statements = [self.statement() for _ in range(self.random.choice([0, 0, 0, 0, 1, 2]))]
        text = "; ".join([*statements, self.query(2)])
        return self.torn(text) if self.share and self.chance(0.3) else text

    def torn(self, text: str) -> str:
        words = text.split(" ")
        for _ in range(self.random.randint(1, 2)):
            at = self.random.randrange(len(words))
            words[at : at + self.any(*"011").count("1")] = self.random.choice(
                [[], [self.any(*PIECES)]]
            )
            words = words or ["SELECT"]
        return " ".join(words)

    def statement(self) -> str:
        right = [
            f"CREATE TEMPORARY VIEW {self.any('v', 'w', 't')} AS {self.query(1)}",
            f"CREATE OR REPLACE VIEW {self.any('v', 'w')}(k, x) AS SELECT k, g FROM t",
            "SET 'table.exec.mini-batch.enabled' = 'false'",
            "SET table.exec.state.ttl = 1 h",
            "SET 'table.optimizer.distinct-agg.split.enabled' = 'true'",
            "",
        ]
        wrong = ["SET 'no.such.option' = '1'", "SET x", "INSERT INTO t VALUES (1)", "DROP VIEW v"]
        wrong += ["CREATE TABLE z (a INT)", "SELECT 1", "CREATE VIEW v", "CREATE FUNCTION f AS 'x'"]
        return self.most(right, wrong)

    def query(self, depth: int) -> str:
        body = self.select(depth)
        if self.chance(0.15):
            body = self.unite_queries(depth)
        if self.chance(0.12):
            names = self.most(["c", "c", "e", "t"], ["RECURSIVE c", "c(a, b)", "c(a)", "c, c"])
            body = f"WITH {names} AS ({self.select(1)}) {body}"
        right, wrong = [""], [" ORDER BY 1", " LIMIT 3", " OFFSET 2", " SORT BY x", " UNION"]
        return body + self.most(right, wrong)

    def unite_queries(self, depth: int) -> str:
        words = self.most(["UNION", "UNION ALL"], ["EXCEPT", "INTERSECT ALL", "UNION BY NAME"])
        if self.chance(self.share):
            return f"{self.select(depth)} {words} {self.select(depth)}"
        names = self.any("k, x", "k, g", "x", "*")
        right = self.any(names, names, "k, x", "k, y", "x, k", "upper(k), x + 1")
        return f"SELECT {names} FROM t {words} SELECT {right} FROM t"

    def select(self, depth: int) -> str:
        source = self.source(depth)
        if self.chance(0.3):
            items = (
                f"{self.most(['', '', 'DISTINCT '], ['DISTINCT ON (k) ', 'ALL '])}{self.plain()}"
            )
            text = f"SELECT {items} FROM {source}"
            return text + (f" WHERE {self.predicate()}" if self.chance(0.3) else "")
        keys = [self.key() for _ in range(self.random.choice([0, 1, 1, 2]))]
        shown = [key for key in keys if self.chance(0.8)]
        picked = [*shown, *(self.item(place) for place in range(self.random.randint(1, 2)))]
        text = f"SELECT {', '.join(picked)} FROM {source}"
        text += f" WHERE {self.predicate()}" if self.chance(0.3) else ""
        if keys:
            text += f" GROUP BY {self.grouping(keys)}"
        text += f" HAVING {self.having(keys)}" if self.chance(0.2) else ""
        tails = [
            "QUALIFY ROW_NUMBER() OVER (ORDER BY x) = 1",
            "WINDOW w AS (ORDER BY x)",
            "LIMIT 10",
        ]
        tails += ["CLUSTER BY k", "DISTRIBUTE BY k", "LATERAL VIEW explode(l) AS e", "FOR UPDATE"]
        return f"{text} {self.most([''], tails)}"

    def plain(self) -> str:
        """Items without aggregates."""
        items = [self.scalar() for _ in range(self.random.randint(1, 3))]
        named = [
            f"{item}{self.any('', f' AS {name}')}" for item, name in zip(items, "kxg", strict=False)
        ]
        return self.most(
            ["*", ", ".join(named), ", ".join(named)], ["t.*", "s.*", "* EXCEPT (k)", "1, 1"]
        )

    def source(self, depth: int) -> str:
        if depth and self.chance(0.4):
            alias = self.most(
                [" AS s", "", " s"], [" AS s(a, b)", " s LIMIT 1", " TABLESAMPLE (9 ROWS)"]
            )
            return f"({self.query(depth - 1)}){alias}"
        plain = self.most(
            ["t", "t", "t", "T", "db.t", "t AS a"], ["u", "odd", "v", "w", "c", "nowhere"]
        )
        joins = [" JOIN u ON t.k = u.k", " LEFT JOIN u USING (k)", ", u", " CROSS JOIN u"]
        joins += [
            " FOR SYSTEM_TIME AS OF ts",
            " PIVOT (SUM(x) FOR k IN ('a'))",
            " LATERAL VIEW e AS e",
        ]
        joins += [" MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS TRUE)", " TABLESAMPLE (5 ROWS)"]
        special = ["(VALUES (1, 'a')) AS v(x, k)", "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1))"]
        special += ["range(10)", "UNNEST(l)", "(t)", "'t'", "LATERAL (SELECT 1)", "VALUES (1)"]
        whole = [plain + self.any(*joins), self.any(*special)]
        return self.most([plain], [plain, plain, *whole])

    def item(self, place: int) -> str:
        oddities = ["*", "t.*", "GROUPING(k)", "GROUPING_ID(k, g)", "GROUPING()", "(SELECT 1)"]
        oddities += ["SUM(x) OVER (PARTITION BY k)", "ROW_NUMBER() OVER (ORDER BY x)", "LAG(x)"]
        oddities += [
            "EXISTS (SELECT 1 FROM u)",
            "(SELECT MAX(x) FROM t)",
            "SUM(SUM(x))",
            "GROUPING(k) + 1",
        ]
        oddities += ["TUMBLE_START(ts)", "window(ts, '1 hour')", "@x", ":p", "?", "x", "my_agg(x)"]
        text = self.most([self.call(), self.call(), f"{self.call()} + 1", "COUNT(*)"], oddities)
        return (
            f"{text} AS {self.most([f'c{place}', 'x' if place else 'y'], ['k', '`$f0`', '`x y`'])}"
        )

    def column(self) -> str:
        wrong = ["a", "b", "n", "nothing", "z.k", "m", "l", "s.a", "u.x", "x.y.z", "`a b`", "`'`"]
        return self.most(
            ["k", "g", "x", "x", "K"], [*wrong, "y", "d", "f", "ok", "ts", "t.k", "`$h0`"]
        )

    def scalar(self) -> str:
        one, two = self.column(), self.column()
        right = [
            one,
            one,
            f"COALESCE({one}, {one})",
            "x + 1",
            "x % 2",
            "upper(k)",
            "1",
            "'x'",
            "-x",
        ]
        right += [
            "x IS NULL",
            "x IN (1, 2)",
            "CASE WHEN x > 1 THEN k ELSE 'n' END",
            "CAST(x AS STRING)",
        ]
        wrong = [f"{one} {op} {two}" for op in ("+", "-", "*", "/", "%", "||", "=", "AND", "<=>")]
        wrong += [f"{f}({one})" for f in ("abs", "my_function", "date_trunc", "explode", "length")]
        wrong += [
            "NULL",
            "1.5",
            "1e3",
            "TRUE",
            "DATE '2020-01-01'",
            "INTERVAL 1 DAY",
            "m[1]",
            "l[0]",
        ]
        wrong += ["array(1, 2)", "rand()", "current_timestamp()", "9" * 41, "x BETWEEN 1 AND k"]
        wrong += [
            f"CAST({one} AS {kind})" for kind in ("NOTYPE", "DATE", "DECIMAL(99,1)", "MAP<INT,INT>")
        ]
        return self.most(right, wrong)

    def call(self) -> str:
        more = ["MEDIAN", "VAR_POP", "LISTAGG", "FIRST_VALUE", "COLLECT_SET", "COUNT_IF", "STDDEV"]
        worse = [
            "SUMM",
            "APPROX_COUNT_DISTINCT",
            "PERCENTILE",
            "MAX_BY",
            "NTILE",
            "ANY",
            "GROUP_CONCAT",
        ]
        name = self.most(["SUM", "COUNT", "MIN", "MAX", "AVG"], [*more, *worse])
        inner = self.most(
            ["x", "g", "x + 1"], [self.scalar(), "*", "", f"{self.column()}, x", "x, 0.5"]
        )
        inner += self.most([""], [" ORDER BY x", " IGNORE NULLS", " LIMIT 1", ", x => 1"])
        tail = self.any("", "", f" FILTER (WHERE {self.predicate()})")
        tail = self.most(
            [tail], [" WITHIN GROUP (ORDER BY x)", " OVER ()", " FILTER (x)", " FILTER ()"]
        )
        return f"{name}({self.any('', '', 'DISTINCT ')}{inner}){tail}"

    def predicate(self) -> str:
        right = [
            "x > 1",
            "k = 'a'",
            "x IS NOT NULL",
            "NOT x = 1",
            "x > 1 AND (g < 2 OR k LIKE 'a%')",
        ]
        wrong = [
            "x",
            "k > 1",
            "nothing = 1",
            "d < 1.5",
            "ts > '2020-01-01'",
            "x IN (SELECT x FROM u)",
        ]
        wrong += [
            "EXISTS (SELECT 1 FROM u)",
            "SUM(x) > 1",
            "k IN ('a', NULL)",
            "NULL",
            "1 = 1",
            "a = 1",
        ]
        wrong += [
            "rand() > 0",
            "x = ANY (SELECT 1)",
            "GROUPING(k) = 0",
            "f / 0 > 1",
            "l = array(1)",
        ]
        return self.most(right, wrong)

    def having(self, keys: Sequence[str]) -> str:
        right = [
            "COUNT(*) > 1",
            "MAX(x) > 1",
            "COUNT(DISTINCT x) > 1 AND SUM(g) = 1",
            "c0 IS NOT NULL",
        ]
        right += [f"{key} IS NOT NULL" for key in keys]
        wrong = ["a > 1", "x > 1", "SUM(x)", "GROUPING(k) = 0", "nothing > 1", "SUM(COUNT(*)) > 1"]
        wrong += ["TRUE", "NULL", "MAX(k) > 1", "(SELECT 1) = 1", "ROW_NUMBER() > 1", "c0 OR c1"]
        return self.most(right, wrong)

    def grouping(self, keys: Sequence[str]) -> str:
        text = ", ".join(keys)
        right = [
            text,
            text,
            text,
            f"ROLLUP ({text})",
            f"CUBE ({text})",
            f"GROUPING SETS (({text}), ())",
        ]
        right += [
            f"{text} WITH ROLLUP",
            f"{text} WITH CUBE",
            f"GROUPING SETS (ROLLUP ({text}), ({text}))",
        ]
        wrong = [
            "ALL",
            "1",
            "1, 2",
            "9",
            "0",
            "-1",
            "1.5",
            "()",
            "NULL",
            f"x, ROLLUP ({text})",
            "c0",
        ]
        wrong += [
            "GROUPING SETS ()",
            "ROLLUP ()",
            "CUBE ((k, g), x)",
            f"{text}, SUM(x)",
            "CUBE (CUBE (x))",
        ]
        return self.most(right, wrong)

    def key(self) -> str:
        return self.most(
            ["k", "g", "x", "x % 2", "upper(k)"], [self.column(), "SUM(x)", "a", "'c'", "m"]
        )


def outcome(sql: str, dialect: str) -> AggloomError | None:
    """None where a script is planned, else why it is refused; any other error is the test's."""
    try:
        plan_query(sql, TABLES, dialect=dialect)
    except AggloomError as error:
        return error
    return None


@pytest.mark.parametrize("part", range(4))
def test_random_scripts_are_planned_or_refused_in_words(part: int) -> None:
    planned, placed, found = 0, 0, Counter[str]()
    for seed in range(part * 500, (part + 1) * 500):
        sql = Grammar(seed).script()
        try:
            error = outcome(sql, ("spark", "flink")[seed % 2])
        except Exception as wrong:
            raise AssertionError(f"seed {seed}: {type(wrong).__name__}: {wrong}\n{sql}") from wrong
        if error is None:
            planned += 1
            continue
        first, *rest = str(error).split("\n")
        assert len(first) > 10, (sql, str(error))
        assert "<Token" not in first and "exp." not in first, (sql, first)
        found[type(error).__name__] += 1
        if isinstance(error, SqlError):
            placed += any(re.match(r"At line \d+, column \d+:", line) for line in rest)
    assert planned > 25
    assert len(found) >= 5
    # What has no place: a missing FROM, no query at all, a clause that leaves no trace in the syntax tree.
    assert placed > 0.8 * (found["SqlError"] + found["UnsupportedSqlError"])
