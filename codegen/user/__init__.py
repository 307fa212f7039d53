"""Users' functions: captured from their modules, checked, registered, and lowered."""
