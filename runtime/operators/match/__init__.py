"""MATCH_RECOGNIZE: generated matchers over the rows of a key in time order."""
