"""What Flink calls data views: many values by slot, one file a kind."""
