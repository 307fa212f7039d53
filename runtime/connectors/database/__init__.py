"""Tables of databases by Python's database interface: written into, and asked by lookup joins."""
