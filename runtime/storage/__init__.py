"""Storage of state: the arena of arrays, the pool of bytes, key indexes and trees, and how kernels are compiled."""
