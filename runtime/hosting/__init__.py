"""The durable state of a stateful node, bucket by bucket, as every engine keeps it."""
