"""What operators remember, in components: key table, row store, row bag, sorted rows."""
