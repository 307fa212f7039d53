"""Generated rows: Flink's connector `datagen`."""
