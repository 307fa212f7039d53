"""The runtime of Rank: its state, which rows are seen, what changes, and the operator."""
