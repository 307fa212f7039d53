"""Connectors, a folder each: their options, their source, their sink."""
