"""The tables of a FROM clause: the names by which a query calls their columns, and those in the joined rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from aggloom.codegen.sql.errors import place_error, span
from aggloom.codegen.sql.scope import make_column, path, unknown_column
from aggloom.errors import AmbiguousColumnError, UnknownColumnError, UnknownTableError, nearest


@dataclass(frozen=True)
class Relation:
    """A table of FROM.

    names: by which its columns may be qualified. columns: by their own names what they are in the joined rows.
    once: those that USING or NATURAL has made one with another table's. hidden: columns are found by the table's name
    alone.
    """

    names: frozenset[str]
    columns: Mapping[str, str]
    once: frozenset[str] = frozenset()
    hidden: bool = False

    def is_called(self, name: str) -> bool:
        """Tell whether this is a name of the table."""
        return name.casefold() in {each.casefold() for each in self.names}

    def find(self, name: str) -> str | None:
        """The column of this name, or the only one that differs from it in case; in the joined rows."""
        if name in self.columns:
            return self.columns[name]
        columns = [
            own for known, own in self.columns.items() if known.casefold() == name.casefold()
        ]
        return columns[0] if len(columns) == 1 else None


@dataclass(frozen=True)
class Relations:
    """The tables of a FROM in their order.

    merged: what stands for a column that several of them share. outer: those of the query around this sub-query.
    """

    tables: tuple[Relation, ...]
    merged: Mapping[str, exp.Expression] = field(default_factory=dict)
    outer: Relations | None = None

    def find(self, column: exp.Column) -> exp.Expression | None:
        """Return the expression of a column in the joined rows; None if no table has it. Raises AmbiguousColumnError.

        One that no table of a sub-query has is the query's around it.
        """
        if column.table:
            # Several tables may be called so; the column decides, if only one of them has it.
            owners = [each for each in self.tables if each.is_called(column.table)]
            if not owners and self.outer is not None:
                return self.outer.find(column)
            columns = [own for each in owners if (own := each.find(column.name)) is not None]
        else:
            # A column of USING belongs to no single table: in a FULL JOIN it is the value of either.
            for name, whole in self.merged.items():
                if name.casefold() == column.name.casefold():
                    return whole.copy()
            columns = [own for each in self._open if (own := each.find(column.name)) is not None]
        if len(columns) > 1:
            raise self._ambiguous(column)
        if not columns and not column.table and self.outer is not None:
            return self.outer.find(column)
        return make_column(columns[0]) if columns else None

    def resolve(
        self, node: exp.Expression, keep: Callable[[exp.Column], bool] = lambda _: False
    ) -> exp.Expression:
        """The expression with every column as the joined rows call it; `keep` says which unknown ones may stay.

        Sub-queries stay as they are: their columns are theirs.
        """

        def visit(part: exp.Expression) -> exp.Expression:
            # A copy, and not the part itself: transform goes on into what it gets back unchanged.
            if isinstance(part, exp.Query):
                return part.copy()
            nested = isinstance(part, exp.Dot)
            if not (nested or isinstance(part, exp.Column)) or isinstance(part.this, exp.Star):
                return part
            column = None if nested else self.find(part)
            column = column or self._field(part)
            if column is None and nested:
                return part
            if column is None:
                if keep(part):
                    return part
                raise self.unknown(part)
            place = span(part)
            if place is not None and isinstance(column, exp.Column):
                start, end = place
                column.this.update_positions(None, line=0, col=0, start=start, end=end - 1)
            return column

        return node.transform(visit, copy=True)

    def star(self, of: exp.Column | None = None) -> list[tuple[str, exp.Expression]]:
        """The columns that * stands for, or t.*: (name, what it is in the joined rows)."""
        if of is not None:
            owners = [each for each in self.tables if each.is_called(of.table)]
            if not owners:
                names = sorted(name for each in self.tables for name in each.names)
                message = f"there is no table {of.table!r} in FROM. {nearest(of.table, names)}"
                raise place_error(UnknownTableError(message), of)
            return [
                (name, make_column(own)) for each in owners for name, own in each.columns.items()
            ]
        items = [(name, whole.copy()) for name, whole in self.merged.items()]
        for each in self._open:
            for name, own in each.columns.items():
                if name not in each.once:
                    items.append((name, make_column(own)))
        return items

    def common(self, other: Relation) -> list[str]:
        """The names of columns that both have, for NATURAL."""
        theirs = {name.casefold() for name in other.columns}
        names = [name for name, _ in self.star()]
        return [name for name in dict.fromkeys(names) if name.casefold() in theirs]

    def unknown(self, column: exp.Column) -> UnknownColumnError:
        """The error of a column that no table has."""
        tables = {name for each in self._everywhere() for name in each.names}
        return unknown_column(column, sorted(self._names()), tables)

    def _field(self, node: exp.Expression) -> exp.Expression | None:
        """Return the field `t.c.f.g` or `c.f.g` of the column c, which is a ROW; None if there is no such column."""
        parts = path(node)
        if len(parts) < 2:
            return None
        tabled = len(parts) > 2 and any(each.is_called(parts[0]) for each in self._everywhere())
        column = exp.column(parts[1], table=parts[0]) if tabled else exp.column(parts[0])
        value = self.find(column)
        for name in parts[2 if tabled else 1 :] if value is not None else ():
            value = exp.Bracket(this=value, expressions=[exp.Literal.string(name)])
        return value

    @property
    def _open(self) -> tuple[Relation, ...]:
        """The tables whose columns are found by their own names."""
        return tuple(each for each in self.tables if not each.hidden)

    def _everywhere(self) -> tuple[Relation, ...]:
        return self.tables + (() if self.outer is None else self.outer._everywhere())

    def _names(self) -> set[str]:
        return {name for each in self._open for name in each.columns}

    def _ambiguous(self, column: exp.Column) -> AmbiguousColumnError:
        owners = list(self._owners(column))
        message = f"column {column.name!r} is in {' and '.join(owners)}; write which one"
        example = f" ({owners[0]}.{column.name})" if not column.table else ", by another alias"
        return place_error(AmbiguousColumnError(f"{message}{example}."), column)

    def _owners(self, column: exp.Column) -> Iterator[str]:
        for each in self.tables:
            if each.find(column.name) is not None:
                yield min(each.names, key=len, default="a sub-query")
