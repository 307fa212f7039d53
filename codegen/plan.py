"""The plan: a spec with every decision taken, so that the template only prints.

Calls over the same argument with the same FILTER make one block; equal fields are kept once; DISTINCT calls over
one argument share one view with a count column for each FILTER; the record counter also serves COUNT(*).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pyarrow as pa

from aggloom.codegen.catalogue import CATALOGUE, Aggregate, Field, View, canonical
from aggloom.codegen.lower import Kind, lower, lower_value, number_from_word, number_kind
from aggloom.codegen.spec import AggCall, AggSpec
from aggloom.physical import is_pooled


@dataclass(frozen=True)
class Input:
    """A bound array: `attr` of Inputs, made from `column` as a `form`: valid, word, number or flag."""

    attr: str
    column: str
    form: str


@dataclass(frozen=True)
class StateField:
    """An array of State: `kind` says its layout, `pooled` that its words are ids of the pool."""

    attr: str
    kind: Kind
    dtype: str
    columns: int = 0
    pooled: bool = False

    @property
    def load(self) -> str:
        return {"wide": "rt.load_wide({0}, {1})", "float": "rt.load_float({0}, {1})"}.get(
            self.kind, "{0}[{1}]"
        )

    def loaded(self, state: str, slot: str) -> str:
        text = self.load.format(f"{state}.{self.attr}", slot)
        if self.pooled and state == "other":
            return f"rt.import_word(state.pool, other.pool, {text})"
        return text

    def stored(self, value: str) -> str:
        """The statement that stores `value` at slot s."""
        if self.kind in ("wide", "float"):
            return f"rt.store_{self.kind}(state.{self.attr}, s, {value})"
        if self.pooled:
            return f"rt.store_pooled(state.{self.attr}, state.pool, s, {value})"
        return f"state.{self.attr}[s] = {value}"


@dataclass(frozen=True)
class StateView:
    """A view of State. `width` is the number of count columns of a multiset."""

    attr: str
    kind: str
    pooled: bool
    width: int = 1


@dataclass(frozen=True)
class Update:
    """How a step changes a field: the new value over the old state, as text. `reads`: number, word or ""."""

    field: StateField
    reads: str
    accumulate: str
    retract: str | None
    merge: str


@dataclass
class Block:
    """Calls over one argument under one FILTER. `number_from_word` serves merging a distinct view."""

    comment: str
    guards: list[str]
    argument: str | None
    updates: list[Update] = field(default_factory=list)
    views: list[StateView] = field(default_factory=list)
    column: int = 0
    number: str = ""
    number_from_word: str = ""

    @property
    def guard(self) -> str:
        return " and ".join(self.guards)

    @property
    def uses_number(self) -> bool:
        return any(u.reads == "number" for u in self.updates)

    @property
    def uses_word(self) -> bool:
        return bool(self.views) or any(u.reads == "word" for u in self.updates)

    @property
    def fields(self) -> list[StateField]:
        return [u.field for u in self.updates]


@dataclass
class Distinct:
    """One shared view over an argument and, for each FILTER, the block that sees each value once."""

    view: StateView
    argument: str
    guards: list[str]
    blocks: list[Block]

    @property
    def guard(self) -> str:
        return " and ".join(self.guards)


@dataclass(frozen=True)
class Output:
    """One call's result: `text` gives it (with a flag if `check`), NULL where `empty` holds."""

    attr: str
    call: str
    text: str
    form: str
    check: str
    empty: str
    loads: tuple[StateField, ...]


@dataclass
class HandlerPlan:
    """Everything the template prints."""

    spec: AggSpec
    backend: str
    inputs: list[Input]
    fields: list[StateField]
    views: list[StateView]
    blocks: list[Block]
    distincts: list[Distinct]
    outputs: list[Output]

    @property
    def compiled(self) -> bool:
        return self.backend == "numba"

    @property
    def retracting(self) -> bool:
        return self.spec.input_changes == "retract"

    def describe(self) -> str:
        """The accumulator's layout, one part a line."""
        lines = []
        for f in self.fields:
            size = (int(f.dtype[1:])) * max(1, f.columns)
            lines.append(f"{f.attr:<32} {f.kind:<6} {size:>3} bytes a key")
        for v in self.views:
            width = f", {v.width} counts a value" if v.kind == "multiset" else ""
            lines.append(f"{v.attr:<32} {v.kind} view, a value{width}")
        return "\n".join(lines)


def plan_of(spec: AggSpec, backend: str = "numba") -> HandlerPlan:
    """The plan of a spec for a backend (numba or python)."""
    return _Planner(spec, backend).plan()


class _Names:
    """Identifiers from the user's names: ASCII, never a keyword, never twice."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._given:
            stem = re.sub(r"[^0-9A-Za-z_]+", "_", name).strip("_").lower()[:40] or "column"
            ident = stem if stem[0].isalpha() else f"c_{stem}"
            taken = set(self._given.values())
            number = 2
            unique = ident
            while unique in taken:
                unique, number = f"{ident}_{number}", number + 1
            self._given[name] = unique
        return self._given[name]


class _Planner:
    def __init__(self, spec: AggSpec, backend: str) -> None:
        self.spec, self.backend = spec, backend
        self.retracting = spec.input_changes == "retract"
        self.columns, self.results = _Names(), _Names()
        self.inputs: dict[str, Input] = {}
        self.fields: dict[object, StateField] = {}
        self.views: dict[object, StateView] = {}
        self.blocks: dict[object, Block] = {}
        self.distincts: dict[str, Distinct] = {}
        self.outputs: list[Output] = []

    def plan(self) -> HandlerPlan:
        counter = StateField("records", "int", "i8" if self._counts() else "i1")
        self.fields["records"] = counter
        for call in self.spec.calls:
            self._call(call)
        views = [d.view for d in self.distincts.values()] + list(self.views.values())
        return HandlerPlan(
            self.spec,
            self.backend,
            list(self.inputs.values()),
            list(self.fields.values()),
            views,
            [b for b in self.blocks.values() if b.updates or b.views],
            list(self.distincts.values()),
            self.outputs,
        )

    def _counts(self) -> bool:
        star = any(
            canonical(c.function) == "COUNT" and not c.args and not c.filter
            for c in self.spec.calls
        )
        return self.retracting or star

    def _type(self, column: str) -> pa.DataType:
        return self.spec.input_schema.field(column).type

    def _input(self, column: str, form: str) -> str:
        attr = f"in_{self.columns[column]}_{form}"
        self.inputs[attr] = Input(attr, column, form)
        return f"inputs.{attr}[i]"

    def _call(self, call: AggCall) -> None:
        entry = CATALOGUE[canonical(call.function)]
        argument = call.args[0] if call.args else None
        distinct = call.distinct and not entry.ignores_distinct and argument is not None
        if entry.name == "COUNT" and argument is None and call.filter is None:
            self._output(call, entry, {"count": self.fields["records"]}, None, None, False)
            return
        block = self._distinct_block(call) if distinct else self._block(argument, call.filter)
        block.comment = ", ".join(filter(None, [block.comment, describe_call(call)]))
        names: dict[str, StateField] = {}
        view: StateView | None = None
        # DISTINCT leaves no order in its counts: only a sequence says what came first when two are merged.
        ordered = any(isinstance(s, View) and s.kind == "sequence" for s in entry.state_for(True))
        whole = self.retracting or (distinct and ordered)
        for state in entry.state_for(whole):
            if isinstance(state, View):
                view = self._view(state, argument, call, distinct, block)
            else:
                names[state.name] = self._field(state, argument, call, distinct, block, names)
        self._output(call, entry, names, view, argument, whole)

    def _block(self, argument: str | None, condition: str | None) -> Block:
        key = (argument, condition)
        if key not in self.blocks:
            guards = [self._input(condition, "flag")] if condition else []
            if argument is not None:
                guards.append(self._input(argument, "valid"))
            self.blocks[key] = Block("", guards, argument)
        return self.blocks[key]

    def _distinct_block(self, call: AggCall) -> Block:
        argument = call.args[0]
        same = [
            c
            for c in self.spec.calls
            if c.distinct
            and c.args == call.args
            and not CATALOGUE[canonical(c.function)].ignores_distinct
        ]
        filters = list(dict.fromkeys(c.filter for c in same))
        if argument not in self.distincts:
            view = StateView(
                f"distinct_{self.columns[argument]}",
                "multiset",
                is_pooled(self._type(argument)),
                len(filters),
            )
            guards = [self._input(argument, "valid")]
            if all(filters):
                either = " or ".join(self._input(f, "flag") for f in filters if f)
                guards.insert(0, f"({either})" if len(filters) > 1 else either)
            blocks = [
                Block(
                    "",
                    [self._input(f, "flag")] if f else [],
                    argument,
                    column=column,
                    number_from_word=self._from_word(argument),
                )
                for column, f in enumerate(filters)
            ]
            self._input(argument, "word")
            self.distincts[argument] = Distinct(view, argument, guards, blocks)
        return self.distincts[argument].blocks[filters.index(call.filter)]

    def _from_word(self, argument: str) -> str:
        dtype = self._type(argument)
        if pa.types.is_integer(dtype) and number_kind(dtype, self.spec.dialect) == "int":
            return "word"
        return number_from_word(dtype)

    def _suffix(self, argument: str | None, call: AggCall, distinct: bool) -> str:
        parts = [self.columns[argument] if argument is not None else "rows"]
        if distinct:
            parts.append("distinct")
        if call.filter:
            parts.append(f"if_{self.columns[call.filter]}")
        return "_".join(parts)

    def _field(
        self,
        state: Field,
        argument: str | None,
        call: AggCall,
        distinct: bool,
        block: Block,
        earlier: dict[str, StateField],
    ) -> StateField:
        key = (state, argument, call.filter, distinct)
        if key in self.fields:
            return self.fields[key]
        attr = f"{state.name}_{self._suffix(argument, call, distinct)}"
        kind: Kind = "int"
        layout = ("i8", 0)
        pooled = False
        if state.kind == "number":
            assert argument is not None
            kind = number_kind(self._type(argument), self.spec.dialect)
            layout = {"wide": ("i8", 3), "float": ("f8", 7)}.get(kind, layout)
            read = self._input(argument, "wide" if kind == "wide" else "number")
            block.number = f"rt.wide_at({read[:-3]}, i)" if kind == "wide" else read
        elif state.kind == "word":
            assert argument is not None
            kind, pooled = "word", is_pooled(self._type(argument))
            self._input(argument, "word")
        made = StateField(self._unique(attr), kind, layout[0], layout[1], pooled)
        self.fields[key] = made
        names = {n: f.attr for n, f in earlier.items()}
        names |= {f"other_{n}": f"other_{f.attr}" for n, f in earlier.items()}
        names |= {state.name: made.attr, f"other_{state.name}": f"other_{made.attr}"}
        names["x"] = "word" if state.kind == "word" else "number"
        block.updates.append(
            Update(
                made,
                "" if state.kind == "count" else state.kind,
                lower(state.accumulate, names, kind, pooled),
                lower(state.retract, names, kind, pooled) if state.retract else None,
                lower(state.merge, names, kind, pooled),
            )
        )
        return made

    def _view(
        self, state: View, argument: str | None, call: AggCall, distinct: bool, block: Block
    ) -> StateView:
        key = (state, argument, call.filter, distinct)
        if key not in self.views:
            assert argument is not None
            self._input(argument, "word")
            attr = self._unique(f"{state.kind}_{self._suffix(argument, call, distinct)}")
            made = StateView(attr, state.kind, is_pooled(self._type(argument)))
            self.views[key] = made
            block.views.append(made)
        return self.views[key]

    def _unique(self, attr: str) -> str:
        taken = {f.attr for f in self.fields.values()} | {v.attr for v in self.views.values()}
        taken.add("pool")
        unique, number = attr, 2
        while unique in taken:
            unique, number = f"{attr}_{number}", number + 1
        return unique

    def _output(
        self,
        call: AggCall,
        entry: Aggregate,
        names: dict[str, StateField],
        view: StateView | None,
        argument: str | None,
        whole: bool,
    ) -> None:
        dtype = self._type(argument) if argument is not None else None
        result = entry.result(dtype, self.spec.dialect)
        texts = {n: f.attr for n, f in names.items()}
        if view is not None:
            texts[view.kind] = f"state.{view.attr}, state.pool, {view.pooled}, s"
        kind = names["sum"].kind if "sum" in names else "word"
        text, form, check = lower_value(entry.value_for(whole), texts, kind, dtype, result)
        empty = entry.empty_for(whole)
        empty_text = lower(empty, texts, "word", False) if empty else ""
        used = [f for f in names.values() if re.search(rf"\b{f.attr}\b", f"{text} {empty_text}")]
        attr = f"out_{self.results[call.output_name]}"
        self.outputs.append(
            Output(attr, describe_call(call), text, form, check, empty_text, tuple(used))
        )


def describe_call(call: AggCall) -> str:
    """The call as a reader would write it, on one line and safe inside a comment."""
    inner = ", ".join(call.args) or "*"
    text = f"{canonical(call.function)}({'DISTINCT ' if call.distinct else ''}{inner})"
    if call.filter:
        text += f" FILTER ({call.filter})"
    if call.alias:
        text += f" AS {call.alias}"
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+", " ", text)
