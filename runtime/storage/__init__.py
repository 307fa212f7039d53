"""State as arrays: the arena, its pool of bytes, indexes, trees, rows."""
