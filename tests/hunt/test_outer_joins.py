"""Public reports of wrong outer, self and USING joins, rebuilt."""

from __future__ import annotations

from reports import Report, check, gone, named, rows

KXY = {"a": "k INT, x INT", "b": "k INT, y INT"}
SIDES = (
    rows("a", (1, 10), (2, 20), (3, 30))
    + rows("b", (2, 200), (3, 300), (4, 400))
    + gone("a", (3, 30))
)
CHAIN = {"t4": "id INT, x STRING", "t5": "id INT, y STRING", "t6": "id INT, z INT"}
CHAINED = (
    rows("t4", (2, "alice"), (4, "bob"), (6, "cindy"), (8, "dave"))
    + rows("t5", (1, "red"), (2, "orange"), (3, "yellow"), (4, "green"))
    + rows("t6", (3, 333), (4, 444), (5, 555), (0, 1000), (None, 9))
    + gone("t5", (4, "green"))
)
REPORTS = [
    Report(
        "full_join_using_shows_the_right_key",
        "matrixorigin/matrixone#24247",
        "SELECT id, name, score FROM u1 FULL OUTER JOIN u2 USING (id)",
        {"u1": "id INT, name STRING", "u2": "id INT, score INT"},
        rows("u1", (1, "a"), (2, "b"), (None, "n")) + rows("u2", (2, 90), (4, 70), (None, 5)),
    ),
    Report(
        "full_join_using_grouped",
        "apache/datafusion#22881",
        "SELECT k, COUNT(*) AS n FROM a FULL JOIN b USING (k) GROUP BY k",
        KXY,
        SIDES,
    ),
    Report(
        "full_join_using_filtered",
        "apache/datafusion#22998",
        "SELECT * FROM a FULL JOIN b USING (k) WHERE k = 4",
        KXY,
        SIDES,
    ),
    Report(
        "right_join_using",
        "apache/datafusion#22873",
        "SELECT k, x, y FROM a RIGHT JOIN b USING (k)",
        KXY,
        SIDES,
    ),
    Report(
        "natural_full_join_chain",
        "rjwalters/vibesql#4903",
        "SELECT id, x, y, z, t4.id AS i4, t5.id AS i5, t6.id AS i6 FROM t4 NATURAL FULL JOIN t5 NATURAL FULL JOIN t6",
        CHAIN,
        CHAINED,
    ),
    Report(
        "natural_full_join_chain_other_order",
        "rjwalters/vibesql#4904",
        "SELECT * FROM t4 NATURAL FULL JOIN t6 NATURAL FULL JOIN t5",
        CHAIN,
        CHAINED,
    ),
    Report(
        "using_key_and_its_two_sides",
        "duckdb/duckdb#1299",
        "SELECT i, a.i AS ai, b.i AS bi, c.i AS ci FROM a FULL OUTER JOIN b USING (i) FULL OUTER JOIN c USING (i)",
        {"a": "i INT", "b": "i INT", "c": "i INT"},
        rows("a", 42, 45) + rows("b", 43, 45) + rows("c", 44) + gone("b", 45),
    ),
    Report(
        "using_one_of_two_shared_columns",
        "h2database/h2database#2105",
        "SELECT a, x.b AS xb, y.b AS yb, c, d FROM x JOIN y USING (a)",
        {"x": "a INT, b INT, c INT", "y": "a INT, b INT, d INT"},
        rows("x", (1, 2, 3)) + rows("y", (1, 4, 5)),
    ),
    Report(
        "natural_join_of_two_columns",
        "h2database/h2database#2105",
        "SELECT a, b, c, d FROM x NATURAL JOIN y",
        {"x": "a INT, b INT, c INT", "y": "a INT, b INT, d INT"},
        rows("x", (1, 2, 3), (1, None, 4)) + rows("y", (1, 2, 5), (1, None, 6)),
    ),
    Report(
        "left_join_on_false_filtered",
        "databendlabs/databend#7886",
        "SELECT * FROM t LEFT JOIN t1 ON FALSE WHERE b IS NOT NULL",
        {"t": "a INT", "t1": "b INT"},
        rows("t", 1) + rows("t1", 1),
    ),
    Report(
        "left_join_on_equal_and_false",
        "databendlabs/databend#13622",
        "SELECT * FROM p LEFT OUTER JOIN q ON TRUE AND p.i = q.k AND FALSE",
        {"p": "i INT, j INT", "q": "k INT, l INT"},
        rows("p", (1, 2), (None, 3)) + rows("q", (1, 4)),
    ),
    Report(
        "left_join_is_null_and_less",
        "apache/flink#22049",
        "SELECT * FROM m1 LEFT JOIN m2 ON a1 = a2 WHERE a2 IS NULL AND a1 < 10",
        {"m1": "a1 INT, b1 INT", "m2": "a2 INT, b2 INT"},
        rows("m1", (1, 1), (2, 2), (11, 3), (None, 4))
        + rows("m2", (1, 1), (2, 1))
        + gone("m2", (2, 1)),
    ),
    Report(
        "left_self_join_is_null",
        "zettadb/kunlun#565",
        "SELECT t1.a, t1.b FROM t1 LEFT JOIN t1 AS t2 ON t1.b = t2.b WHERE t2.a IS NULL",
        {"t1": "a INT, b INT"},
        rows("t1", (1, 1), (None, 1), (2, None), (3, 2)),
    ),
    Report(
        "left_join_then_not_equal",
        "kuseman/payloadbuilder#48",
        "SELECT a.col, b.value FROM a LEFT JOIN b ON b.col = a.col WHERE b.value <> ''",
        {"a": "col INT", "b": "col INT, value STRING"},
        rows("a", 1, 2, 3) + rows("b", (1, ""), (2, "x"), (2, None)),
    ),
    Report(
        "filter_above_a_left_join_in_a_sub_query",
        "mabel-dev/opteryx#1887",
        "SELECT * FROM (SELECT s.id, p.mass FROM s LEFT JOIN (SELECT * FROM planets) AS p ON s.planet = p.id)"
        " AS mapped WHERE mass > 1",
        {"s": "id INT, planet INT", "planets": "id INT, mass DOUBLE"},
        rows("s", (1, 1), (2, 2), (3, 9)) + rows("planets", (1, 0.5), (2, 5.0)),
    ),
    Report(
        "condition_on_the_left_of_a_left_join",
        "apache/datafusion#13184",
        "SELECT t1.id, t1.name, t2.name AS other FROM t1 LEFT JOIN t2 ON t1.id = t2.id AND t1.name = 'a'",
        {"t1": "id INT, name STRING", "t2": "id INT, name STRING"},
        rows("t1", (11, "a"), (22, "b"), (33, None)) + rows("t2", (11, "z"), (22, "y"), (33, "x")),
    ),
    Report(
        "inner_join_whose_key_comes_and_goes",
        "apache/kafka#19303",
        "SELECT l.id, l.fk, r.v FROM l JOIN r ON l.fk = r.k",
        {"l": "id INT, fk INT", "r": "k INT, v INT"},
        rows("l", (1, None))
        + rows("r", (7, 70))
        + [("l", "-U", 1, None), ("l", "+U", 1, 7)]
        + rows("l", (2, 7))
        + [("l", "-U", 2, 7), ("l", "+U", 2, None)],
    ),
    Report(
        "stream_key_null_in_a_left_join",
        "confluentinc/ksql#5929",
        "SELECT e.id, c.name FROM e LEFT JOIN c ON e.country = c.id",
        {"e": "id INT, country INT", "c": "id INT, name STRING"},
        rows("e", (1, None), (2, 5)) + rows("c", (5, "NZ"), (None, "nowhere")),
    ),
    Report(
        "join_on_a_function_that_gives_null",
        "confluentinc/ksql#7274",
        "SELECT e.e, l.name FROM e LEFT JOIN l ON UPPER(e.fk) = l.pk WHERE e.fk IS NOT NULL",
        {"e": "e INT, fk STRING", "l": "pk STRING, name STRING"},
        rows("e", (1, "a42"), (2, "x"), (3, None)) + rows("l", ("A42", "FOO")),
    ),
    Report(
        "three_way_join_back_to_the_first",
        "pola-rs/polars#25181",
        "SELECT df3.a, x3, b, x2, x1 FROM df3 INNER JOIN df2 ON df2.b = df3.a INNER JOIN df1 ON df1.a = df3.a",
        {"df1": "a INT, x1 STRING", "df2": "a INT, b INT, x2 STRING", "df3": "a INT, x3 STRING"},
        rows("df1", (111, "df1"), (222, "df1"))
        + rows("df2", (333, 444, "df2"), (111, 222, "df2"))
        + rows("df3", (222, "df3"), (111, "df3")),
    ),
    Report(
        "three_way_join_through_the_middle",
        "pola-rs/polars#25126",
        "SELECT df3.a, df2.a AS a2, df1.a AS a1 FROM df3 INNER JOIN df2 ON df2.b = df3.a INNER JOIN df1 ON"
        " df1.a = df2.a",
        {"df1": "a INT", "df2": "a INT, b INT", "df3": "a INT"},
        rows("df1", 111) + rows("df2", (111, 222)) + rows("df3", 222),
    ),
    Report(
        "star_over_a_join_with_equal_names",
        "MonetDB/MonetDB#3349",
        "SELECT * FROM (SELECT a1.x, a1.y, a2.x AS x2, a2.y AS y2 FROM (SELECT * FROM test) AS a1 JOIN"
        " (SELECT * FROM test) AS a2 ON a1.x = a2.x) AS t",
        {"test": "x INT, y INT"},
        rows("test", (1, 1), (1, 2)),
    ),
    Report(
        "equal_names_in_a_sub_query",
        "MonetDB/MonetDB#3349",
        "SELECT * FROM (SELECT a1.x, a1.y, a2.x, a2.y FROM test AS a1 JOIN test AS a2 ON a1.x = a2.x) AS t",
        {"test": "x INT, y INT"},
        rows("test", (1, 1), (1, 2)),
    ),
    Report(
        "self_join_of_the_parent",
        "WiseLibs/better-sqlite3#556",
        "SELECT p.id, p.name, f.id AS fid, f.name AS father FROM person AS p LEFT JOIN person AS f ON"
        " p.father = f.id WHERE p.id = 1",
        {"person": "id INT, name STRING, father INT"},
        rows("person", (1, "a", 2), (2, "b", None)) + gone("person", (2, "b", None)),
    ),
    Report(
        "three_self_joins",
        "mabel-dev/opteryx#1134",
        "SELECT a.id AS x, b.id AS y, c.id AS z FROM p AS a INNER JOIN p AS b ON a.id = b.id INNER JOIN p AS c ON"
        " c.id = b.id",
        {"p": "id INT"},
        rows("p", 1, 2, 2, None) + gone("p", 2),
    ),
]


@named(REPORTS)
def test_report_of_outer_joins(report: Report) -> None:
    check(report)
