"""Thinks that an output comes back to where the batch came from."""

relu1_computes_on = "device1"
output_is_on = "cpu"
number_of_copies = 3
