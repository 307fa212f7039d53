"""Avro in messages with Confluent's frame: the client of the schema registry, schemas, values."""
