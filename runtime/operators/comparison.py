"""The descriptions of an old and a new query compared: the changes, and whether state outlives them.

Descriptions are the JSON that lies in a checkpoint beside the state. They are compared as data: nothing that an old
one says is made, or run, before it is known to be part of the new query as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aggloom.errors import StateMismatchError

Description = Mapping[str, Any]
_SHOWN_LINES = 8
_SHOWN_CHARACTERS = 160
_OWN_WAY = "Run the query that this checkpoint belongs to, or give this one a checkpoint directory of its own."
LINE = "\n  - "
"""The text that each line of a comparison begins with, below the first line of the message."""


@dataclass(frozen=True)
class CallChanges:
    """Calls as text: those that stay, that went, and that are new; reused: new calls under the name of an old one."""

    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    reused: tuple[str, ...]

    @property
    def line(self) -> str:
        """The changes of the calls, in words."""
        parts = (("kept", self.unchanged), ("removed", self.removed), ("added", self.added))
        return "; ".join(f"{word} {', '.join(calls)}" for word, calls in parts if calls)


def check_fragments(old: Description, new: Description, where: str) -> None:
    """Raise StateMismatchError unless two fragments have as many operators, whose rows lie by the same columns.

    `compare` says what differs in an operator.
    """
    was, now = (_describe_operators(each) for each in (old, new))
    # A single operator is compared in detail by `compare`, which says what differs in it.
    if was == now or len(was) == len(now) == 1:
        return
    lines = (
        f"{LINE}{word}: {'; '.join(parts)}" for word, parts in (("written by", was), ("now", now))
    )
    raise StateMismatchError(
        f"{where}: the operators of its stateful node are others, or lie by other columns. {_OWN_WAY} "
        f"fragments_enabled says whether operators share a node.{''.join(lines)}"
    )


def _describe_operators(description: Description) -> list[str]:
    """The operators of a fragment, and how they are fed, in a line each."""
    lines = []
    for part in description["parts"]:
        feeds = [
            [("operator" if inner else "input", source) for source, inner, _ in each]
            for each in part["feeds"]
        ]
        sources = ", ".join(f"{what} {number}" for each in feeds for what, number in each)
        lines.append(f"{part['operator']} by ({', '.join(part['spread'])}) from {sources}")
    return lines


def compare(old: Description, new: Description, where: str) -> CallChanges:
    """The calls that differ; raises StateMismatchError with a comparison if anything else does.

    Settings may differ: state has the same meaning under any.
    """
    calls = _calls(old["spec"], new["spec"])
    differences = list(_differences(old, new))
    if not differences:
        return calls
    names = list(dict.fromkeys(name for name, _, _ in differences))
    listed = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]
    lines = [
        f"{name}: {_format_value(was)} -> {_format_value(now)}" for name, was, now in differences
    ]
    if calls.removed or calls.added:
        lines.append(f"calls: {_shorten(calls.line)}")
    raise StateMismatchError(
        f"{where}: the query differs from the one that wrote it in {listed}; only its calls may change. {_OWN_WAY}"
        + "".join(LINE + line for line in lines[:_SHOWN_LINES])
    )


def _differences(old: Description, new: Description) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences besides calls and settings: (what, before, now)."""
    was, now = old["spec"], new["spec"]
    for key, name in (
        ("group_by", "GROUP BY"),
        ("dialect", "the dialect"),
        ("input_changes", "input_changes"),
    ):
        if was.get(key) != now.get(key):
            yield name, was.get(key), now.get(key)
    if old["backend"] != new["backend"]:
        yield "the backend", old["backend"], new["backend"]
    if old["windows"] != new["windows"]:
        yield "the windows", old["windows"], new["windows"]
    yield from _columns("column", dict(was["schema"]), dict(now["schema"]))
    functions = {each["name"]: each for each in now.get("functions", ())}
    for each in was.get("functions", ()):
        if functions.get(each["name"]) != each:
            there = "another definition" if each["name"] in functions else None
            yield f"the function {each['name']}", "its definition", there
    yield from _differences_below(*_align_steps(old, new))


def _align_steps(old: Description, new: Description) -> tuple[list[Any], list[Any]]:
    """Return the steps below each; where only one of them computes columns, the other picks its own as they are."""
    below = list(old["below"]), list(new["below"])
    for short, long, description in ((*below, old), (*below[::-1], new)):
        last = long[-1] if long else None
        if len(long) == len(short) + 1 and isinstance(last, Mapping):
            picked = {
                name: [f"`{name.replace('`', '``')}`"] for name, _ in description["spec"]["schema"]
            }
            short.append({"where": None, "columns": picked})
            break
    return below


def _differences_below(old: list[Any], new: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences between tables and operator; a column that only one of the two reads does not count."""
    if [isinstance(each, Mapping) for each in old] != [isinstance(each, Mapping) for each in new]:
        yield "the steps below", _steps(old), _steps(new)
        return
    for was, now in zip(old, new, strict=True):
        if isinstance(was, Mapping):
            if was["where"] != now["where"]:
                yield "WHERE", was["where"], now["where"]
            yield from _columns("column", was["columns"], now["columns"])
        elif was != now:
            yield _step(was), _step_text(was), _step_text(now)


def _columns(
    what: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    for name in old:
        if name not in new:
            continue
        was, now = ([each] if isinstance(each, str) else each for each in (old[name], new[name]))
        # A column may have its text alone on one side: what both say is compared.
        # A column that is picked as it is has the type that the spec says.
        if any(a != b for a, b in zip(was, now, strict=False)):
            yield f"{what} {name}", " ".join(was), " ".join(now)


def _steps(below: list[Any]) -> str:
    return ", ".join("calc" if isinstance(each, Mapping) else each.split(" ")[0] for each in below)


def _step(line: str) -> str:
    """Return the words for what a line below stands for."""
    words = {"scan": "the table", "aggregate": "the aggregate below", "window": "the windows below"}
    return words.get(line.split(" ")[0], "the steps below")


def _step_text(line: str) -> str:
    """A line below as a reader would write it."""
    word, _, rest = line.partition(" ")
    if word != "aggregate":
        return rest
    spec = json.loads(rest)
    calls = ", ".join(map(call_text, spec["calls"]))
    return f"{calls} GROUP BY {', '.join(spec.get('group_by', [])) or '()'}"


def may_retract(description: Description) -> bool:
    """Tell whether rows that were there before may be retracted from the state."""
    lines = [each for each in description["below"] if isinstance(each, str)]
    sources = [each for each in lines if each.startswith(("scan ", "aggregate ", "window "))]
    inserted = all(each.startswith("scan ") and each.endswith(" append") for each in sources)
    return description["spec"].get("input_changes") == "retract" and not inserted


def _calls(old: Description, new: Description) -> CallChanges:
    was, now = [(_form(call), call) for call in old["calls"]], [
        (_form(call), call) for call in new["calls"]
    ]
    before, after = {form for form, _ in was}, {form for form, _ in now}
    # A name that went with another call belongs to a new one, whose state begins anew.
    names = {call.get("alias") for form, call in was if form not in after} - {None}
    return CallChanges(
        tuple(call_text(call) for form, call in now if form in before),
        tuple(call_text(call) for form, call in was if form not in after),
        tuple(call_text(call) for form, call in now if form not in before),
        tuple(
            call_text(call)
            for form, call in now
            if form not in before and call.get("alias") in names
        ),
    )


def _form(call: Mapping[str, Any]) -> str:
    """A call without the name of its result, as text."""
    return repr(sorted((key, value) for key, value in call.items() if key != "alias"))


def call_text(call: Mapping[str, Any]) -> str:
    """A call of a description as a reader would write it."""
    inner = "DISTINCT " * bool(call.get("distinct")) + ", ".join(call["args"] or ["*"])
    if call.get("order_by"):
        inner += f" ORDER BY {', '.join(call['order_by'])}"
    inner += "".join(f", {name} => {value!r}" for name, value in call.get("options", {}).items())
    text = f"{call['function']}({inner})"
    text += f" {call['nulls'].upper()} NULLS" if call.get("nulls") else ""
    text += f" FILTER (WHERE {call['filter']})" if call.get("filter") else ""
    return text + (f" AS {call['alias']}" if call.get("alias") else "")


def _format_value(value: Any) -> str:
    """A value of a description on one line."""
    if value is None:
        return "none"
    if isinstance(value, list):
        value = ", ".join(map(str, value)) or "()"
    return _shorten(str(value))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 3]}..."
