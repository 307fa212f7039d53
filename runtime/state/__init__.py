"""State of operators, in components: key table, row store, row bag, sorted rows."""
