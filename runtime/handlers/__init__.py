"""The building blocks of generated handlers."""
