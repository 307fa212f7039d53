"""COUNT(*) AS views, COUNT(DISTINCT user) AS users, COUNT(DISTINCT user) FILTER (WHERE NOT bot) AS people, AVG(seconds) AS mean, MIN(seconds) AS shortest GROUP BY page, day

A handler of aggloom: compiled by Numba, over an append-only input, in dialect spark.
SPEC_JSON is the spec that it was generated from. You may edit it: it loads with a warning, and is never overwritten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggloom.runtime.handlers import vocabulary as rt

SPEC_JSON = '{"calls":[{"alias":"views","args":[],"function":"COUNT"},{"alias":"users","args":["user"],"distinct":true,"function":"COUNT"},{"alias":"people","args":["user"],"distinct":true,"filter":"NOT bot","function":"COUNT"},{"alias":"mean","args":["seconds"],"function":"AVG"},{"alias":"shortest","args":["seconds"],"function":"MIN"}],"computed":[{"name":"NOT bot","sql":"NOT `bot`","type":"BOOLEAN"}],"dialect":"spark","group_by":["page","day"],"input_changes":"append","schema":[["page","STRING"],["day","DATE"],["user","BIGINT"],["seconds","DOUBLE"],["bot","BOOLEAN"]]}'
BACKEND = "numba"
SUPPORT = "9c59bd49090ea77c"
DIGEST = "29fdea5126f78b27"


class Inputs(NamedTuple):
    """The columns of a bundle. *_valid: False for NULL; *_word: compares as the value does; *_number: the value."""

    in_user_valid: Any  # bool[rows]: user
    in_user_word: Any  # int64[rows]: user
    in_not_bot_flag: Any  # bool[rows]: NOT bot
    in_seconds_valid: Any  # bool[rows]: seconds
    in_seconds_real: Any  # float64[rows]: seconds
    in_seconds_word: Any  # int64[rows]: seconds


class State(NamedTuple):
    """The accumulators by slot, an array for each field."""

    pool: Any
    records: Any  # int64[slots]
    count_user_distinct: Any  # int64[slots]
    count_user_distinct_if_not_bot: Any  # int64[slots]
    count_seconds: Any  # int64[slots]
    sum_seconds: Any  # float64[slots, 7]
    least_seconds: Any  # int64[slots]
    distinct_user: Any  # seen[slots]
    spill: Any  # spill[slots]


class Outputs(NamedTuple):
    """The results of each call. *_valid: False for NULL; overflow: by call slot + 1 of a value that does not fit, or 0."""

    overflow: Any  # int64[calls]
    out_views: Any  # int64[rows]: COUNT(*) AS views
    out_views_valid: Any  # bool[rows]
    out_users: Any  # int64[rows]: COUNT(DISTINCT user) AS users
    out_users_valid: Any  # bool[rows]
    out_people: Any  # int64[rows]: COUNT(DISTINCT user) FILTER (WHERE NOT bot) AS people
    out_people_valid: Any  # bool[rows]
    out_mean: Any  # float64[rows]: AVG(seconds) AS mean
    out_mean_valid: Any  # bool[rows]
    out_shortest: Any  # int64[rows]: MIN(seconds) AS shortest
    out_shortest_valid: Any  # bool[rows]


@rt.part
def accumulate_row(state, inputs, i, s):
    """Add row i to the accumulators at slot s."""
    state.records[s] += 1
    # AVG(seconds) AS mean, MIN(seconds) AS shortest
    if inputs.in_seconds_valid[i]:
        real_seconds = inputs.in_seconds_real[i]
        word = inputs.in_seconds_word[i]
        count_seconds = state.count_seconds[s]
        sum_seconds = rt.load_float(state.sum_seconds, s)
        least_seconds = state.least_seconds[s]
        state.count_seconds[s] = count_seconds + 1
        rt.store_float(
            state.sum_seconds, s, rt.add_float(state.spill, s, 0, sum_seconds, real_seconds)
        )
        state.least_seconds[s] = (
            word
            if count_seconds == 0 or rt.compare(state.pool, False, word, least_seconds) < 0
            else least_seconds
        )

    if inputs.in_user_valid[i]:
        word = inputs.in_user_word[i]
        entry = rt.seen_meet(state.distinct_user, state.pool, False, s, word, 1)
        # COUNT(DISTINCT user) AS users
        if rt.seen_mark(state.distinct_user, entry, 0):
            count_user_distinct = state.count_user_distinct[s]
            state.count_user_distinct[s] = count_user_distinct + 1

        # COUNT(DISTINCT user) FILTER (WHERE NOT bot) AS people
        if inputs.in_not_bot_flag[i] and rt.seen_mark(state.distinct_user, entry, 1):
            count_user_distinct_if_not_bot = state.count_user_distinct_if_not_bot[s]
            state.count_user_distinct_if_not_bot[s] = count_user_distinct_if_not_bot + 1


@rt.inner_kernel
def reset_row(state, s):
    """Reset the accumulators at slot s to their initial values."""
    state.records[s] = 0
    state.count_user_distinct[s] = 0
    state.count_user_distinct_if_not_bot[s] = 0
    state.count_seconds[s] = 0
    rt.clear_float(state.sum_seconds, s)
    rt.spill_reset(state.spill, s, 0)
    state.least_seconds[s] = 0
    rt.seen_clear(state.distinct_user, state.pool, False, s)
    rt.spill_clear(state.spill, state.pool, False, s)


@rt.part
def merge_row(state, s, other, o):
    """Add the accumulators at slot o of another state to those at slot s."""
    state.records[s] += other.records[o]
    # AVG(seconds) AS mean, MIN(seconds) AS shortest
    count_seconds = state.count_seconds[s]
    other_count_seconds = other.count_seconds[o]
    sum_seconds = rt.load_float(state.sum_seconds, s)
    other_sum_seconds = rt.load_float(other.sum_seconds, o)
    least_seconds = state.least_seconds[s]
    other_least_seconds = other.least_seconds[o]
    state.count_seconds[s] = count_seconds + other_count_seconds
    rt.store_float(
        state.sum_seconds,
        s,
        rt.combine_float(state.spill, s, 0, sum_seconds, other.spill, o, b=other_sum_seconds),
    )
    state.least_seconds[s] = (
        other_least_seconds
        if other_count_seconds > 0
        and (
            count_seconds == 0
            or rt.compare(state.pool, False, other_least_seconds, least_seconds) < 0
        )
        else least_seconds
    )

    theirs = rt.seen_first(other.distinct_user, o)
    while theirs:
        other_word = rt.seen_word(other.distinct_user, theirs)
        word = other_word
        entry = rt.seen_meet(
            state.distinct_user,
            state.pool,
            False,
            s,
            word,
            rt.seen_times(other.distinct_user, theirs),
        )
        # COUNT(DISTINCT user) AS users
        if rt.seen_has(other.distinct_user, theirs, 0) and rt.seen_mark(
            state.distinct_user, entry, 0
        ):
            count_user_distinct = state.count_user_distinct[s]
            state.count_user_distinct[s] = count_user_distinct + 1

        # COUNT(DISTINCT user) FILTER (WHERE NOT bot) AS people
        if rt.seen_has(other.distinct_user, theirs, 1) and rt.seen_mark(
            state.distinct_user, entry, 1
        ):
            count_user_distinct_if_not_bot = state.count_user_distinct_if_not_bot[s]
            state.count_user_distinct_if_not_bot[s] = count_user_distinct_if_not_bot + 1

        theirs = rt.seen_after(other.distinct_user, other.pool, o, theirs)


@rt.part
def value_row(state, s, out, k):
    """Write the results at slot s to row k of the outputs."""
    # COUNT(*) AS views
    records = state.records[s]
    value = records

    rt.put_word(out.out_views, k, value)
    out.out_views_valid[k] = True
    # COUNT(DISTINCT user) AS users
    count_user_distinct = state.count_user_distinct[s]
    value = count_user_distinct

    rt.put_word(out.out_users, k, value)
    out.out_users_valid[k] = True
    # COUNT(DISTINCT user) FILTER (WHERE NOT bot) AS people
    count_user_distinct_if_not_bot = state.count_user_distinct_if_not_bot[s]
    value = count_user_distinct_if_not_bot

    rt.put_word(out.out_people, k, value)
    out.out_people_valid[k] = True
    # AVG(seconds) AS mean
    count_seconds = state.count_seconds[s]
    sum_seconds = rt.load_float(state.sum_seconds, s)
    valid = not (count_seconds == 0)
    value = rt.NO_FLOAT
    if valid:
        value = rt.float_average(state.spill, s, 0, sum_seconds, count_seconds)

    rt.put_float(out.out_mean, k, value)
    out.out_mean_valid[k] = valid
    # MIN(seconds) AS shortest
    count_seconds = state.count_seconds[s]
    least_seconds = state.least_seconds[s]
    valid = not (count_seconds == 0)
    value = rt.NO_WORD
    if valid:
        value = least_seconds

    rt.put_word(out.out_shortest, k, value)
    out.out_shortest_valid[k] = valid


@rt.part
def apply_row(state, inputs, retracts, keep_orphans, i, s):
    """Apply row i to slot s and return True; False for an orphan retraction, which is dropped unless keep_orphans."""
    accumulate_row(state, inputs, i, s)
    return True


@rt.cold_kernel
def update(state, inputs, retracts, keep_orphans, slots, start, stop):
    """Apply rows[start:stop], each to its slot, while there is room; return (next row, number of dropped rows)."""
    dropped = 0
    for i in range(start, stop):
        if rt.spill_full(state.spill):
            stop = i
            break
        if not apply_row(state, inputs, retracts, keep_orphans, i, slots[i]):
            dropped += 1
    return stop, dropped


@rt.cold_kernel
def values(state, slots, out, start, stop):
    """Write the results of slots[start:stop], while lists have room; return the next index."""
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
                if phase == 0 and rt.spill_full(state.spill):
                    end = i
                    stop = i
                    break
                s = slots[i]
                neighbour = i + 2 * phase - 1
                if not 0 <= neighbour < len(ids) or ids[neighbour] != ids[i]:
                    k = ids[i] + phase * count
                    has_rows[k] = state.records[s] > 0
                    value_row(state, s, out, k)
                if phase == 0 and not apply_row(state, inputs, retracts, keep_orphans, i, s):
                    dropped += 1
        start = end
    return stop, dropped


@rt.cold_kernel
def merge_slots(state, slots, other, others, start):
    """Merge others[start:] of another state into slots[start:], while there is room; return the next index."""
    stop = len(slots)
    for k in range(start, stop):
        if rt.spill_full(state.spill):
            stop = k
            break
        merge_row(state, slots[k], other, others[k])
    return stop


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
    INPUTS = (
        rt.InputLayout("in_user_valid", "user", "valid"),
        rt.InputLayout("in_user_word", "user", "word"),
        rt.InputLayout("in_not_bot_flag", "NOT bot", "flag"),
        rt.InputLayout("in_seconds_valid", "seconds", "valid"),
        rt.InputLayout("in_seconds_real", "seconds", "real"),
        rt.InputLayout("in_seconds_word", "seconds", "word"),
    )
    FIELDS = (
        rt.FieldLayout("records", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_user_distinct", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_user_distinct_if_not_bot", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("count_seconds", "i8", columns=0, kind="int", pooled=False),
        rt.FieldLayout("sum_seconds", "f8", columns=7, kind="float", pooled=False),
        rt.FieldLayout("least_seconds", "i8", columns=0, kind="word", pooled=False),
    )
    VIEWS = (
        rt.ViewLayout("distinct_user", "seen", pooled=False, width=2),
        rt.ViewLayout("spill", "spill", pooled=False, width=1),
    )
    OUTPUTS = (
        rt.OutputLayout("out_views", "word", columns=1, check=""),
        rt.OutputLayout("out_users", "word", columns=1, check=""),
        rt.OutputLayout("out_people", "word", columns=1, check=""),
        rt.OutputLayout("out_mean", "float", columns=1, check=""),
        rt.OutputLayout("out_shortest", "word", columns=1, check=""),
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
