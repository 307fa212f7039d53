"""Constructs that the parser cannot read: each is refused by its name instead of by the next expected token.

They are found among the tokens, before the text is parsed. A word in quotes is a name and none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot.tokens import Token, TokenType

from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.recursion import BOUNDED, BOUNDED_VIEW

_MODELS: Final = "call the model in a function of your own (docs/user-functions.md)"
_CHANGES: Final = "take it out: a result is a changelog as it is"
_PHRASES: Final[dict[tuple[str, ...], str]] = {
    ("EMIT", "ON", "WINDOW", "CLOSE"): (
        "take it out: windows over a table with a WATERMARK give their results when they end"
    ),
    ("EMIT", "WITH"): "SET 'table.exec.emit.early-fire.enabled' and its kin",
    ("EMIT", "CHANGES"): _CHANGES,
    ("EMIT", "FINAL"): "take it out: windows give their results when they end",
    **{
        (name, "("): _MODELS
        for name in ("ML_PREDICT", "ML_EVALUATE", "ML_FORECAST", "ML_DETECT_ANOMALIES", "AI_QUERY")
    },
    ("VECTOR_SEARCH", "("): "join the table, and rank by the distance with ROW_NUMBER()",
    ("CREATE", "MODEL"): _MODELS,
    ("WITH", "MUTUALLY", "RECURSIVE"): BOUNDED,
    ("AT", "RECURSION", "LIMIT"): BOUNDED,
    ("OPTION", "(", "MAXRECURSION"): BOUNDED,
    ("CREATE", "RECURSIVE", "VIEW"): BOUNDED_VIEW,
    ("DECLARE", "RECURSIVE", "VIEW"): BOUNDED_VIEW,
}
"""The words of a construct one after the other, and the way to do without it."""
_NAMES: Final = (TokenType.STRING, TokenType.IDENTIFIER)
_VALUES: Final = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET)
"""Kinds of tokens that may end a value, behind which a colon asks for a part of it."""
_TYPES: Final = ("STRUCT", "ROW", "MAP", "ARRAY")
_PAIRS: Final = ("JSON_OBJECT", "JSON_OBJECTAGG")
"""Functions whose arguments are pairs, perhaps with a colon between key and value."""
_CLOSES: Final = {"<": TokenType.GT, "[": TokenType.R_BRACKET}
"""The signs that close brackets; a parenthesis closes all others, which are known by the word before them."""
_PATH: Final = "write GET_JSON_OBJECT(v, '$.a') for a text of JSON, and v.a for a STRUCT"


def check_words(tokens: Sequence[Token]) -> None:
    """Raise UnsupportedSqlError for a construct that no rule reads. tokens: those of the whole text."""
    words = ["" if each.token_type in _NAMES else each.text.upper() for each in tokens]
    for at, token in enumerate(tokens):
        for phrase, fix in _PHRASES.items():
            if tuple(words[at : at + len(phrase)]) == phrase:
                last = tokens[at + len(phrase) - 1]
                name = " ".join(word for word in phrase if word != "(")
                raise refusal((token.start, last.end + 1), f"{name} is", fix)
    for at in _find_paths(tokens, words):
        begin, end = tokens[at - 1], tokens[at + 1]
        path = f"{begin.text}:{end.text}" if begin.text not in ")]" else f":{end.text}"
        raise refusal((begin.start, end.end + 1), f"a path behind a colon ({path}) is", _PATH)


def _find_paths(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[int]:
    """Yield the place of each colon that asks for a part of a value, as in `v:a`."""
    open_brackets = [""]
    for at, token in enumerate(tokens):
        before = words[at - 1] if at else ""
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            open_brackets.append(before)
        # STRUCT<a: INT> and MAP[k: v] have colons of their own.
        elif kind == TokenType.L_BRACKET or (kind == TokenType.LT and before in _TYPES):
            open_brackets.append(token.text)
        elif kind == _CLOSES.get(open_brackets[-1], TokenType.R_PAREN) and len(open_brackets) > 1:
            open_brackets.pop()
        elif (
            kind == TokenType.COLON
            and 0 < at < len(tokens) - 1
            and open_brackets[-1] not in ("<", "[", *_PAIRS)
            and tokens[at - 1].token_type in _VALUES
        ):
            yield at
