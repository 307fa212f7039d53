"""What a user asks for, as data: specs, calls, types."""
