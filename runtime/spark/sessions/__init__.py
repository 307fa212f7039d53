"""Spark sessions: their settings, the start of Java, and the needs of a cluster."""
