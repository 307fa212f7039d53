"""Sinks of a changelog: files, tables, databases and topics, batch by batch."""
