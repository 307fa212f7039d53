"""SUM(cnt) AS sum_cnt, MAX(cnt) AS max_cnt GROUP BY name

A handler of aggloom: compiled by Numba, over a retracting input, in dialect spark.
SPEC_JSON says what it was made from. Edit it if you like: it loads with a warning, and is never overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggloom.runtime.handlers import vocabulary as rt

SPEC_JSON = '{"calls":[{"alias":"sum_cnt","args":["cnt"],"function":"SUM"},{"alias":"max_cnt","args":["cnt"],"function":"MAX"}],"dialect":"spark","group_by":["name"],"input_changes":"retract","schema":[["name","STRING"],["cnt","INT"]]}'
BACKEND = "numba"
SUPPORT = "22b397458c339c26"
DIGEST = "20dc2405a6afef4c"


class Inputs(NamedTuple):
    """One bundle's columns: *_valid says not NULL, *_word compares as the value does, *_number adds up."""

    in_cnt_valid: Any  # bool[rows]: cnt
    in_cnt_number: Any  # int64[rows]: cnt
    in_cnt_word: Any  # int64[rows]: cnt


class State(NamedTuple):
    """The accumulators, one array each, by slot."""

    pool: Any
    records: Any  # int64[slots]
    count_cnt: Any  # int64[slots]
    sum_cnt: Any  # int64[slots]
    ordered_cnt: Any  # ordered[slots]


class Outputs(NamedTuple):
    """One array for each call's values and one that says which are not NULL; `overflow` holds slot + 1 by call."""

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
    """Take row i back from the accumulators at slot s; without any row left they are as new."""
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
    """Make the accumulators at slot s as new."""
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
    """Apply row i to slot s, unless it is an orphan retraction that is not kept; says whether it was."""
    if keep_orphans:
        # What is kept may come in any order: no row leads through zero rows, where accumulators are made as new.
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
    """Apply the rows from start, each to its slot, up to stop or where room is short: (row, dropped)."""
    dropped = 0
    for i in range(start, stop):
        if not apply_row(state, inputs, retracts, keep_orphans, i, slots[i]):
            dropped += 1
    flush_rows(state)
    return stop, dropped


@rt.cold_kernel
def values(state, slots, out, start, stop):
    """Write the results at the slots from start on, up to stop or where a list has no room: the next one."""
    flush_rows(state)
    for k in range(start, stop):
        value_row(state, slots[k], out, k)
    return stop


@rt.cold_kernel
def fold(state, inputs, retracts, keep_orphans, slots, start, stop, ids, out, has_rows, chunk):
    """Apply rows as update does, and note the results of neighbouring rows of one id before and after them.

    ids: int64[rows], of the results. has_rows: bool[2 * ids], whether the slot has rows before and after them.
    chunk: so many rows are applied before results are noted; no slot in them has two ids.
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
    """Merge the slots `others` of another state into the slots beside them, while there is room: the next one."""
    stop = len(slots)
    for k in range(start, stop):
        merge_row(state, slots[k], other, others[k])
    flush_rows(state)
    return stop


@rt.cold_kernel
def reset_slots(state, slots):
    """Make the accumulators at each of the slots as new."""
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
        """Make ready for the first row: users' functions are opened. To set accumulators does it, too."""
        self.open_functions()

    def createAccumulators(self, n=1):
        """n new accumulators."""
        return self.create(n)

    def setAccumulators(self, accumulators, slots=None):
        """Work on these accumulators; slots: one for each row of the next batches (default: all in order)."""
        self.set(accumulators, slots)

    def resetAccumulators(self):
        """Make the current accumulators as new."""
        self.reset()

    def getAccumulators(self):
        """The current accumulators."""
        return self.accumulators

    def accumulate(self, rows):
        """Add a row (a tuple) or a batch."""
        self.apply(rows, False)

    def retract(self, rows):
        """Take a row or a batch back."""
        self.apply(rows, True)

    def merge(self, other):
        """Add other accumulators: their slot 0, 1, ... to the current slots."""
        self.merge_with(other)

    def getValue(self):
        """The results: a tuple for one accumulator, else a record batch with a row for each."""
        return self.value()

    def cleanup(self):
        """Drop the current accumulators."""
        self.drop()

    def close(self):
        """Release what open has made, when nothing else in this process uses it."""
        self.close_functions()
