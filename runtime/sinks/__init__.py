"""Sinks: where the changes of a result go, without Spark. One kind of place, one file."""
