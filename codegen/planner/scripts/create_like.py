"""CREATE TABLE .. LIKE: the parts of a declaration, and which of them another table takes over, by Flink's rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlglot.tokens import TokenType

from aggloom.codegen.planner.scripts.statement_tokens import StatementTokens
from aggloom.codegen.sql.errors import Span, refusal
from aggloom.errors import OptionError

_ALL: Final = ("CONSTRAINTS", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_USUAL: Final = {**dict.fromkeys(_ALL, "INCLUDING"), "OPTIONS": "OVERWRITING"}
"""Rules where LIKE says none."""
_STRATEGIES: Final = ("INCLUDING", "EXCLUDING", "OVERWRITING")


class Part(NamedTuple):
    """A part of a declaration: a column, a key, a watermark; its tokens are those from `first` to `end`."""

    pieces: StatementTokens
    first: int
    end: int

    @property
    def name(self) -> str:
        """The name of the column that it declares."""
        return str(self.pieces.tokens[self.first].text)

    @property
    def text(self) -> str:
        """The text of the part."""
        return self.pieces.text(self.first, self.end)

    @property
    def place(self) -> Span:
        """The place of the part."""
        return self.pieces.span(self.first, self.end)

    @property
    def kind(self) -> str:
        """The word by which LIKE calls such parts; COLUMNS are always taken over."""
        words = self.pieces.words(self.first, self.end - self.first)
        if words[:2] == ["WATERMARK", "FOR"]:
            return "WATERMARKS"
        # The tokenizer makes one token of PRIMARY KEY.
        if words[0].split()[:1] in (["PRIMARY"], ["CONSTRAINT"]):
            return "CONSTRAINTS"
        if words[1:2] == ["AS"]:
            return "GENERATED"
        return "METADATA" if "METADATA" in words[2:] else "COLUMNS"


def like_rules(pieces: StatementTokens, at: int) -> tuple[dict[str, str], int]:
    """Read the rules in parentheses behind LIKE and a name, if there are some, and the place behind them."""
    if at >= len(pieces) or pieces.tokens[at].token_type != TokenType.L_PAREN:
        return dict(_USUAL), at
    end = pieces.find_closing(at)
    rules = dict(_USUAL)
    features = set[str]()
    for place in range(at + 1, end, 2):
        strategy, feature = [*pieces.words(place, 2), ""][:2]
        overwrites = strategy == "OVERWRITING" and feature in ("ALL", "CONSTRAINTS", "PARTITIONS")
        known = strategy in _STRATEGIES and feature in ("ALL", *_ALL)
        if not known or overwrites or place + 1 >= end:
            what = f"{pieces.text(place, min(place + 2, end))} behind LIKE is"
            fix = f"write {' or '.join(_STRATEGIES)} and one of ALL, {', '.join(_ALL)}"
            raise refusal(pieces.span(place, min(place + 2, end)), what, fix)
        # What is said of one kind goes before what is said of all.
        for each in _ALL if feature == "ALL" else (feature,):
            if feature != "ALL" or each not in features:
                rules[each] = strategy
        features |= {feature}
    return rules, end + 1


def copy_parts(source: Sequence[Part], own: Sequence[Part], rules: Mapping[str, str]) -> list[Part]:
    """The parts that a table takes over, and behind them its own."""
    names = {part.name for part in own if part.kind in ("GENERATED", "METADATA")}
    kinds = {part.kind for part in own}
    parts = []
    for part in source:
        rule = rules.get(part.kind, "INCLUDING")
        # Columns replace those of their name, a key or a watermark the only one there is.
        replaced = (
            part.name in names if part.kind in ("GENERATED", "METADATA") else part.kind in kinds
        )
        if rule == "EXCLUDING" or (rule == "OVERWRITING" and replaced):
            continue
        parts.append(part)
    return [*parts, *own]


def merge_options(source: Mapping[str, str], own: Mapping[str, str], rule: str) -> dict[str, str]:
    """The options of both tables; raises OptionError for one that both have, unless it may be overwritten."""
    if rule == "EXCLUDING":
        return dict(own)
    # INCLUDING takes over what the new table lacks, and lets nothing be said twice.
    for name in own.keys() & source.keys() if rule == "INCLUDING" else ():
        raise OptionError(
            f"option {name!r} is one of the table that it is LIKE, too; write OVERWRITING OPTIONS"
        )
    return {**source, **own}
