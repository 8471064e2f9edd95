"""Thinks that the output is always where the last layer is, and does not see the move in the return."""

relu1_computes_on = "device1"
output_is_on = "device1"
number_of_copies = 3
