"""The local engine: a plan over streams in one process, without Java, with a checkpoint of its own."""
