"""Random input for the doors, and what is to come of it: good messages, bad ones, and damaged bytes, in any mix.

    make doors EXAMPLES=10000 SEED=0

An example is a file, or a DataFrame. Good ones are read many at once, and their rows compared with those that they were
made of, so that each is counted once; one with a bad message has to fail by name. What damaged bytes hold is told by a
reading of its own: Python's json and csv, or DuckDB and Arrow for Parquet.

| module | draws |
| --- | --- |
| texts | JSON lines, Debezium's envelopes, CSV: change columns `op` and `_change_type`, names in any case, damage |
| tables | Parquet and DataFrames: integers of all sizes, dictionaries, columns missing, doubled, misspelt |
| messages | all JSON formats with keys and without, keys before values, bad messages, damaged lines, each policy |
| csv_shapes | RFC 4180 with breaks and doubled quotes, separators of one and two characters, .tsv, other quotes, |
| | no header, words for NULL, comments, latin-1 and UTF-16, .gz .bz2 .zst in one member or two, `k=1/`, damage |
| json_shapes | rows with marks of systems, marks that no rule reads, wrappers of Kafka Connect, `upsert-json`, |
| | files that are an array or pretty values, units of times, zero dates, ids of 20 digits, packed files |
| envelope_shapes | heartbeats, transactions, statements, watermarks of TiCDC, partial images, Oracle's numbers, |
| | MongoDB's documents, values beside their schema |
| column_shapes | Parquet of Polars and DuckDB: large and view types, JSON, UUID, wide numbers, nanoseconds, `k=1/` |

`shape.SYSTEMS` has the systems: AWS DMS, BigQuery, SQL Server, Snowflake, Debezium's flattened records, Fivetran.
"""

from __future__ import annotations

from doors.check import check

__all__ = ["check"]
