"""Thinks that the move from the CPU is no copy between devices."""

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = 2
