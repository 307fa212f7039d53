"""Tables of Iceberg by PyIceberg: read as changes, written in one transaction a batch."""
