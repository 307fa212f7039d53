"""Scripts of several statements: tables, views and settings around queries."""
