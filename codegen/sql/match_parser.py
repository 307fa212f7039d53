"""The parser of MATCH_RECOGNIZE, which follows a table or a sub-query in FROM.

The source becomes an exp.Table around a MatchCall, so that all else that reads a FROM sees one table.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from aggloom.codegen.sql.window_parser import WindowParser

NAVIGATION: Final = ("PREV", "NEXT")
FACTS: Final = ("CLASSIFIER", "MATCH_NUMBER", "MATCH_ROWTIME", "MATCH_PROCTIME")
"""Functions that MEASURES alone may have."""
_ROWS: Final = (
    ("ONE", "ROW", "PER", "MATCH"),
    ("ALL", "ROWS", "PER", "MATCH", "SHOW", "EMPTY", "MATCHES"),
    ("ALL", "ROWS", "PER", "MATCH", "OMIT", "EMPTY", "MATCHES"),
    ("ALL", "ROWS", "PER", "MATCH", "WITH", "UNMATCHED", "ROWS"),
    ("ALL", "ROWS", "PER", "MATCH"),
)


class MatchCall(exp.Expression):  # type: ignore[misc]
    """MATCH_RECOGNIZE over a table: what is in its parentheses.

    rows: the words that say which rows a match has. skip: those behind AFTER MATCH SKIP, and the variable if there is
    one. pattern: the text of PATTERN, as an exp.Literal that knows its place. subsets: by name the variables.
    """

    arg_types: ClassVar = {
        "table": True,
        "pattern": True,
        **dict.fromkeys(
            ("partition", "order", "measures", "rows", "skip", "within", "subsets", "define"), False
        ),
    }


class MeasureItem(exp.Expression):  # type: ignore[misc]
    """An item of MEASURES. frame: "FINAL", "RUNNING" or nothing."""

    arg_types: ClassVar = {"this": True, "frame": False}


class MatchFunction(exp.Expression, exp.Func):  # type: ignore[misc]
    """A function that only MATCH_RECOGNIZE knows, such as PREV, with its arguments."""

    arg_types: ClassVar = {"this": True, "expressions": False}

    @property
    def name(self) -> str:
        """The function in capitals."""
        return str(self.this).upper()


class MatchParser(WindowParser):
    """Spark's parser with window functions and MATCH_RECOGNIZE."""

    # It follows one table of FROM, not all of them.
    QUERY_MODIFIER_PARSERS: ClassVar = {
        kind: parse
        for kind, parse in WindowParser.QUERY_MODIFIER_PARSERS.items()
        if kind != TokenType.MATCH_RECOGNIZE
    }
    _in_match = False

    def _parse_table(self, *args: Any, **options: Any) -> Any:
        table = super()._parse_table(*args, **options)
        while table is not None and self._match(TokenType.MATCH_RECOGNIZE, advance=False):
            table = self._parse_match(table)
        return table

    def _parse_function_call(self, *args: Any, **options: Any) -> Any:
        token = self._curr
        # Elsewhere PREV and CLASSIFIER may be columns or functions of a user.
        called = self._next is not None and self._next.token_type == TokenType.L_PAREN
        if not (self._in_match and called and token.text.upper() in (*NAVIGATION, *FACTS)):
            return super()._parse_function_call(*args, **options)
        self._advance(2)
        call = MatchFunction(this=token.text, expressions=self._parse_csv(self._parse_assignment))
        self._match_r_paren()
        return self._place_node(call, token)

    def _parse_match(self, table: Any) -> Any:
        token, outside = self._curr, self._in_match
        self._advance()
        self._match_l_paren()
        self._in_match = True
        call = MatchCall(table=table)
        call.set("partition", self._parse_partition_by())
        call.set("order", self._parse_order())
        if self._match_text_seq("MEASURES"):
            call.set("measures", self._parse_csv(self._parse_measure))
        for words in _ROWS:
            if self._match_text_seq(*words):
                call.set("rows", " ".join(words))
                break
        if self._match_text_seq("AFTER", "MATCH", "SKIP"):
            call.set("skip", self._parse_skip())
        self._parse_pattern(call)
        if self._match_text_seq("WITHIN"):
            call.set("within", self._parse_range_end())
        if self._match_text_seq("SUBSET"):
            call.set("subsets", self._parse_csv(self._parse_subset))
        if self._match_text_seq("DEFINE"):
            call.set("define", self._parse_csv(self._parse_name_as_expression))
        self._match_r_paren()
        # MATCH_RECOGNIZE may stand inside of another one's table.
        self._in_match = outside
        match = exp.Table(this=self._place_node(call, token))
        alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
        if alias:
            match.set("alias", alias)
        return match

    def _parse_measure(self) -> Any:
        frame = self._match_texts(("FINAL", "RUNNING")) and self._prev.text.upper()
        return MeasureItem(this=self._parse_expression(), frame=frame or "")

    def _parse_skip(self) -> Any:
        start = self._curr
        for words in (("PAST", "LAST", "ROW"), ("TO", "NEXT", "ROW")):
            if self._match_text_seq(*words):
                return self._place_node(exp.Tuple(expressions=[exp.var(" ".join(words))]), start)
        if not self._match_text_seq("TO"):
            self.raise_error("Expected PAST LAST ROW or TO NEXT ROW", start)
        end = "TO FIRST" if self._match_text_seq("FIRST") else "TO LAST"
        if end == "TO LAST":
            self._match_text_seq("LAST")
        name = self._parse_id_var()
        if name is None:
            self.raise_error("Expected a pattern variable", self._curr)
        return self._place_node(exp.Tuple(expressions=[exp.var(end), name]), start)

    def _parse_pattern(self, call: MatchCall) -> None:
        if not self._match_text_seq("PATTERN"):
            self.raise_error("Expected PATTERN", self._curr)
        opens = self._curr
        self._match_l_paren()
        depth = 1
        while self._curr and depth:
            kind = self._curr.token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            self._advance()
        if depth:
            self.raise_error("Expected )", opens)
        # The text as it is: a pattern is no expression of SQL, and has a parser of its own.
        start, end = opens.end + 1, self._prev.start
        pattern = exp.Literal.string(self.sql[start:end])
        pattern.meta.update(start=start, end=end - 1)
        call.set("pattern", pattern)

    def _parse_range_end(self) -> Any:
        """The length of WITHIN."""
        start = self._curr
        length = self._parse_bitwise()
        if length is None:
            self.raise_error("Expected an INTERVAL", start)
        # A length of literals alone has no place for an error otherwise.
        if not any("start" in part.meta for part in length.walk()):
            self._place_node(length, start)
        return length

    def _parse_subset(self) -> Any:
        name = self._parse_id_var()
        if name is None or not self._match(TokenType.EQ):
            self.raise_error("Expected a name, = and pattern variables", self._curr)
        return exp.Tuple(expressions=[name, *self._parse_wrapped_csv(self._parse_id_var)])

    def _place_node(self, node: Any, token: Token) -> Any:
        """The node, which begins with a token and ends with the last one that was read."""
        node.update_positions(token)
        node.meta["end"] = self._prev.end
        return node


def match_sql(generator: Any, node: MatchCall) -> str:
    """The call as text."""
    parts = [f"PATTERN ({node.args['pattern'].name})"]
    if node.args.get("define"):
        parts.append("DEFINE ..")
    return f"{generator.sql(node, 'table')} MATCH_RECOGNIZE ({' '.join(parts)})"


def function_sql(generator: Any, node: MatchFunction) -> str:
    """The function as text."""
    return f"{node.name}({generator.expressions(node, flat=True)})"


def measure_sql(generator: Any, node: MeasureItem) -> str:
    """The item as text."""
    return f"{node.args.get('frame') or ''} {generator.sql(node, 'this')}".strip()
