"""Functions whose value depends on the run, the moment, the session or the file: a retraction could not match it."""

from __future__ import annotations

from functools import cache
from typing import Final

from sqlglot import exp, parse, parse_one
from sqlglot.errors import ErrorLevel

# Spark's functions that are not deterministic, or that read the clock, the session or the row's whereabouts. Spark
# calls aes_encrypt deterministic, but it draws an initialisation vector for each row.
CHANGING: Final = frozenset(
    [
        "aes_encrypt",
        "curdate",
        "current_catalog",
        "current_database",
        "current_date",
        "current_path",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "input_file_block_length",
        "input_file_block_start",
        "input_file_name",
        "java_method",
        "localtime",
        "localtimestamp",
        "monotonically_increasing_id",
        "now",
        "rand",
        "randn",
        "random",
        "randstr",
        "reflect",
        "session_user",
        "shuffle",
        "spark_partition_id",
        "try_reflect",
        "uniform",
        "user",
        "uuid",
        "version",
    ]
)

STORED: Final = "compute it into a column of the input"


def is_changing(node: exp.Expression) -> bool:
    """Tell whether a node itself is a call of such a function, under whatever name the parser has for it."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in CHANGING or is_bare_unix_time(node)
    return isinstance(node, exp.Func) and type(node) in _classes()


def is_bare_unix_time(node: exp.Expression) -> bool:
    """Tell whether an expression is UNIX_TIMESTAMP(), which without an argument is that of now."""
    # With an argument it follows from the row.
    named = isinstance(node, exp.Anonymous) and node.name.lower() == "unix_timestamp"
    return named and not node.expressions


def changes(node: exp.Expression) -> exp.Expression | None:
    """The first call of such a function in an expression; None if its value follows from the row alone."""
    return next((part for part in node.walk() if is_changing(part)), None)


def differs(node: exp.Expression) -> str:
    """Say in words what is wrong with such a call."""
    return f"{node.sql('spark')} differs from run to run, so no retraction could match"


@cache
def _classes() -> frozenset[type[exp.Expression]]:
    """The classes that the parser makes of these names."""
    # With and without arguments, for the parser may have a class for one form alone. Errors are ignored: the class is
    # all that is asked.
    texts = [text for name in sorted(CHANGING) for text in (f"{name}()", f"{name}(a, b)")]
    level = ErrorLevel.IGNORE
    classes = {type(parse_one(text, dialect="spark", error_level=level)) for text in texts}
    # A name that the parser takes for a column or an unknown call has no class of its own.
    return frozenset(classes - {exp.Anonymous, exp.Column})


def find_changing_call(script: str) -> str | None:
    """The first call in a script whose value differs from run to run, as text; None if there is none.

    Example:
        >>> find_changing_call("SELECT upper(name), now() FROM t")
        'NOW()'
    """
    statements = parse(script, dialect="spark", error_level=ErrorLevel.IGNORE)
    calls = (changes(each) for each in statements if each is not None)
    changing_call = next((call for call in calls if call is not None), None)
    return None if changing_call is None else changing_call.sql("spark")
