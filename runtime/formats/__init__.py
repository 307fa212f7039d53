"""Formats of messages: what a line of a file, or a broker's message, says of a table's rows. One format, one file."""
