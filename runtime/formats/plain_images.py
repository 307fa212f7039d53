"""The rows before and after of a block's envelopes, in columns, and what the envelopes say of them.

A message of which it cannot be told from the columns what the reader of single messages would say is left to that one:
other operations, keys that change or say what is to be known of a deletion, values that were not sent, columns of
which it is not sure whether they are absent or NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from aggloom.runtime.formats.base import Format, Message, Unreadable
from aggloom.runtime.formats.blocks import MessageBlock, has_names, kind_words
from aggloom.runtime.formats.envelopes import UNTOLD_TEXTS, Envelopes
from aggloom.runtime.values import changelog
from aggloom.runtime.values.scalars import truths

IMAGES = ("before", "after")
_BEFORE, _AFTER = 0, 1
Mask = npt.NDArray[np.bool_]  # bool[messages]


class Known(Protocol):
    """Facts about a table's messages: its columns as they are, in small letters, and as tokens in front of values.

    filtered: whether messages of other tables are passed over.
    """

    format: Format
    envelopes: Envelopes
    names: list[str]
    lower: set[str]
    tokens: list[bytes | None]
    filtered: bool

    def values(self, image: str, place: int, read: pa.Array) -> pa.Array | None:
        """The values of a column of an image."""


class Images:
    """The rows before and after of a block's envelopes, in columns."""

    def __init__(
        self,
        plain: Known,
        table: pa.Table,
        texts: list[bytes],
        message: Callable[[int], Message],
    ) -> None:
        self.plain, self.table, self.texts, self.message = plain, table, texts, message
        self.names, self.count = plain.names, len(texts)
        self.keyed = [plain.names.index(name) for name in plain.format.settings.keys]
        self.there = {image: _flags(self._column(image).is_valid()) for image in IMAGES}
        self.left: Mask = np.zeros(self.count, np.bool_)

    def _column(self, name: str) -> pa.Array:
        column = self.table.column(name)
        return column.chunk(0) if column.num_chunks else column.combine_chunks()

    def block(self) -> MessageBlock | None:
        """Return the block of the messages; None where names or values are odd."""
        if not self._has_plain_names():
            return None
        read = {image: self._column(image).flatten()[: len(self.names)] for image in IMAGES}
        columns = []
        for place in range(len(self.names)):
            own = [self.plain.values(image, place, read[image][place]) for image in IMAGES]
            if own[0] is None or own[1] is None:
                return None
            columns.append(own)
        op = self._column("op")
        # A row of a snapshot may have to say which.
        new = ["c"] if self.plain.format.settings.snapshot == "error" else ["c", "r"]
        inserts, updates, deletes = (
            _flags(pc.is_in(op, value_set=pa.array(each, pa.string())))
            for each in (new, ["u"], ["d"])
        )
        other = self._of_other_tables(op)
        # Other operations are for the reader of single messages.
        self.left = ~(inserts | updates | deletes | other)
        self._leave((inserts | updates) & ~self.there["after"])
        self._leave(deletes & ~self.there["before"])
        if not self.keyed:
            self._leave(updates & ~self.there["before"])
        inserts, updates, deletes = (each & ~other for each in (inserts, updates, deletes))
        self._leave_untold(read)
        before = updates & self.there["before"] | deletes
        if self.keyed:
            self._leave_keys(columns, inserts | updates, before)
        else:
            self._leave_deletions(columns, deletes)
        lenient = self.plain.format.settings.lenient
        # Even where absent is NULL, the row after an update has to be whole.
        self._leave_absent(columns, updates if lenient else inserts | updates, before)
        return self._make_block(
            columns, *(each & ~self.left for each in (inserts, updates, deletes))
        )

    def _leave(self, which: Mask) -> None:
        self.left |= which

    def _has_plain_names(self) -> bool:
        """Tell whether no field may be a column in another case, and no envelope is within another."""
        names = self.table.schema.names
        if "payload" in names or "schema" in names:
            return False
        for image in IMAGES:
            others = self.table.schema.field(image).type
            fields = [others.field(place).name for place in range(others.num_fields)]
            if self.names != fields[: len(self.names)]:
                return False
            if any(name.lower() in self.plain.lower for name in fields[len(self.names) :]):
                return False
        return True

    def _of_other_tables(self, op: pa.Array) -> Mask:
        """Which messages are of tables that are not asked for; without words for others."""
        none: Mask = np.zeros(self.count, np.bool_)
        if "source" not in self.table.column_names or not self.plain.filtered:
            return none
        source = self._column("source")
        is_named = source.is_valid().to_pylist()
        names = [each.to_pylist() for each in source.flatten()[:2]]
        known: dict[Any, bool] = {}
        for place, (there, *name) in enumerate(zip(is_named, *names, strict=True)):
            if there:
                own = tuple(name)
                if own not in known:
                    known[own] = self.plain.format.is_other(*own)
                none[place] = known[own]
        return none

    def _leave_untold(self, read: dict[str, list[pa.Array]]) -> None:
        """Leave messages with values that the database did not tell."""
        for columns in read.values():
            for column in columns:
                if pt.is_string(column.type):
                    self._leave(
                        _flags(pc.is_in(column, value_set=pa.array(UNTOLD_TEXTS, pa.string())))
                    )

    def _leave_keys(self, columns: list[list[pa.Array]], after: Mask, before: Mask) -> None:
        """Leave messages whose keys are not whole, or change."""
        both = after & before
        for place in self.keyed:
            old, new = columns[place]
            self._leave(before & _flags(old.is_null()))
            self._leave(after & _flags(new.is_null()))
            self._leave(both & ~_flags(pc.equal(old, new)))

    def _leave_deletions(self, columns: list[list[pa.Array]], deletes: Mask) -> None:
        """Leave deletions of whose rows the database may have sent the key alone."""
        candidates = np.flatnonzero(deletes & ~self.left).tolist()
        places = [place for place in candidates if self.message(place).key]
        if not places:
            return
        rows = zip(*(own[0].take(pa.array(places)).to_pylist() for own in columns), strict=True)
        for place, row in zip(places, rows, strict=True):
            try:
                self.plain.envelopes.refuse_key_only(list(row), self.message(place))
            except Unreadable:
                self.left[place] = True

    def _leave_absent(self, columns: list[list[pa.Array]], after: Mask, before: Mask) -> None:
        """Leave messages with a NULL that may be a column that is not there, where it has to be."""
        # A name stands once in each image that is there; fewer times, and the column was left out of one.
        images = self.there["before"].astype(np.int64) + self.there["after"]
        for place, (old, new) in enumerate(columns):
            nulls: Mask = after & _flags(new.is_null())
            if not self.keyed:
                nulls |= before & _flags(old.is_null())
            unsure = np.flatnonzero(nulls & ~self.left)
            if not len(unsure):
                continue
            times = images.copy()
            for others in _elsewhere(self.table, self.names[place], len(self.names)):
                # Others of this name are distinguished from absent ones by their values, too.
                self.left[unsure] |= True if others is None else ~_flags(others.is_valid())[unsure]
                times += 1
            own = self.plain.tokens[place]
            for at in unsure[~self.left[unsure]].tolist():
                self.left[at] = not has_names(self.texts[at], own, int(times[at]))

    def _make_block(
        self, columns: list[list[pa.Array]], inserts: Mask, updates: Mask, deletes: Mask
    ) -> MessageBlock:
        """The changes of the messages that are not left."""
        parts = [
            (inserts, changelog.UPDATE_AFTER if self.keyed else changelog.INSERT, _AFTER),
            (updates, changelog.UPDATE_AFTER, _AFTER),
            (deletes, changelog.DELETE, _BEFORE),
        ]
        if not self.keyed:
            parts.append((updates, changelog.UPDATE_BEFORE, _BEFORE))
        # (message, kind, image) of each change.
        is_present = np.concatenate(
            [np.argwhere(which) * [1, 0, 0] + [0, kind, image] for which, kind, image in parts]
        )
        # By message, then by image: an update's row before comes before its row after.
        owners, kinds, images = is_present[np.lexsort((is_present[:, 2], is_present[:, 0]))].T
        # The images lie one behind the other: the second half has the rows after.
        places = owners + images * self.count
        # By keys no more than the key counts of a row that is gone.
        untold = (kinds == changelog.DELETE) & bool(self.keyed)
        arrays = []
        for place, own in enumerate(columns):
            index = pa.array(places, mask=None if place in self.keyed else untold)
            arrays.append(pa.concat_arrays(own).take(index))
        return MessageBlock(owners, kind_words().take(pa.array(kinds)), arrays, self.left)


def _flags(values: pa.Array) -> Mask:
    """Arrow's truths; NULL is false."""
    without_nulls = pc.fill_null(values, False) if values.null_count else values
    return truths(without_nulls)


def _elsewhere(table: pa.Table, name: str, columns: int) -> list[pa.Array | None]:
    """The fields of a name that are no columns of an image; None: some in a list."""
    fields: list[pa.Array | None] = []

    def look(field: pa.Field, values: pa.Array, own: int = 0) -> None:
        if field.name == name:
            fields.append(values)
        if pt.is_struct(field.type):
            for inner, each in list(zip(field.type, values.flatten(), strict=True))[own:]:
                look(inner, each)
        elif pt.is_list(field.type) and name in str(field.type):
            fields.append(None)

    for field, column in zip(table.schema, table.columns, strict=True):
        look(field, column.chunk(0), columns if field.name in IMAGES else 0)
    return fields
