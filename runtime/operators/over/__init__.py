"""The runtime of Over: its state, which rows are touched, the values of functions, the changes, and the operators."""
