"""The plan's part about users' functions: the arguments of expressions, and the state of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aggloom.codegen.catalogue.entry import Aggregate, Field
from aggloom.codegen.handler.draft import CallPlan, Draft
from aggloom.codegen.handler.lower import number_kind
from aggloom.codegen.handler.operands import respects_nulls
from aggloom.codegen.handler.plan_blocks import is_distinct
from aggloom.codegen.handler.plan_parts import (
    NOT_LIVE,
    CallOutput,
    EmittedChanges,
    Local,
    StateField,
    UserStep,
)
from aggloom.codegen.spec.agg_call import AggCall, describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.user import classes as user_code
from aggloom.codegen.user import trust as user_trust
from aggloom.codegen.user.classes import Rendered
from aggloom.codegen.user.probe import Verdict
from aggloom.codegen.user.retraction import Retraction, with_retract
from aggloom.codegen.user.source import CHANGES, MARK, ROWS

_MARKED = "emitted"
"""The start of the field that says whether a key's rows have left."""
_KEEPS_ROWS = "it has no retract, and keeps the live rows"
_INEXACT = ("double", "word", "object")


@dataclass(frozen=True)
class ClassCall:
    """A call of a user's class: its text in the module, how its arguments come, and whether it is compiled.

    retraction: the class as the handler needs it, and what was added to it for rows that go.
    """

    rendered: Rendered
    forms: tuple[str, ...]
    verdict: Verdict
    retraction: Retraction


def class_calls(spec: AggSpec, backend: str) -> dict[AggCall, ClassCall]:
    """The calls of users' classes in a spec."""
    calls_by_class: dict[AggCall, ClassCall] = {}
    prefixes: dict[str, str] = {}
    for call in spec.calls:
        entry, types = spec.entry(call), spec.arg_types(call)
        if entry.code is None:
            continue
        retraction = Retraction(entry)
        if spec.input_changes == "retract":
            retraction = with_retract(entry, types)
            entry = retraction.entry
        assert entry.code is not None
        # A function over arguments of two types may retract rows in two ways.
        prefix = prefixes.setdefault(entry.code.source, _prefix(entry.name, prefixes))
        verdict = Verdict("plain Python was asked for")
        if backend == "numba" and respects_nulls(call, entry, spec.dialect):
            verdict = Verdict("its arguments may be None (RESPECT NULLS)")
        elif backend == "numba" and not user_trust.is_trusted(entry):
            verdict = Verdict(user_trust.NOT_TRIED)
        elif backend == "numba" and retraction.why:
            verdict = Verdict(_KEEPS_ROWS)
        elif backend == "numba":
            verdict = user_code.verdict(entry, types, spec.result_type(call))
            if retraction.inverse and "double" in verdict.state:
                # In Python its numbers are integers, of which the inverse is exact.
                verdict = Verdict("Numba makes floats of integers, which a derived retract needs")
        forms = user_code.forms(entry, types)
        rendered = user_code.render(entry, prefix, retraction.origin)
        calls_by_class[call] = ClassCall(rendered, forms, verdict, retraction)
    return calls_by_class


def _prefix(name: str, prefixes: dict[str, str]) -> str:
    """Return the start of the functions' names: no name of one function is that of another's."""
    stem = f"user_{name.lower()}"
    near = [
        other for other in prefixes.values() if other.startswith(stem) or stem.startswith(other)
    ]
    return f"user{len(prefixes) + 1}_{name.lower()}" if near else stem


def user_parts(spec: AggSpec, classes: dict[AggCall, ClassCall]) -> dict[str, Any]:
    """Return the parts of a plan that are about users' functions."""
    entries = {call: of.retraction.entry for call, of in classes.items()}
    user_calls = [
        (call, entries.get(call, spec.entry(call)))
        for call in spec.calls
        if spec.entry(call).user_defined
    ]
    plain = {
        e.name
        for c, e in user_calls
        if e.code and "merge" not in e.code.methods and not is_distinct(c, e)
    }
    again = [e for c, e in user_calls if is_distinct(c, e) and _is_inexact(e)]
    rendered = {each.rendered.prefix: each.rendered for each in classes.values()}
    return {
        "functions": list(rendered.values()),
        "names": tuple(sorted({entry.name for _, entry in user_calls})),
        "unmergeable": tuple(sorted(plain)),
        # Merging distinct values adds them in their own order, not in that in which they arrived. What has been emitted
        # is nothing that a merge has to keep.
        "compacts": not plain and not again and not any(has(e, CHANGES) for _, e in user_calls),
        "verdicts": tuple((call.text, of.verdict.reason) for call, of in classes.items()),
        "retractions": tuple((call.text, of.retraction) for call, of in classes.items()),
    }


def _is_inexact(entry: Aggregate) -> bool:
    shapes = [shape for shape in (entry.append, entry.retract) if shape is not None]
    return entry.code is not None or any(
        s.kind in _INEXACT for shape in shapes for s in shape.state
    )


def user_argument(draft: Draft, state: Field, call: CallPlan, column: str) -> str:
    """Return the name of an argument in the expressions of a user's field."""
    dtype = draft.type_of(column)
    if state.kind == "word":
        return draft.word(call)
    if state.kind == "count":
        return _local(draft, call, column, "flag" if pa.types.is_boolean(dtype) else "whole")
    exact = number_kind(dtype, draft.spec.dialect) != "float"
    return (
        draft.number(call, column) if state.kind == "number" and exact else draft.real(call, column)
    )


def _local(draft: Draft, call: CallPlan, column: str, form: str) -> str:
    """The local name of an argument in a form, entered into its block."""
    if form == "real":
        return draft.real(call, column)
    name = f"{'arg' if form == 'value' else form}_{draft.columns[column]}"
    word = draft.component(call, column).text
    from_word = {"flag": f"{word} != 0", "whole": word}.get(form) or _value_of_word(
        draft, call, column
    )
    read = {"whole": "number"}.get(form, form)
    call.block.locals[name] = Local(name, draft.read_column(column, read), from_word)
    return name


def _value_of_word(draft: Draft, call: CallPlan, column: str) -> str:
    """Text that gives the Python value of a column, out of the word of a DISTINCT view."""
    operand = call.operand
    if operand is None or operand.form != "row":
        return f"rt.word_value(word, {type_name(draft.type_of(column))!r})"
    names = tuple(type_name(t) for t in operand.types)
    return f"rt.row_value(word, {names!r}, {operand.parts!r}, {operand.columns.index(column)})"


def enter_class(draft: Draft, call: CallPlan, of: ClassCall) -> None:
    """Enter the state, the steps and the output of a call of a user's class."""
    key = (id(call.block), call.entry.name)
    known = [f for k, f in draft.fields.items() if isinstance(k, tuple) and k[:2] == key]
    if not known:
        arguments = ", ".join(_arguments(draft, call, of))
        known = _fields(draft, call, of)
        make = _compiled_step if draft.backend == "numba" else _python_step
        call.block.users.append(make(call.entry, of.rendered, known, arguments))
    _output(draft, call, of, known)


def _arguments(draft: Draft, call: CallPlan, of: ClassCall) -> list[str]:
    nullable = respects_nulls(call.call, call.entry, draft.spec.dialect)
    listed = []
    for form, column in zip(of.forms, call.call.args, strict=True):
        if not nullable:
            listed.append(_local(draft, call, column, form))
            continue
        name = _local(draft, call, column, "value")
        listed.append(f"rt.real_or_none({name})" if form == "real" else name)
    return listed


def _fields(draft: Draft, call: CallPlan, of: ClassCall) -> list[StateField]:
    stem = f"{call.entry.name.lower()}_{draft.suffix(call)}"
    if draft.backend == "python":
        create = of.rendered.call("create")
        listed = [StateField(draft.unique(f"state_{stem}"), "object", "O", initial=create)]
    else:
        state = user_code.first_state(call.entry)
        numbers = state if isinstance(state, tuple) else (state,)
        listed = []
        for place, (number, kind) in enumerate(zip(numbers, of.verdict.state, strict=True)):
            attr = draft.unique(f"state{place}_{stem}")
            # Compiling found the kinds: a state that begins at 0 may become a DOUBLE.
            first = float(number) if kind == "double" else int(number)
            layout = ("double", "f8") if kind == "double" else ("int", "i8")
            listed.append(StateField(attr, *layout, initial=literal(first)))  # type: ignore[arg-type]
    for place, field in enumerate(listed):
        draft.fields[id(call.block), call.entry.name, place] = field
    if call.entry.emits_rows and has(call.entry, CHANGES):
        marked = StateField(draft.unique(f"{_MARKED}_{stem}"), "int", "i1")
        draft.fields[_MARKED, id(call.block), call.entry.name] = marked
    return listed


def literal(number: float) -> str:
    """The text of a field's first value; "" for 0."""
    # Infinities and NaN have no literal in Python.
    if number - number != 0:
        return {"inf": "rt.INFINITY", "-inf": "-rt.INFINITY"}.get(str(number), "rt.NOT_A_NUMBER")
    return repr(number) if number else ""


def _compiled_step(
    entry: Aggregate, rendered: Rendered, fields: list[StateField], arguments: str
) -> UserStep:
    single = not isinstance(user_code.first_state(entry), tuple)

    def tuple_of(texts: list[str]) -> str:
        return texts[0] if single else f"({', '.join(texts)},)"

    state_fields = tuple_of([field.attr for field in fields])
    theirs = tuple_of([f"other_{field.attr}" for field in fields])
    target = tuple_of([f"state.{field.attr}[s]" for field in fields])

    def step(method: str, *operands: str) -> str:
        if not has(entry, method):
            return ""
        return f"{target} = {rendered.call(method)}({', '.join(filter(None, operands))})"

    return UserStep(
        tuple(fields),
        step("accumulate", state_fields, arguments),
        step("retract", state_fields, arguments),
        step("merge", state_fields, theirs),
    )


def _python_step(
    entry: Aggregate, rendered: Rendered, fields: list[StateField], arguments: str
) -> UserStep:
    attr = fields[0].attr

    def step(method: str, operands: str) -> str:
        if not has(entry, method):
            return ""
        called = f"{rendered.call(method)}({', '.join(filter(None, [attr, operands]))})"
        return f"state.{attr}[s] = rt.choose_state({attr}, {called})"

    return UserStep(
        tuple(fields),
        step("accumulate", arguments),
        step("retract", arguments),
        # A method may change its arguments in place, and the state that is merged stays what it was.
        step("merge", f"rt.copy_state(other_{attr})"),
    )


def has(entry: Aggregate, method: str) -> bool:
    """Tell whether a class has a method."""
    return entry.code is not None and method in entry.code.methods


def _rows_output(draft: Draft, call: CallPlan, of: ClassCall, fields: list[StateField]) -> None:
    """Enter the output of a table aggregate: a list of the values of its rows, one after the other."""
    result = draft.spec.result_type(call.call)
    attr = f"out_{draft.results[call.call.output_name]}"
    name, columns = call.entry.name, list(result.value_type)
    types = tuple(type_name(column.type) for column in columns)
    is_plain = draft.backend == "python"
    attrs = [field.attr for field in fields]
    state_text = attrs[0] if is_plain else _state_text(call.entry, attrs)

    def rows_text(method: str, width: int) -> str:
        call_text = f"{of.rendered.call(method)}({state_text})"
        return (
            f"rt.user_rows({name!r}, {method!r}, {width}, {call_text})" if is_plain else call_text
        )

    def puts(out: str, first: int) -> tuple[str, ...]:
        texts = []
        for place, column in enumerate(columns, first):
            # Before a row of changes its kind stands first, so that row is a tuple also where it has one column.
            value = "row" if of.verdict.is_bare and not first else f"row[{place}]"
            into = f"{out}.{attr}"
            if is_plain:
                texts.append(f"rt.put_value({into}, {name!r}, {types[place - first]!r}, {value})")
            else:
                texts.append(_put_text(into, column.type, value))
        return tuple(texts)

    changes = None
    if has(call.entry, CHANGES):
        marked = of.rendered.call(MARK) + f"({state_text})"
        target = [f"state.{each}[s]" for each in attrs]
        mark = (
            f"{target[0]} = rt.choose_state({state_text}, {marked})"
            if is_plain
            else f"{_state_text(call.entry, target)} = {marked}"
        )
        field = draft.fields[_MARKED, id(call.block), name]
        text = rows_text(CHANGES, 1 + len(columns))
        changes = EmittedChanges(text, (puts("removed", 1), puts("added", 1)), mark, field)
    draft.outputs.append(
        CallOutput(
            attr,
            describe_call(call.call),
            texts=(rows_text(ROWS, len(columns)),),
            form="list",
            check="user",
            empty=NOT_LIVE,
            loads=(*fields, *([changes.field] if changes else [])),
            views=(),
            let=(),
            returns="rows",
            options=(),
            element=(types, None, ()),
            puts=puts("out", 0),
            changes=changes,
        )
    )


def _put_text(into: str, dtype: pa.DataType, value: str) -> str:
    """The text that puts a number into a list, and says whether it fits."""
    if pa.types.is_integer(dtype):
        return f"rt.put_integer({into}, {value}, {dtype.bit_width})"
    if pa.types.is_boolean(dtype):
        return f"rt.put_truth({into}, {value})"
    return f"rt.put_real({into}, {value})"


def _state_text(entry: Aggregate, attrs: list[str]) -> str:
    """The state of a compiled class as its methods take it, of names or of targets."""
    single = not isinstance(user_code.first_state(entry), tuple)
    return attrs[0] if single else f"({', '.join(attrs)},)"


def _output(draft: Draft, call: CallPlan, of: ClassCall, fields: list[StateField]) -> None:
    if call.entry.emits_rows:
        _rows_output(draft, call, of, fields)
        return
    result = draft.spec.result_type(call.call)
    form = "float" if pa.types.is_floating(result) else "word"
    attrs = [field.attr for field in fields]
    if draft.backend == "python":
        called = f"{of.rendered.call('value')}({attrs[0]})"
        text = f"rt.user_result({call.entry.name!r}, {type_name(result)!r}, {called})"
        check = "found"
    else:
        state_text = _state_text(call.entry, attrs)
        called, check = f"{of.rendered.call('value')}({state_text})", "user"
        if pa.types.is_boolean(result):
            text = f"rt.user_truth({called})"
        else:
            text = (
                f"rt.user_integer({called}, {result.bit_width})"
                if form == "word"
                else f"rt.user_real({called})"
            )
    draft.outputs.append(
        CallOutput(
            f"out_{draft.results[call.call.output_name]}",
            describe_call(call.call),
            texts=(text,),
            form=form,
            check=check,
            empty=NOT_LIVE,
            loads=tuple(fields),
            views=(),
            let=(),
            returns="",
            options=(),
            element=None,
        )
    )
