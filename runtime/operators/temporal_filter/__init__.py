"""TemporalFilter: rows that come and leave by the clock."""
