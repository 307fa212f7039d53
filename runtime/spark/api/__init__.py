"""The operators as functions of DataFrames: rows or changes in, a changelog out."""
