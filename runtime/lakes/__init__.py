"""Tables of files as changes, Delta's and Iceberg's: what lies between two versions, in pieces, and a piece's rows."""
