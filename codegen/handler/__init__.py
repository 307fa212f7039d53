"""A spec's handler: planned, rendered, written, loaded."""
