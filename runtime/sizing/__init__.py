"""Estimate the size of a query's state from a sample of its input."""
