"""Exact numbers in fixed-width state."""
