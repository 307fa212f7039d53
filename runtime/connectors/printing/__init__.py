"""Changes as lines: Flink's connector `print`, and `blackhole`, which prints nothing."""
