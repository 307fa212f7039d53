"""The request of a user, as data: specs, calls, types."""
