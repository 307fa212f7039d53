"""COUNT(*) AS flights, AVG(dep_delay) AS delay, MAX(dep_delay) AS worst GROUP BY origin in windows

A handler of aggloom: compiled by Numba, over a retracting input, in dialect spark.
SPEC_JSON is the spec that it was generated from. You may edit it: it loads with a warning, and is never overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggloom.runtime.handlers import vocabulary as rt

SPEC_JSON = '{"calls":[{"alias":"flights","args":[],"function":"COUNT"},{"alias":"delay","args":["dep_delay"],"function":"AVG"},{"alias":"worst","args":["dep_delay"],"function":"MAX"}],"dialect":"spark","group_by":["origin","$window"],"input_changes":"retract","namespace":true,"schema":[["origin","STRING"],["$window","BIGINT"],["dep_delay","INT"]]}'
BACKEND = "numba"
SUPPORT = "9c59bd49090ea77c"
DIGEST = "91f3d88d222cb30f"


class Inputs(NamedTuple):
    """The columns of a bundle. *_valid: False for NULL; *_word: compares as the value does; *_number: the value."""

    in_dep_delay_valid: Any  # bool[rows]: dep_delay
    in_dep_delay_number: Any  # int64[rows]: dep_delay
    in_dep_delay_word: Any  # int64[rows]: dep_delay


class State(NamedTuple):
    """The accumulators by slot, an array for each field."""

    pool: Any
    records: Any  # int64[slots]
    count_dep_delay: Any  # int64[slots]
    sum_dep_delay: Any  # int64[slots]
    ordered_dep_delay: Any  # ordered[slots]


class Outputs(NamedTuple):
    """The results of each call. *_valid: False for NULL; overflow: by call slot + 1 of a value that does not fit, or 0."""

    overflow: Any  # int64[calls]
    out_flights: Any  # int64[rows]: COUNT(*) AS flights
    out_flights_valid: Any  # bool[rows]
    out_delay: Any  # float64[rows]: AVG(dep_delay) AS delay
    out_delay_valid: Any  # bool[rows]
    out_worst: Any  # int64[rows]: MAX(dep_delay) AS worst
    out_worst_valid: Any  # bool[rows]


@rt.part
def accumulate_row(state, inputs, i, s):
    """Add row i to the accumulators at slot s."""
    state.records[s] += 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # AVG(dep_delay) AS delay, MAX(dep_delay) AS worst
    if inputs.in_dep_delay_valid[i]:
        number = inputs.in_dep_delay_number[i]
        word = inputs.in_dep_delay_word[i]
        count_dep_delay = state.count_dep_delay[s]
        sum_dep_delay = state.sum_dep_delay[s]
        state.count_dep_delay[s] = count_dep_delay + 1
        state.sum_dep_delay[s] = sum_dep_delay + number
        rt.ordered_accumulate(state.ordered_dep_delay, state.pool, False, s, word)


@rt.part
def retract_row(state, inputs, i, s):
    """Retract row i from the accumulators at slot s; the last row resets them."""
    state.records[s] -= 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # AVG(dep_delay) AS delay, MAX(dep_delay) AS worst
    if inputs.in_dep_delay_valid[i]:
        number = inputs.in_dep_delay_number[i]
        word = inputs.in_dep_delay_word[i]
        count_dep_delay = state.count_dep_delay[s]
        sum_dep_delay = state.sum_dep_delay[s]
        state.count_dep_delay[s] = count_dep_delay - 1
        state.sum_dep_delay[s] = sum_dep_delay - number
        rt.ordered_retract(state.ordered_dep_delay, state.pool, False, s, word)


@rt.inner_kernel
def reset_row(state, s):
    """Reset the accumulators at slot s to their initial values."""
    state.records[s] = 0
    state.count_dep_delay[s] = 0
    state.sum_dep_delay[s] = 0
    rt.ordered_clear(state.ordered_dep_delay, state.pool, False, s)


@rt.part
def merge_row(state, s, other, o):
    """Add the accumulators at slot o of another state to those at slot s."""
    state.records[s] += other.records[o]
    # AVG(dep_delay) AS delay, MAX(dep_delay) AS worst
    count_dep_delay = state.count_dep_delay[s]
    other_count_dep_delay = other.count_dep_delay[o]
    sum_dep_delay = state.sum_dep_delay[s]
    other_sum_dep_delay = other.sum_dep_delay[o]
    state.count_dep_delay[s] = count_dep_delay + other_count_dep_delay
    state.sum_dep_delay[s] = sum_dep_delay + other_sum_dep_delay
    rt.ordered_merge(
        state.ordered_dep_delay,
        state.pool,
        False,
        s,
        other.ordered_dep_delay,
        other.pool,
        other_slot=o,
    )

    if state.records[s] == 0:
        reset_row(state, s)


@rt.part
def value_row(state, s, out, k):
    """Write the results at slot s to row k of the outputs."""
    # COUNT(*) AS flights
    records = state.records[s]
    value = records

    rt.put_word(out.out_flights, k, value)
    out.out_flights_valid[k] = True
    # AVG(dep_delay) AS delay
    count_dep_delay = state.count_dep_delay[s]
    sum_dep_delay = state.sum_dep_delay[s]
    valid = not (count_dep_delay == 0)
    value = rt.NO_FLOAT
    if valid:
        value = sum_dep_delay / count_dep_delay

    rt.put_float(out.out_delay, k, value)
    out.out_delay_valid[k] = valid
    # MAX(dep_delay) AS worst
    value, valid = rt.greatest(state.ordered_dep_delay, state.pool, False, s)

    rt.put_word(out.out_worst, k, value)
    out.out_worst_valid[k] = valid


@rt.part
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


@rt.part
def flush_rows(state):
    """Apply the changes that views have queued."""
    rt.ordered_flush(state.ordered_dep_delay, state.pool, False)


@rt.cold_kernel
def update(state, inputs, retracts, keep_orphans, slots, start, stop):
    """Apply rows[start:stop], each to its slot, while there is room; return (next row, number of dropped rows)."""
    dropped = 0
    for i in range(start, stop):
        if not apply_row(state, inputs, retracts, keep_orphans, i, slots[i]):
            dropped += 1
    flush_rows(state)
    return stop, dropped


@rt.cold_kernel
def values(state, slots, out, start, stop):
    """Write the results of slots[start:stop], while lists have room; return the next index."""
    flush_rows(state)
    for k in range(start, stop):
        value_row(state, slots[k], out, k)
    return stop


@rt.cold_kernel
def fold(state, inputs, retracts, keep_orphans, slots, start, stop, ids, out, has_rows, chunk):
    """Apply rows as `update` does, and write the results of each run of rows with one id, before it and after it.

    ids: int64[rows], the index of a run in out. has_rows: bool[2 * runs], first whether a slot had rows before its run.
    chunk: the number of rows that are applied together; no slot among them has two ids.
    """
    dropped = 0
    count = len(has_rows) // 2
    while start < stop:
        end = min(start + chunk, stop)
        for phase in range(2):
            for i in range(start, end):
                s = slots[i]
                neighbour = i + 2 * phase - 1
                if not 0 <= neighbour < len(ids) or ids[neighbour] != ids[i]:
                    k = ids[i] + phase * count
                    has_rows[k] = state.records[s] > 0
                    value_row(state, s, out, k)
                if phase == 0 and not apply_row(state, inputs, retracts, keep_orphans, i, s):
                    dropped += 1
            flush_rows(state)
        start = end
    return stop, dropped


@rt.cold_kernel
def merge_slots(state, slots, other, others, start):
    """Merge others[start:] of another state into slots[start:], while there is room; return the next index."""
    stop = len(slots)
    for k in range(start, stop):
        merge_row(state, slots[k], other, others[k])
    flush_rows(state)
    return stop


@rt.cold_kernel
def reset_slots(state, slots):
    """Reset the accumulators at the slots to their initial values."""
    for k in range(len(slots)):
        reset_row(state, slots[k])
    flush_rows(state)


class NamespaceAggsHandler(rt.NamespaceHandler):
    """The life cycle in windows: set a window's accumulators, then accumulate, retract, merge, then read the value."""

    SPEC_JSON = SPEC_JSON
    BACKEND = BACKEND
    RETRACTING = True
    INPUTS = (
        rt.InputLayout("in_dep_delay_valid", "dep_delay", "valid"),
        rt.InputLayout("in_dep_delay_number", "dep_delay", "number"),
        rt.InputLayout("in_dep_delay_word", "dep_delay", "word"),
    )
    FIELDS = (
        rt.FieldLayout("records", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_dep_delay", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("sum_dep_delay", "i8", columns=0, kind="int", pooled=False),
    )
    VIEWS = (rt.ViewLayout("ordered_dep_delay", "ordered", pooled=False, width=1),)
    OUTPUTS = (
        rt.OutputLayout("out_flights", "word", columns=1, check=""),
        rt.OutputLayout("out_delay", "float", columns=1, check=""),
        rt.OutputLayout("out_worst", "word", columns=1, check="found"),
    )
    RESULTS = {}
    KERNELS = rt.Kernels(
        inputs=Inputs,
        state=State,
        outputs=Outputs,
        update=update,
        fold=fold,
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

    def setAccumulators(self, namespace, accumulators, slots=None):
        """Work on these accumulators of a window, or of one a slot; slots: int64[rows], of the next batches."""
        self.set_in(namespace, accumulators, slots)

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

    def merge(self, namespace, other):
        """Add other accumulators, of windows that have become this one: their slot 0, 1, ... to the current slots."""
        self.merge_in(namespace, other)

    def getValue(self, namespace):
        """Return the results, window_start, window_end, window_time: a tuple, or a record batch with a row a slot."""
        return self.value_in(namespace)

    def cleanup(self, namespace):
        """Drop the accumulators of a window."""
        self.drop_in(namespace)

    def close(self):
        """Close users' functions that nothing else in this process uses."""
        self.close_functions()
