"""Deduplicate: one row of each key, the first or the last (SEMANTICS 5.2)."""
