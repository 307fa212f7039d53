"""The users' own functions: taken in, checked, lowered."""
