"""Times as their columns are declared: TIMESTAMP(3) has no microseconds, whatever the source sends."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen import Digits, step_of_digits


def cut_times(rows: pa.RecordBatch, digits: Digits) -> pa.RecordBatch:
    """Return rows whose columns of times have so many digits after the second; what is beyond is cut off.

    A time before 1970 becomes the earlier one, as in Flink. Columns that are not there are passed over.
    """
    for name, left in digits:
        place = rows.schema.get_field_index(name)
        if place >= 0 and rows.column(place).null_count < rows.num_rows:
            cut = cut_digits(rows.column(place), left)
            rows = rows.set_column(place, rows.schema.field(place), cut)
    return rows


def cut_digits(times: pa.Array, digits: int) -> pa.Array:
    """Return timestamps or times of day, in microseconds, with so many digits after the second; NULLs stay."""
    multiple, unit = step_of_digits(digits)
    # Whatever the zone, a second has the same parts.
    plain = times.view(pa.timestamp("us"))
    return pc.floor_temporal(plain, multiple=multiple, unit=unit).view(times.type)
