"""Lookup joins: rows that query a table when they arrive, and their answers."""
