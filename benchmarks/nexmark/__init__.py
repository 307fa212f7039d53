"""Nexmark: an auction house as three streams, 23 queries over them, and what runs and checks these."""
