"""The plan: everything that the template prints, decided here.

Calls over the same arguments with the same FILTER make one block; equal state is kept once; DISTINCT calls over
the same arguments share one view with a count column for each FILTER; the record counter also serves COUNT(*).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate, Field, Shape, View
from aggloom.codegen.catalogue.registry import options_of
from aggloom.codegen.handler.lower import Kind, Scope, lower, lower_value, number_kind
from aggloom.codegen.handler.operands import (
    Operand,
    as_real,
    component_of,
    named_arguments,
    number_of,
    operand_of,
    ranks_as_real,
    real_of,
    skipping_columns,
)
from aggloom.codegen.handler.plan_parts import (
    Block,
    Distinct,
    HandlerPlan,
    Input,
    Local,
    Names,
    Output,
    StateField,
    StateView,
    Update,
    ViewStep,
)
from aggloom.codegen.handler.plan_user import (
    NOT_LIVE,
    class_calls,
    literal,
    own_argument,
    own_parts,
    plan_class,
    scales,
    summed,
)
from aggloom.codegen.spec.agg_call import AggCall, describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.user.checks import value_type
from aggloom.codegen.user.lower import own_shape, own_value
from aggloom.physical import is_wide_decimal, registers_for, row_widths


def plan_of(spec: AggSpec, backend: str = "numba") -> HandlerPlan:
    """The plan of a spec for a backend: numba, unless a user's class in it cannot be compiled, or python."""
    return Planner(spec, backend).plan()


@dataclass
class CallPlan:
    """One call on its way: its block and what its expressions may name."""

    call: AggCall
    entry: Aggregate
    shape: Shape
    operand: Operand | None
    block: Block
    distinct: bool
    names: dict[str, StateField] = field(default_factory=dict)
    views: dict[str, StateView] = field(default_factory=dict)


class Planner:
    """A plan on its way."""

    def __init__(self, spec: AggSpec, backend: str) -> None:
        self.spec = spec
        self.classes = class_calls(spec, backend)
        self.backend = "python" if any(c.verdict.reason for c in self.classes.values()) else backend
        self.retracting = spec.input_changes == "retract"
        self.columns, self.results = Names(), Names()
        self.inputs: dict[str, Input] = {}
        self.fields: dict[object, StateField] = {}
        self.views: dict[object, StateView] = {}
        self.blocks: dict[object, Block] = {}
        self.distincts: dict[object, Distinct] = {}
        self.outputs: list[Output] = []
        self.made: list[CallPlan] = []
        self.lets: dict[str, str] = {}
        self.spilling = 0
        self.taken = set(RESERVED)
        self.numbers: dict[str, int] = {}

    def plan(self) -> HandlerPlan:
        self.fields["records"] = StateField("records", "int", "i8" if self._counts() else "i1")
        for call in self.spec.calls:
            self._call(call)
        views = [d.view for d in self.distincts.values()] + list(self.views.values())
        if self.spilling:
            views.append(StateView("spill", "spill", False, self.spilling))
        return HandlerPlan(
            self.spec,
            self.backend,
            list(self.inputs.values()),
            list(self.fields.values()),
            views,
            [b for b in self.blocks.values() if b.updates or b.views or b.users],
            list(self.distincts.values()),
            self.outputs,
            **own_parts(self),
        )

    def _counts(self) -> bool:
        star = any(c.function == "COUNT" and not c.args and not c.filter for c in self.spec.calls)
        return self.retracting or star

    def _type(self, column: str) -> pa.DataType:
        return self.spec.input_schema.field(column).type

    def _input(self, column: str, form: str) -> str:
        attr = f"in_{self.columns[column]}_{form}"
        self.inputs[attr] = Input(attr, column, form)
        return f"inputs.{attr}[i]"

    def _read(self, operand: Operand) -> str:
        """The text that reads an operand from a row of the batch."""
        if operand.form != "row":
            return self._input(operand.columns[0], operand.form)
        columns = tuple(zip(operand.columns, operand.parts, strict=True))
        marks = ["d" * part[0] + "nf"[part[1]] * (part[1] == part[0]) for part in operand.parts]
        stem = "_".join(
            self.columns[name] + f"_{mark}" * bool(mark)
            for name, mark in zip(operand.columns, marks, strict=True)
        )
        attr = f"in_{self.columns[f'{stem} row']}"
        self.inputs[attr] = Input(attr, columns, "row")
        return f"inputs.{attr}[i]"

    def _call(self, call: AggCall) -> None:
        entry = self.spec.entry(call)
        if call.function == "COUNT" and not call.args and call.filter is None:
            made = CallPlan(call, entry, entry.append, None, Block("", [], None), False)
            made.names["count"] = self.fields["records"]
            self.made.append(made)
            self._output(made)
            return
        distinct = call.distinct and not entry.ignores_distinct and bool(call.args)
        operand = operand_of(call, entry, self.spec.input_schema, self.spec.dialect)
        block = (
            self._distinct_block(call, entry, operand)
            if distinct and operand is not None
            else self._block(call, entry, operand)
        )
        block.comment = ", ".join(filter(None, [block.comment, describe_call(call)]))
        if entry.code is not None:
            self.made.append(CallPlan(call, entry, entry.append, operand, block, distinct))
            plan_class(self, self.made[-1])
            return
        ordered = bool(call.order_by)
        # DISTINCT leaves no order in its counts: only a sequence says what came first when two are merged.
        states = entry.shape(True, ordered).state
        arriving = any(isinstance(s, View) and s.kind == "sequence" for s in states)
        retracting = self.retracting and not call.monotonic
        shape = entry.shape(retracting or (distinct and arriving), ordered)
        made = CallPlan(call, entry, shape, operand, block, distinct)
        self.made.append(made)
        for state in shape.state:
            if isinstance(state, View):
                made.views[state.name] = self._view(state, made)
            else:
                made.names[state.name] = self._field(state, made)
        self._output(made)

    def _guards(self, call: AggCall, entry: Aggregate) -> list[str]:
        columns = skipping_columns(call, entry, self.spec.dialect)
        guards = [self._input(column, "valid") for column in columns]
        if "frequency" in named_arguments(call, entry):
            guards.append(f"{self._input(call.args[1], 'number')} > 0")
        return guards

    def _block(self, call: AggCall, entry: Aggregate, operand: Operand | None) -> Block:
        guards = [self._input(call.filter, "flag")] if call.filter else []
        guards += self._guards(call, entry)
        key = (call.args, tuple(guards), None if operand is None else operand.identity)
        if key not in self.blocks:
            self.blocks[key] = Block("", guards, operand)
        return self.blocks[key]

    def _distinct_key(self, call: AggCall, entry: Aggregate) -> object:
        operand = operand_of(call, entry, self.spec.input_schema, self.spec.dialect)
        if operand is None or not call.distinct or entry.ignores_distinct:
            return None
        parts = operand.parts if operand.form == "row" else ()
        return operand.form, operand.columns, parts, tuple(self._guards(call, entry))

    def _distinct_block(self, call: AggCall, entry: Aggregate, operand: Operand) -> Block:
        key = self._distinct_key(call, entry)
        same = [c for c in self.spec.calls if self._distinct_key(c, self.spec.entry(c)) == key]
        filters = list(dict.fromkeys(c.filter for c in same))
        if key not in self.distincts:
            word = self._read(operand)
            attr = f"distinct_{'_'.join(self.columns[c] for c in operand.columns)}"
            view = StateView(self._unique(attr), "multiset", operand.pooled, len(filters))
            guards = self._guards(call, entry)
            if all(filters):
                either = " or ".join(self._input(f, "flag") for f in filters if f)
                guards.insert(0, f"({either})" if len(filters) > 1 else either)
            blocks = [
                Block("", [self._input(f, "flag")] if f else [], operand, column=column)
                for column, f in enumerate(filters)
            ]
            self.distincts[key] = Distinct(view, word, guards, blocks)
        return self.distincts[key].blocks[filters.index(call.filter)]

    def _suffix(self, made: CallPlan, words: bool = False) -> str:
        """What a state is about, as a part of its name; `words`: it is made of the call's operand."""
        rows = words and made.operand is not None and made.operand.form == "row"
        columns = made.operand.columns if rows and made.operand else made.call.args
        parts = ["_".join(self.columns[a] for a in columns) or "rows"]
        if made.distinct:
            parts.append("distinct")
        if made.call.filter:
            parts.append(f"if_{self.columns[made.call.filter]}")
        return "_".join(parts)

    def _field(self, state: Field, made: CallPlan) -> StateField:
        block = made.block
        kind, layout, pooled = self._layout(state, made)
        arguments = self._argument_names(state, made)
        # The same changes of the same kind are the same state, whatever an entry calls it.
        initial = literal(state.initial)
        drawn = self._update(StateField("_", kind, *layout, pooled), state, made, arguments)
        key = (id(block), kind, drawn.accumulate, drawn.retract, drawn.merge, initial)
        if key not in self.fields:
            spill = self.spilling if kind == "float" else -1
            self.spilling += kind == "float"
            attr = self._unique(f"{state.name}_{self._suffix(made, state.kind == 'word')}")
            field_ = StateField(attr, kind, *layout, pooled, spill, initial)
            self.fields[key] = field_
            block.updates.append(self._update(field_, state, made, arguments))
        return self.fields[key]

    def _update(
        self, own: StateField, state: Field, made: CallPlan, arguments: dict[str, str]
    ) -> Update:
        earlier = {**made.names, state.name: own}
        names = {n: f.attr for n, f in earlier.items()}
        names |= {f"other_{n}": f"other_{f.attr}" for n, f in earlier.items()}
        scope = Scope(
            names | arguments | (self._constants(made) if made.entry.own else {}),
            {n: f.kind for n, f in earlier.items()},
            {n: f.spill for n, f in earlier.items()},
            pooled=own.pooled,
            widths=self._widths(made.operand),
            own=made.entry.own,
        )
        return Update(
            own,
            lower(state.accumulate, scope),
            lower(state.retract, scope) if state.retract and not made.call.monotonic else None,
            lower(state.merge, scope),
        )

    def _constants(self, made: CallPlan) -> dict[str, str]:
        """The call's options as text."""
        options = options_of(made.entry, dict(made.call.options), self.spec.dialect)
        return {name: repr(value) for name, value in options.items()}

    def _layout(self, state: Field, made: CallPlan) -> tuple[Kind, tuple[str, int], bool]:
        """The kind of a field, its dtype and columns, and whether it holds ids of the pool."""
        if state.kind == "double":
            return "double", ("f8", 0), False
        if state.kind == "word":
            return "word", ("i8", 0), made.operand is not None and made.operand.pooled
        if state.kind == "real":
            return "float", ("f8", 7), False
        if state.kind != "number":
            return "int", ("i8", 0), False
        dtype = self._type(summed(state, made))
        kind = number_kind(dtype, self.spec.dialect)
        # So many numbers of 64 bits as a count can count add up to less than 128.
        limbs = 3 if is_wide_decimal(dtype) else 2
        return kind, {"float": ("f8", 7), "wide": ("i8", limbs)}.get(kind, ("i8", 0)), False

    def _argument_names(self, state: Field, made: CallPlan) -> dict[str, str]:
        """What the arguments of a field's expressions are called, with the block's locals that they need."""
        named = named_arguments(made.call, made.entry)
        text = f"{state.accumulate} {state.retract}"
        names: dict[str, str] = {}
        for name, column in named.items():
            if not re.search(rf"\b{name}\b", text):
                continue
            if made.entry.own:
                names[name] = own_argument(self, state, made, column)
                continue
            exact = number_kind(self._type(column), self.spec.dialect) != "float"
            if state.kind in ("real", "double") or (state.kind == "number" and not exact):
                names[name] = self._real(made, column)
            elif state.kind == "number":
                names[name] = self._number(made, column)
            else:
                names[name] = self._word(made)
        return names

    def _number(self, made: CallPlan, column: str) -> str:
        dtype = self._type(column)
        wide = number_kind(dtype, self.spec.dialect) == "wide"
        read = self._input(column, "wide" if wide else "number")
        from_row = f"rt.wide_at({read[:-3]}, i)" if wide else read
        from_word = number_of(self._component(made, column), dtype, self.spec.dialect)
        # Nothing built in sums two arguments as they are; a user's function may.
        name = "number" if column == made.call.args[0] else f"number_{self.columns[column]}"
        made.block.locals[name] = Local(name, from_row, from_word)
        return name

    def _real(self, made: CallPlan, column: str) -> str:
        name = f"real_{self.columns[column]}"
        read = self._input(column, "real")
        from_word = real_of(self._component(made, column), self._type(column))
        made.block.locals[name] = Local(name, read, from_word)
        return name

    def _component(self, made: CallPlan, column: str) -> str:
        """A column's word, out of the word that a DISTINCT view holds."""
        assert made.operand is not None
        if not made.distinct or made.operand.form != "row":
            return "word"
        return component_of("word", made.operand, column)

    def _word(self, made: CallPlan) -> str:
        assert made.operand is not None
        read = self._read(made.operand)
        if not made.distinct:
            made.block.locals["word"] = Local("word", read, "word")
        return "word"

    def _widths(self, operand: Operand | None) -> tuple[int, ...]:
        if operand is None or not operand.keys:
            return ()
        return row_widths(operand.types[: operand.keys], operand.parts[: operand.keys])

    def _view(self, state: View, made: CallPlan) -> StateView:
        block, operand = made.block, made.operand
        assert operand is not None
        real = state.over == "real" or (state.over == "rank" and ranks_as_real(operand))
        kept = as_real(operand) if real else operand
        width = self._view_width(state.kind, made)
        key = (state.kind, state.latest, width, kept.identity, id(block))
        if key in self.views:
            return self.views[key]
        attr = self._unique(f"{state.kind}_{self._suffix(made, True)}")
        view = StateView(attr, state.kind, kept.pooled, width)
        self.views[key] = view
        if real:
            local = f"rank_{self.columns[kept.columns[0]]}"
            from_word = f"rt.real_word({real_of('word', kept.types[0])})"
            block.locals[local] = Local(local, self._read(kept), from_word)
        else:
            local = self._word(made)
        block.views.append(self._steps(view, local, made, state.latest))
        return view

    def _steps(self, view: StateView, local: str, made: CallPlan, latest: bool) -> ViewStep:
        merge = f"rt.{view.kind}_merge({view.here}, other.{view.attr}, other.pool, o)"
        named = named_arguments(made.call, made.entry)
        if "frequency" in named:
            times = self._input(named["frequency"], "number")
            add = f"rt.{view.kind}_add({view.here}, {local}, {{}}{times})"
            return ViewStep(view, add.format(""), add.format("-"), merge)
        steps = [
            f"rt.{view.kind}_{step}({view.here}, {local})" for step in ("accumulate", "retract")
        ]
        if view.kind == "stamped":
            merge = f"{merge[:-1]}, {latest})"
            steps[0] = f"rt.stamped_accumulate({view.here}, {local}, {latest})"
        return ViewStep(view, steps[0], steps[1], merge)

    def _view_width(self, kind: str, made: CallPlan) -> int:
        options = options_of(made.entry, dict(made.call.options), self.spec.dialect)
        if kind == "bits":
            return int(self._type(made.call.args[0]).bit_width)
        if kind == "registers":
            return registers_for(options["error"])
        if kind == "quantiles":
            return int(options["accuracy"])
        if kind == "bins":
            return int(max(2, round(1 / options["error"])))
        return 1

    def _unique(self, attr: str) -> str:
        # A local name of generated code is never that of a field, whatever a user calls his.
        attr = f"kept_{attr}" if attr.startswith(PREFIXES) else attr
        unique, number = attr, self.numbers.get(attr, 2)
        while unique in self.taken:
            unique, number = f"{attr}_{number}", number + 1
        self.numbers[attr] = number
        self.taken.add(unique)
        return unique

    def _output(self, made: CallPlan) -> None:
        call, entry, shape = made.call, made.entry, made.shape
        types = self.spec.arg_types(call)
        options = options_of(entry, dict(call.options), self.spec.dialect)
        result = self.spec.result_type(call)
        scope = self._value_scope(made, options)
        fractions = options.get("fraction")
        let = self._lets(made, scope)
        reals = any(self._holds_reals(made, s) for s in shape.state if isinstance(s, View))
        argument = types[0] if types else None
        if entry.own:
            shape = own_shape(shape)
            value = own_value(shape.value, value_type(entry, shape), scope, argument, result)
        else:
            value = lower_value(
                shape.value,
                scope,
                argument,
                result,
                fractions if isinstance(fractions, tuple) else None,
                reals and entry.returns == "",
            )
        empty = shape.empty if self.spec.dialect in entry.empty_in else None
        empty_text = lower(empty, scope) if empty else ""
        if entry.own:
            # A user's value need not know of keys that are not shown.
            empty_text = " or ".join(filter(None, [NOT_LIVE, empty_text and f"({empty_text})"]))
        used = " ".join([*value.texts, empty_text, *(text for _, text in let)])
        loads = [f for f in made.names.values() if re.search(rf"\b{f.attr}\b", used)]
        self.outputs.append(
            Output(
                f"out_{self.results[call.output_name]}",
                describe_call(call),
                value.texts,
                value.form,
                value.check,
                empty_text,
                tuple(loads),
                let,
                self._returns(made),
                tuple(sorted(options.items())),
                self._element(made),
            )
        )

    def _lets(self, made: CallPlan, scope: Scope) -> tuple[tuple[str, str], ...]:
        """What a value names and no earlier one has computed: (local name, text)."""
        new = []
        for name, expression in made.shape.let:
            text = lower(expression, scope)
            if text not in self.lets:
                self.lets[text] = f"{name}_{self._suffix(made)}"
                new.append((self.lets[text], text))
            scope.names[name] = self.lets[text]
        return tuple(new)

    def _holds_reals(self, made: CallPlan, state: View) -> bool:
        ranked = made.operand is not None and ranks_as_real(made.operand)
        return state.over == "real" or (state.over == "rank" and ranked)

    def _value_scope(self, made: CallPlan, options: dict[str, Any]) -> Scope:
        names = {n: f.attr for n, f in made.names.items()}
        names |= {name: repr(value) for name, value in options.items()}
        names["out"] = f"out_{self.results[made.call.output_name]}"
        names["backwards"] = str(made.operand is not None and made.operand.backwards)
        return Scope(
            names,
            {n: f.kind for n, f in made.names.items()},
            {n: f.spill for n, f in made.names.items()},
            {n: v.here for n, v in made.views.items()},
            widths=self._widths(made.operand),
            scales=scales(self, made) if made.entry.own else {},
            own=made.entry.own,
        )

    def _returns(self, made: CallPlan) -> str:
        if "separator" in named_arguments(made.call, made.entry):
            return "join_last"
        if not made.entry.returns and made.operand is not None and made.operand.form == "row":
            words = any(isinstance(s, View) or s.kind == "word" for s in made.shape.state)
            return "part" if words else ""
        return made.entry.returns

    def _element(self, made: CallPlan) -> tuple[Any, ...] | None:
        """(types, parts, take) of the words behind a result, where they are not the result itself."""
        if not self._returns(made) or made.operand is None:
            return None
        operand = made.operand
        parts = operand.parts if operand.form == "row" else None
        return tuple(type_name(t) for t in operand.types), parts, operand.take


PREFIXES = ("other_", "real_", "rank_", "whole_", "flag_", "arg_", "number_", "user_")
RESERVED = frozenset(
    f"{what}_row" for what in ("accumulate", "retract", "reset", "merge", "value", "apply")
) | {"pool", "spill", "merge_slots", "reset_slots"}
