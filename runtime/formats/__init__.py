"""Formats of messages: how a line of a file or a broker's message becomes changes of a table. One file each."""
