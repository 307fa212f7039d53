"""The rows before and after of a block's envelopes, in columns, and the changes that they make.

A message is left to the reader of single messages where the columns do not show what that reader would answer:
other operations, keys that change or say what is to be known of a deletion, values that were not sent, columns that are
not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.formats.base import Format, Message, Unreadable
from aggloom.runtime.formats.blocks import MessageBlock, kind_words
from aggloom.runtime.formats.envelopes import UNTOLD_TEXTS, Envelopes
from aggloom.runtime.formats.json_fields import FieldValues
from aggloom.runtime.formats.json_tokens import ARRAY, ESCAPED, OBJECT, TEXT
from aggloom.runtime.formats.texts import Bytes
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.values import changelog
from aggloom.runtime.values.scalars import from_places, truths


class Image(NamedTuple):
    """The rows before or after of some messages: which are there, their fields, and their columns."""

    is_there: FlagArray
    fields: list[FieldValues]
    columns: list[pa.Array]


class Images:
    """The rows before and after of a block's envelopes, in columns."""

    def __init__(
        self,
        format: Format,
        envelopes: Envelopes,
        messages: Sequence[Message],
        before: Image,
        after: Image,
    ) -> None:
        self._envelopes, self._messages = envelopes, messages
        self._settings, self._keyed = format.settings, format.key_places
        self._before, self._after = before, after

    def block(self, op: Bytes, others: FlagArray, left: FlagArray) -> MessageBlock:
        """Return the block of the messages.

        op: uint8[messages], their letters. others: of other tables. left: bool[messages], of whom nothing is known.
        """
        before, after = self._before.is_there, self._after.is_there
        inserts, updates, deletes = op == ord("c"), op == ord("u"), op == ord("d")
        if self._settings.snapshot != "error":
            # A row of a snapshot may have to say which.
            inserts |= op == ord("r")
        # Other operations are for the reader of single messages.
        left |= ~(inserts | updates | deletes | others)
        inserts, updates, deletes = (each & ~others for each in (inserts, updates, deletes))
        left |= (inserts | updates) & ~after
        left |= deletes & ~before
        if self._keyed:
            self._leave_keys(inserts | updates, updates & before | deletes, left)
        else:
            left |= updates & ~before
            self._leave_deletions(deletes, left)
        # Even where absent is NULL, the row after an update has to be whole.
        whole = updates if self._settings.lenient else inserts | updates
        for old, new in zip(self._before.fields, self._after.fields, strict=True):
            left |= whole & new.is_absent
            if not self._keyed:
                left |= (updates | deletes) & old.is_absent
        return self._make_block(inserts & ~left, updates & ~left, deletes & ~left, left)

    def _leave_keys(self, after: FlagArray, before: FlagArray, left: FlagArray) -> None:
        """Leave messages whose keys are not whole, or change."""
        # The old key of an update that changes it has to end by itself.
        both = after & before
        for place in self._keyed:
            old, new = self._before.columns[place], self._after.columns[place]
            left |= before & _flags(old.is_null()) | after & _flags(new.is_null())
            left |= both & ~_flags(pc.equal(old, new))

    def _leave_deletions(self, deletes: FlagArray, left: FlagArray) -> None:
        """Leave deletions of whose rows the database may have sent the key alone."""
        candidates = np.flatnonzero(deletes & ~left).tolist()
        places = [place for place in candidates if self._messages[place].key]
        if not places:
            return
        index = pa.array(places)
        rows = zip(*(own.take(index).to_pylist() for own in self._before.columns), strict=True)
        for place, row in zip(places, rows, strict=True):
            try:
                self._envelopes.refuse_key_only(list(row), self._messages[place])
            except Unreadable:
                left[place] = True

    def _make_block(
        self, inserts: FlagArray, updates: FlagArray, deletes: FlagArray, left: FlagArray
    ) -> MessageBlock:
        """The changes of the messages that are not left."""
        is_keyed = bool(self._keyed)
        # An update is two changes, the row before and the row after; by keys the second one.
        lengths = (inserts | updates | deletes).astype(np.int64) + (updates & (not is_keyed))
        owners = np.repeat(np.arange(len(left)), lengths)
        is_first = np.ones(len(owners), np.bool_)
        is_first[1:] = owners[1:] != owners[:-1]
        is_delete = deletes[owners]
        is_before = is_delete | updates[owners] & is_first & (not is_keyed)
        kinds = np.where(inserts[owners] & (not is_keyed), changelog.INSERT, changelog.UPDATE_AFTER)
        kinds[is_before] = changelog.UPDATE_BEFORE
        kinds[is_delete] = changelog.DELETE
        # The images lie one behind the other: the second half has the rows after.
        places = owners + ~is_before * len(left)
        # By keys no more than the key counts of a row that is gone.
        known = pa.array(places, mask=is_delete) if is_keyed else from_places(places)
        columns = []
        for place, both in enumerate(zip(self._before.columns, self._after.columns, strict=True)):
            rows = from_places(places) if place in self._keyed else known
            columns.append(pa.concat_arrays(both).take(rows))
        return MessageBlock(owners, kind_words().take(from_places(kinds)), columns, left)


def is_untold(field: FieldValues) -> FlagArray:
    """The values that stand for one that the database did not tell; bool[objects]."""
    starts, ends = field.spans
    sizes = [len(text) for text in UNTOLD_TEXTS]
    may_be = (field.kinds == TEXT) & np.isin(ends - starts, sizes) | (field.kinds == ESCAPED)
    if may_be.any():
        texts, _ = field.texts(may_be)
        may_be &= _flags(pc.is_in(texts, pa.array(UNTOLD_TEXTS, pa.string())))
    return may_be


def is_nested(field: FieldValues) -> FlagArray:
    """The values that are objects or arrays, of which the database may have left out a part; bool[objects]."""
    nested: FlagArray = (field.kinds == OBJECT) | (field.kinds == ARRAY)
    return nested


def _flags(values: pa.Array) -> FlagArray:
    """Arrow's truths; NULL is false."""
    without_nulls = pc.fill_null(values, False) if values.null_count else values
    return truths(without_nulls)
