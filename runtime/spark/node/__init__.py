"""The stateful node: rows packed by bucket, the processor that runs a fragment of operators, and its durable state."""
