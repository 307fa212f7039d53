"""What generated handlers are made of."""
