"""Spark's SQL as sqlglot reads it, except that an aggregate call is kept whole, as it was written.

sqlglot has a class and a parser for each aggregate function that it knows, and drops or refuses what one of them
does not expect. Here all of them, and a user's own, are one node with the parts that SQL has for such a call.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

from aggloom.codegen.catalogue.registry import REFUSED, canonical, find
from aggloom.codegen.scalar.dialect import ScalarSpark
from aggloom.codegen.sql.match_parser import (
    MatchCall,
    MatchFunction,
    MatchParser,
    MeasureItem,
    function_sql,
    match_sql,
    measure_sql,
)
from aggloom.codegen.sql.recursion import MAX_LEVEL
from aggloom.codegen.sql.window_parser import (
    Descriptor,
    TableArgument,
    WindowCall,
    call_sql,
    descriptor_sql,
    table_sql,
)

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_PAIRS = ("JSON_OBJECTAGG",)
_LIKE = (TokenType.LIKE, TokenType.ILIKE)


class CallNode(exp.Expression, exp.Func):  # type: ignore[misc]
    """An aggregate call: the name as written, what is in its parentheses, and the clauses after them.

    order, within: an exp.Order. nulls: "ignore" or "respect". on_null: "null" or "absent". filter: a condition.
    """

    arg_types: ClassVar = {
        "this": True,
        "expressions": False,
        **dict.fromkeys(("distinct", "order", "nulls", "on_null", "within", "filter"), False),
    }

    @property
    def name(self) -> str:
        """The function as the user spelled it."""
        return str(self.this)


class _Parser(MatchParser):
    KEEPS_CHAR: ClassVar = True
    # The word follows a table's name, of which it is no alias.
    ID_VAR_TOKENS = {*MatchParser.ID_VAR_TOKENS, TokenType.MATCH_CONDITION}  # noqa: RUF012
    FUNC_TOKENS = {*MatchParser.FUNC_TOKENS, TokenType.MATCH_CONDITION}  # noqa: RUF012

    def _warn_unsupported(self) -> None:
        """Say nothing: what sqlglot cannot read is refused by name."""

    def _parse_hint(self) -> Any:
        hint = super()._parse_hint()
        # A hint is parsed as a text of its own, which begins behind `/*+`.
        start = self._prev.start + len("/*+") if hint is not None else 0
        for node in hint.walk() if hint is not None else ():
            for key in {"start", "end"} & node.meta.keys():
                node.meta[key] += start
        return hint

    def _parse_cte(self) -> Any:
        """Read a query of WITH, behind whose name Spark has MAX RECURSION LEVEL and a number."""
        query = super()._parse_cte()
        alias = query.args.get("alias") if query is not None else None
        if alias is not None and alias.args.get(MAX_LEVEL) is not None:
            query.set(MAX_LEVEL, alias.args.pop(MAX_LEVEL))
        return query

    def _parse_table_alias(self, *args: Any, **options: Any) -> Any:
        alias = super()._parse_table_alias(*args, **options)
        if alias is not None and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            level = self._require_node("a number", self._parse_unary())
            alias.set(MAX_LEVEL, level)
        return alias

    def _parse_group(self, skip_group_by_token: bool = False) -> Any:
        """Read a GROUP BY, which WITH ROLLUP or WITH CUBE ends; sqlglot alone reads on."""
        start = self._index
        group = super()._parse_group(skip_group_by_token)
        tokens = self._tokens[start : self._index]
        depth = 0
        for place, token in enumerate(tokens[:-2]):
            kind = token.token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            word = tokens[place + 1].text.upper()
            if kind == TokenType.WITH and not depth and word in ("ROLLUP", "CUBE"):
                self.raise_error(
                    f"WITH {word} ends a GROUP BY; write {word}(..) and a comma", tokens[place + 2]
                )
        return group

    def _parse_function_call(self, *args: Any, **options: Any) -> Any:
        if self._starts_call():
            return self._parse_call()
        token = self._curr
        node = super()._parse_function_call(*args, **options)
        if not isinstance(node, (exp.AggFunc, *_WRAPPERS)):
            return node
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._place_node(node, token)
        # An aggregate that the catalogue does not know: all that is left to say is its name and place.
        return self._place_node(CallNode(this=token.text), token)

    def _starts_call(self) -> bool:
        token = self._curr
        if self._next.token_type != TokenType.L_PAREN or token.token_type not in self.FUNC_TOKENS:
            return False
        # A function of a database: `db.sum(x)`.
        if self._prev.token_type == TokenType.DOT:
            return False
        if find(token.text) is None and canonical(token.text) not in REFUSED:
            return False
        # ANY and SOME also precede LIKE's list and a subquery.
        inside = self._tokens[self._index + 2 :][:1]
        return token.token_type not in self.SUBQUERY_PREDICATES or not (
            self._prev.token_type in _LIKE
            or any(first.token_type in self.SUBQUERY_TOKENS for first in inside)
        )

    def _parse_call(self) -> Any:
        token = self._curr
        self._advance(2)
        call = CallNode(this=token.text)
        distinct = self._match(TokenType.DISTINCT)
        # ALL is what holds without a word.
        if not distinct:
            self._match(TokenType.ALL)
        items = self._parse_items(canonical(token.text) in _PAIRS)
        call.set("expressions", items)
        call.set("distinct", bool(distinct and self._require_node("an argument", items or None)))
        while self._parse_inner_clause(call):
            pass
        self._match_r_paren()
        while self._parse_outer_clause(call):
            pass
        return self._parse_window(self._place_node(call, token))

    def _parse_items(self, pairs: bool) -> list[Any]:
        """The arguments, DISTINCT and clauses aside."""
        keyed = pairs and self._match_key()
        # The colon behind the key of a pair is no path into it.
        self.COLON_IS_VARIANT_EXTRACT = not pairs
        first = self._parse_item()
        self.COLON_IS_VARIANT_EXTRACT = True
        if first is None:
            return []
        items = [first]
        while self._match(TokenType.COMMA) or (pairs and len(items) == 1 and self._match_value()):
            items.append(self._require_node("an argument", self._parse_item()))
        if keyed and len(items) == 1:
            self.raise_error("Expected VALUE")
        return items

    def _parse_item(self) -> Any:
        if self._next.token_type != TokenType.FARROW:
            return self._parse_select_or_expression()
        name = exp.var(self._curr.text).update_positions(self._curr)
        self._advance(2)
        value = self._require_node("a value", self._parse_select_or_expression())
        return exp.Kwarg(this=name, expression=value)

    def _match_key(self) -> bool:
        """The word KEY, unless it is the name of the column itself."""
        if self._curr.text.upper() != "KEY" or self._curr.token_type == TokenType.IDENTIFIER:
            return False
        # KEY VALUE v: a column called key. KEY value VALUE v: a column called value.
        after = self._tokens[self._index + 2 :][:1]
        if self._next.text.upper() == "VALUE" and not any(t.text.upper() == "VALUE" for t in after):
            return False
        starts = {*self.ID_VAR_TOKENS, TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN}
        if self._next.token_type not in starts:
            return False
        self._advance()
        return True

    def _match_value(self) -> bool:
        return bool(self._match_text_seq("VALUE") or self._match(TokenType.COLON))

    def _parse_inner_clause(self, call: CallNode) -> bool:
        if self._match(TokenType.ORDER_BY, advance=False):
            return self._set_once(call, "order", "ORDER BY", self._parse_keys())
        for word in ("NULL", "ABSENT"):
            if self._match_text_seq(word, "ON", "NULL"):
                return self._set_once(call, "on_null", "ON NULL", word.lower())
        if call.expressions and self._match_text_seq("SEPARATOR"):
            call.append("expressions", self._require_node("a separator", self._parse_item()))
            return True
        return self._parse_nulls(call)

    def _parse_outer_clause(self, call: CallNode) -> bool:
        if self._match_text_seq("WITHIN", "GROUP"):
            order = self._parse_wrapped(self._parse_keys)
            return self._set_once(call, "within", "WITHIN GROUP", order)
        if self._match_pair(TokenType.FILTER, TokenType.L_PAREN):
            self._match(TokenType.WHERE)
            condition = self._require_node("a condition", self._parse_disjunction())
            self._match_r_paren()
            return self._set_once(call, "filter", "FILTER", condition)
        return self._parse_nulls(call)

    def _parse_nulls(self, call: CallNode) -> bool:
        for word in ("IGNORE", "RESPECT"):
            if self._match_text_seq(word, "NULLS"):
                return self._set_once(call, "nulls", "IGNORE or RESPECT NULLS", word.lower())
        return False

    def _parse_keys(self) -> Any:
        return self._require_node("ORDER BY", self._parse_order())

    def _require_node(self, what: str, node: Any) -> Any:
        if node is None:
            self.raise_error(f"Expected {what}")
        return node

    def _set_once(self, call: CallNode, key: str, what: str, value: Any) -> bool:
        if call.args.get(key) is not None:
            self.raise_error(f"{what} is given twice", self._prev)
        call.set(key, value)
        return True


def _call_sql(generator: Any, call: CallNode) -> str:
    """The call as text that is the same for the same call, whatever the order of its clauses."""
    # Equal calls have equal texts: computed columns and keys are found by them.
    parts = [generator.expressions(call, flat=True)]
    if call.args.get("distinct"):
        parts.insert(0, "DISTINCT")
    parts.append(generator.sql(call, "order").strip())
    for key, words in (("on_null", "ON NULL"), ("nulls", "NULLS")):
        if call.args.get(key):
            parts.append(f"{call.args[key].upper()} {words}")
    text = f"{call.name.upper()}({' '.join(part for part in parts if part)})"
    if call.args.get("within"):
        text += f" WITHIN GROUP ({generator.sql(call, 'within').strip()})"
    if call.args.get("filter"):
        text += f" FILTER(WHERE {generator.sql(call, 'filter')})"
    return text


class AggloomSpark(ScalarSpark):
    """Spark's dialect with aggregate calls as `Call` nodes, and window functions as `WindowCall` nodes."""

    Parser = _Parser

    class Tokenizer(ScalarSpark.Tokenizer):
        KEYWORDS: ClassVar = {
            **ScalarSpark.Tokenizer.KEYWORDS,
            "MATCH_CONDITION": TokenType.MATCH_CONDITION,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        }

    class Generator(Spark.Generator):  # type: ignore[misc]
        TRANSFORMS: ClassVar = {
            **Spark.Generator.TRANSFORMS,
            CallNode: _call_sql,
            WindowCall: call_sql,
            TableArgument: table_sql,
            Descriptor: descriptor_sql,
            MatchCall: match_sql,
            MatchFunction: function_sql,
            MeasureItem: measure_sql,
        }
