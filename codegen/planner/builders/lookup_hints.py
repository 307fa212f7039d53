"""The LOOKUP hint, with Flink's names: how a table is asked in one query."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from aggloom.codegen.spec.durations import milliseconds
from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.errors import OptionError, nearest

LOOKUP = "LOOKUP"
_KNOWN = (
    *("table", "async", "output-mode", "capacity", "timeout"),
    *("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts", "shuffle"),
)
_RETRY = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")


def lookup_hints(tree: exp.Select) -> dict[str, dict[str, Any]]:
    """The settings of asking that the LOOKUP hints of a block say, by table (folded); raises OptionError."""
    hint = tree.args.get("hint")
    hints: dict[str, dict[str, Any]] = {}
    for each in hint.expressions if hint is not None else ():
        if isinstance(each, exp.Anonymous) and each.name.upper() == LOOKUP:
            table, settings = _read_hint(each)
            # Of several hints for one table the first counts.
            hints.setdefault(table.casefold(), settings)
    return hints


def refuse_unheeded(tree: exp.Select, names: set[str]) -> None:
    """Raise for a LOOKUP hint of a table that no lookup join of the block asks. names: of those that are asked."""
    for table in lookup_hints(tree):
        if table not in {name.casefold() for name in names}:
            what = f"LOOKUP of {table!r}, which no lookup join of this query asks, is"
            fix = f"take it out. {nearest(table, sorted(names))}".rstrip(".")
            raise refusal(span(tree.args["hint"]), what, fix)


def _read_hint(hint: exp.Expression) -> tuple[str, dict[str, Any]]:
    place = span(hint)

    def wrong(message: str) -> OptionError:
        return place_error(OptionError(f"{LOOKUP}: {message}"), place)

    options: dict[str, str] = {}
    for pair in hint.expressions:
        sides = (pair.this, pair.expression) if isinstance(pair, exp.EQ) else ()
        # A literal, a column and an identifier all have a name; anything computed has none.
        if len(sides) != 2 or not all(side.name for side in sides):
            raise wrong("it needs names and values: LOOKUP('table' = 'dim', 'async' = 'true').")
        name, value = (str(side.name) for side in sides)
        if name not in _KNOWN:
            raise wrong(f"there is no {name!r}. {nearest(name, _KNOWN)}")
        options[name] = value
    if "table" not in options:
        raise wrong("say which table: 'table' = 'dim'.")
    choices = {"async": ("true", "false"), "shuffle": ("true", "false")} | {
        "output-mode": ("ordered", "allow_unordered"),
        "retry-predicate": ("lookup_miss",),
        "retry-strategy": ("fixed_delay",),
    }
    for name, allowed in choices.items():
        if options.get(name, allowed[0]).lower() not in allowed:
            raise wrong(f"{name} is {options[name]!r}. {nearest(options[name], allowed)}")
    if options.get("shuffle", "false").lower() == "true":
        raise wrong("'shuffle' is not supported: rows ask where they are read; take it out.")
    # As in Flink the four options of a retry come together.
    retries = [name for name in _RETRY if name in options]
    if retries and len(retries) < len(_RETRY):
        missing = " and ".join(repr(name) for name in _RETRY if name not in options)
        raise wrong(f"a retry needs {missing} as well.")
    settings: dict[str, Any] = {}
    # Synchronous asking is asking one row at a time: one rule of capacity serves both.
    if options.get("async", "").lower() == "false":
        settings["capacity"] = 1
    # Flink's default of table.exec.async-lookup.buffer-capacity.
    elif "async" in options:
        settings["capacity"] = 100
    for name, key in (("capacity", "capacity"), ("max-attempts", "misses")):
        if name in options:
            if not options[name].isdigit() or int(options[name]) < 1:
                raise wrong(f"{name} is {options[name]!r}; it is a number of at least 1.")
            settings[key] = int(options[name])
    for name, key in (("timeout", "timeout"), ("fixed-delay", "miss_delay")):
        if name in options:
            try:
                settings[key] = milliseconds(name, options[name])
            except OptionError as error:
                raise wrong(str(error)) from None
    return options["table"], settings
