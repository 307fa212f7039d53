"""COUNT(*) AS flights, SUM(dep_delay) AS total, AVG(arr_delay) AS mean, MAX(arr_delay) AS worst, COUNT(DISTINCT dest) AS airports GROUP BY carrier

A handler of aggloom: compiled by Numba, over a retracting input, in dialect spark.
SPEC_JSON says what it was made from. Edit it if you like: it loads with a warning, and is never overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggloom.runtime.handlers import vocabulary as rt

SPEC_JSON = '{"calls":[{"alias":"flights","args":[],"function":"COUNT"},{"alias":"total","args":["dep_delay"],"function":"SUM"},{"alias":"mean","args":["arr_delay"],"function":"AVG"},{"alias":"worst","args":["arr_delay"],"function":"MAX"},{"alias":"airports","args":["dest"],"distinct":true,"function":"COUNT"}],"dialect":"spark","group_by":["carrier"],"input_changes":"retract","schema":[["carrier","STRING"],["dest","STRING"],["dep_delay","INT"],["arr_delay","INT"]]}'
BACKEND = "numba"
SUPPORT = "22b397458c339c26"
DIGEST = "c7e30c1bcb20eb72"


class Inputs(NamedTuple):
    """One bundle's columns: *_valid says not NULL, *_word compares as the value does, *_number adds up."""

    in_dep_delay_valid: Any  # bool[rows]: dep_delay
    in_dep_delay_number: Any  # int64[rows]: dep_delay
    in_arr_delay_valid: Any  # bool[rows]: arr_delay
    in_arr_delay_number: Any  # int64[rows]: arr_delay
    in_arr_delay_word: Any  # int64[rows]: arr_delay
    in_dest_valid: Any  # bool[rows]: dest
    in_dest_word: Any  # int64[rows]: dest


class State(NamedTuple):
    """The accumulators, one array each, by slot."""

    pool: Any
    records: Any  # int64[slots]
    count_dep_delay: Any  # int64[slots]
    sum_dep_delay: Any  # int64[slots]
    count_arr_delay: Any  # int64[slots]
    sum_arr_delay: Any  # int64[slots]
    count_dest_distinct: Any  # int64[slots]
    distinct_dest: Any  # multiset[slots]
    ordered_arr_delay: Any  # ordered[slots]


class Outputs(NamedTuple):
    """One array for each call's values and one that says which are not NULL; `overflow` holds slot + 1 by call."""

    overflow: Any  # int64[calls]
    out_flights: Any  # int64[rows]: COUNT(*) AS flights
    out_flights_valid: Any  # bool[rows]
    out_total: Any  # int64[rows]: SUM(dep_delay) AS total
    out_total_valid: Any  # bool[rows]
    out_mean: Any  # float64[rows]: AVG(arr_delay) AS mean
    out_mean_valid: Any  # bool[rows]
    out_worst: Any  # int64[rows]: MAX(arr_delay) AS worst
    out_worst_valid: Any  # bool[rows]
    out_airports: Any  # int64[rows]: COUNT(DISTINCT dest) AS airports
    out_airports_valid: Any  # bool[rows]


@rt.part
def accumulate_row(state, inputs, i, s):
    """Add row i to the accumulators at slot s."""
    state.records[s] += 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # SUM(dep_delay) AS total
    if inputs.in_dep_delay_valid[i]:
        number = inputs.in_dep_delay_number[i]
        count_dep_delay = state.count_dep_delay[s]
        sum_dep_delay = state.sum_dep_delay[s]
        state.count_dep_delay[s] = count_dep_delay + 1
        state.sum_dep_delay[s] = sum_dep_delay + number

    # AVG(arr_delay) AS mean, MAX(arr_delay) AS worst
    if inputs.in_arr_delay_valid[i]:
        number = inputs.in_arr_delay_number[i]
        word = inputs.in_arr_delay_word[i]
        count_arr_delay = state.count_arr_delay[s]
        sum_arr_delay = state.sum_arr_delay[s]
        state.count_arr_delay[s] = count_arr_delay + 1
        state.sum_arr_delay[s] = sum_arr_delay + number
        rt.ordered_accumulate(state.ordered_arr_delay, state.pool, False, s, word)

    if inputs.in_dest_valid[i]:
        word = inputs.in_dest_word[i]
        entry = rt.multiset_entry(state.distinct_dest, state.pool, True, s, word)
        # COUNT(DISTINCT dest) AS airports
        if rt.multiset_change(state.distinct_dest, entry, 0, 1) == 1:
            count_dest_distinct = state.count_dest_distinct[s]
            state.count_dest_distinct[s] = count_dest_distinct + 1

        rt.multiset_prune_added(state.distinct_dest, state.pool, True, s, entry)


@rt.part
def retract_row(state, inputs, i, s):
    """Take row i back from the accumulators at slot s; without any row left they are as new."""
    state.records[s] -= 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # SUM(dep_delay) AS total
    if inputs.in_dep_delay_valid[i]:
        number = inputs.in_dep_delay_number[i]
        count_dep_delay = state.count_dep_delay[s]
        sum_dep_delay = state.sum_dep_delay[s]
        state.count_dep_delay[s] = count_dep_delay - 1
        state.sum_dep_delay[s] = sum_dep_delay - number

    # AVG(arr_delay) AS mean, MAX(arr_delay) AS worst
    if inputs.in_arr_delay_valid[i]:
        number = inputs.in_arr_delay_number[i]
        word = inputs.in_arr_delay_word[i]
        count_arr_delay = state.count_arr_delay[s]
        sum_arr_delay = state.sum_arr_delay[s]
        state.count_arr_delay[s] = count_arr_delay - 1
        state.sum_arr_delay[s] = sum_arr_delay - number
        rt.ordered_retract(state.ordered_arr_delay, state.pool, False, s, word)

    if inputs.in_dest_valid[i]:
        word = inputs.in_dest_word[i]
        entry = rt.multiset_found(state.distinct_dest, state.pool, True, s, word)
        # COUNT(DISTINCT dest) AS airports
        if rt.multiset_change(state.distinct_dest, entry, 0, -1) == 0:
            count_dest_distinct = state.count_dest_distinct[s]
            state.count_dest_distinct[s] = count_dest_distinct - 1

        rt.multiset_prune(state.distinct_dest, state.pool, True, s, entry)


@rt.inner_kernel
def reset_row(state, s):
    """Make the accumulators at slot s as new."""
    state.records[s] = 0
    state.count_dep_delay[s] = 0
    state.sum_dep_delay[s] = 0
    state.count_arr_delay[s] = 0
    state.sum_arr_delay[s] = 0
    state.count_dest_distinct[s] = 0
    rt.multiset_clear(state.distinct_dest, state.pool, True, s)
    rt.ordered_clear(state.ordered_arr_delay, state.pool, False, s)


@rt.part
def merge_row(state, s, other, o):
    """Add the accumulators at slot o of another state to those at slot s."""
    state.records[s] += other.records[o]
    # SUM(dep_delay) AS total
    count_dep_delay = state.count_dep_delay[s]
    other_count_dep_delay = other.count_dep_delay[o]
    sum_dep_delay = state.sum_dep_delay[s]
    other_sum_dep_delay = other.sum_dep_delay[o]
    state.count_dep_delay[s] = count_dep_delay + other_count_dep_delay
    state.sum_dep_delay[s] = sum_dep_delay + other_sum_dep_delay

    # AVG(arr_delay) AS mean, MAX(arr_delay) AS worst
    count_arr_delay = state.count_arr_delay[s]
    other_count_arr_delay = other.count_arr_delay[o]
    sum_arr_delay = state.sum_arr_delay[s]
    other_sum_arr_delay = other.sum_arr_delay[o]
    state.count_arr_delay[s] = count_arr_delay + other_count_arr_delay
    state.sum_arr_delay[s] = sum_arr_delay + other_sum_arr_delay
    rt.ordered_merge(
        state.ordered_arr_delay,
        state.pool,
        False,
        s,
        other.ordered_arr_delay,
        other.pool,
        other_slot=o,
    )

    theirs = rt.multiset_first(other.distinct_dest, o)
    while theirs:
        other_word = rt.multiset_word(other.distinct_dest, theirs)
        word = rt.import_word(state.pool, other.pool, other_word)
        entry = rt.multiset_entry(state.distinct_dest, state.pool, True, s, word)
        # COUNT(DISTINCT dest) AS airports
        change = rt.multiset_count(other.distinct_dest, theirs, 0)
        count = rt.multiset_change(state.distinct_dest, entry, 0, change)
        if count > 0 and count - change <= 0:
            count_dest_distinct = state.count_dest_distinct[s]
            state.count_dest_distinct[s] = count_dest_distinct + 1

        if count <= 0 and count - change > 0:
            count_dest_distinct = state.count_dest_distinct[s]
            state.count_dest_distinct[s] = count_dest_distinct - 1

        rt.multiset_prune(state.distinct_dest, state.pool, True, s, entry)
        theirs = rt.multiset_after(other.distinct_dest, other.pool, o, theirs)
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
    # SUM(dep_delay) AS total
    count_dep_delay = state.count_dep_delay[s]
    sum_dep_delay = state.sum_dep_delay[s]
    valid = not (count_dep_delay == 0)
    value = rt.NO_WORD
    if valid:
        value = rt.wrap(sum_dep_delay, 64)

    rt.put_word(out.out_total, k, value)
    out.out_total_valid[k] = valid
    # AVG(arr_delay) AS mean
    count_arr_delay = state.count_arr_delay[s]
    sum_arr_delay = state.sum_arr_delay[s]
    valid = not (count_arr_delay == 0)
    value = rt.NO_FLOAT
    if valid:
        value = sum_arr_delay / count_arr_delay

    rt.put_float(out.out_mean, k, value)
    out.out_mean_valid[k] = valid
    # MAX(arr_delay) AS worst
    value, valid = rt.greatest(state.ordered_arr_delay, state.pool, False, s)

    rt.put_word(out.out_worst, k, value)
    out.out_worst_valid[k] = valid
    # COUNT(DISTINCT dest) AS airports
    count_dest_distinct = state.count_dest_distinct[s]
    value = count_dest_distinct

    rt.put_word(out.out_airports, k, value)
    out.out_airports_valid[k] = True


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
    rt.ordered_flush(state.ordered_arr_delay, state.pool, False)


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
        rt.InputLayout("in_dep_delay_valid", "dep_delay", "valid"),
        rt.InputLayout("in_dep_delay_number", "dep_delay", "number"),
        rt.InputLayout("in_arr_delay_valid", "arr_delay", "valid"),
        rt.InputLayout("in_arr_delay_number", "arr_delay", "number"),
        rt.InputLayout("in_arr_delay_word", "arr_delay", "word"),
        rt.InputLayout("in_dest_valid", "dest", "valid"),
        rt.InputLayout("in_dest_word", "dest", "word"),
    )
    FIELDS = (
        rt.FieldLayout("records", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_dep_delay", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("sum_dep_delay", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_arr_delay", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("sum_arr_delay", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_dest_distinct", "i8", columns=0, kind="int", pooled=False),
    )
    VIEWS = (
        rt.ViewLayout("distinct_dest", "multiset", pooled=True, width=1),
        rt.ViewLayout("ordered_arr_delay", "ordered", pooled=False, width=1),
    )
    OUTPUTS = (
        rt.OutputLayout("out_flights", "word", columns=1, check=""),
        rt.OutputLayout("out_total", "word", columns=1, check=""),
        rt.OutputLayout("out_mean", "float", columns=1, check=""),
        rt.OutputLayout("out_worst", "word", columns=1, check="found"),
        rt.OutputLayout("out_airports", "word", columns=1, check=""),
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
