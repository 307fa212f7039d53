"""TOP2(v) AS top GROUP BY k

A handler of aggloom: compiled by Numba, over an append-only input, in dialect spark.
SPEC_JSON is the spec that it was generated from. You may edit it: it loads with a warning, and is never overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggloom.runtime.handlers import vocabulary as rt

SPEC_JSON = '{"calls":[{"alias":"top","args":["v"],"function":"TOP2"}],"dialect":"spark","functions":[{"arguments":[["v","INT"]],"columns":[["value","INT"],["place","INT"]],"name":"TOP2","nulls":"ignore","source":"class Top2:\\n    \\"\\"\\"The two largest values; it says itself which rows differ.\\"\\"\\"\\n\\n    def create():\\n        return (0, 0, 0, 0, 0, 0)\\n\\n    def accumulate(state, v):\\n        first, second, count, old_first, old_second, old_count = state\\n        if count == 0 or v > first:\\n            return (v, first, min(count + 1, 2), old_first, old_second, old_count)\\n        if count == 1 or v > second:\\n            return (first, v, 2, old_first, old_second, old_count)\\n        return state\\n\\n    def rows(state):\\n        if state[2] > 0:\\n            yield state[0], 1\\n        if state[2] > 1:\\n            yield state[1], 2\\n\\n    def changes(state):\\n        first, second, count, old_first, old_second, old_count = state\\n        if old_count > 0 and (count < 1 or first != old_first):\\n            yield False, old_first, 1\\n        if old_count > 1 and (count < 2 or second != old_second):\\n            yield False, old_second, 2\\n        if count > 0 and (old_count < 1 or first != old_first):\\n            yield True, first, 1\\n        if count > 1 and (old_count < 2 or second != old_second):\\n            yield True, second, 2\\n\\n    def mark_emitted(state):\\n        return (state[0], state[1], state[2], state[0], state[1], state[2])\\n"}],"group_by":["k"],"input_changes":"append","schema":[["k","STRING"],["v","INT"]]}'
BACKEND = "numba"
SUPPORT = "9c59bd49090ea77c"
DIGEST = "3eb0d896733a6ecd"


class Inputs(NamedTuple):
    """The columns of a bundle. *_valid: False for NULL; *_word: compares as the value does; *_number: the value."""

    in_v_valid: Any  # bool[rows]: v
    in_v_number: Any  # int64[rows]: v


class State(NamedTuple):
    """The accumulators by slot, an array for each field."""

    pool: Any
    records: Any  # int8[slots]
    state0_top2_v: Any  # int64[slots]
    state1_top2_v: Any  # int64[slots]
    state2_top2_v: Any  # int64[slots]
    state3_top2_v: Any  # int64[slots]
    state4_top2_v: Any  # int64[slots]
    state5_top2_v: Any  # int64[slots]
    emitted_top2_v: Any  # int8[slots]


class Outputs(NamedTuple):
    """The results of each call. *_valid: False for NULL; overflow: by call slot + 1 of a value that does not fit, or 0."""

    overflow: Any  # int64[calls]
    out_top: Any  # ListOut[rows]: TOP2(v) AS top
    out_top_valid: Any  # bool[rows]


# TOP2, as its user wrote it.
@rt.only_compiled
@rt.kernel
def user_top2_create():
    return (0, 0, 0, 0, 0, 0)


@rt.only_compiled
@rt.kernel
def user_top2_accumulate(state, v):
    first, second, count, old_first, old_second, old_count = state
    if count == 0 or v > first:
        return (v, first, min(count + 1, 2), old_first, old_second, old_count)
    if count == 1 or v > second:
        return (first, v, 2, old_first, old_second, old_count)
    return state


@rt.only_compiled
@rt.kernel
def user_top2_rows(state):
    if state[2] > 0:
        yield (state[0], 1)
    if state[2] > 1:
        yield (state[1], 2)


@rt.only_compiled
@rt.kernel
def user_top2_changes(state):
    first, second, count, old_first, old_second, old_count = state
    if old_count > 0 and (count < 1 or first != old_first):
        yield (False, old_first, 1)
    if old_count > 1 and (count < 2 or second != old_second):
        yield (False, old_second, 2)
    if count > 0 and (old_count < 1 or first != old_first):
        yield (True, first, 1)
    if count > 1 and (old_count < 2 or second != old_second):
        yield (True, second, 2)


@rt.only_compiled
@rt.kernel
def user_top2_mark_emitted(state):
    return (state[0], state[1], state[2], state[0], state[1], state[2])


@rt.part
def accumulate_row(state, inputs, i, s):
    """Add row i to the accumulators at slot s."""
    state.records[s] = 1
    # TOP2(v) AS top
    if inputs.in_v_valid[i]:
        whole_v = inputs.in_v_number[i]
        state0_top2_v = state.state0_top2_v[s]
        state1_top2_v = state.state1_top2_v[s]
        state2_top2_v = state.state2_top2_v[s]
        state3_top2_v = state.state3_top2_v[s]
        state4_top2_v = state.state4_top2_v[s]
        state5_top2_v = state.state5_top2_v[s]
        (
            state.state0_top2_v[s],
            state.state1_top2_v[s],
            state.state2_top2_v[s],
            state.state3_top2_v[s],
            state.state4_top2_v[s],
            state.state5_top2_v[s],
        ) = user_top2_accumulate(
            (
                state0_top2_v,
                state1_top2_v,
                state2_top2_v,
                state3_top2_v,
                state4_top2_v,
                state5_top2_v,
            ),
            whole_v,
        )


@rt.inner_kernel
def reset_row(state, s):
    """Reset the accumulators at slot s to their initial values."""
    state.records[s] = 0
    state.state0_top2_v[s] = 0
    state.state1_top2_v[s] = 0
    state.state2_top2_v[s] = 0
    state.state3_top2_v[s] = 0
    state.state4_top2_v[s] = 0
    state.state5_top2_v[s] = 0
    state.emitted_top2_v[s] = 0


@rt.part
def merge_row(state, s, other, o):
    """Add the accumulators at slot o of another state to those at slot s."""
    state.records[s] |= other.records[o]
    # TOP2(v) AS top


@rt.part
def value_row(state, s, out, k):
    """Write the results at slot s to row k of the outputs."""
    # TOP2(v) AS top
    state0_top2_v = state.state0_top2_v[s]
    state1_top2_v = state.state1_top2_v[s]
    state2_top2_v = state.state2_top2_v[s]
    state3_top2_v = state.state3_top2_v[s]
    state4_top2_v = state.state4_top2_v[s]
    state5_top2_v = state.state5_top2_v[s]
    valid = not (state.records[s] <= 0)
    if valid:
        for row in user_top2_rows(
            (
                state0_top2_v,
                state1_top2_v,
                state2_top2_v,
                state3_top2_v,
                state4_top2_v,
                state5_top2_v,
            )
        ):
            if not rt.put_integer(out.out_top, row[0], 32):
                out.overflow[0] = s + 1
            if not rt.put_integer(out.out_top, row[1], 32):
                out.overflow[0] = s + 1
    rt.end_list(out.out_top, k)
    out.out_top_valid[k] = valid


@rt.part
def apply_row(state, inputs, retracts, keep_orphans, i, s):
    """Apply row i to slot s and return True; False for an orphan retraction, which is dropped unless keep_orphans."""
    accumulate_row(state, inputs, i, s)
    return True


@rt.only_compiled
@rt.cold_kernel
def update(state, inputs, retracts, keep_orphans, slots, start, stop):
    """Apply rows[start:stop], each to its slot, while there is room; return (next row, number of dropped rows)."""
    dropped = 0
    for i in range(start, stop):
        if not apply_row(state, inputs, retracts, keep_orphans, i, slots[i]):
            dropped += 1
    return stop, dropped


@rt.only_compiled
@rt.cold_kernel
def values(state, slots, out, start, stop):
    """Write the results of slots[start:stop], while lists have room; return the next index."""
    for k in range(start, stop):
        value_row(state, slots[k], out, k)
        if rt.list_full(out.out_top):
            return k
    return stop


@rt.only_compiled
@rt.cold_kernel
def changes(state, slots, removed, added, start, stop):
    """Write the rows of slots[start:stop] that differ from the emitted ones, as `values` does."""
    for k in range(start, stop):
        s = slots[k]
        state0_top2_v = state.state0_top2_v[s]
        state1_top2_v = state.state1_top2_v[s]
        state2_top2_v = state.state2_top2_v[s]
        state3_top2_v = state.state3_top2_v[s]
        state4_top2_v = state.state4_top2_v[s]
        state5_top2_v = state.state5_top2_v[s]
        for row in user_top2_changes(
            (
                state0_top2_v,
                state1_top2_v,
                state2_top2_v,
                state3_top2_v,
                state4_top2_v,
                state5_top2_v,
            )
        ):
            if not row[0]:
                if not rt.put_integer(removed.out_top, row[1], 32):
                    removed.overflow[0] = s + 1
                if not rt.put_integer(removed.out_top, row[2], 32):
                    removed.overflow[0] = s + 1
            if row[0]:
                if not rt.put_integer(added.out_top, row[1], 32):
                    added.overflow[0] = s + 1
                if not rt.put_integer(added.out_top, row[2], 32):
                    added.overflow[0] = s + 1
        rt.end_list(removed.out_top, k)
        removed.out_top_valid[k] = True
        rt.end_list(added.out_top, k)
        added.out_top_valid[k] = True
        if rt.list_full(removed.out_top) or rt.list_full(added.out_top):
            return k
    return stop


@rt.only_compiled
@rt.cold_kernel
def mark(state, slots):
    """Mark the rows of the slots as emitted."""
    for k in range(len(slots)):
        s = slots[k]
        state0_top2_v = state.state0_top2_v[s]
        state1_top2_v = state.state1_top2_v[s]
        state2_top2_v = state.state2_top2_v[s]
        state3_top2_v = state.state3_top2_v[s]
        state4_top2_v = state.state4_top2_v[s]
        state5_top2_v = state.state5_top2_v[s]
        (
            state.state0_top2_v[s],
            state.state1_top2_v[s],
            state.state2_top2_v[s],
            state.state3_top2_v[s],
            state.state4_top2_v[s],
            state.state5_top2_v[s],
        ) = user_top2_mark_emitted(
            (
                state0_top2_v,
                state1_top2_v,
                state2_top2_v,
                state3_top2_v,
                state4_top2_v,
                state5_top2_v,
            )
        )
        state.emitted_top2_v[s] = 1


@rt.only_compiled
@rt.cold_kernel
def merge_slots(state, slots, other, others, start):
    """Merge others[start:] of another state into slots[start:], while there is room; return the next index."""
    stop = len(slots)
    for k in range(start, stop):
        merge_row(state, slots[k], other, others[k])
    return stop


@rt.only_compiled
@rt.cold_kernel
def reset_slots(state, slots):
    """Reset the accumulators at the slots to their initial values."""
    for k in range(len(slots)):
        reset_row(state, slots[k])


class GroupAggsHandler(rt.Handler):
    """The life cycle: create or set accumulators, then accumulate, retract, merge, then read the value."""

    SPEC_JSON = SPEC_JSON
    BACKEND = BACKEND
    RETRACTING = False
    FUNCTIONS = ("TOP2",)
    UNMERGEABLE = ("TOP2",)
    COMPACTS = False
    EMITTED = "emitted_top2_v"
    INPUTS = (
        rt.InputLayout("in_v_valid", "v", "valid"),
        rt.InputLayout("in_v_number", "v", "number"),
    )
    FIELDS = (
        rt.FieldLayout("records", "i1", columns=0, kind="int", pooled=False),
        rt.FieldLayout("state0_top2_v", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("state1_top2_v", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("state2_top2_v", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("state3_top2_v", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("state4_top2_v", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("state5_top2_v", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("emitted_top2_v", "i1", columns=0, kind="int", pooled=False),
    )
    VIEWS = ()
    OUTPUTS = (rt.OutputLayout("out_top", "list", columns=1, check="user"),)
    RESULTS = {
        "out_top": ("rows", (), (("INT", "INT"), None, ())),
    }
    KERNELS = rt.Kernels(
        inputs=Inputs,
        state=State,
        outputs=Outputs,
        update=update,
        fold=None,
        values=values,
        merge=merge_slots,
        reset=reset_slots,
        changes=changes,
        mark=mark,
    )

    def open(self):
        """Open users' functions before the first row; setAccumulators does it, too."""
        self.open_functions()

    def createAccumulators(self, n=1):
        """Return n new accumulators."""
        return self.create(n)

    def setAccumulators(self, accumulators, slots=None):
        """Work on these accumulators; slots: int64[rows], of the next batches (default: all in order)."""
        self.set(accumulators, slots)

    def resetAccumulators(self):
        """Reset the current accumulators to their initial values."""
        self.reset()

    def getAccumulators(self):
        """Return the current accumulators."""
        return self.accumulators

    def accumulate(self, rows):
        """Add a row (a tuple) or a batch."""
        self.apply(rows, False)

    def retract(self, rows):
        """Retract a row (a tuple) or a batch."""
        self.apply(rows, True)

    def merge(self, other):
        """Add other accumulators: their slot 0, 1, ... to the current slots."""
        self.merge_with(other)

    def getValue(self):
        """Return the results: a tuple for one accumulator, else a record batch with a row for each."""
        return self.value()

    def emitValue(self):
        """Return the rows that the table aggregate emits: a list of tuples for one accumulator, else a list for each."""
        return self.emit()

    def emitUpdateWithRetract(self):
        """Return the rows that differ from the emitted ones, each behind -D or +I: a list, or one for each accumulator."""
        return self.emit_update()

    def cleanup(self):
        """Drop the current accumulators."""
        self.drop()

    def close(self):
        """Close users' functions that nothing else in this process uses."""
        self.close_functions()
