"""Spark's scalar SQL as sqlglot reads it, but for patterns and units of dates, quotes in texts, what binds tighter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType

_BITS = {
    TokenType.PIPE: exp.BitwiseOr,
    TokenType.CARET: exp.BitwiseXor,
    TokenType.AMP: exp.BitwiseAnd,
}
"""Spark's operators of bits, of which each binds tighter than the one before it."""


def _to_date(given: list[Any], dialect: Any) -> exp.Expression:
    """TO_DATE with its pattern kept: Spark reads a text by it exactly, and without one leniently."""
    if len(given) < 2:
        found: exp.Expression = Spark.Parser.FUNCTIONS["TO_DATE"](given, dialect)
        return found
    return exp.Anonymous(this="TO_DATE", expressions=given)


def _truncation(name: str, unit: int) -> Callable[[list[Any]], exp.Expression]:
    """TRUNC or DATE_TRUNC with its unit as written: sqlglot reads M, Q and others, of which Spark knows none."""

    def build(given: list[Any]) -> exp.Expression:
        if len(given) == 2 and given[unit].name not in exp.TimeUnit.UNABBREVIATED_UNIT_NAME:
            found: exp.Expression = Spark.Parser.FUNCTIONS[name](given)
            return found
        return exp.Anonymous(this=name, expressions=given)

    return build


def _instant(given: list[Any]) -> exp.Expression:
    """Flink's TO_TIMESTAMP_LTZ of a number of seconds (0) or milliseconds (3); Spark's second operand is a pattern."""
    digits = given[1].name if len(given) == 2 and given[1].is_int else ""
    name = {"0": "TIMESTAMP_SECONDS", "3": "TIMESTAMP_MILLIS"}.get(digits)
    if name is None:
        return exp.Anonymous(this="TO_TIMESTAMP_LTZ", expressions=given)
    return exp.Anonymous(this=name, expressions=given[:1])


def _time_of_day(kind: exp.DataType) -> exp.DataType:
    """TIME by its own name, which sqlglot's dialect of Spark writes as TIMESTAMP."""
    digits = "".join(f"({each.name})" for each in kind.expressions)
    return exp.DataType(this=exp.DType.USERDEFINED, kind=f"TIME{digits}")


def _doubled(first: Token, second: Token, sql: str) -> bool:
    """Whether two texts are one with a doubled quote in it, as in 'it''s'."""
    texts = first.token_type == second.token_type == TokenType.STRING
    return texts and second.start == first.end + 1 and sql[first.end] == sql[second.start]


class ScalarSpark(Spark):  # type: ignore[misc]
    """Spark's dialect.

    sqlglot's takes Y for y, which Spark refuses, and leaves out a pattern that is the usual one. It reads 'it''s' as
    two texts, & ^ | as equals, || as weaker than +, and TIME as TIMESTAMP.
    """

    TIME_MAPPING: ClassVar[dict[str, str]] = {}

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        def tokenize(self, sql: str) -> list[Token]:
            """The tokens of a text, of which one holds a whole literal."""
            found: list[Token] = []
            for token in super().tokenize(sql):
                if found and _doubled(found[-1], token, sql):
                    whole = found.pop()
                    text = f"{whole.text}{sql[token.start]}{token.text}"
                    place = (whole.line, whole.col, whole.start, token.end)
                    token = Token(TokenType.STRING, text, *place, token.comments)
                found.append(token)
            return found

    class Parser(Spark.Parser):  # type: ignore[misc]
        FUNCTIONS: ClassVar = {
            **Spark.Parser.FUNCTIONS,
            "TO_DATE": _to_date,
            "TO_TIMESTAMP_LTZ": _instant,
            "TRUNC": _truncation("TRUNC", 1),
            "DATE_TRUNC": _truncation("DATE_TRUNC", 0),
        }
        TYPE_CONVERTERS: ClassVar = {
            **Spark.Parser.TYPE_CONVERTERS,
            exp.DType.TIME: _time_of_day,
        }
        TERM: ClassVar = {**Spark.Parser.TERM, TokenType.DPIPE: exp.DPipe}
        BITWISE: ClassVar[dict[TokenType, type[exp.Expression]]] = {}

        def _parse_bitwise(self) -> Any:
            return self._parse_bits(*_BITS)

        def _parse_bits(self, operator: TokenType | None = None, *tighter: TokenType) -> Any:
            """Operands of an operator of bits, joined by it; without one left, what binds tighter than all."""
            if operator is None:
                return super()._parse_bitwise()
            left = self._parse_bits(*tighter)
            while self._match(operator):
                both = {"this": left, "expression": self._parse_bits(*tighter)}
                left = self.expression(_BITS[operator](**both))
            return left
