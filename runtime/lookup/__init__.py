"""Lookup tables as a worker asks them: sources, a file each, and what is kept of their answers."""
