"""The runtime of Join: its rows by side, what a bundle changes of them, which pairs match, what leaves."""
