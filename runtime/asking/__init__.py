"""SQL over the tables of a checkpoint: its result and the contents of its operators, all of one commit."""
