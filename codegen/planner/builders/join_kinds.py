"""The kinds of joins, by the words that are written before JOIN."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from aggloom.codegen.spec.choices import JoinKind
from aggloom.codegen.sql.errors import refusal

_KINDS: Mapping[tuple[str, str], JoinKind] = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi",
    ("", "SEMI"): "semi",
    ("LEFT", "ANTI"): "anti",
    ("", "ANTI"): "anti",
}


def join_kind(join: exp.Join) -> JoinKind:
    """Return the kind of a join; raises UnsupportedSqlError for one that no plan has."""
    side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
    method = str(join.args.get("method") or "").upper()
    known = _KINDS.get((side, kind))
    # NATURAL and ASOF say how rows match, not which of them stay.
    if known is None or method not in ("", "NATURAL", "ASOF"):
        words = " ".join(word for word in (method, side, kind, "JOIN") if word)
        raise refusal(join, f"{words} is", "write one of the joins of docs/joins.md")
    return known
