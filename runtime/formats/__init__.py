"""Formats of messages: what a line of a file, or a message of a broker, says of a table's rows. One format, one file."""
