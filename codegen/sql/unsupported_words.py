"""Constructs that the parser cannot read: each is refused by its name instead of by the next expected token.

They are found among the tokens, before the text is parsed. A word in quotes is a name and none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    ("EMIT", "WITH"): "SET 'table.exec.emit.early-fire.enabled' and the other emit options",
    ("EMIT", "CHANGES"): _CHANGES,
    ("EMIT", "ON", "UPDATE"): _CHANGES,
    ("EMIT", "AFTER"): "take it out: windows give their results when they end",
    ("EMIT", "FINAL"): "take it out: windows give their results when they end",
    **{
        (name, "("): _MODELS
        for name in ("ML_PREDICT", "ML_EVALUATE", "ML_FORECAST", "ML_DETECT_ANOMALIES", "AI_QUERY")
    },
    ("VECTOR_SEARCH", "("): "join the table, and rank by the distance with ROW_NUMBER()",
    ("CREATE", "MODEL"): _MODELS,
    ("IDENTIFIER", "("): "write the name itself",
    ("JSON_TABLE", "("): "read its values with JSON_VALUE(v, '$.a')",
    ("COLUMNS", "("): "name the columns, or write * EXCEPT (a, b)",
    ("MULTISET", "["): "write ARRAY[..], or COLLECT(x) of a column",
    ("AS", "RAW", "("): "write a type of SQL, as STRING or BYTES",
    ("ROWS", "FROM", "("): "write the table function itself in FROM",
    ("LATERAL", "JOIN"): "write JOIN LATERAL (..), or JOIN .. ON",
    ("MZ_NOW", "("): "write NOW()",
    ("(", "+", ")"): "write LEFT JOIN or RIGHT JOIN",
    (")", "USING", ""): "write a function of your own (docs/user-functions.md)",
    ("@", ">"): "compare the parts that are meant",
    ("<", "@"): "compare the parts that are meant",
    ("WITH", "MUTUALLY", "RECURSIVE"): BOUNDED,
    ("AT", "RECURSION", "LIMIT"): BOUNDED,
    ("OPTION", "(", "MAXRECURSION"): BOUNDED,
    ("CREATE", "RECURSIVE", "VIEW"): BOUNDED_VIEW,
    ("DECLARE", "RECURSIVE", "VIEW"): BOUNDED_VIEW,
}
"""The words of a construct one after the other, and the way to do without it."""
_CALLED: Final = {
    ("(", "+", ")"): "(+)",
    ("@", ">"): "@>",
    ("<", "@"): "<@",
    (")", "USING", ""): "TRANSFORM with USING",
}
"""Names of phrases that are not their words."""
_INFIX: Final = {
    "MOD": ("MOD between two values", "write a % b or MOD(a, b)"),
    "~": ("~ between two texts", "write a RLIKE b"),
}
"""Words that stand between two values in other systems, what they are called, and the way to do without."""
_NAMES: Final = (TokenType.STRING, TokenType.IDENTIFIER)
_VALUES: Final = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET)
"""Kinds of tokens that may end a value."""


def check_words(tokens: Sequence[Token]) -> None:
    """Raise UnsupportedSqlError for a construct that no rule reads. tokens: those of the whole text."""
    words = ["" if each.token_type in _NAMES else each.text.upper() for each in tokens]
    for at, token in enumerate(tokens):
        for phrase, fix in _PHRASES.items():
            if tuple(words[at : at + len(phrase)]) == phrase:
                last = tokens[at + len(phrase) - 1]
                own_name = " ".join(word for word in phrase if word not in "([")
                name = _CALLED.get(phrase, own_name)
                raise refusal((token.start, last.end + 1), f"{name} is", fix)
        if words[at] in _INFIX and _stands_between_values(tokens, at):
            what, fix = _INFIX[words[at]]
            raise refusal((token.start, token.end + 1), f"{what} is", fix)
        _check_pair(tokens, words, at)


def _check_pair(tokens: Sequence[Token], words: Sequence[str], at: int) -> None:
    """Raise UnsupportedSqlError for two words that are refused in some places alone."""
    if not 0 < at < len(tokens) - 2:
        return
    first, second, behind = tokens[at : at + 3]
    place, pair, before = (first.start, second.end + 1), words[at : at + 2], words[at - 1]
    asks_for_time = behind.token_type == TokenType.NUMBER or words[at + 3 : at + 4] == ["("]
    # SYSTEM_TIME, TIMESTAMP and VERSION are refused, or read, with what they ask for.
    if pair == ["AS", "OF"] and asks_for_time and not before.endswith(("TIME", "STAMP", "VERSION")):
        raise refusal(place, "AS OF behind a table is", "take it out: results follow the changes")
    if words[at] == "E" and second.token_type == TokenType.STRING and second.start == first.end + 1:
        raise refusal(place, "a text E'..' is", "write '..'")
    if pair == ["NOT", "NULL"] and before != "IS" and _closes_cast(words, at + 2):
        fix = "write the type alone: a CAST keeps NULL"
        raise refusal(place, "NOT NULL in a CAST is", fix)


def _closes_cast(words: Sequence[str], at: int) -> bool:
    """Tell whether a word is the parenthesis that closes a CAST."""
    depth, opens = 0, at
    while words[at] == ")" and opens > 0:
        depth += (words[opens] == ")") - (words[opens] == "(")
        if not depth:
            break
        opens -= 1
    return words[at] == ")" and words[opens - 1] in ("CAST", "TRY_CAST")


def _stands_between_values(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether a value ends before a token, and one begins behind it."""
    literals = (TokenType.NUMBER, TokenType.STRING)
    if not 0 < at < len(tokens) - 1:
        return False
    before, behind = tokens[at - 1].token_type, tokens[at + 1].token_type
    return before in (*_VALUES, *literals) and behind in (
        *literals,
        TokenType.VAR,
        TokenType.IDENTIFIER,
    )
