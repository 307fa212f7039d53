"""Topics of Kafka: fetched by workers or read by Spark's connector, written by librdkafka."""
