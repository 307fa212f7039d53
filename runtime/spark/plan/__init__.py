"""A physical plan as a Spark query: scans, steps, exchanges and stateful nodes as DataFrames."""
