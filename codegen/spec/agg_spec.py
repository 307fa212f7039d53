"""The spec: a user's request as frozen, hashable data, checked when it is created, with one text form.

A spec names an input schema, the group keys and the aggregate calls. SQL, YAML and JSON are front
ends that build the same spec, and a generated module is named after its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from aggloom.codegen.catalogue.registry import find
from aggloom.codegen.scalar import expressions
from aggloom.codegen.spec import checks as spec_check
from aggloom.codegen.spec import text as spec_text
from aggloom.codegen.spec.agg_call import AggCall as AggCall
from aggloom.codegen.spec.argument_lists import items_of, pairs_of, text_of
from aggloom.codegen.spec.choices import Changes, Dialect
from aggloom.codegen.spec.content import Computed as Computed
from aggloom.codegen.spec.content import SpecContent
from aggloom.codegen.spec.schemas import SchemaLike as SchemaLike
from aggloom.codegen.spec.schemas import to_schema as to_schema
from aggloom.codegen.spec.spec_html import spec_html
from aggloom.codegen.sql.depth import deep
from aggloom.codegen.sql.query import parse
from aggloom.codegen.user import trust as user_trust
from aggloom.errors import SqlError, TypeMismatchError

# The number of keys and calls, and of characters, in the repr of a spec.
_SHOWN, _WIDEST = 8, 120


@dataclass(frozen=True, repr=False)
class AggSpec(SpecContent):
    """A grouped aggregation over a changelog; the constructor refuses unknown names and wrong types.

    schema: the columns of the input: DDL text, a pyarrow Schema, a mapping of names to types, or Spark's.
    group_by: columns of the input, or computed ones; without any there is one group.
    calls: the aggregate calls, in the order of the result's columns, which follow the keys.
    input_changes: "retract" if rows may be retracted, "append" if they are only inserted, which needs less state.
    dialect: "spark" or "flink": the rules of result types and overflow.
    computed: columns computed from each row before it is aggregated; keys, arguments and filters may use them.
    where: a condition in SQL over the columns of the input; other rows are ignored.
    having: a condition over the columns of the result.
    select: the output columns, by name, as SQL over keys and results; by default all of these.
    namespace: the last group key is a window, which handler methods take as their first argument.

    Example:
        >>> import aggloom as al
        >>> columns = "shop STRING, amount INT"
        >>> spec = al.AggSpec(columns, ["shop"], [al.AggCall("SUM", ["amount"], alias="total")])
        >>> spec == al.AggSpec.from_sql("SELECT shop, SUM(amount) AS total FROM t GROUP BY shop", columns)
        True
        >>> spec.aggregate_schema.names
        ['shop', 'total']
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            schema: SchemaLike,
            group_by: Sequence[str] = (),
            calls: Sequence[AggCall] = (),
            input_changes: Changes = "retract",
            dialect: Dialect = "spark",
            computed: Sequence[Computed] = (),
            where: str | None = None,
            having: str | None = None,
            select: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
            namespace: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        spec_check.check_choices(self.input_changes, self.dialect)
        group_by = items_of("group_by", self.group_by, str, "a column")
        calls = items_of("calls", self.calls, AggCall, "a call such as AggCall('COUNT')")
        computed = items_of("computed", self.computed, Computed, "a Computed(name, sql, type)")
        for name in ("where", "having"):
            value = getattr(self, name)
            text_of(name, "" if value is None else value, "a condition in SQL, such as 'cnt > 0'")
        object.__setattr__(self, "schema", to_schema(self.schema, self.dialect))
        object.__setattr__(self, "group_by", group_by)
        # A call may be older than the registration of its function.
        calls = tuple(c if c.entry or not find(c.function) else replace(c) for c in calls)
        object.__setattr__(self, "calls", calls)
        object.__setattr__(self, "computed", computed)
        if self.select is not None:
            form = "a mapping of names to expressions, such as {'total': 's'}"
            select = pairs_of("select", self.select, form)
            for name, sql in select:
                text_of(f"select of {name!r}", sql, "an expression in SQL")
            object.__setattr__(self, "select", select)
        self._lower_filters()
        spec_check.check(self)

    def __hash__(self) -> int:
        # By the text: schemas and calls have parts that cannot be hashed.
        return hash(self.to_json())

    def __repr__(self) -> str:
        """One line with the digest, the calls, the keys, and the two options."""
        calls = ", ".join(call.text for call in self.calls[:_SHOWN])
        keys = ", ".join(self.group_by[:_SHOWN]) or "nothing"
        more = [len(self.calls) - _SHOWN, len(self.group_by) - _SHOWN]
        calls += f", and {more[0]} more" if more[0] > 0 else ""
        keys += f", and {more[1]} more" if more[1] > 0 else ""
        what = f"{calls or 'no calls'} by {keys}"
        what = what if len(what) <= _WIDEST else f"{what[: _WIDEST - 3]}..."
        return f"<AggSpec {self.digest}: {what}; {self.input_changes}, {self.dialect}>"

    def _repr_html_(self) -> str:
        about = f"AggSpec: {self.input_changes}, {self.dialect}, digest {self.digest}"
        return spec_html(self, about)

    @classmethod
    def from_sql(
        cls,
        sql: str,
        schema: SchemaLike,
        input_changes: Changes = "retract",
        dialect: Dialect = "spark",
    ) -> AggSpec:
        """Read a spec from a query with one GROUP BY over one table.

        sql: the query. schema: the columns of its table, which may have any name. input_changes, dialect: of the spec.
        Raises SpecError and its subclasses, with the position in the text.
        """
        if not isinstance(sql, str):
            raise SqlError(f"the SQL is a {type(sql).__name__}; give a text, as in 'SELECT ...'.")
        return deep(lambda: cls.of(parse(sql, schema, input_changes, dialect)))

    @classmethod
    def of(cls, content: SpecContent) -> AggSpec:
        """The spec with the fields of a content.

        content: a spec, or the result of the SQL front end.
        """
        return cls(**{field.name: getattr(content, field.name) for field in fields(content)})

    @classmethod
    def from_json(cls, text: str, *, trust: bool = False) -> AggSpec:
        """Read a spec from the text of `to_json`.

        text: the JSON. trust: run the Python source of users' functions in it. Raises SpecError.
        """
        # A context variable, since checks run inside the constructor, whose arguments are the spec's own.
        stored = spec_check.READS_STORED.set(True)
        try:
            return spec_text.build(cls, cls.from_sql, spec_text.load_json(text), "JSON", trust)
        finally:
            spec_check.READS_STORED.reset(stored)

    @classmethod
    def from_yaml(cls, source: str | Path, *, trust: bool = False) -> AggSpec:
        """Read a spec from YAML.

        source: the text, or the path of a file. trust: as in `from_json`. Raises SpecError.
        """
        return spec_text.build(cls, cls.from_sql, spec_text.load_yaml(source), "YAML", trust)

    def to_json(self) -> str:
        """Canonical JSON: equal specs give equal text."""
        return self._json

    def to_yaml(self) -> str:
        """The same content as YAML, in reading order."""
        return spec_text.dump_yaml(self)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify this spec."""
        # It names files, state and modules: 64 bits are enough to distinguish the specs of a user.
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def untrusted_functions(self) -> tuple[str, ...]:
        """The users' functions in it whose Python source may not run here (`from_json`, trust)."""
        return user_trust.find_untrusted(self.entry(call) for call in self.calls)

    @cached_property
    def _json(self) -> str:
        return spec_text.dump_json(self)

    def _lower_filters(self) -> None:
        """Replace each filter that is a predicate by a computed BOOLEAN column of that text."""
        known = {*self.schema.names, *(column.name for column in self.computed)}
        added = []
        for call in self.calls:
            if call.filter is None or call.filter in known:
                continue
            spec_check.check_columns(call.filter, self.schema, f"filter of {call.text}")
            # Its own text is the column's name, so that equal filters of several calls are computed once.
            dtype = expressions.infer_type(call.filter, self.schema)
            if dtype != pa.bool_():
                raise TypeMismatchError(f"{call.text}: the filter must be BOOLEAN, not {dtype}.")
            added.append(Computed(call.filter, call.filter, dtype))
            known.add(call.filter)
        object.__setattr__(self, "computed", (*self.computed, *added))
