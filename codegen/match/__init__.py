"""Row patterns: PATTERN as an automaton, DEFINE as conditions, and the module of the matcher that is made of both."""
