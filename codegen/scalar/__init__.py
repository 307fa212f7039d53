"""Scalar expressions lowered from Spark SQL to Arrow compute calls, with Spark's meaning in ANSI mode."""
