"""Operators of aggregates in windows, and what they are made of."""
