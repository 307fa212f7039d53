"""SQL to nodes: each clause of a query, and the part of a logical plan that it becomes."""
