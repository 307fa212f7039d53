"""The aggregate functions: one entry each."""
