"""Random input for the doors, and what is to come of it: good messages, bad ones, and damaged bytes, in any mix.

    make doors EXAMPLES=10000 SEED=0

An example is a file, or a DataFrame. Good ones are read many at once, and their rows compared with those that they were
made of, so that each is counted once; one with a bad message has to fail by name. What damaged bytes hold is told by a
reading of its own: Python's json and csv, or DuckDB and Arrow for Parquet.
"""

from __future__ import annotations

from doors.check import check

__all__ = ["check"]
