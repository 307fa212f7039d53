"""TO_CHANGELOG and FROM_CHANGELOG in FROM: their arguments, and the mapping between codes and kinds of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from aggloom.codegen.sql.errors import place_error, refusal, span
from aggloom.codegen.sql.scope import bare
from aggloom.codegen.sql.window_parser import Descriptor, TableArgument, WindowCall
from aggloom.errors import SqlError, nearest

KIND_NAMES: Final = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")
_OP: Final = "op"
_ARGUMENTS: Final = {
    "TO_CHANGELOG": ("INPUT", "OP", "OP_MAPPING", "PRODUCES_FULL_DELETES"),
    "FROM_CHANGELOG": ("INPUT", "OP", "OP_MAPPING", "ERROR_HANDLING"),
}
_ERROR_HANDLING: Final = ("FAIL", "SKIP")


@dataclass(frozen=True)
class ChangelogArguments:
    """The arguments of a call. op: the column of codes. codes: the code and the name of a kind, for each pair.

    skips: rows with other codes are left out.
    """

    call: WindowCall
    table: TableArgument
    op: str
    op_place: exp.Expression
    codes: tuple[tuple[str, str], ...]
    skips: bool = False

    @property
    def partition(self) -> list[exp.Expression]:
        """The columns of PARTITION BY."""
        return self.table.args.get("partition") or []

    def error(self, what: str, where: exp.Expression | None = None) -> SqlError:
        """The error that the call is wrong. what: follows its name. where: the piece at fault, else the call."""
        return _error(self.call, what, where or self.call)


def changelog_arguments(call: WindowCall) -> ChangelogArguments:
    """Return the arguments of TO_CHANGELOG or FROM_CHANGELOG, checked; raises SqlError."""
    arguments = _read_arguments(call)
    table = arguments.get("INPUT")
    if not isinstance(table, TableArgument):
        what = "needs a table; write input => TABLE and its name"
        raise _error(call, what, table or call)
    op = arguments.get("OP")
    if op is not None and (not isinstance(op, Descriptor) or len(op.expressions) != 1):
        raise _error(call, "needs one column as op; write op => DESCRIPTOR(op)", op)
    name = _OP if op is None else op.expressions[0].name
    pairs = _read_pairs(call, arguments.get("OP_MAPPING"))
    place = arguments.get("OP_MAPPING", call)
    codes = (_codes_to if call.name == "TO_CHANGELOG" else _codes_from)(call, pairs, place)
    _check_full_deletes(call, arguments.get("PRODUCES_FULL_DELETES"))
    skips = _skips(call, arguments.get("ERROR_HANDLING"))
    return ChangelogArguments(call, table, name, op or call, codes, skips)


def _read_arguments(call: WindowCall) -> dict[str, exp.Expression]:
    """The arguments by their names, each at most once."""
    names = _ARGUMENTS[call.name]
    arguments: dict[str, exp.Expression] = {}
    for place, item in enumerate(call.expressions):
        if isinstance(item, exp.Kwarg):
            name, value = str(item.this.name).upper(), item.expression
        elif place < len(names):
            name, value = names[place], item
        else:
            raise _error(call, f"takes at most {len(names)} arguments; take the rest out", item)
        if name not in names:
            hint = nearest(name.lower(), [each.lower() for each in names]).rstrip("?.")
            raise _error(call, f"has no argument {name.lower()!r}: {hint}", item)
        if name in arguments:
            raise _error(call, f"has {name.lower()} twice; take one out", item)
        arguments[name] = value
    return arguments


def _read_pairs(call: WindowCall, mapping: exp.Expression | None) -> list[tuple[str, str]]:
    """The texts of a MAP, in pairs; each kind by its own name where there is none."""
    if mapping is None:
        return [(name, name) for name in KIND_NAMES]
    texts = [_text(each) for each in mapping.expressions]
    named = isinstance(mapping, exp.Anonymous) and mapping.name.upper() == "MAP"
    if not named or not texts or len(texts) % 2 or None in texts:
        what = "needs texts in pairs as op_mapping; write MAP['INSERT', 'c', 'DELETE', 'd']"
        if call.name == "FROM_CHANGELOG":
            what = what.replace("'INSERT', 'c', 'DELETE', 'd'", "'c, r', 'INSERT', 'd', 'DELETE'")
        raise _error(call, what, mapping)
    both = [str(text) for text in texts]
    return list(zip(both[::2], both[1::2], strict=True))


def _codes_to(
    call: WindowCall, pairs: list[tuple[str, str]], place: exp.Expression
) -> tuple[tuple[str, str], ...]:
    """The code of each kind that is logged, in the order of kinds."""
    codes: dict[str, str] = {}
    for kinds, code in pairs:
        for kind in _parts(kinds):
            _check_kind(call, kind, place)
            if kind in codes:
                raise _error(call, f"maps {kind} twice; take one out", place)
            codes[kind] = code
    # By kind and not as written: the same mapping in another order is the same node.
    return tuple((codes[kind], kind) for kind in KIND_NAMES if kind in codes)


def _codes_from(
    call: WindowCall, pairs: list[tuple[str, str]], place: exp.Expression
) -> tuple[tuple[str, str], ...]:
    """The codes of a log with the kind that each stands for."""
    kinds: dict[str, str] = {}
    for codes, kind in pairs:
        _check_kind(call, kind.strip(), place)
        for code in _parts(codes):
            if code in kinds:
                raise _error(call, f"maps the code {code!r} twice; take one out", place)
            kinds[code] = kind.strip()
    # Half an update would take rows away and bring none.
    if "UPDATE_BEFORE" in kinds.values() and "UPDATE_AFTER" not in kinds.values():
        what = "maps UPDATE_BEFORE and nothing to UPDATE_AFTER; map to DELETE what takes a row away"
        raise _error(call, what, place)
    return tuple(kinds.items())


def _parts(text: str) -> list[str]:
    """The words of a list with commas."""
    return [part.strip() for part in text.split(",")]


def _check_kind(call: WindowCall, kind: str, place: exp.Expression) -> None:
    if kind not in KIND_NAMES:
        what = f"knows no kind of row {kind!r} in its op_mapping; known are {', '.join(KIND_NAMES)}"
        raise _error(call, what, place)


def _check_full_deletes(call: WindowCall, value: exp.Expression | None) -> None:
    """Refuse deletions with no more than the key: those of this planner are whole."""
    if value is None or (isinstance(value, exp.Boolean) and value.this):
        return
    fix = "take it out, and write CASE WHEN op <> 'DELETE' THEN v END where v is to be NULL"
    raise refusal(call, "produces_full_deletes other than TRUE is", fix)


def _skips(call: WindowCall, value: exp.Expression | None) -> bool:
    word = "FAIL" if value is None else _text(value)
    if word not in _ERROR_HANDLING:
        raise _error(call, "needs 'FAIL' or 'SKIP' as error_handling; write one of them", value)
    return word == "SKIP"


def _text(node: exp.Expression) -> str | None:
    """A text of SQL; None of anything else."""
    node = bare(node)
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def _error(call: WindowCall, what: str, where: exp.Expression | None) -> SqlError:
    # A bare literal does not remember its place; the call does.
    placed = where if where is not None and span(where) else call
    return place_error(SqlError(f"{call.name} {what}."), placed)
