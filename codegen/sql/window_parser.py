"""The parser of windows: Flink's table functions in FROM, the older calls in GROUP BY and SELECT, and Spark's.

A window function is one node, WindowCall, with its arguments as they were written. In FROM a table, its partition keys
and a DESCRIPTOR may be among them, each a node of its own; `NAME => value` is an exp.Kwarg.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.scalar.dialect import ScalarSpark

TABLE_FUNCTIONS: Final = ("TUMBLE", "HOP", "CUMULATE", "SESSION", "ROLLING")
CHANGELOG_FUNCTIONS: Final = ("TO_CHANGELOG", "FROM_CHANGELOG")
SPARK_FUNCTIONS: Final = ("WINDOW", "SESSION_WINDOW")
PARTS: Final = ("START", "END", "ROWTIME", "PROCTIME")
"""Endings of TUMBLE_START and its kin."""

_AUXILIARY: Final = tuple(f"{name}_{part}" for name in TABLE_FUNCTIONS for part in PARTS)
CALLS: Final = (*TABLE_FUNCTIONS, *SPARK_FUNCTIONS, *_AUXILIARY, "WINDOW_TIME")
# Words of SQL that are functions before a parenthesis.
_WORDS: Final = (TokenType.WINDOW, TokenType.SESSION)


class WindowCall(exp.Expression, exp.Func):  # type: ignore[misc]
    """A window function with its arguments: the name as written, and the items in its parentheses."""

    arg_types: ClassVar = {"this": True, "expressions": False}

    @property
    def name(self) -> str:
        """The function in capitals."""
        return str(self.this).upper()


class TableArgument(exp.Expression):  # type: ignore[misc]
    """`TABLE t PARTITION BY a, b`: an exp.Table or exp.Subquery, and the keys or None."""

    arg_types: ClassVar = {"this": True, "partition": False}


class Descriptor(exp.Expression):  # type: ignore[misc]
    """`DESCRIPTOR(ts)`: columns by name."""

    arg_types: ClassVar = {"expressions": True}


class WindowParser(ScalarSpark.Parser):
    """Spark's parser with window functions."""

    def parse(self, raw_tokens: list[Token], sql: str | None = None) -> Any:
        """The trees of a script."""
        tokens = [_as_word(each, after) for each, after in pairwise(raw_tokens)]
        return super().parse([*tokens, *raw_tokens[-1:]], sql)

    def _parse_table(self, *args: Any, **options: Any) -> Any:
        # With options the parser asks for a table that is no source, as behind INSERT INTO.
        plain = not (options.get("schema") or options.get("is_db_reference") or args)
        wrapped = plain and self._starts_with_table()
        if not wrapped and not (plain and self._starts_table_function()):
            return super()._parse_table(*args, **options)
        if wrapped:
            self._advance(2)
        token = self._curr
        self._advance(2)
        table = exp.Table(this=self._finish_call(token, self._parse_csv(self._parse_window_item)))
        if wrapped:
            self._match_r_paren()
        alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
        if alias:
            table.set("alias", alias)
        return table

    def _parse_function_call(self, *args: Any, **options: Any) -> Any:
        if not self._starts_window_call():
            return super()._parse_function_call(*args, **options)
        token = self._curr
        self._advance(2)
        return self._finish_call(token, self._parse_csv(self._parse_window_item))

    def _starts_window_call(self) -> bool:
        if self._next.token_type != TokenType.L_PAREN or self._prev.token_type == TokenType.DOT:
            return False
        name = self._curr.text
        # A user's aggregate of that name has the right of way.
        return name.upper() in CALLS and find(name) is None

    def _starts_with_table(self) -> bool:
        """Tell whether TABLE(f( is next."""
        ahead = [each.token_type for each in self._tokens[self._index : self._index + 4]]
        shape = [ahead[:2], ahead[3:]]
        return shape == [[TokenType.TABLE, TokenType.L_PAREN], [TokenType.L_PAREN]]

    def _starts_table_function(self) -> bool:
        """Tell whether a function of tables is next: by its name, or as TABLE or an argument's name is in it."""
        if self._next.token_type != TokenType.L_PAREN:
            return False
        if self._curr.text.upper() in TABLE_FUNCTIONS:
            return True
        ahead = [each.token_type for each in self._tokens[self._index + 2 : self._index + 4]]
        return TokenType.TABLE in ahead[:1] or TokenType.FARROW in ahead[1:]

    def _finish_call(self, token: Token, items: list[Any]) -> WindowCall:
        self._match_r_paren()
        call = WindowCall(this=token.text, expressions=items)
        call.update_positions(token)
        call.meta["end"] = self._prev.end
        return call

    def _parse_window_item(self) -> Any:
        if self._next.token_type != TokenType.FARROW:
            return self._parse_window_value()
        name = exp.var(self._curr.text).update_positions(self._curr)
        self._advance(2)
        value = self._parse_window_value()
        if value is None:
            self.raise_error("Expected a value")
        return exp.Kwarg(this=name, expression=value)

    def _parse_window_value(self) -> Any:
        if self._match(TokenType.TABLE):
            return self._parse_table_argument()
        # A query in place of TABLE t.
        if self._match(TokenType.L_PAREN, advance=False) and self._next.token_type in (
            TokenType.SELECT,
            TokenType.WITH,
        ):
            return self._parse_table_argument()
        if self._curr.text.upper() == "DESCRIPTOR" and self._next.token_type == TokenType.L_PAREN:
            token = self._curr
            self._advance()
            node = Descriptor(expressions=self._parse_wrapped_csv(self._parse_disjunction))
            node.update_positions(token)
            node.meta["end"] = self._prev.end
            return node
        return self._parse_disjunction()

    def _parse_table_argument(self) -> Any:
        table = super()._parse_table()
        if table is None:
            self.raise_error("Expected a table")
        keys = self._parse_partition_keys() if self._match(TokenType.PARTITION_BY) else None
        return TableArgument(this=table, partition=keys)

    def _parse_partition_keys(self) -> list[Any]:
        """Columns up to the next argument; only the form of an argument distinguishes it from a column."""
        if self._match(TokenType.L_PAREN, advance=False):
            return list(self._parse_wrapped_csv(self._parse_column))
        keys = [self._parse_column()]
        while self._match(TokenType.COMMA, advance=False) and not self._argument_follows():
            self._advance()
            keys.append(self._parse_column())
        if None in keys:
            self.raise_error("Expected a column")
        return keys

    def _argument_follows(self) -> bool:
        following, after = self._tokens[self._index + 1 : self._index + 3]
        if after.token_type == TokenType.FARROW:
            return True
        # TUMBLE(TABLE t PARTITION BY a, DESCRIPTOR(ts)): the comma may end the keys.
        call = after.token_type == TokenType.L_PAREN
        return bool(call and following.text.upper() == "DESCRIPTOR")


def _as_word(token: Token, after: Token) -> Token:
    """A word before a parenthesis that starts no clause, as a name."""
    if token.token_type not in _WORDS or after.token_type != TokenType.L_PAREN:
        return token
    return Token(
        TokenType.VAR,
        token.text,
        line=token.line,
        col=token.col,
        start=token.start,
        end=token.end,
        comments=token.comments,
    )


def call_sql(generator: Any, call: WindowCall) -> str:
    """The call as text."""
    return f"{call.name}({generator.expressions(call, flat=True)})"


def table_sql(generator: Any, node: TableArgument) -> str:
    """The table as text."""
    keys = node.args.get("partition") or ()
    partition = f" PARTITION BY {', '.join(generator.sql(key) for key in keys)}" if keys else ""
    return f"TABLE {generator.sql(node, 'this')}{partition}"


def descriptor_sql(generator: Any, node: Descriptor) -> str:
    """The descriptor as text."""
    return f"DESCRIPTOR({generator.expressions(node, flat=True)})"
