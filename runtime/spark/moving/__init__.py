"""Queries that come from another engine, and go there."""
