"""Topics of Kafka: read by Spark's connector, written by librdkafka."""
