"""The backend of handlers in plain Python: for reading, stepping, and as an oracle."""
