"""Random queries, right and wrong: each one is planned, or refused by an error of the product that shows the place."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from aggloom.codegen.planner import PlanOptions, plan_query
from aggloom.errors import AggloomError, SqlError

TABLES = {
    "t": "a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f DATE, g ARRAY<INT>, h BOOLEAN",
    "u": "a BIGINT, b INT, c STRING, x TIMESTAMP",
}
RIGHT = ["SUM(a)", "COUNT(*)", "AVG(b)", "MIN(c)", "MAX(a + b)", "COUNT(DISTINCT c)", "LISTAGG(c)"]
RIGHT += [
    "FIRST_VALUE(b)",
    "SUM(DISTINCT a) FILTER (WHERE b > 1)",
    "PERCENTILE(a, 0.5)",
    "MEDIAN(b)",
]
RIGHT += ["ARRAY_AGG(a ORDER BY b)", "MAX_BY(a, b)", "STDDEV(a)", "COUNT(DISTINCT a, b)"]
WRONG = ["SUMM(a)", "SUM()", "SUM(c, c)", "MAX(DISTINCT)", "RANK()", "GROUPING(a)", "SUM(SUM(a))"]
WRONG += ["SUM(a) OVER (ORDER BY b)", "COUNT(zz)", "SUM(a) FILTER (WHERE zz)", "LAG(a)", "SUM(g)"]
SCALARS = [
    "a",
    "b",
    "c",
    "a + b",
    "UPPER(c)",
    "COALESCE(a, 0)",
    "1",
    "'x'",
    "a > b",
    "CAST(a AS STRING)",
]
STRANGE = [
    "zz",
    "t.a",
    "q.b",
    "g",
    "NULL",
    "RAND()",
    "nosuch(a)",
    "a / 0",
    "(SELECT 1)",
    "a[0]",
    "x.y.z",
]
STRANGE += [
    "CAST(a AS NOPE)",
    "c + f",
    "EXISTS (SELECT 1 FROM t)",
    "a IN (SELECT a FROM t)",
    "`a",
    "*",
]


class Grammar:
    """Draws scripts; about one part in `odd` is of a kind that is mostly refused."""

    def __init__(self, seed: int, odd: float) -> None:
        self.random = random.Random(seed)
        self.odd = odd

    def pick(self, right: Sequence[str], wrong: Sequence[str] = ()) -> str:
        """One of the right texts, or now and then a wrong one."""
        return self.random.choice(wrong if wrong and self.chance(self.odd) else right)

    def chance(self, share: float) -> bool:
        """True for this share of the draws."""
        return self.random.random() < share

    def script(self) -> str:
        """Options and views, perhaps, and a query."""
        text = self.query(0)
        if self.chance(0.1):
            text = f"CREATE VIEW v AS {self.query(1)};\n{text}"
        if self.chance(0.1):
            wrong = ["SET nope = 1", "SET table.exec.state.ttl = x", "SET"]
            text = f"{self.pick(['SET table.exec.state.ttl = 1 h'], wrong)};\n{text}"
        if self.chance(self.odd / 4):
            wrong = ["", ";", "DELETE FROM t", text[: len(text) // 2], f"{text}; {text}", "SELECT"]
            text = self.random.choice(wrong)
        return text

    def query(self, depth: int) -> str:
        """A SELECT, a set operation, or a query with WITH."""
        text = self.select(depth)
        if depth < 3 and self.chance(0.2):
            word = self.pick(
                ["UNION ALL", "UNION", "INTERSECT", "EXCEPT"], ["EXCEPT ALL", "UNION BY NAME"]
            )
            text = f"{text} {word} {self.select(depth)}"
        if depth < 3 and self.chance(0.1):
            word = self.pick(["WITH"], ["WITH RECURSIVE"])
            text = f"{word} w{self.pick([''], ['(a, b)'])} AS ({self.query(depth + 1)}) {text}"
        return text

    def select(self, depth: int) -> str:
        """One block."""
        keys = self.random.sample(["a", "b", "c", "a + 1", "UPPER(c)"], self.random.randint(0, 3))
        grouped = bool(keys) or self.chance(0.4)
        items = [*keys, self.pick(RIGHT, WRONG)] if grouped else [self.pick(SCALARS, STRANGE)]
        if grouped and self.chance(0.3):
            items.append(f"{self.pick(RIGHT, WRONG)} {self.pick(['IS NULL', '= 1'])}")
        items = [f"{item} AS {name}" for item, name in zip(items, "abcdef", strict=False)]
        text = (
            f"SELECT {'DISTINCT ' * self.chance(0.1)}{', '.join(items)} FROM {self.source(depth)}"
        )
        if self.chance(0.3):
            text += f" WHERE {self.pick(['a > 1', 'b IS NOT NULL', 'a + b < 3'], [*STRANGE, 'SUM(a) > 1'])}"
        if keys:
            text += f" GROUP BY {self.groups(keys)}"
        if grouped and self.chance(0.2):
            text += f" HAVING {self.pick(RIGHT, WRONG)} IS NOT NULL"
        return text + self.pick([""], [" ORDER BY 1", " LIMIT 3", " QUALIFY 1 = 1", " OFFSET 2"])

    def groups(self, keys: list[str]) -> str:
        """Keys, or sets of them."""
        listed = ", ".join(keys)
        sets = [f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ())"]
        return self.pick(
            [listed, listed, listed, *sets, f"{listed} WITH ROLLUP"], ["zz", "99", "SUM(a)"]
        )

    def source(self, depth: int) -> str:
        """A table or a query."""
        if depth > 2 or self.chance(0.5):
            wrong = [
                "nosuch",
                "t JOIN u ON t.a = u.a",
                "t, u",
                "(VALUES (1)) x(a)",
                "t TABLESAMPLE (3 ROWS)",
            ]
            return self.pick(["t", "u", "t AS x"], wrong)
        return f"({self.query(depth + 1)}) {self.pick(['q', 'AS q', ''], ['q(a)', 'q(a, a)'])}"


def outcome(text: str, **settings: Any) -> AggloomError | None:
    """The refusal of a script, or None if it was planned."""
    logging.disable(logging.CRITICAL)
    try:
        plan_query(text, TABLES, **settings)
    except AggloomError as error:
        return error
    finally:
        logging.disable(logging.NOTSET)
    return None


@pytest.mark.parametrize("seed", range(4))
def test_every_query_is_planned_or_refused(seed: int) -> None:
    grammar = Grammar(seed, odd=0.05)
    planned, kinds = 0, Counter[str]()
    for number in range(600):
        text = grammar.script()
        error = outcome(
            text,
            input_changes="append" if number % 2 else "retract",
            dialect="spark" if number % 3 else "flink",
            options=PlanOptions(distinct_agg_split_enabled=number % 5 > 2),
        )
        if error is None:
            planned += 1
            continue
        kinds[type(error).__name__] += 1
        first = str(error).splitlines()[0]
        assert len(first) > 15, (text, error)
        if type(error) is SqlError or type(error).__name__ == "UnsupportedSqlError":
            # What is not there has no place.
            missing = "holds no query" in first or "has no FROM" in first
            assert missing or ("line " in str(error) and "^" in str(error)), (text, error)
    # The test would say nothing if all were refused, or none.
    assert planned > 150, (planned, kinds)
    assert len(kinds) >= 5, kinds
