"""Expected changelogs, as data, run through the harness."""
