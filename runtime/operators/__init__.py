"""The operators: state and changes in, changes out; they know no Spark."""
