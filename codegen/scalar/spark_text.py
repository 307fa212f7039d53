"""The one place that writes a syntax tree as Spark SQL. It refuses a tree of which the text would lose a part."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from aggloom.errors import UnsupportedExpressionError


def spark_text(node: exp.Expression) -> str:
    """Return a syntax tree as Spark SQL; raises UnsupportedExpressionError where the text would lose a part of it."""
    try:
        text: str = node.sql("spark", unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        expression_text = node.sql("spark", unsupported_level=ErrorLevel.IGNORE)
        message = str(error).partition("\n")[0].rstrip(".")
        raise UnsupportedExpressionError(
            f"expression {expression_text}: Spark has no such form ({message}); write it with Spark's functions."
        ) from None
    return text
