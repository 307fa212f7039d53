"""Rows that are made: Flink's connector `datagen`."""
