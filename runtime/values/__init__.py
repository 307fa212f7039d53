"""Values between Arrow columns and words: columns, rows, results, changes."""
