"""Parts of which generated handlers are made."""
