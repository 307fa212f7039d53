"""Kernels compiled in ways that are Numba's own: its passes, its libraries, its caches."""
