"""Running queries and their checkpoints, watched from outside: progress, journal, state by key."""
