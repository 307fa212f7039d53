"""Lookup joins: rows that ask a table when they come, and what they got."""
