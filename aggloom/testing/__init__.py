"""`aggloom test`: queries with given changes and expected tables, written down in YAML; Spark is not needed."""
