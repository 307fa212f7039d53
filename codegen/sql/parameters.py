"""Parameters of a query: values in the places of `:name` or `?`, written as literals.

The names are Spark's (`spark.sql(text, args=..)`). A value becomes text before anything reads the query, so that a
plan, a checkpoint and a page show what ran.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from aggloom.codegen.sql.dialect import AggloomSpark
from aggloom.errors import SpecError, nearest

Arguments = Mapping[str, Any] | Sequence[Any]
_NAME = re.compile(r"[^\W\d]\w*")
_OPERAND_END = re.compile(r"[\w)\]'\"`:]")
"""A character directly before a colon that is a path (`document:field`) and no parameter."""


def bind_parameters(sql: str, arguments: Arguments | None, dialect: str = "spark") -> str:
    """Return a text with values in the places of its parameters.

    arguments: values by name, for `:name`, or in order, for `?`; None leaves the text as it is. Values are None,
    booleans, numbers, Decimals, texts, bytes, dates, times, datetimes, and lists and mappings of these. Raises
    SpecError for a parameter without a value, a value without a parameter, and a value that no literal has.

    Example:
        >>> bind_parameters("SELECT * FROM t WHERE k = :k AND v > :least", {"k": "it's", "least": 3})
        "SELECT * FROM t WHERE k = 'it\\\\'s' AND v > 3"
        >>> bind_parameters("SELECT * FROM t LIMIT ?", [10])
        'SELECT * FROM t LIMIT 10'
    """
    if arguments is None:
        return sql
    if isinstance(arguments, str | bytes) or not isinstance(arguments, Mapping | Sequence):
        raise SpecError(
            f"args is {arguments!r}; it is a mapping of names to values, for :name, or a list of values, for ?"
        )
    places = list(_find_parameters(sql))
    names = [name for name, *_ in places]
    if isinstance(arguments, Mapping):
        _check_names(names, arguments)
        values = [arguments[name] for name in names]
    else:
        _check_count(names, arguments)
        values = list(arguments)
    for (name, start, end), value in reversed(list(zip(places, values, strict=True))):
        sql = f"{sql[:start]}{write_literal(value, name, dialect)}{sql[end:]}"
    return sql


def _find_parameters(sql: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each parameter, `?` for one without, and its place in the text."""
    tokens: list[Token] = sqlglot.tokenize(sql, dialect=AggloomSpark)
    for number, token in enumerate(tokens):
        if token.token_type == TokenType.PLACEHOLDER:
            yield "?", token.start, token.end + 1
        elif token.token_type == TokenType.COLON and number + 1 < len(tokens):
            name = tokens[number + 1]
            is_path = token.start > 0 and _OPERAND_END.match(sql[token.start - 1])
            is_name = name.start == token.end + 1 and _NAME.fullmatch(name.text)
            if is_name and not is_path and name.token_type != TokenType.IDENTIFIER:
                yield name.text, token.start, name.end + 1


def _check_names(names: Sequence[str], arguments: Mapping[str, Any]) -> None:
    """Raise SpecError unless each parameter has a value by its name, and each value a parameter."""
    if "?" in names:
        raise SpecError("the text has the parameter ?; give args as a list of values, in order")
    for name in names:
        if name not in arguments:
            raise SpecError(f"the parameter :{name} has no value. {nearest(name, arguments)}")
    for name in arguments:
        if name not in names:
            hint = nearest(str(name), names) if names else "It has no parameters."
            raise SpecError(f"args has a value for {name!r}, and the text no :{name}. {hint}")


def _check_count(names: Sequence[str], arguments: Sequence[Any]) -> None:
    """Raise SpecError unless there are as many values as parameters, of which none has a name."""
    for name in names:
        if name != "?":
            raise SpecError(f"the text has the parameter :{name}; give args as a mapping of names")
    if len(names) != len(arguments):
        raise SpecError(f"the text has {len(names)} parameters ?, and args {len(arguments)} values")


def write_literal(value: Any, name: str, dialect: str = "spark") -> str:
    """Return the literal of a value of Python. name: of its parameter, for errors. Raises SpecError."""
    if hasattr(value, "item") and hasattr(value, "dtype"):
        # A number of NumPy's.
        value = value.item()
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        # In parentheses, since `a-:x` would become a comment.
        return str(value) if value >= 0 else f"({value})"
    if isinstance(value, float):
        known = {math.inf: "Infinity", -math.inf: "-Infinity"}
        return f"CAST('{'NaN' if value != value else known.get(value, repr(value))}' AS DOUBLE)"
    if isinstance(value, Decimal) and value.is_finite():
        text = f"{value:f}"
        digits, scale = len(text.strip("-").replace(".", "")), len(text.partition(".")[2])
        return f"CAST('{text}' AS DECIMAL({digits}, {scale}))"
    if isinstance(value, str | bytes):
        return str(exp.convert(value).sql(dialect=AggloomSpark))
    if isinstance(value, date | time):
        return _write_time(value, name, dialect)
    if isinstance(value, Mapping):
        pairs = [item for pair in value.items() for item in pair]
        return _write_items("MAP", pairs, name, dialect)
    if isinstance(value, Sequence):
        return _write_items("ARRAY", value, name, dialect)
    raise SpecError(
        f"the parameter {_spell_name(name)} is {value!r}, for which there is no literal; give a number, a text, a "
        "date, a time, bytes, or a list or mapping of these"
    )


def _write_time(value: date | time, name: str, dialect: str) -> str:
    """Return the literal of a date, a time of day or a datetime."""
    if isinstance(value, time) and value.tzinfo is None:
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, datetime) and (value.tzinfo is None or dialect == "spark"):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date) and not isinstance(value, datetime):
        return f"DATE '{value.isoformat()}'"
    raise SpecError(f"the parameter {_spell_name(name)} is {value!r}; give it without a zone")


def _write_items(kind: str, values: Sequence[Any], name: str, dialect: str) -> str:
    """Return an array or a map of literals."""
    listed = ", ".join(write_literal(each, name, dialect) for each in values)
    return f"{kind}[{listed}]" if dialect == "flink" else f"{kind}({listed})"


def _spell_name(name: str) -> str:
    return name if name == "?" else f":{name}"
