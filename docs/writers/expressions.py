"""Write the page on scalar expressions, from the table of functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from aggloom.codegen.scalar.dates import SHIFTS
from aggloom.codegen.scalar.functions import FAMILIES
from aggloom.codegen.scalar.intervals import MOVED
from aggloom.codegen.scalar.module import ROWS, lower
from aggloom.codegen.spec.dtypes import schema_ddl, type_name
from writers.coverage import figures, missing_of_flink
from writers.sample_table import sample_table
from writers.spark_alone import OF_FLINK, lines

_INTRO = """\
# Scalar expressions without Spark

`make docs` writes this page from the table of functions. Do not edit it.

Expressions in WHERE, HAVING and SELECT follow Spark SQL in ANSI mode. The expressions on this page do not need Spark.
They are lowered: each becomes calls of Arrow compute, or of Python functions over whole columns. The harness
evaluates them without Spark. On Spark they run in a Python worker if their rows are the packed output of another
operator. All other expressions are evaluated by Spark, between operators; the harness passes them to its Spark
session, and without a session refuses them by name. [Why](decisions/027-expressions-in-workers.md).

- *Logic*: conditions have three values. NaN is equal to itself and greater than all other numbers. -0.0 is 0.0.
- *Errors*: overflow, division by zero and a cast whose value does not fit are errors (`ArithmeticOverflowError`,
  `DivisionByZeroError`, `InvalidCastError`). They name the expression and the values. A branch of AND, OR, CASE, IF
  or COALESCE is computed only for the rows that reach it. If an operand fails, this is an error even if the operand
  before it is NULL; Spark returns NULL in this case.
- *Decimals* are rounded half up to the digits of Spark's result type.
- *Casts of texts* accept the same texts as Spark, except that a year has four digits and an offset is `Z`, `UTC` or
  `+hh[:mm]`. Other texts are errors.
- *Regular expressions* have the meaning that they have in Java. An expression that Python would understand
  differently is refused. An empty match, as of `a*`, is never in the middle of a character, as it can be in Java.
- *Numbers in JSON* are written with the shortest digits, as in Java from version 19 on.
- *FROM_JSON* keeps of a bad record what Spark keeps, which is nothing if the text ends too soon. Options without Spark
  are `mode`, `columnNameOfCorruptRecord` and the three formats of times; of *TO_JSON* the formats and
  `ignoreNullFields`. The schema is a literal; BINARY, TIME and VARIANT in it are refused with what to write instead.
  A time in a text that only Spark reads, such as `12:30` or a zone by its name, is an error and no NULL.
- *FROM_CSV* keeps of a bad line what Spark keeps. A backslash escapes a quote. Options without Spark are `sep` of one
  character, `nullValue`, `mode`, `columnNameOfCorruptRecord` and the three formats of times; of *TO_CSV* `sep`,
  `nullValue` and the formats. A quote with a backslash behind it, a NUL and a hexadecimal number are errors. The types
  of *SCHEMA_OF_CSV* are inferred without Spark unless a field may be a time.
- *Instants* are shown in the session's time zone. When clocks are set back, an hour occurs twice. Expressions that
  depend on which of the two is meant, such as DATE_TRUNC('HOUR', ..), are left to Spark unless the zone is UTC.
- *Functions of Flink that Spark lacks* are the last family below. On Spark a worker computes these calls into columns
  before Spark evaluates the rest of a filter or projection. It computes them for all rows, even those that a branch
  of CASE excludes. A worker must be able to compute the arguments of such a call.

{figures}
[The others](#what-only-spark-has) are evaluated only by Spark.

- *SIN, COS, TAN, COT, CSC and SEC* have the bits of Java's StrictMath on every engine. On Spark a worker computes them,
  too, because Spark's own last bit depends on the processor ([why](decisions/119-circular-functions-in-workers.md)).
- *The clock* (`current_timestamp`, `current_date`, `current_time()`, `now`, ..) is the time of the batch, over
  append-only rows ([why](decisions/082-one-time-for-a-batch.md)).
- *Not scalar*: `explode` and similar functions are [table functions](table-functions.md), `window` and
  `session_window` are [windows](windows.md), and `grouping` and `grouping_id` need [grouping sets](sql.md).
- *MAKE_INTERVAL* and similar functions cannot be a column: use them beside a time, which they move.
- *RAISE_ERROR and ASSERT_TRUE* end the query with a `RaisedError`, or with Spark's error, when a row reaches them.
- *TIME* on Spark needs `spark.sql.timeType.enabled`, which `al.session` sets.

In the tables, `scalar` is the package `aggloom.runtime.scalar`. It has the functions for which Arrow has no kernel.
The examples use these columns:

    {schema}
"""


def page() -> str:
    """Return the whole page."""
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
