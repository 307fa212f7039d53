"""Lookup tables as a worker queries them: sources, one file each, and caches of their answers."""
