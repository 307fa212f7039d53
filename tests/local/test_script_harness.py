"""A harness of a script with several queries: rows go to all that read their table."""

from __future__ import annotations

import pytest

import aggloom as al
from aggloom.errors import SpecError, UnknownTableError

TABLES = {"t": "id INT, v INT, ts TIMESTAMP", "u": "id INT"}
SINKS = """
CREATE TABLE sums (id INT, s BIGINT) WITH ('connector' = 'print');
CREATE TABLE `both` (id INT) WITH ('connector' = 'print');
CREATE TABLE hours (n BIGINT) WITH ('connector' = 'print');
CREATE VIEW kept AS SELECT * FROM t WHERE v > 0;
"""
SETS = [
    "EXECUTE STATEMENT SET BEGIN {} END;",
    "BEGIN STATEMENT SET; {} END;",
    "{}",
]
QUERIES = """
INSERT INTO sums SELECT id, SUM(v) FROM kept GROUP BY id;
INSERT INTO `both` SELECT t.id FROM t JOIN u ON t.id = u.id;
INSERT INTO hours SELECT COUNT(*) FROM kept GROUP BY TUMBLE(ts, INTERVAL '1' HOUR);
"""


@pytest.mark.parametrize("around", SETS)
def test_queries_share_their_input(around: str) -> None:
    script = SINKS + around.format(QUERIES)
    marks = {"t": ("ts", "0 s")}
    with al.ScriptHarness(script, TABLES, watermarks=marks, backend="python") as queries:
        assert list(queries) == ["sums", "both", "hours"]
        queries.process([("+I", 1, 5, 0), ("+I", 1, 6, 10), ("+I", 2, -1, 20)], table="t")
        queries.process([("+I", 1)], table="u")
        queries.flush()
        assert queries["sums"].table() == [(1, 11)]
        assert queries["both"].table() == [(1,), (1,)]
        assert queries["hours"].table() == []
        queries.process([("-D", 1, 6, 10)], table="t")
        queries.end_of_input()
        assert [each.table() for each in queries.values()] == [[(1, 5)], [(1,)], [(1,)]]


def test_a_plain_query_has_its_number_as_its_name() -> None:
    with al.ScriptHarness("SELECT id FROM u; SELECT COUNT(*) FROM u", TABLES) as queries:
        queries.process([("+I", 7)])
        queries.flush()
        assert dict(zip(queries, (each.table() for each in queries.values()), strict=True)) == {
            "query 1": [(7,)],
            "query 2": [(1,)],
        }


def test_refusals() -> None:
    two = "INSERT INTO `both` SELECT id FROM u; INSERT INTO `both` SELECT id FROM t"
    with pytest.raises(SpecError, match="two queries of the script go into both"):
        al.ScriptHarness(SINKS + two, TABLES)
    with pytest.raises(UnknownTableError, match="reads a table 'x'"):
        al.ScriptHarness("SELECT id FROM u", TABLES, watermarks={"x": ("ts", 0)})
    queries = al.ScriptHarness(SINKS + QUERIES, TABLES, backend="python")
    with pytest.raises(UnknownTableError, match="read the tables t, u; say which by table="):
        queries.process([("+I", 1)])
    with pytest.raises(UnknownTableError, match=r"writes into 'sum'\. Did you mean 'sums'"):
        queries["sum"]
