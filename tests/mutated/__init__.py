"""Snapshots with right checksums and wrong contents: what is changed in them, and what is done with them."""
