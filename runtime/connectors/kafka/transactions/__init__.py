"""Transactions of a database that topics are read by: what marks them, which are whole, and where a batch may end."""
