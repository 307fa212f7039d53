"""Deduplicate: one row of each key, the first or the last."""
