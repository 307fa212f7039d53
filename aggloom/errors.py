"""Every error of aggloom in one hierarchy: the first line names the cause, the place and the fix.

Each class also derives from the builtin that it resembles, so `except ValueError` keeps working.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from aggloom.masking import mask_secrets


class AggloomError(Exception):
    """The root: catch this to catch everything that aggloom raises on purpose. Secrets in its text are masked.

    place: the piece of a query at fault, until the text of the query is shown with it.
    """

    place: Any = None

    def __init__(self, *args: object) -> None:
        super().__init__(*(mask_secrets(each) if isinstance(each, str) else each for each in args))


class SpecError(AggloomError, ValueError):
    """The description of the query is wrong; nothing has run yet."""


class UnknownColumnError(SpecError):
    """A name that is neither an input column nor a computed one."""


class AmbiguousColumnError(SpecError):
    """A column without a table's name that several tables have."""


class UnknownTableError(SpecError):
    """A name in FROM that is neither a table nor a view."""


class UnknownFunctionError(SpecError):
    """An aggregate function that the catalogue does not hold."""


class NotRetractableError(SpecError):
    """An aggregate function that cannot retract rows, over an input that does."""


class NotMergeableError(SpecError):
    """An aggregate function whose states cannot be merged, in a plan that must."""


class TypeMismatchError(SpecError):
    """A column whose type does not fit where it is used."""


class DuplicateNameError(SpecError):
    """Two columns, or two outputs, under one name."""


class SqlError(SpecError):
    """SQL text that cannot be read, shown with the position underlined."""


class UnsupportedSqlError(SqlError):
    """Valid SQL that this front end does not translate."""


class OptionError(SpecError):
    """An option of the planner that does not exist, or a value that it cannot have."""


class UnsupportedExpressionError(SpecError):
    """A scalar expression whose type is not known, or that needs Spark to be evaluated."""


class UnknownTypeError(UnsupportedExpressionError):
    """A scalar expression whose type is not known without Spark's analyser."""


class IgnoredOptionWarning(UserWarning):
    """Options of Flink that mean nothing here; results do not depend on them."""


class GeneratedSourceError(AggloomError):
    """A generated module that is missing, damaged or not a handler."""


class HandlerEditedWarning(UserWarning):
    """The text of a generated module no longer matches its digest: it was edited by hand."""


class DroppedRowsWarning(UserWarning):
    """Rows that did not reach the result: orphan retractions, late rows, messages that cannot be read."""


class DataError(AggloomError):
    """The rows, not the query, are at fault."""


class OrphanRetractionError(DataError):
    """A retraction of a row, or of a key, that was never added."""


class ArithmeticOverflowError(DataError, ArithmeticError):
    """A result that does not fit its type."""


class DivisionByZeroError(ArithmeticOverflowError, ZeroDivisionError):
    """A division, or a remainder, by zero."""


class InvalidCastError(ArithmeticOverflowError, ValueError):
    """A value that the type it is cast to does not have."""


class RaisedError(DataError, ValueError):
    """An error that the query itself raises for a row, by RAISE_ERROR or ASSERT_TRUE."""


class CardinalityError(DataError, ValueError):
    """More rows where there may be only one."""


class RecursionLimitError(DataError, ValueError):
    """Rows of a recursive query that are more steps away than its limit allows."""


class UnknownChangeTypeError(DataError, ValueError):
    """A change type that is NULL or spelled in no known way."""


class InputFormatError(DataError, ValueError):
    """An input record that cannot be parsed."""


class MissingFileError(DataError, FileNotFoundError):
    """Files with rows of a batch that are no longer there, or no longer whole."""


class FileOrderError(DataError):
    """Input files whose order counts and is not known."""


class LookupFailedError(DataError, LookupError):
    """A lookup table that could not be asked."""


class LookupAnswerError(LookupFailedError, ValueError):
    """An answer of a lookup table that is no row of it."""


class SchemaRegistryError(DataError, ConnectionError):
    """A schema registry that does not answer, or does not let one in."""


class StateError(AggloomError):
    """Saved state that cannot be used."""


class StateCorruptError(StateError):
    """Saved state that is truncated or was altered."""


class StateMismatchError(StateError):
    """Saved state of another query."""


class StateRoomError(StateError, OSError):
    """State for which there is no room left, neither on the disk nor in memory."""


class SparkMissingError(AggloomError, ImportError):
    """The package pyspark is not installed, and something that needs Spark was asked for."""


class SparkVersionError(AggloomError):
    """A feature that the Spark that is there does not have."""


class ExecutorError(AggloomError):
    """Spark's executors lack a package, or a directory for compiled code."""


class WorkerStartError(AggloomError):
    """A Python process of Spark's that was not there in time; the same may go well at the next start."""


class CheckpointError(StateError):
    """A checkpoint that cannot be looked into, or that does not hold what is asked for."""


class UnverifiableError(CheckpointError):
    """The result of a query cannot be computed once more: input is gone, or its value depends on when it ran."""


class DirectoryError(AggloomError, OSError):
    """A directory that cannot be written to: read-only, closed to the user, or full."""


class SinkError(AggloomError):
    """A place for results that cannot take them."""


class SinkTimeoutError(SinkError, TimeoutError):
    """A lock in the place for results that others did not give up in time."""


class UntrustedCodeError(StateError):
    """Python source within a spec's text or a checkpoint, which runs only if the user trusts it."""


class CaseFormatError(AggloomError):
    """A case file that does not follow its format."""


def nearest(name: object, valid: Iterable[str]) -> str:
    """The end of a message about a wrong name: the closest valid names, else all of them."""
    names = list(dict.fromkeys(valid))
    if not names:
        return "There is none to choose from."
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    close = get_close_matches(str(name).casefold(), list(folded), n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(repr(folded[match]) for match in close)}?"
    listed = ", ".join(repr(candidate) for candidate in names[:20])
    return f"Known: {listed}{', ...' if len(names) > 20 else ''}."
