"""SUM(amount) AS balance, AVG(amount) AS mean, MIN(amount) AS least, FIRST_VALUE(note) AS first_note, LAST_VALUE(at) AS last_at GROUP BY account

A handler of aggloom: compiled by Numba, over a retracting input, in dialect flink.
SPEC_JSON is the spec that it was generated from. You may edit it: it loads with a warning, and is never overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggloom.runtime.handlers import vocabulary as rt

SPEC_JSON = '{"calls":[{"alias":"balance","args":["amount"],"function":"SUM"},{"alias":"mean","args":["amount"],"function":"AVG"},{"alias":"least","args":["amount"],"function":"MIN"},{"alias":"first_note","args":["note"],"function":"FIRST_VALUE"},{"alias":"last_at","args":["at"],"function":"LAST_VALUE"}],"dialect":"flink","group_by":["account"],"input_changes":"retract","schema":[["account","BIGINT"],["amount","DECIMAL(12,2)"],["at","TIMESTAMP_NTZ"],["note","STRING"]]}'
BACKEND = "numba"
SUPPORT = "9c59bd49090ea77c"
DIGEST = "371106eda4cfeab4"


class Inputs(NamedTuple):
    """The columns of a bundle. *_valid: False for NULL; *_word: compares as the value does; *_number: the value."""

    in_amount_valid: Any  # bool[rows]: amount
    in_amount_wide: Any  # Limbs[rows]: amount
    in_amount_word: Any  # int64[rows]: amount
    in_note_valid: Any  # bool[rows]: note
    in_note_word: Any  # int64[rows]: note
    in_at_valid: Any  # bool[rows]: at
    in_at_word: Any  # int64[rows]: at


class State(NamedTuple):
    """The accumulators by slot, an array for each field."""

    pool: Any
    records: Any  # int64[slots]
    count_amount: Any  # int64[slots]
    sum_amount: Any  # int64[slots, 2]
    ordered_amount: Any  # ordered[slots]
    sequence_note: Any  # sequence[slots]
    sequence_at: Any  # sequence[slots]


class Outputs(NamedTuple):
    """The results of each call. *_valid: False for NULL; overflow: by call slot + 1 of a value that does not fit, or 0."""

    overflow: Any  # int64[calls]
    out_balance: Any  # int64[rows, 2]: SUM(amount) AS balance
    out_balance_valid: Any  # bool[rows]
    out_mean: Any  # int64[rows, 2]: AVG(amount) AS mean
    out_mean_valid: Any  # bool[rows]
    out_least: Any  # int64[rows]: MIN(amount) AS least
    out_least_valid: Any  # bool[rows]
    out_first_note: Any  # int64[rows]: FIRST_VALUE(note) AS first_note
    out_first_note_valid: Any  # bool[rows]
    out_last_at: Any  # int64[rows]: LAST_VALUE(at) AS last_at
    out_last_at_valid: Any  # bool[rows]


@rt.part
def accumulate_row(state, inputs, i, s):
    """Add row i to the accumulators at slot s."""
    state.records[s] += 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # SUM(amount) AS balance, AVG(amount) AS mean, MIN(amount) AS least
    if inputs.in_amount_valid[i]:
        number = rt.wide_at(inputs.in_amount_wide, i)
        word = inputs.in_amount_word[i]
        count_amount = state.count_amount[s]
        sum_amount = rt.load_wide(state.sum_amount, s)
        state.count_amount[s] = count_amount + 1
        rt.store_wide(state.sum_amount, s, rt.add_wide(sum_amount, number))
        rt.ordered_accumulate(state.ordered_amount, state.pool, False, s, word)

    # FIRST_VALUE(note) AS first_note
    if inputs.in_note_valid[i]:
        word = inputs.in_note_word[i]
        rt.sequence_accumulate(state.sequence_note, state.pool, True, s, word)

    # LAST_VALUE(at) AS last_at
    if inputs.in_at_valid[i]:
        word = inputs.in_at_word[i]
        rt.sequence_accumulate(state.sequence_at, state.pool, False, s, word)


@rt.part
def retract_row(state, inputs, i, s):
    """Retract row i from the accumulators at slot s; the last row resets them."""
    state.records[s] -= 1
    if state.records[s] == 0:
        reset_row(state, s)
        return
    # SUM(amount) AS balance, AVG(amount) AS mean, MIN(amount) AS least
    if inputs.in_amount_valid[i]:
        number = rt.wide_at(inputs.in_amount_wide, i)
        word = inputs.in_amount_word[i]
        count_amount = state.count_amount[s]
        sum_amount = rt.load_wide(state.sum_amount, s)
        state.count_amount[s] = count_amount - 1
        rt.store_wide(state.sum_amount, s, rt.subtract_wide(sum_amount, number))
        rt.ordered_retract(state.ordered_amount, state.pool, False, s, word)

    # FIRST_VALUE(note) AS first_note
    if inputs.in_note_valid[i]:
        word = inputs.in_note_word[i]
        rt.sequence_retract(state.sequence_note, state.pool, True, s, word)

    # LAST_VALUE(at) AS last_at
    if inputs.in_at_valid[i]:
        word = inputs.in_at_word[i]
        rt.sequence_retract(state.sequence_at, state.pool, False, s, word)


@rt.inner_kernel
def reset_row(state, s):
    """Reset the accumulators at slot s to their initial values."""
    state.records[s] = 0
    state.count_amount[s] = 0
    rt.clear_wide(state.sum_amount, s)
    rt.ordered_clear(state.ordered_amount, state.pool, False, s)
    rt.sequence_clear(state.sequence_note, state.pool, True, s)
    rt.sequence_clear(state.sequence_at, state.pool, False, s)


@rt.part
def merge_row(state, s, other, o):
    """Add the accumulators at slot o of another state to those at slot s."""
    state.records[s] += other.records[o]
    # SUM(amount) AS balance, AVG(amount) AS mean, MIN(amount) AS least
    count_amount = state.count_amount[s]
    other_count_amount = other.count_amount[o]
    sum_amount = rt.load_wide(state.sum_amount, s)
    other_sum_amount = rt.load_wide(other.sum_amount, o)
    state.count_amount[s] = count_amount + other_count_amount
    rt.store_wide(state.sum_amount, s, rt.combine_wide(sum_amount, other_sum_amount))
    rt.ordered_merge(
        state.ordered_amount, state.pool, False, s, other.ordered_amount, other.pool, other_slot=o
    )

    # FIRST_VALUE(note) AS first_note
    rt.sequence_merge(
        state.sequence_note, state.pool, True, s, other.sequence_note, other.pool, other_slot=o
    )

    # LAST_VALUE(at) AS last_at
    rt.sequence_merge(
        state.sequence_at, state.pool, False, s, other.sequence_at, other.pool, other_slot=o
    )

    if state.records[s] == 0:
        reset_row(state, s)


@rt.part
def value_row(state, s, out, k):
    """Write the results at slot s to row k of the outputs."""
    # SUM(amount) AS balance
    count_amount = state.count_amount[s]
    sum_amount = rt.load_wide(state.sum_amount, s)
    valid = not (count_amount == 0)
    value = rt.NO_LIMBS
    if valid:
        value, valid = rt.wide_to_decimal(sum_amount, 38)
        if not valid:
            out.overflow[0] = s + 1

    rt.put_limbs(out.out_balance, k, value)
    out.out_balance_valid[k] = valid
    # AVG(amount) AS mean
    count_amount = state.count_amount[s]
    sum_amount = rt.load_wide(state.sum_amount, s)
    valid = not (count_amount == 0)
    value = rt.NO_LIMBS
    if valid:
        value, valid = rt.divide_wide(sum_amount, count_amount, 4, 38)
        if not valid:
            out.overflow[1] = s + 1

    rt.put_limbs(out.out_mean, k, value)
    out.out_mean_valid[k] = valid
    # MIN(amount) AS least
    value, valid = rt.least(state.ordered_amount, state.pool, False, s)

    rt.put_word(out.out_least, k, value)
    out.out_least_valid[k] = valid
    # FIRST_VALUE(note) AS first_note
    value, valid = rt.oldest(state.sequence_note, state.pool, True, s)

    rt.put_word(out.out_first_note, k, value)
    out.out_first_note_valid[k] = valid
    # LAST_VALUE(at) AS last_at
    value, valid = rt.newest(state.sequence_at, state.pool, False, s)

    rt.put_word(out.out_last_at, k, value)
    out.out_last_at_valid[k] = valid


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
    rt.ordered_flush(state.ordered_amount, state.pool, False)


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
        rt.InputLayout("in_amount_valid", "amount", "valid"),
        rt.InputLayout("in_amount_wide", "amount", "wide"),
        rt.InputLayout("in_amount_word", "amount", "word"),
        rt.InputLayout("in_note_valid", "note", "valid"),
        rt.InputLayout("in_note_word", "note", "word"),
        rt.InputLayout("in_at_valid", "at", "valid"),
        rt.InputLayout("in_at_word", "at", "word"),
    )
    FIELDS = (
        rt.FieldLayout("records", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_amount", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("sum_amount", "i8", columns=2, kind="wide", pooled=False),
    )
    VIEWS = (
        rt.ViewLayout("ordered_amount", "ordered", pooled=False, width=1),
        rt.ViewLayout("sequence_note", "sequence", pooled=True, width=1),
        rt.ViewLayout("sequence_at", "sequence", pooled=False, width=1),
    )
    OUTPUTS = (
        rt.OutputLayout("out_balance", "limbs", columns=1, check="fits"),
        rt.OutputLayout("out_mean", "limbs", columns=1, check="fits"),
        rt.OutputLayout("out_least", "word", columns=1, check="found"),
        rt.OutputLayout("out_first_note", "word", columns=1, check="found"),
        rt.OutputLayout("out_last_at", "word", columns=1, check="found"),
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
