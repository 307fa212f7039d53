"""Calls of JSON functions with words, as JSON_VALUE(s, '$.a' RETURNING INT NULL ON ERROR), read as plain calls.

The plain call carries the words as texts, so that it can be written and read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp
from sqlglot.tokens import TokenType

WRAPPERS: Final = {
    "WITHOUT": "WITHOUT",
    "WITH": "UNCONDITIONAL",
    "WITH CONDITIONAL": "CONDITIONAL",
    "WITH UNCONDITIONAL": "UNCONDITIONAL",
}
"""The words before WRAPPER, and the name of what they ask for."""


class JsonWords:
    """The arguments of one call with words, read from a parser that has passed its opening parenthesis."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def words(self, *words: str) -> bool:
        """Tell whether these words come next, and pass them."""
        return bool(self._parser._match_text_seq(*words))

    def expression(self) -> Any:
        """The next argument."""
        node = self._parser._parse_assignment()
        if node is None:
            self.refuse("Expected an argument")
        return node

    def path(self) -> list[Any]:
        """A document, and the path after a comma."""
        document = self.expression()
        if not self._parser._match(TokenType.COMMA):
            self.refuse("Expected a comma and a path such as '$.a'")
        return [document, self.expression()]

    def more(self) -> list[Any]:
        """Further arguments after a comma: the words of a call that was written anew, as texts."""
        if not self._parser._match(TokenType.COMMA):
            return []
        more: list[Any] = self._parser._parse_csv(self._parser._parse_assignment)
        return more

    def returned_type(self) -> str | None:
        """The type after RETURNING, as DDL; None without one."""
        if not self.words("RETURNING"):
            return None
        kind = self._parser._parse_types()
        if kind is None:
            self.refuse("Expected a type after RETURNING")
        return str(kind.sql("spark"))

    def behaviours(self, *choices: str) -> dict[str, tuple[str, Any]]:
        """The behaviour for EMPTY and that for ERROR: a choice of these words, and the value of DEFAULT."""
        by_event: dict[str, tuple[str, Any]] = {}
        while True:
            word = next((each for each in choices if self.words(*each.split())), None)
            if word is None:
                return by_event
            default = self.expression() if word == "DEFAULT" else None
            event = next((each for each in ("EMPTY", "ERROR") if self.words("ON", each)), None)
            if event is None or event in by_event:
                self.refuse(f"Expected ON EMPTY or ON ERROR, each once, after {word}")
            by_event[str(event)] = word, default

    def wrapper(self) -> str:
        """The words before WRAPPER: WITHOUT, the default, CONDITIONAL or UNCONDITIONAL."""
        # The longest forms first, for WITH begins three of them.
        for form, name in sorted(WRAPPERS.items(), reverse=True):
            if self.words(*form.split()):
                self.words("ARRAY")
                if not self.words("WRAPPER"):
                    self.refuse(f"Expected WRAPPER after {form}")
                return name
        return "WITHOUT"

    def refuse(self, message: str) -> None:
        """Raise the parser's error at the token that comes next."""
        self._parser.raise_error(message)

    def null_words(self) -> str | None:
        """NULL or ABSENT, as before ON NULL; None without them."""
        return next((each for each in ("NULL", "ABSENT") if self.words(each, "ON", "NULL")), None)

    def pairs(self) -> list[Any]:
        """Names and values of JSON_OBJECT: [KEY] name VALUE value, or name: value."""
        parts: list[Any] = []
        while self._parser._curr and self._parser._curr.token_type != TokenType.R_PAREN:
            if self._at_null_words():
                return parts
            self.words("KEY")
            parts.append(self._name())
            if not (
                self.words("VALUE") or self._parser._match_set((TokenType.COLON, TokenType.COMMA))
            ):
                self.refuse("Expected VALUE after a name")
            parts.append(self.expression())
            if not self._parser._match(TokenType.COMMA):
                return parts
        return parts

    def _name(self) -> Any:
        """A name, after which a colon may precede its value."""
        self._parser.COLON_IS_VARIANT_EXTRACT = False
        try:
            return self._parser._parse_bitwise()
        finally:
            self._parser.COLON_IS_VARIANT_EXTRACT = True

    def items(self) -> list[Any]:
        """The values of JSON_ARRAY."""
        parts: list[Any] = []
        while self._parser._curr and self._parser._curr.token_type != TokenType.R_PAREN:
            if self._at_null_words():
                return parts
            parts.append(self.expression())
            if not self._parser._match(TokenType.COMMA):
                return parts
        return parts

    def _at_null_words(self) -> bool:
        words = [token.text.upper() for token in self._parser._tokens[self._parser._index :][:3]]
        return words in (["NULL", "ON", "NULL"], ["ABSENT", "ON", "NULL"])


def _text(word: str) -> exp.Expression:
    return exp.Literal.string(word)


def _call(name: str, *arguments: Any) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _read_exists(words: JsonWords) -> exp.Expression:
    arguments = words.path()
    texts = words.more()
    # A call that was written anew has its words as texts, and no others.
    if not texts:
        behaviours = words.behaviours("TRUE", "FALSE", "UNKNOWN", "ERROR")
        texts = [_text(word) for event, (word, _) in behaviours.items() if event == "ERROR"]
        if len(texts) < len(behaviours):
            words.refuse("JSON_EXISTS takes ON ERROR alone")
    return _call("JSON_EXISTS", *arguments, *texts)


def _read_value(words: JsonWords) -> exp.Expression:
    arguments = words.path()
    written, kind = words.more(), words.returned_type()
    behaviours = words.behaviours("NULL", "ERROR", "DEFAULT")
    # Without words the call stays as short as it was written.
    if written or (kind is None and not behaviours):
        return _call("JSON_VALUE", *arguments, *written)
    texts = [kind or "STRING"]
    texts += [behaviours.get(event, ("NULL", None))[0] for event in ("EMPTY", "ERROR")]
    # In the order of the events, whichever of the two was written first.
    defaults = [behaviours[event][1] for event in ("EMPTY", "ERROR") if event in behaviours]
    return _call(
        "JSON_VALUE",
        *arguments,
        *map(_text, texts),
        *(node for node in defaults if node is not None),
    )


def _read_query(words: JsonWords) -> exp.Expression:
    arguments = words.path()
    written, kind, wrapper = words.more(), words.returned_type(), words.wrapper()
    behaviours = words.behaviours("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT")
    if written or (kind is None and wrapper == "WITHOUT" and not behaviours):
        return _call("JSON_QUERY", *arguments, *written)
    texts = [kind or "STRING", wrapper]
    texts += [behaviours.get(event, ("NULL", None))[0] for event in ("EMPTY", "ERROR")]
    return _call("JSON_QUERY", *arguments, *map(_text, texts))


def _read_object(words: JsonWords) -> exp.Expression:
    pairs = words.pairs()
    absent = words.null_words() == "ABSENT"
    return _call("JSON_OBJECT_ABSENT" if absent else "JSON_OBJECT", *pairs)


def _read_array(words: JsonWords) -> exp.Expression:
    items = words.items()
    keeps = words.null_words() == "NULL"
    return _call("JSON_ARRAY_NULL" if keeps else "JSON_ARRAY", *items)


_READERS: Final[dict[str, Callable[[JsonWords], exp.Expression]]] = {
    "JSON_ARRAY": _read_array,
    "JSON_EXISTS": _read_exists,
    "JSON_OBJECT": _read_object,
    "JSON_QUERY": _read_query,
    "JSON_VALUE": _read_value,
}


def _parser_of(name: str) -> Callable[[Any], Any]:
    def parse(parser: Any) -> Any:
        # The name stands two tokens before: it and the parenthesis are read already. Errors are underlined there.
        token = parser._tokens[parser._index - 2]
        return _READERS[name](JsonWords(parser)).update_positions(token)

    return parse


PARSERS: Final = {name: _parser_of(name) for name in _READERS}
"""The parsers of calls with words, by the function's name."""


def read_predicate(node: Any) -> Any:
    """s IS [NOT] JSON [SCALAR ..] as a call of IS_JSON; any other node as it is."""
    if isinstance(node, exp.Not):
        inner = read_predicate(node.this)
        return node if inner is node.this else exp.Not(this=inner)
    if not isinstance(node, exp.Is) or not isinstance(node.expression, exp.JSON):
        return node
    words = node.expression
    # Left as it is, to be refused with the words to take out (function_names.py).
    if words.args.get("unique") or words.args.get("with_"):
        return node
    return _call("IS_JSON", node.this, _text(str(words.this or "VALUE")))
