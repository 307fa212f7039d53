"""Spark's scalar SQL as sqlglot reads it, but for patterns and units of dates, quotes in texts, what binds tighter."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parsers.hive import HiveParser
from sqlglot.tokens import Token, TokenType

from aggloom.codegen.scalar.flink_forms import (
    make_overlaps,
    make_similar,
    name_fields,
    read_map,
    read_rounded_time,
)
from aggloom.codegen.scalar.flink_functions import READ_AS_SPARKS
from aggloom.codegen.scalar.json_words import PARSERS as JSON_PARSERS
from aggloom.codegen.scalar.json_words import read_predicate
from aggloom.codegen.scalar.spark_functions import ARITIES
from aggloom.codegen.scalar.variant_paths import read_colon_path

_BITS = {
    TokenType.PIPE: exp.BitwiseOr,
    TokenType.CARET: exp.BitwiseXor,
    TokenType.AMP: exp.BitwiseAnd,
}
"""Spark's operators of bits, of which each binds tighter than the one before it."""


def _to_date(arguments: list[Any], dialect: Any) -> exp.Expression:
    """TO_DATE with its pattern kept: Spark reads a text by it exactly, and without one leniently."""
    if len(arguments) < 2:
        date: exp.Expression = Spark.Parser.FUNCTIONS["TO_DATE"](arguments, dialect)
        return date
    return exp.Anonymous(this="TO_DATE", expressions=arguments)


def _truncation(name: str, unit: int) -> Callable[[list[Any]], exp.Expression]:
    """TRUNC or DATE_TRUNC with its unit as written: sqlglot reads M, Q and others, of which Spark knows none."""

    def build(arguments: list[Any]) -> exp.Expression:
        if len(arguments) == 2 and arguments[unit].name not in exp.TimeUnit.UNABBREVIATED_UNIT_NAME:
            truncation: exp.Expression = Spark.Parser.FUNCTIONS[name](arguments)
            return truncation
        return exp.Anonymous(this=name, expressions=arguments)

    return build


def _instant(arguments: list[Any]) -> exp.Expression:
    """Flink's TO_TIMESTAMP_LTZ of a number of seconds (0) or milliseconds (3); Spark's second operand is a pattern."""
    digits = arguments[1].name if len(arguments) == 2 and arguments[1].is_int else ""
    name = {"0": "TIMESTAMP_SECONDS", "3": "TIMESTAMP_MILLIS"}.get(digits)
    if name is None:
        return exp.Anonymous(this="TO_TIMESTAMP_LTZ", expressions=arguments)
    return exp.Anonymous(this=name, expressions=arguments[:1])


def _extraction(arguments: list[Any]) -> exp.Expression:
    """REGEXP_EXTRACT with its group only where one is written: the default is 1 in Spark, and 0 in Flink."""
    node = _of_class("REGEXP_EXTRACT")(arguments)
    if isinstance(node, exp.RegexpExtract) and len(arguments) == 2:
        node.set("group", None)
    return node


_OF_A_CLASS: Final = (
    "abs add_months array boolean ceiling char_length character_length coalesce concat concat_ws contains "
    "date date_add date_diff date_format date_from_unix_date date_sub date_trunc datediff day dayofmonth dayofweek "
    "dayofyear double endswith equal_null float greatest grouping grouping_id hour ifnull ilike instr int isnan "
    "last_day lcase least left len length like locate lower lpad ltrim minute mod month negative nullif nvl nvl2 "
    "position quarter regexp_extract regexp_like repeat replace reverse right rint rlike round rpad rtrim second sign "
    "signum split_part sqrt startswith string timestamp timestamp_ltz timestamp_ntz to_date to_timestamp trunc ucase "
    "timestampadd timestampdiff dateadd unix_date unix_micros unix_millis unix_seconds upper weekofyear year"
)
"""The functions that generated code computes, or whose type follows from their class: the parser reads these alone.

Any other call stays as it was written, so that none of its arguments can be lost.
"""
_UNITS: Final = ("DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPADD", "TIMESTAMPDIFF")
"""Functions whose first of three arguments is a unit of time."""
_SPECIAL: Final = (
    *("CAST", "CEIL", "EXTRACT", "FLOOR", "OVERLAY", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST"),
    *("BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN"),
    *("SHUFFLEMERGE", "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL"),
)
"""Functions with a syntax of their own, and hints."""
_COUNTED: Final = ("CEIL", "FLOOR", "SUBSTR", "SUBSTRING")
"""Those of them whose parser passes over arguments that are too many."""


@cache
def _keeps_arguments(name: str, count: int) -> bool:
    """Return whether a call by its class is written with each of so many arguments."""
    least, most = ARITIES[name.lower()]
    if count < least or (most is not None and count > most):
        return False
    columns = [exp.column(f"a{place}") for place in range(count)]
    try:
        node = _build_call(Spark.Parser.FUNCTIONS[name], columns)
        text = node.sql("spark", unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, AttributeError, TypeError, IndexError):
        return False
    complete = not node.error_messages(columns)
    return complete and all(text.count(each.name) == 1 for each in columns)


def _build_call(build: Callable[..., exp.Expression], arguments: list[Any]) -> exp.Expression:
    try:
        return build(arguments)
    except TypeError:
        return build(arguments, dialect=ScalarSpark())


def _of_class(name: str) -> Callable[[list[Any]], exp.Expression]:
    """The builder of a function's class; a call that it would not write whole stays as it was written."""

    def build(arguments: list[Any]) -> exp.Expression:
        if _keeps_arguments(name, len(arguments)):
            return _build_call(Spark.Parser.FUNCTIONS[name], arguments)
        if len(arguments) == 3 and name in _UNITS and isinstance(arguments[0], exp.Column):
            arguments = [exp.var(arguments[0].name), *arguments[1:]]
        return exp.Anonymous(this=name, expressions=arguments)

    return build


def _parse_counted(name: str) -> Callable[[Any], Any]:
    """The parser of a function with a syntax of its own; a call with too many arguments stays one, to be refused."""

    def parse(parser: Any) -> Any:
        start = parser._index
        node = read_rounded_time(Spark.Parser.FUNCTION_PARSERS[name](parser))
        count = _commas(parser._tokens[start : parser._index]) + 1
        if count <= (ARITIES[name.lower()][1] or count):
            return node
        call = exp.Anonymous(this=name, expressions=[exp.null() for _ in range(count)])
        return call.update_positions(parser._tokens[start - 2])

    return parse


def _parse_cast(name: str) -> Callable[[Any], Any]:
    """The parser of a cast; one of ROW(..) to a ROW names the fields."""
    return lambda parser: name_fields(Spark.Parser.FUNCTION_PARSERS[name](parser))


def _commas(tokens: list[Token]) -> int:
    """Count the commas that are in no brackets."""
    depth = count = 0
    for token in tokens:
        depth += token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)
        depth -= token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
        count += depth == 0 and token.token_type == TokenType.COMMA
    return count


def _plain_text(kind: exp.Expression) -> exp.Expression:
    """CHAR and VARCHAR without a length as STRING; with one they stay."""
    sized = isinstance(kind, exp.DataType) and kind.is_type("char", "varchar")
    return exp.DataType(this=exp.DType.TEXT) if sized and not kind.expressions else kind


def _time_of_day(kind: exp.DataType) -> exp.DataType:
    """TIME by its own name, which sqlglot's dialect of Spark writes as TIMESTAMP."""
    digits = "".join(f"({each.name})" for each in kind.expressions)
    return exp.DataType(this=exp.DType.USERDEFINED, kind=f"TIME{digits}")


def _is_doubled(first: Token, second: Token, sql: str) -> bool:
    """Tell whether two texts are one with a doubled quote in it, as in 'it''s'."""
    texts = first.token_type == second.token_type == TokenType.STRING
    return texts and second.start == first.end + 1 and sql[first.end] == sql[second.start]


def _is_row_type(tokens: list[Token], token: Token) -> bool:
    """Tell whether the last token is the ROW of a type such as ROW<a INT>, which is STRUCT to Spark."""
    if token.token_type != TokenType.LT or tokens[-1].text.upper() != "ROW":
        return False
    before = tokens[-2].token_type if len(tokens) > 1 else None
    return before in (TokenType.ALIAS, TokenType.LT, TokenType.VAR)


def _place(token: Token) -> tuple[int, int, int, int]:
    return token.line, token.col, token.start, token.end


class ScalarSpark(Spark):  # type: ignore[misc]
    """Spark's dialect.

    sqlglot's takes Y for y, which Spark refuses, and leaves out a pattern that is the usual one. It reads 'it''s' as
    two texts, & ^ | as equals, || as weaker than +, and TIME as TIMESTAMP.
    """

    TIME_MAPPING: ClassVar[dict[str, str]] = {}

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        # A text between two of them stands as it is, as in PostgreSQL and Databricks.
        RAW_STRINGS: ClassVar = [*Spark.Tokenizer.RAW_STRINGS, "$$"]

        def tokenize(self, sql: str) -> list[Token]:
            """The tokens of a text, of which one holds a whole literal."""
            tokens: list[Token] = []
            for token in super().tokenize(sql):
                # r'..', $$..$$ and N'..' are texts as any other.
                if token.token_type in (TokenType.RAW_STRING, TokenType.NATIONAL_STRING):
                    token = Token(TokenType.STRING, token.text, *_place(token), token.comments)
                if tokens and _is_row_type(tokens, token):
                    tokens[-1] = Token(TokenType.STRUCT, "STRUCT", *_place(tokens[-1]))
                if tokens and _is_doubled(tokens[-1], token, sql):
                    whole = tokens.pop()
                    text = f"{whole.text}{sql[token.start]}{token.text}"
                    place = (whole.line, whole.col, whole.start, token.end)
                    token = Token(TokenType.STRING, text, *place, token.comments)
                tokens.append(token)
            return tokens

    class Parser(Spark.Parser):  # type: ignore[misc]
        FUNCTIONS: ClassVar = {
            **{
                name: _of_class(name)
                for name in map(str.upper, _OF_A_CLASS.split())
                if name in Spark.Parser.FUNCTIONS
            },
            **READ_AS_SPARKS,
            "ARRAY_CONCAT": _of_class("CONCAT"),
            "REGEXP_EXTRACT": _extraction,
            "TO_DATE": _to_date,
            "TO_TIMESTAMP_LTZ": _instant,
            "TRUNC": _truncation("TRUNC", 1),
            "DATE_TRUNC": _truncation("DATE_TRUNC", 0),
        }
        FUNCTION_PARSERS: ClassVar = {
            **{name: Spark.Parser.FUNCTION_PARSERS[name] for name in _SPECIAL},
            **{name: _parse_counted(name) for name in _COUNTED},
            "POSITION": lambda self: self._parse_position_call(),
            **JSON_PARSERS,
            **{name: _parse_cast(name) for name in ("CAST", "TRY_CAST")},
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            name: Spark.Parser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE", "IF")
        }
        TYPE_CONVERTERS: ClassVar = {
            **Spark.Parser.TYPE_CONVERTERS,
            exp.DType.TIME: _time_of_day,
        }
        RANGE_PARSERS: ClassVar = {
            **Spark.Parser.RANGE_PARSERS,
            TokenType.OVERLAPS: lambda self, this: make_overlaps(this, self._parse_bitwise()),
            TokenType.SIMILAR_TO: lambda self, this: self._parse_similar(this),
        }
        TERM: ClassVar = {**Spark.Parser.TERM, TokenType.DPIPE: exp.DPipe}
        BITWISE: ClassVar[dict[TokenType, type[exp.Expression]]] = {}
        COLON_IS_VARIANT_EXTRACT = True
        KEEPS_CHAR: ClassVar = False
        """True if CHAR and VARCHAR stay without a length too, for whoever reads the query to say what they are."""
        _tries_type = False

        def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
            """The items between commas, of which none is missing."""

            def parse_item() -> Any:
                item = parse_method()
                if item is None and self._prev.token_type == sep and not self._tries_type:
                    self.raise_error("Expected something after the comma", self._prev)
                return item

            return super()._parse_csv(parse_item, sep)  # type: ignore[no-any-return]

        def _parse_types(self, *args: Any, **options: Any) -> Any:
            # Flink's name of BINARY; a column may be called so, and is where a type is only tried.
            if not options.get("check_func") and self._match_text_seq("BYTES"):
                return exp.DataType.build("BINARY", dialect="spark")
            # ARRAY(NULL, x) is tried as a type, of which x is none; then it is read as a call.
            before, self._tries_type = self._tries_type, bool(options.get("check_func"))
            try:
                # Hive's parser takes the lengths of CHAR and VARCHAR away.
                kind = super(HiveParser, self)._parse_types(*args, **options)
            finally:
                self._tries_type = before
            plain = isinstance(kind, exp.DataType) and not self.KEEPS_CHAR
            return kind.transform(_plain_text) if plain else kind

        def _parse_position_call(self) -> exp.Expression:
            """POSITION(a IN b), or POSITION(a, b [, from])."""
            operands = self._parse_csv(self._parse_bitwise)
            if len(operands) == 1 and self._match(TokenType.IN):
                return exp.StrPosition(this=self._parse_bitwise(), substr=operands[0])
            return _of_class("LOCATE")(operands)

        def _parse_is(self, this: Any) -> Any:
            return read_predicate(super()._parse_is(this))

        def _parse_bracket(self, this: Any = None) -> Any:
            map_literal = read_map(self, this)
            return (
                super()._parse_bracket(this)
                if map_literal is None
                else self._parse_bracket(map_literal)
            )

        def _parse_colon_as_variant_extract(self, this: Any) -> Any:
            """A part of a VARIANT, as v:a.b[0], read as VARIANT_GET(v, '$["a"]["b"][0]')."""
            return read_colon_path(self, this)

        def _parse_similar(self, this: Any) -> exp.Expression:
            """The pattern after SIMILAR TO, and its escape."""
            pattern = self._parse_bitwise()
            escape = self._parse_string() if self._match(TokenType.ESCAPE) else None
            return make_similar(this, pattern, escape)

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
