"""Sources of changes: files, messages, topics of Kafka and tables of lakes as DataFrames."""
