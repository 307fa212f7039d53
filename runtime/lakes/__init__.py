"""Tables of files as changes, Delta's and Iceberg's: the pieces between two versions, and the rows of a piece."""
