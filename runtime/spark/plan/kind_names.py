"""The kinds of a table's rows as Spark reads and writes them: a row that is only shown does not go through Python."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ByteType,
    CharType,
    DataType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from aggloom.codegen import quicken_expression
from aggloom.codegen.planner import Calc, Correlate, FromChangelog, Node, Scan, ToChangelog
from aggloom.errors import OptionError, UnknownChangeTypeError
from aggloom.runtime.operators.stateless import bare
from aggloom.runtime.spark.plan.column_frames import KIND, OrdinaryRows, apply_step, filter_changes
from aggloom.runtime.spark.plan.expressions import quote, spark_schema
from aggloom.runtime.spark.plan.unpack import Converted
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

    Rows of a table function replace none: -U is a deletion, +U an insertion. Raises OptionError where rows that arrived
    too late are among them, which no step reads.
    """
    # Beside the kinds, only late rows add a column.
    if len(rows.columns) > len(node.inputs[0].schema) + 1:
        raise OptionError(
            f"late_rows is true, and {node.title[0]} stands above the windows; take it out of the query, and "
            "write it over the result"
        )
    if isinstance(node, ToChangelog | FromChangelog):
        return _convert(rows, node, True, profile, ())
    stepped = apply_step(rows, node, (StringType(), KIND))
    if not isinstance(node, Correlate):
        return stepped
    insert, before, after, delete = PROFILES[profile]
    kind = F.col(f"`{KIND}`")
    # An update of one row may be any number of rows of the function, so the pairs are no updates of each other.
    single = F.when(kind == before, delete).when(kind == after, insert).otherwise(kind)
    return stepped.withColumn(KIND, single)


def spell_kinds(rows: OrdinaryRows, node: Scan, profile: str) -> DataFrame:
    """The rows of a table, with kinds in the words of a profile."""
    df = rows.df.select(*(F.col(quote(name)) for name in node.schema.names), *rows.extra[:1])
    if rows.kind is None:
        return df.withColumn(KIND, F.lit(PROFILES[profile][0]))
    where, kind = f"{node.table}, change column {rows.change_column!r}", df.schema[KIND].dataType
    word = translate_kinds(F.col(quote(KIND)), kind, profile, where, rows.append_only)
    return df.withColumn(KIND, word)


def convert_changes(rows: OrdinaryRows, node: ToChangelog | FromChangelog) -> OrdinaryRows:
    """Rows below an operator after TO_CHANGELOG or FROM_CHANGELOG, with kinds as numbers."""
    df = _number_kinds(rows, node)
    converted = _convert(df, node, rows.kind is not None, None, rows.files)
    only = node.appends_only
    return replace(rows, df=converted, kind=KIND, change_column=KIND, append_only=only)


def filter_below(rows: OrdinaryRows, node: Calc) -> OrdinaryRows:
    """Rows below an operator that pass the filter of a Calc, if it has one; if it shows them, with new kinds."""
    if node.where is None:
        return rows
    if not node.shows or rows.kind is None:
        return replace(rows, df=rows.filter(quicken_expression(node.where)))
    df = filter_changes(_number_kinds(rows, node), node, [], None, upsert=False, beside=rows.files)
    return replace(rows, df=df, kind=KIND, change_column=KIND)


def _number_kinds(rows: OrdinaryRows, node: Node) -> DataFrame:
    """Rows whose column of kinds, if they have one, has numbers or the words of one profile."""
    kind = rows.df.schema[KIND].dataType if rows.kind else ByteType()
    # Numbers are written by readers and operators here, which have checked them; words are a user's.
    if isinstance(kind, ByteType):
        return rows.df
    where = f"{node.title[0]}, change column {rows.change_column!r}"
    word = translate_kinds(F.col(quote(KIND)), kind, "spark", where, rows.append_only)
    return rows.df.withColumn(KIND, word)


def _convert(
    df: DataFrame,
    node: ToChangelog | FromChangelog,
    has_kind: bool,
    profile: str | None,
    beside: tuple[str, ...],
) -> DataFrame:
    """Rows after a node that converts changelogs; beside: columns that go along."""
    kind = StructField(KIND, StringType() if profile else ByteType())
    along = [StructField(name, df.schema[name].dataType) for name in beside]
    fields = StructType([*spark_schema(node.schema).fields, kind, *along])
    bare_node = bare(node)
    assert isinstance(bare_node, ToChangelog | FromChangelog)
    return df.mapInArrow(Converted(bare_node, has_kind, profile), fields)


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
        # CASE evaluates a branch only for rows that reach it. The text begins with the name of the error's class,
        # by which the failure of the query becomes that error again.
        refused = F.raise_error(F.lit(f"DataError: {where}: a {_APPEND_ONLY}"))
        words |= {UPDATE_BEFORE: refused, DELETE: refused}
    spelled = F.when(word.isin(*spellings(INSERT)), words.pop(INSERT))
    for number, name in words.items():
        spelled = spelled.when(word.isin(*spellings(number)), name)
    unknown = f"UnknownChangeTypeError: {where}: unknown change type "
    return spelled.otherwise(
        F.raise_error(F.concat(F.lit(unknown), shown_word(word), F.lit(f"; known are {_KNOWN}")))
    )
