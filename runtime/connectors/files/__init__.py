"""Files in a directory: read as changes, written by Spark's own sink, asked by lookup joins."""
