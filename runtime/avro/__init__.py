"""Avro in messages as Confluent frames them: the registry of schemas, schemas as they were written, values by them."""
