"""SQL to specs and calls."""
