"""Joins of each row with one row of the other table by a time: FOR SYSTEM_TIME AS OF, and ASOF JOIN."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.relations import Relations
from aggloom.codegen.sql.scope import bare
from aggloom.codegen.sql.shape import is_clock

_INEQUALITIES = (exp.GTE, exp.GT, exp.LTE, exp.LT)
_TURNED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GTE: exp.LTE,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.LT: exp.GT,
}


@dataclass(frozen=True)
class AsOf:
    """The row of the right that a row of the left finds, as a join says it.

    time: what FOR SYSTEM_TIME AS OF names, over the left's rows; None for ASOF JOIN, whose ON has an inequality.
    place: where it stands.
    """

    time: exp.Expression | None
    place: exp.Expression

    @property
    def by_clock(self) -> bool:
        """True if PROCTIME() is named."""
        return self.time is not None and is_clock(self.time)


def without_version(source: exp.Expression) -> tuple[exp.Expression, exp.Version | None]:
    """A table of FROM without what stands after it of its version, and that."""
    version = source.args.get("version") if isinstance(source, exp.Table) else None
    if version is None:
        return source, None
    plain = source.copy()
    plain.set("version", None)
    return plain, version


def as_of(
    join: exp.Join, version: exp.Version | None, left: Relations
) -> tuple[AsOf | None, list[exp.Expression]]:
    """Read a join's rule for the right's row, and the conditions of MATCH_CONDITION; None for other joins."""
    nearest = str(join.args.get("method") or "").upper() == "ASOF"
    match = join.args.get("match_condition")
    if version is None:
        if match is not None and not nearest:
            fix = "write ASOF JOIN, or ON"
            raise refusal(match, "MATCH_CONDITION of this join is", fix)
        condition = None if match is None else bare(match)
        return AsOf(None, join) if nearest else None, [] if condition is None else [condition]
    # FOR VERSION, BETWEEN and others ask for versions that no stream keeps.
    named = version.expression
    if nearest or version.this != "TIMESTAMP" or version.args.get("kind") != "AS OF":
        raise refusal(named, "this version of a table is", "write FOR SYSTEM_TIME AS OF l.t")
    time = bare(left.resolve(named))
    if not is_clock(time) and not isinstance(time, exp.Column):
        fix = "name a time column of the left, or PROCTIME()"
        raise refusal(named, "FOR SYSTEM_TIME AS OF an expression is", fix)
    return AsOf(time, named), []


def flip_inequality(condition: exp.Expression) -> exp.Expression:
    """An inequality with its sides in the other order."""
    return _TURNED[type(condition)](
        this=condition.expression.copy(), expression=condition.this.copy()
    )


def is_inequality(condition: exp.Expression) -> bool:
    """Tell whether a condition is <, <=, > or >=."""
    return isinstance(bare(condition), _INEQUALITIES)
