"""A plan while it is drafted: the parts that calls share, and the one place that assigns names."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate, Shape
from aggloom.codegen.handler.lower import number_kind
from aggloom.codegen.handler.names import Names
from aggloom.codegen.handler.operands import Operand, WordText, component_of, number_of, real_of
from aggloom.codegen.handler.plan_parts import (
    CallBlock,
    CallOutput,
    Distinct,
    Input,
    Local,
    StateField,
    StateView,
)
from aggloom.codegen.spec.agg_call import AggCall
from aggloom.codegen.spec.agg_spec import AggSpec

# Beginnings of local names in generated code, which the names of state must not have.
_PREFIXES = ("other_", "real_", "rank_", "whole_", "flag_", "arg_", "number_", "user_")
_RESERVED = frozenset(
    f"{what}_row" for what in ("accumulate", "retract", "reset", "merge", "value", "apply")
) | {"pool", "spill", "merge_slots", "reset_slots"}


@dataclass
class CallPlan:
    """One call of a draft: its block and what its expressions may name."""

    call: AggCall
    entry: Aggregate
    shape: Shape
    operand: Operand | None
    block: CallBlock
    distinct: bool
    fields: dict[str, StateField] = field(default_factory=dict)
    views: dict[str, StateView] = field(default_factory=dict)


class Draft:
    """The parts of a plan so far; parts that are the same are kept once, under a key that says what they are.

    spilling: how many exact float sums have a place in the spill. distinct_filters: the filters of the calls that share
    a set of distinct values; empty until the first such call is planned.
    """

    def __init__(self, spec: AggSpec, backend: str) -> None:
        self.spec, self.backend = spec, backend
        self.columns, self.results = Names(), Names()
        self.inputs: dict[str, Input] = {}
        self.fields: dict[object, StateField] = {}
        self.views: dict[object, StateView] = {}
        self.blocks: dict[object, CallBlock] = {}
        self.distincts: dict[object, Distinct] = {}
        self.distinct_filters: dict[object, list[str | None]] = {}
        self.outputs: list[CallOutput] = []
        self.calls: list[CallPlan] = []
        self.lets: dict[str, str] = {}
        self.spilling = 0
        self._names_in_use = set(_RESERVED)
        self._numbers: dict[str, int] = {}

    @property
    def has_retractions(self) -> bool:
        return self.spec.input_changes == "retract"

    def type_of(self, column: str) -> pa.DataType:
        """The type of an input column."""
        return self.spec.input_schema.field(column).type

    def unique(self, attr: str) -> str:
        """The name of a part of state, by what it is about."""
        # A local name of generated code is never that of a field, whatever a user calls his.
        attr = f"kept_{attr}" if attr.startswith(_PREFIXES) else attr
        unique, number = attr, self._numbers.get(attr, 2)
        while unique in self._names_in_use:
            unique, number = f"{attr}_{number}", number + 1
        # The next of the same name is not counted from 2 again: specs may have thousands of calls.
        self._numbers[attr] = number
        self._names_in_use.add(unique)
        return unique

    def suffix(self, call: CallPlan, words: bool = False) -> str:
        """Return the part of a state's name for what it is about; `words`: it holds words of the call's operand."""
        rows = words and call.operand is not None and call.operand.form == "row"
        columns = call.operand.columns if rows and call.operand else call.call.args
        parts = ["_".join(self.columns[a] for a in columns) or "rows"]
        if call.distinct:
            parts.append("distinct")
        if call.call.filter:
            parts.append(f"if_{self.columns[call.call.filter]}")
        return "_".join(parts)

    def bind(self, column: str, form: str) -> str:
        """The array of a column in a form, bound to a batch before its rows are applied."""
        attr = f"in_{self.columns[column]}_{form}"
        self.inputs[attr] = Input(attr, column, form)
        return f"inputs.{attr}"

    def read_column(self, column: str, form: str) -> str:
        """The text that reads a column in a form from a row of the batch."""
        return f"{self.bind(column, form)}[i]"

    def read_operand(self, operand: Operand) -> str:
        """The text that reads an operand from a row of the batch."""
        if operand.form != "row":
            return self.read_column(operand.columns[0], operand.form)
        columns = tuple(zip(operand.columns, operand.parts, strict=True))
        # Ascending with NULLs first, descending with NULLs last: these defaults have no letter for their NULLs.
        marks = ["d" * part[0] + "nf"[part[1]] * (part[1] == part[0]) for part in operand.parts]
        stem = "_".join(
            self.columns[name] + f"_{mark}" * bool(mark)
            for name, mark in zip(operand.columns, marks, strict=True)
        )
        attr = f"in_{self.columns[f'{stem} row']}"
        self.inputs[attr] = Input(attr, columns, "row")
        return f"inputs.{attr}[i]"

    def number(self, call: CallPlan, column: str) -> str:
        """The local name of an argument as the number that an exact sum takes."""
        dtype = self.type_of(column)
        wide = number_kind(dtype, self.spec.dialect) == "wide"
        read = self.bind(column, "wide" if wide else "number")
        from_row = f"rt.wide_at({read}, i)" if wide else f"{read}[i]"
        # In a loop over a DISTINCT view there is no row: the argument is made of the view's word.
        from_word = number_of(self.component(call, column), dtype, self.spec.dialect)
        # Nothing built in sums two arguments as they are; a user's function may.
        name = "number" if column == call.call.args[0] else f"number_{self.columns[column]}"
        call.block.locals[name] = Local(name, from_row, from_word)
        return name

    def real(self, call: CallPlan, column: str) -> str:
        """The local name of an argument as a DOUBLE."""
        name = f"real_{self.columns[column]}"
        from_word = real_of(self.component(call, column), self.type_of(column))
        call.block.locals[name] = Local(name, self.read_column(column, "real"), from_word)
        return name

    def word(self, call: CallPlan) -> str:
        """The local name of the word of a call's operand."""
        assert call.operand is not None
        read = self.read_operand(call.operand)
        # The loop over a DISTINCT view names its value `word` already.
        if not call.distinct:
            call.block.locals["word"] = Local("word", read, "word")
        return "word"

    def component(self, call: CallPlan, column: str) -> WordText:
        """A column's word, out of the word that a DISTINCT view holds."""
        assert call.operand is not None
        if not call.distinct or call.operand.form != "row":
            return WordText("word")
        return component_of(call.operand, column)
