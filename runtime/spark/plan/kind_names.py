"""The kinds of a table's rows as Spark reads and writes them: a row that is only shown does not go through Python."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import CharType, DataType, StringType, VarcharType

from aggloom.codegen.planner import Correlate, Node
from aggloom.errors import OptionError, UnknownChangeTypeError
from aggloom.runtime.spark.plan.column_frames import KIND, apply_step
from aggloom.runtime.spark.read.records import shown_word
from aggloom.runtime.values.changelog import (
    CHANGE_TYPES,
    DELETE,
    INSERT,
    KIND_NAMES,
    PROFILES,
    UPDATE_BEFORE,
    spellings,
)

_KNOWN: Final = f"{', '.join(CHANGE_TYPES)} and {', '.join(KIND_NAMES)}"
_APPEND_ONLY: Final = (
    'retraction in an input declared append-only; make the spec with input_changes="retract"'
)


def apply_result_step(rows: DataFrame, node: Node, profile: str) -> DataFrame:
    """Rows of a result after a step, with kinds in the words of a profile.

    Rows of a table function replace none: -U is a deletion, +U an insertion. Raises OptionError where rows that came
    too late are among them, which no step reads.
    """
    if len(rows.columns) > len(node.inputs[0].schema) + 1:
        raise OptionError(
            f"late_rows is true, and {node.title[0]} stands above the windows; take it out of the query, and "
            "write it over the result"
        )
    stepped = apply_step(rows, node, (StringType(), KIND))
    if not isinstance(node, Correlate):
        return stepped
    insert, before, after, delete = PROFILES[profile]
    kind = F.col(f"`{KIND}`")
    single = F.when(kind == before, delete).when(kind == after, insert).otherwise(kind)
    return stepped.withColumn(KIND, single)


def translate_kinds(
    word: Column, kind: DataType, profile: str, where: str, append_only: bool = False
) -> Column:
    """Change types, however they are spelled, in the words of a profile.

    kind: the column's type. where: what an error names. Raises UnknownChangeTypeError for a column that is no text; a
    word that is none fails the query with it, a retraction among insertions with a DataError.
    """
    if not isinstance(kind, StringType | CharType | VarcharType):
        raise UnknownChangeTypeError(
            f"{where}: the change column has type {kind.simpleString().upper()}, not STRING; it should hold {_KNOWN}"
        )
    words = {number: F.lit(name) for number, name in enumerate(PROFILES[profile])}
    if append_only:
        refused = F.raise_error(F.lit(f"DataError: {where}: a {_APPEND_ONLY}"))
        words |= {UPDATE_BEFORE: refused, DELETE: refused}
    spelled = F.when(word.isin(*spellings(INSERT)), words.pop(INSERT))
    for number, name in words.items():
        spelled = spelled.when(word.isin(*spellings(number)), name)
    unknown = f"UnknownChangeTypeError: {where}: unknown change type "
    return spelled.otherwise(
        F.raise_error(F.concat(F.lit(unknown), shown_word(word), F.lit(f"; known are {_KNOWN}")))
    )
