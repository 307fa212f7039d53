"""BUCKETS(v) AS buckets GROUP BY k

A handler of aggloom: plain Python, over a retracting input, in dialect spark.
SPEC_JSON is the spec that it was generated from. You may edit it: it loads with a warning, and is never overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggloom.runtime.plain import vocabulary as rt

SPEC_JSON = '{"calls":[{"alias":"buckets","args":["v"],"function":"BUCKETS"}],"dialect":"spark","functions":[{"arguments":[["v","INT"]],"columns":[["low","INT"],["rows","BIGINT"]],"name":"BUCKETS","nulls":"ignore","source":"class Buckets:\\n    \\"\\"\\"A histogram: the values in buckets of ten.\\"\\"\\"\\n\\n    def create():\\n        return {}\\n\\n    def accumulate(state, v):\\n        low = v // 10 * 10\\n        state[low] = state.get(low, 0) + 1\\n\\n    def retract(state, v):\\n        low = v // 10 * 10\\n        state[low] -= 1\\n        if not state[low]:\\n            del state[low]\\n\\n    def merge(state, other):\\n        for low, count in other.items():\\n            state[low] = state.get(low, 0) + count\\n\\n    def rows(state):\\n        return sorted(state.items())\\n"}],"group_by":["k"],"input_changes":"retract","schema":[["k","STRING"],["v","INT"]]}'
BACKEND = "python"
SUPPORT = "94e4f938120b24cf"
DIGEST = "6c3e8da6cf3461cb"


class Inputs(NamedTuple):
    """The columns of a bundle. *_valid: False for NULL; *_word: compares as the value does; *_number: the value."""

    in_v_valid: Any  # v
    in_v_number: Any  # v


class State(NamedTuple):
    """The accumulators by slot, a list for each field."""

    pool: Any
    records: Any
    state_buckets_v: Any


class Outputs(NamedTuple):
    """The results of each call. *_valid: False for NULL; overflow: by call slot + 1 of a value that does not fit, or 0."""

    overflow: Any
    out_buckets: Any  # BUCKETS(v) AS buckets
    out_buckets_valid: Any


# BUCKETS, as its user wrote it.
@rt.user_function("BUCKETS", "create")
def user_buckets_create():
    return {}


@rt.user_function("BUCKETS", "accumulate")
def user_buckets_accumulate(state, v):
    low = v // 10 * 10
    state[low] = state.get(low, 0) + 1


@rt.user_function("BUCKETS", "retract")
def user_buckets_retract(state, v):
    low = v // 10 * 10
    state[low] -= 1
    if not state[low]:
        del state[low]


@rt.user_function("BUCKETS", "merge")
def user_buckets_merge(state, other):
    for low, count in other.items():
        state[low] = state.get(low, 0) + count


@rt.user_function("BUCKETS", "rows")
def user_buckets_rows(state):
    return sorted(state.items())


def accumulate_row(state, inputs, i, s):
    """Add row i to the accumulators at slot s."""
    state.records[s] += 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # BUCKETS(v) AS buckets
    if inputs.in_v_valid[i]:
        whole_v = inputs.in_v_number[i]
        state_buckets_v = state.state_buckets_v[s]
        state.state_buckets_v[s] = rt.choose_state(
            state_buckets_v, user_buckets_accumulate(state_buckets_v, whole_v)
        )


def retract_row(state, inputs, i, s):
    """Retract row i from the accumulators at slot s; the last row resets them."""
    state.records[s] -= 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # BUCKETS(v) AS buckets
    if inputs.in_v_valid[i]:
        whole_v = inputs.in_v_number[i]
        state_buckets_v = state.state_buckets_v[s]
        state.state_buckets_v[s] = rt.choose_state(
            state_buckets_v, user_buckets_retract(state_buckets_v, whole_v)
        )


def reset_row(state, s):
    """Reset the accumulators at slot s to their initial values."""
    state.records[s] = 0
    state.state_buckets_v[s] = user_buckets_create()


def merge_row(state, s, other, o):
    """Add the accumulators at slot o of another state to those at slot s."""
    state.records[s] += other.records[o]
    # BUCKETS(v) AS buckets
    state_buckets_v = state.state_buckets_v[s]
    other_state_buckets_v = other.state_buckets_v[o]
    state.state_buckets_v[s] = rt.choose_state(
        state_buckets_v, user_buckets_merge(state_buckets_v, rt.copy_state(other_state_buckets_v))
    )

    if state.records[s] == 0:
        reset_row(state, s)


def value_row(state, s, out, k):
    """Write the results at slot s to row k of the outputs."""
    # BUCKETS(v) AS buckets
    state_buckets_v = state.state_buckets_v[s]
    valid = not (state.records[s] <= 0)
    if valid:
        for row in rt.user_rows("BUCKETS", "rows", 2, user_buckets_rows(state_buckets_v)):
            if not rt.put_value(out.out_buckets, "BUCKETS", "INT", row[0]):
                out.overflow[0] = s + 1
            if not rt.put_value(out.out_buckets, "BUCKETS", "BIGINT", row[1]):
                out.overflow[0] = s + 1
    rt.end_list(out.out_buckets, k)
    out.out_buckets_valid[k] = valid


def apply_row(state, inputs, retracts, keep_orphans, i, s):
    """Apply row i to slot s and return True; False for an orphan retraction, which is dropped unless keep_orphans."""
    if keep_orphans:
        # Orphans arrive in any order: the offset keeps the counter off zero, which would reset the accumulators.
        state.records[s] += rt.AWAY_FROM_ZERO
    elif retracts[i] and state.records[s] <= 0:
        return False
    if retracts[i]:
        retract_row(state, inputs, i, s)
    else:
        accumulate_row(state, inputs, i, s)
    if keep_orphans:
        state.records[s] -= rt.AWAY_FROM_ZERO
    return True


def update(state, inputs, retracts, keep_orphans, slots, start, stop):
    """Apply rows[start:stop], each to its slot, while there is room; return (next row, number of dropped rows)."""
    dropped = 0
    for i in range(start, stop):
        if not apply_row(state, inputs, retracts, keep_orphans, i, slots[i]):
            dropped += 1
    return stop, dropped


def values(state, slots, out, start, stop):
    """Write the results of slots[start:stop], while lists have room; return the next index."""
    for k in range(start, stop):
        value_row(state, slots[k], out, k)
        if rt.list_full(out.out_buckets):
            return k
    return stop


def merge_slots(state, slots, other, others, start):
    """Merge others[start:] of another state into slots[start:], while there is room; return the next index."""
    stop = len(slots)
    for k in range(start, stop):
        merge_row(state, slots[k], other, others[k])
    return stop


def reset_slots(state, slots):
    """Reset the accumulators at the slots to their initial values."""
    for k in range(len(slots)):
        reset_row(state, slots[k])


class GroupAggsHandler(rt.Handler):
    """The life cycle: create or set accumulators, then accumulate, retract, merge, then read the value."""

    SPEC_JSON = SPEC_JSON
    BACKEND = BACKEND
    RETRACTING = True
    FUNCTIONS = ("BUCKETS",)
    INPUTS = (
        rt.InputLayout("in_v_valid", "v", "valid"),
        rt.InputLayout("in_v_number", "v", "number"),
    )
    FIELDS = (
        rt.FieldLayout("records", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout(
            "state_buckets_v",
            "O",
            columns=0,
            kind="object",
            pooled=False,
            initial=user_buckets_create,
        ),
    )
    VIEWS = ()
    OUTPUTS = (rt.OutputLayout("out_buckets", "list", columns=1, check="user"),)
    RESULTS = {
        "out_buckets": ("rows", (), (("INT", "BIGINT"), None, ())),
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

    def cleanup(self):
        """Drop the current accumulators."""
        self.drop()

    def close(self):
        """Close users' functions that nothing else in this process uses."""
        self.close_functions()
