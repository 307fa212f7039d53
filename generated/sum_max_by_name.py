"""SUM(cnt) AS sum_cnt, MAX(cnt) AS max_cnt GROUP BY name

A handler of aggloom: compiled by Numba, over a retracting input, in dialect spark.
SPEC_JSON is the spec that it was generated from. You may edit it: it loads with a warning, and is never overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggloom.runtime.handlers import vocabulary as rt

SPEC_JSON = '{"calls":[{"alias":"sum_cnt","args":["cnt"],"function":"SUM"},{"alias":"max_cnt","args":["cnt"],"function":"MAX"}],"dialect":"spark","group_by":["name"],"input_changes":"retract","schema":[["name","STRING"],["cnt","INT"]]}'
BACKEND = "numba"
SUPPORT = "9c59bd49090ea77c"
DIGEST = "8cd2cc6c70503a7f"


class Inputs(NamedTuple):
    """The columns of a bundle. *_valid: False for NULL; *_word: compares as the value does; *_number: the value."""

    in_cnt_valid: Any  # bool[rows]: cnt
    in_cnt_number: Any  # int64[rows]: cnt
    in_cnt_word: Any  # int64[rows]: cnt


class State(NamedTuple):
    """The accumulators by slot, an array for each field."""

    pool: Any
    records: Any  # int64[slots]
    count_cnt: Any  # int64[slots]
    sum_cnt: Any  # int64[slots]
    ordered_cnt: Any  # ordered[slots]


class Outputs(NamedTuple):
    """The results of each call. *_valid: False for NULL; overflow: by call slot + 1 of a value that does not fit, or 0."""

    overflow: Any  # int64[calls]
    out_sum_cnt: Any  # int64[rows]: SUM(cnt) AS sum_cnt
    out_sum_cnt_valid: Any  # bool[rows]
    out_max_cnt: Any  # int64[rows]: MAX(cnt) AS max_cnt
    out_max_cnt_valid: Any  # bool[rows]


@rt.part
def accumulate_row(state, inputs, i, s):
    """Add row i to the accumulators at slot s."""
    state.records[s] += 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # SUM(cnt) AS sum_cnt, MAX(cnt) AS max_cnt
    if inputs.in_cnt_valid[i]:
        number = inputs.in_cnt_number[i]
        word = inputs.in_cnt_word[i]
        count_cnt = state.count_cnt[s]
        sum_cnt = state.sum_cnt[s]
        state.count_cnt[s] = count_cnt + 1
        state.sum_cnt[s] = sum_cnt + number
        rt.ordered_accumulate(state.ordered_cnt, state.pool, False, s, word)


@rt.part
def retract_row(state, inputs, i, s):
    """Retract row i from the accumulators at slot s; the last row resets them."""
    state.records[s] -= 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # SUM(cnt) AS sum_cnt, MAX(cnt) AS max_cnt
    if inputs.in_cnt_valid[i]:
        number = inputs.in_cnt_number[i]
        word = inputs.in_cnt_word[i]
        count_cnt = state.count_cnt[s]
        sum_cnt = state.sum_cnt[s]
        state.count_cnt[s] = count_cnt - 1
        state.sum_cnt[s] = sum_cnt - number
        rt.ordered_retract(state.ordered_cnt, state.pool, False, s, word)


@rt.inner_kernel
def reset_row(state, s):
    """Reset the accumulators at slot s to their initial values."""
    state.records[s] = 0
    state.count_cnt[s] = 0
    state.sum_cnt[s] = 0
    rt.ordered_clear(state.ordered_cnt, state.pool, False, s)


@rt.part
def merge_row(state, s, other, o):
    """Add the accumulators at slot o of another state to those at slot s."""
    state.records[s] += other.records[o]
    # SUM(cnt) AS sum_cnt, MAX(cnt) AS max_cnt
    count_cnt = state.count_cnt[s]
    other_count_cnt = other.count_cnt[o]
    sum_cnt = state.sum_cnt[s]
    other_sum_cnt = other.sum_cnt[o]
    state.count_cnt[s] = count_cnt + other_count_cnt
    state.sum_cnt[s] = sum_cnt + other_sum_cnt
    rt.ordered_merge(
        state.ordered_cnt, state.pool, False, s, other.ordered_cnt, other.pool, other_slot=o
    )

    if state.records[s] == 0:
        reset_row(state, s)


@rt.part
def value_row(state, s, out, k):
    """Write the results at slot s to row k of the outputs."""
    # SUM(cnt) AS sum_cnt
    count_cnt = state.count_cnt[s]
    sum_cnt = state.sum_cnt[s]
    valid = not (count_cnt == 0)
    value = rt.NO_WORD
    if valid:
        value = rt.wrap(sum_cnt, 64)

    rt.put_word(out.out_sum_cnt, k, value)
    out.out_sum_cnt_valid[k] = valid
    # MAX(cnt) AS max_cnt
    value, valid = rt.greatest(state.ordered_cnt, state.pool, False, s)

    rt.put_word(out.out_max_cnt, k, value)
    out.out_max_cnt_valid[k] = valid


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
    rt.ordered_flush(state.ordered_cnt, state.pool, False)


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


class GroupAggsHandler(rt.Handler):
    """The life cycle: create or set accumulators, then accumulate, retract, merge, then read the value."""

    SPEC_JSON = SPEC_JSON
    BACKEND = BACKEND
    RETRACTING = True
    INPUTS = (
        rt.InputLayout("in_cnt_valid", "cnt", "valid"),
        rt.InputLayout("in_cnt_number", "cnt", "number"),
        rt.InputLayout("in_cnt_word", "cnt", "word"),
    )
    FIELDS = (
        rt.FieldLayout("records", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_cnt", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("sum_cnt", "i8", columns=0, kind="int", pooled=False),
    )
    VIEWS = (rt.ViewLayout("ordered_cnt", "ordered", pooled=False, width=1),)
    OUTPUTS = (
        rt.OutputLayout("out_sum_cnt", "word", columns=1, check=""),
        rt.OutputLayout("out_max_cnt", "word", columns=1, check="found"),
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

    def cleanup(self):
        """Drop the current accumulators."""
        self.drop()

    def close(self):
        """Close users' functions that nothing else in this process uses."""
        self.close_functions()
