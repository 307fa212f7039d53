"""The data views, as Flink calls them: many values by slot, one file a kind."""
