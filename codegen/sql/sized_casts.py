"""CASTs to a type with a length or a precision: Spark lacks some of these types, and its functions replace them.

CHAR(n) is cut off and padded and VARCHAR(n) is cut off in dialect flink; in dialect spark both are STRING, as in
Spark. TIMESTAMP(p) keeps p digits after the second in both. Whatever else has a length is refused.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from aggloom.codegen.scalar.time_digits import cut_time
from aggloom.codegen.sql.errors import refusal

_TIMES: Final = (
    *(exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ),
)
_TEXTS: Final = (exp.DType.CHAR, exp.DType.VARCHAR)
_BINARIES: Final = (exp.DType.BINARY, exp.DType.VARBINARY)
_NESTED: Final = "an element with a length or a precision inside a CAST to a nested type is"


def with_sized_casts(node: exp.Expression, dialect: str) -> exp.Expression:
    """Return a copy of an expression in which no CAST has a type that Spark lacks.

    Raises UnsupportedSqlError where there is no way to write it.
    """
    root = exp.paren(node.copy(), copy=False)
    for cast in reversed(list(root.find_all(exp.Cast))):
        _refuse_nested(cast, dialect)
        sized = _size_cast(cast, dialect)
        if sized is not cast:
            cast.replace(sized)
    return root.this.pop()


def _size_cast(cast: exp.Cast, dialect: str) -> exp.Expression:
    kind, sizes = cast.to, cast.to.expressions
    if kind.this in _TEXTS:
        return _text(cast, dialect)
    if not sizes or kind.this not in (*_BINARIES, *_TIMES):
        return cast
    size = int(sizes[0].name)
    if kind.this in _BINARIES:
        subject = f"CAST AS {kind.this.value}({size}) is"
        raise refusal(cast, subject, "write SUBSTRING, or RPAD, around a CAST AS BINARY")
    kind.set("expressions", None)
    return cut_time(cast, size)


def _text(cast: exp.Cast, dialect: str) -> exp.Expression:
    fixed = cast.to.this == exp.DType.CHAR
    sizes = [each.name for each in cast.to.expressions]
    whole = cast.copy()
    whole.set("to", exp.DataType(this=exp.DType.TEXT))
    if dialect != "flink" or not (sizes or fixed):
        return whole
    size = exp.Literal.number(int(sizes[0]) if sizes else 1)
    if fixed:
        return exp.Anonymous(this="RPAD", expressions=[whole, size, exp.Literal.string(" ")])
    return exp.Left(this=whole, expression=size)


def _refuse_nested(cast: exp.Cast, dialect: str) -> None:
    """Raise where what an array, a map or a row holds is to be cut off."""
    for part in cast.to.find_all(exp.DataType):
        if part is cast.to:
            continue
        text = dialect == "flink" and part.this in _TEXTS
        if text or (part.expressions and part.this in (*_BINARIES, *_TIMES)):
            raise refusal(cast, _NESTED, "take the length out, or CAST each element")
        if part.this in _TEXTS:
            part.replace(exp.DataType(this=exp.DType.TEXT))
