"""Tables of Delta by delta-rs: read as changes, written in one commit a batch."""
