"""Shortcuts beyond the public interfaces of Java, Spark and the C library, all of them behind `is_tuned`."""
