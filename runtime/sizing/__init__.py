"""How much a query will remember, told from a sample."""
