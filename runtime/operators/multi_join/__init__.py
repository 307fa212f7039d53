"""The operator of a chain of joins on one key."""
