"""Plans run without Spark: the harness, and pictures of what it did."""
