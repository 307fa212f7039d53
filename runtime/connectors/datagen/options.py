"""The options of generated rows: how many, how fast, and the rule for the values of each column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aggloom.codegen import milliseconds
from aggloom.errors import AggloomError, SpecError, nearest

KINDS: Final = ("random", "sequence")
RULES: Final = (
    *("kind", "min", "max", "max-past", "length", "var-len"),
    *("start", "end", "null-rate"),
)
"""The options of a column, by Flink's words."""


@dataclass(frozen=True, kw_only=True)
class DatagenSource:
    """Options of a table whose rows are made.

    rows_per_second: at most so many are made in a second. number_of_rows: None: without end, unless a sequence ends.
    seed: the same seed gives the same rows. rules: by column, or by its path (`r.a`, `a.element`, `m.key`), the options
    of RULES as texts.

    Example: a word that is none.
        >>> DatagenSource(rules={"id": {"kind": "squence"}}).check("table t")
        Traceback (most recent call last):
        ...
        aggloom.errors.SpecError: table t: 'fields.id.kind' is 'squence'. Did you mean 'sequence'?
    """

    rows_per_second: int = 10_000
    number_of_rows: int | None = None
    seed: int = 0
    rules: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def check(self, where: str) -> None:
        """Raise SpecError for what cannot be; where: begins the message."""
        if self.rows_per_second < 1:
            raise SpecError(f"{where}: 'rows-per-second' is {self.rows_per_second}; 1 at least")
        for path, rule in self.rules.items():
            for name, value in rule.items():
                if name not in RULES:
                    hint = nearest(name, RULES)
                    raise SpecError(f"{where}: there is no option 'fields.{path}.{name}'. {hint}")
                if name == "kind" and value not in KINDS:
                    raise SpecError(
                        f"{where}: 'fields.{path}.kind' is {value!r}. {nearest(value, KINDS)}"
                    )


@dataclass(frozen=True)
class ColumnRule:
    """The rule of a column, read: its options in their types, None where they are not given."""

    path: str
    where: str
    options: Mapping[str, str]

    @property
    def is_sequence(self) -> bool:
        """True if the column counts."""
        return self.options.get("kind") == "sequence"

    def number(self, name: str, otherwise: Any, kind: type = int) -> Any:
        """The value of an option as a number; raises SpecError."""
        text = self.options.get(name)
        if text is None:
            return otherwise
        try:
            return kind(text)
        except (ValueError, ArithmeticError):
            raise self.wrong(name, "it must be a number") from None

    def length(self, otherwise: int) -> int:
        """The length of texts and lists; raises SpecError."""
        length = int(self.number("length", otherwise))
        if length < 1:
            raise self.wrong("length", "it must be 1 at least")
        return length

    @property
    def has_any_length(self) -> bool:
        """True if texts are of any length up to the one that is said; raises SpecError."""
        text = self.options.get("var-len", "false").lower()
        if text not in ("true", "false"):
            raise self.wrong("var-len", "it must be true or false")
        return text == "true"

    @property
    def past(self) -> int:
        """The milliseconds by which a time may lie before now; raises SpecError."""
        text = self.options.get("max-past", "0 s")
        try:
            return milliseconds(f"fields.{self.path}.max-past", text)
        except AggloomError as error:
            raise SpecError(f"{self.where}: {error}") from None

    def wrong(self, name: str, fix: str) -> SpecError:
        """The error of an option."""
        return SpecError(
            f"{self.where}: 'fields.{self.path}.{name}' is {self.options.get(name)!r}; {fix}"
        )
