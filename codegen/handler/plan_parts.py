"""The parts of a handler's plan, as data for the template."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aggloom.codegen.handler.lower import Kind
from aggloom.codegen.handler.operands import Operand
from aggloom.codegen.spec.agg_call import AggCall, describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.user.classes import Rendered
from aggloom.codegen.user.retraction import Retraction
from aggloom.codegen.views import SEEN, SPILL
from aggloom.codegen.views.kind import ViewKind

_DTYPES = {"i1": "int8", "i8": "int64", "f8": "float64", "O": "object"}
_OF_ROWS = {"valid": "bool", "flag": "bool", "real": "float64", "wide": "Limbs"}
"""Types of the forms of a column; all others are int64."""
NOT_LIVE = "state.records[s] <= 0"
"""The condition that a key has no rows: it is not shown, and a user's value need not know of it."""


@dataclass(frozen=True)
class Input:
    """A bound array: `attr` of Inputs, made from `column` (of a row: columns and how they sort) as a `form`."""

    attr: str
    column: Any
    form: str

    @property
    def title(self) -> str:
        """The name that a reader sees."""
        if self.form != "row":
            return str(self.column)
        return ", ".join(name + " DESC" * part[0] for name, part in self.column)

    @property
    def shape(self) -> str:
        """Type and shape of the array."""
        return f"{_OF_ROWS.get(self.form, 'int64')}[rows]"


@dataclass(frozen=True)
class StateField:
    """An array of State: `kind` says its layout, `pooled` that its words are ids of the pool, `spill` its place there.

    initial: the text of what a new one holds, where that is not 0; of an object, of the function that makes it.
    """

    attr: str
    kind: Kind
    dtype: str
    columns: int = 0
    pooled: bool = False
    spill: int = -1
    initial: str = ""

    @property
    def shape(self) -> str:
        """Type and shape of the array."""
        more = f", {self.columns}" if self.columns else ""
        return f"{_DTYPES[self.dtype]}[slots{more}]"

    @property
    def load(self) -> str:
        return {"wide": "rt.load_wide({0}, {1})", "float": "rt.load_float({0}, {1})"}.get(
            self.kind, "{0}[{1}]"
        )

    def load_text(self, state: str, slot: str) -> str:
        text = self.load.format(f"{state}.{self.attr}", slot)
        if self.pooled and state == "other":
            return f"rt.import_word(state.pool, other.pool, {text})"
        return text

    def store_text(self, value: str) -> str:
        """The statement that stores `value` at slot s."""
        if self.kind in ("wide", "float"):
            return f"rt.store_{self.kind}(state.{self.attr}, s, {value})"
        if self.pooled:
            return f"rt.store_pooled(state.{self.attr}, state.pool, s, {value})"
        return f"state.{self.attr}[s] = {value}"

    @property
    def clear_lines(self) -> list[str]:
        """The statements that reset the field to its initial value."""
        if self.kind == "float":
            spilled = f"rt.spill_reset(state.spill, s, {self.spill})"
            return [f"rt.clear_float(state.{self.attr}, s)", spilled]
        if self.kind == "wide":
            return [f"rt.clear_wide(state.{self.attr}, s)"]
        if self.kind == "object":
            return [self.store_text(f"{self.initial}()")]
        return [self.store_text(self.initial or ("0.0" if self.kind == "double" else "0"))]


@dataclass(frozen=True)
class StateView:
    """A view of State. `width`: counts a value of a multiset, or the size of a sketch."""

    attr: str
    kind: ViewKind
    pooled: bool
    width: int = 1

    @property
    def parts(self) -> tuple[str, str]:
        """Its arguments in a call but for the slot: itself; the pool and whether that is used."""
        return f"state.{self.attr}", f"state.pool, {self.pooled}"

    @property
    def here(self) -> str:
        """Its arguments in a call: itself, the pool, whether that is used, the slot."""
        return f"{', '.join(self.parts)}, s"


@dataclass(frozen=True)
class ViewStep:
    """The change that a step makes to a view, as text; real: its words are those of DOUBLEs."""

    view: StateView
    accumulate: str
    retract: str
    merge: str
    real: bool = False


@dataclass(frozen=True)
class Update:
    """The change that a step makes to a field: the new value over the old state, as text.

    scale: the digits after the point of a sum of decimals.
    """

    field: StateField
    accumulate: str
    retract: str | None
    merge: str
    scale: int = 0

    @property
    def counts_rows(self) -> bool:
        attr = self.field.attr
        steps = (self.accumulate, self.retract) == (f"{attr} + 1", f"{attr} - 1")
        return steps and not self.field.initial


@dataclass(frozen=True)
class UserStep:
    """The change that a step makes to the state of a user's class, as text; retract, merge: "" where it has none."""

    fields: tuple[StateField, ...]
    accumulate: str
    retract: str
    merge: str


@dataclass(frozen=True)
class Local:
    """A name that a block uses: its text while a row is applied and while a DISTINCT view is merged."""

    name: str
    from_row: str
    from_word: str


@dataclass
class CallBlock:
    """Calls over the same arguments under one FILTER."""

    guards: list[str]
    operand: Operand | None
    locals: dict[str, Local] = field(default_factory=dict)
    updates: list[Update] = field(default_factory=list)
    views: list[ViewStep] = field(default_factory=list)
    users: list[UserStep] = field(default_factory=list)
    calls: list[AggCall] = field(default_factory=list)
    column: int = 0

    @property
    def comment(self) -> str:
        """The calls, as a reader would write them."""
        return ", ".join(map(describe_call, self.calls))

    @property
    def guard(self) -> str:
        return " and ".join(self.guards)

    @property
    def fields(self) -> list[StateField]:
        return [u.field for u in self.updates] + [f for u in self.users for f in u.fields]

    @property
    def merge_fields(self) -> list[StateField]:
        """The fields that a merge reads: not those of a class without one."""
        users = [user for user in self.users if user.merge]
        return [u.field for u in self.updates] + [f for u in users for f in u.fields]

    @property
    def reset_lines(self) -> list[str]:
        """Lines that clear fields when the count is back to 0, so that no rounding is left of what was retracted.

        Only users' fields are rounded; float sums are exact, and a count of 0 may stand for -1 +1.
        """
        sums = [u.field for u in self.updates if u.field.kind == "double"]
        return [line for f in sums for line in f.clear_lines] if self.counter else []

    @property
    def counter(self) -> str:
        """The field that says how many rows are there, if one does."""
        counts = [u.field.attr for u in self.updates if u.counts_rows]
        return counts[0] if counts else ""


@dataclass
class Distinct:
    """One shared view over arguments and, for each FILTER, the block that sees each value once."""

    view: StateView
    word: str
    guards: list[str]
    blocks: list[CallBlock]

    @property
    def guard(self) -> str:
        return " and ".join(self.guards) or "True"

    @property
    def is_set(self) -> bool:
        """True where its view has bits, as rows are only added; otherwise it has counts."""
        return self.view.kind is SEEN


@dataclass(frozen=True)
class Let:
    """A number that several values use: its local name, its text, and the names in it."""

    name: str
    text: str
    names: frozenset[str]


@dataclass(frozen=True)
class EmittedChanges:
    """The class of a table aggregate that says itself which of its rows differ from those that it has emitted.

    text: an iterable of changes. puts: of each of them, into the lists of `removed` and of `added` rows. mark: the
    statement that makes the state that of a key whose rows have left. field: whether they have.
    """

    text: str
    puts: tuple[tuple[str, ...], tuple[str, ...]]
    mark: str
    field: StateField


@dataclass(frozen=True)
class CallOutput:
    """One call's result: `texts` give it (with a flag if `check`), NULL where `empty` holds.

    loads, views: the state that it reads. let: what is computed first.
    returns, options, element: how a list of words or a row's bytes becomes the result (runtime/values/results.py).
    puts: of a table aggregate, whose `texts` give an iterable of rows, the conditions that put each value of a `row`
    into the list and say whether it fits. changes: what its class says of what it has emitted.
    """

    attr: str
    call: str
    texts: tuple[str, ...]
    form: str
    check: str
    empty: str
    loads: tuple[StateField, ...]
    views: tuple[StateView, ...]
    let: tuple[Let, ...]
    returns: str
    options: tuple[tuple[str, Any], ...]
    element: tuple[Any, ...] | None
    puts: tuple[str, ...] = ()
    changes: EmittedChanges | None = None

    @property
    def state_loads(self) -> list[StateField]:
        """The state that its value is computed of."""
        return [each for each in self.loads if self.changes is None or each != self.changes.field]

    @property
    def shape(self) -> str:
        """Type and shape of the array of values."""
        if self.form == "list":
            return "ListOut[rows]"
        width = {"limbs": 2, "words": len(self.texts), "floats": len(self.texts)}.get(self.form)
        dtype = "float64" if self.form.startswith("float") else "int64"
        return f"{dtype}[rows]" if width is None else f"{dtype}[rows, {width}]"

    @property
    def null_value(self) -> str:
        """The value that stands where the result is NULL."""
        if self.form in ("words", "floats"):
            return f"({', '.join([f'rt.NO_{self.form[:-1].upper()}'] * len(self.texts))},)"
        return f"rt.NO_{self.form.upper()}"

    @property
    def text(self) -> str:
        if self.form in ("words", "floats"):
            return f"({', '.join(self.texts)},)"
        return self.texts[0]


@dataclass
class HandlerPlan:
    """Everything the template prints.

    functions: the users' classes; names: those of all users' functions; unmergeable: of those without a merge.
    compacts: whether merging a state into a new one gives the same state. verdicts: (call, why it is not compiled).
    retractions: (call, how its class retracts rows).
    """

    spec: AggSpec
    backend: str
    inputs: list[Input]
    fields: list[StateField]
    views: list[StateView]
    blocks: list[CallBlock]
    distincts: list[Distinct]
    outputs: list[CallOutput]
    functions: list[Rendered] = field(default_factory=list)
    names: tuple[str, ...] = ()
    unmergeable: tuple[str, ...] = ()
    compacts: bool = True
    verdicts: tuple[tuple[str, str], ...] = ()
    retractions: tuple[tuple[str, Retraction], ...] = ()

    @property
    def is_compiled(self) -> bool:
        return self.backend == "numba"

    @property
    def has_user_code(self) -> bool:
        """Tell whether a user's functions, or expressions, are in the module."""
        return any(self.spec.entry(call).user_defined for call in self.spec.calls)

    @property
    def modules(self) -> list[str]:
        """Names of modules that the module imports for users' functions."""
        used = {module for function in self.functions for module in function.modules}
        return sorted("numpy as np" if module == "np" else module for module in used)

    def life_cycle(self, method: str) -> list[tuple[str, str]]:
        """The users' functions whose class has a method of this name, and what that is called in the module."""
        having = [each for each in self.functions if method in dict(each.methods)]
        return [(each.name, each.call(method)) for each in having]

    @property
    def has_retractions(self) -> bool:
        return self.spec.input_changes == "retract"

    @property
    def spills(self) -> bool:
        return any(view.kind is SPILL for view in self.views)

    @property
    def queued_views(self) -> list[StateView]:
        """The views that note changes."""
        return [view for view in self.views if view.kind.queued and self.is_compiled]

    @property
    def emits_rows(self) -> bool:
        """True where a call is of a table aggregate."""
        return any(output.puts for output in self.outputs)

    @property
    def row_changes(self) -> CallOutput | None:
        """The output whose class says which rows differ; None where several calls make up a row, or in windows."""
        alone = len(self.outputs) == 1 and not self.spec.namespace
        return self.outputs[0] if alone and self.outputs[0].changes else None

    @property
    def lists(self) -> list[str]:
        return [output.attr for output in self.outputs if output.form == "list"]

    def describe(self) -> str:
        """The accumulator's layout, one part a line."""
        lines = []
        for f in self.fields:
            if f.kind == "object":
                lines.append(f"{f.attr:<32} object, a Python value a key")
                continue
            size = (int(f.dtype[1:])) * max(1, f.columns)
            lines.append(f"{f.attr:<32} {f.kind:<6} {size:>3} bytes a key")
        for v in self.views:
            width = f", {v.width} counts a value" if v.kind.shared else ""
            lines.append(f"{v.attr:<32} {v.kind.name} view, a value{width}")
        return "\n".join(lines)
