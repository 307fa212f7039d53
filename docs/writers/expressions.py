"""The page on scalar expressions, from the table of functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from aggloom.codegen.scalar.dates import SHIFTS
from aggloom.codegen.scalar.functions import FAMILIES
from aggloom.codegen.scalar.intervals import MOVED
from aggloom.codegen.scalar.module import ROWS, lower
from aggloom.codegen.scalar.samples import sample_table
from aggloom.codegen.spec.dtypes import schema_ddl, type_name
from writers.coverage import figures, missing_of_flink
from writers.spark_alone import OF_FLINK, lines

_INTRO = """\
# Scalar expressions without Spark

Written from the table of functions by `make docs`; do not edit.

Expressions in WHERE, in projections and in HAVING follow Spark SQL in ANSI mode. What stands below is lowered to calls
of Arrow compute, or of functions of Python over a column: the harness evaluates it without Spark, and on Spark it runs
in a Python worker where rows come packed out of another operator. The rest is Spark's own business: Spark evaluates it
between operators, and the harness asks the session that it is given, or refuses it by name.
[Why](decisions/027-expressions-in-workers.md).

- Conditions have three values; NaN is equal to itself and above all numbers; -0.0 is 0.0.
- Overflow, division by zero and a cast that does not fit are errors that name the expression and the values
  (`ArithmeticOverflowError`, `DivisionByZeroError`, `InvalidCastError`). A branch of AND, OR, CASE, IF, COALESCE is
  computed only on the rows that reach it. An operand that fails is an error even where the operand before it is NULL;
  Spark answers NULL there.
- Decimals are rounded half up to the digits of Spark's result type.
- Casts of text read what Spark reads, but years have four digits and an offset is `Z`, `UTC` or `+hh[:mm]`; other texts
  are errors.
- Regular expressions mean what Java means; one that Python would read in another way is refused. Where nothing
  matches, as of `a*`, that is never in the middle of a character, as it may be in Java.
- Numbers in JSON are written with the shortest digits, as Java does from version 19 on.
- Instants are shown in the session's time zone. What depends on which of two equal
  hours is meant, as DATE_TRUNC('HOUR', ..), is left to Spark unless the zone is UTC.

- Spark lacks some functions of Flink, the last family below. On Spark a worker computes their calls into columns, for
  all rows, before Spark evaluates the rest of a filter or projection; a branch of CASE does not spare a row.
  An argument of such a call must be one that a worker computes.

{figures} [What is left](#what-only-spark-has) is Spark's alone.

- SIN, COS, TAN, COT, CSC and SEC have the bits of Java's StrictMath on every engine: on Spark a worker computes them,
  too, for Spark's own last bit depends on the processor ([why](decisions/119-circular-functions-in-workers.md)).
- The clock (`current_timestamp`, `current_date`, `current_time()`, `now`, ..) is the time of the batch, over rows that
  are only added ([why](decisions/082-one-time-for-a-batch.md)). `explode` and its kin are
  [table functions](table-functions.md), `window` and `session_window` [windows](windows.md), `grouping` and
  `grouping_id` stand beside [grouping sets](sql.md).
- MAKE_INTERVAL and its kin make no column: they stand beside a time, which they move.
- RAISE_ERROR and ASSERT_TRUE end the query with a `RaisedError`, or with Spark's error, when a row reaches them.
- TIME on Spark needs `spark.sql.timeType.enabled`, which `al.session` sets.

`scalar` is `aggloom.runtime.scalar`, which holds what Arrow has no kernel for. The columns of the examples:

    {schema}
"""


def page() -> str:
    """The whole page."""
    ddl = schema_ddl(sample_table().schema).replace(", ", ",\n    ")
    parts = [_INTRO.format(schema=ddl, figures=figures())]
    for family, entries in FAMILIES.items():
        samples = [sql for entry in entries for sql in entry.samples]
        if family == "Dates and times":
            samples += (*SHIFTS, *MOVED)
        parts.append("\n".join([f"## {family}\n", *_table(samples)]))
    of_flink = ["", "Of Flink's expressions these do not run, with a session or without:", ""]
    of_flink += [f"- {_code(sql)}: {OF_FLINK[sql.partition('(')[0]]}" for sql in missing_of_flink()]
    parts.append("\n".join(["## What only Spark has\n", *lines(), *of_flink]))
    return "\n".join(parts) + "\n"


def _table(samples: list[str]) -> Iterator[str]:
    yield "| SQL | type | Arrow |"
    yield "| --- | --- | --- |"
    for sql in samples:
        value = lower(sql, {ROWS: sample_table().schema})
        yield f"| {_code(sql)} | {type_name(value.type)} | {_code(value.text)} |"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
