"""Gives the names that printing a device shows."""

relu1_computes_on = "simgpu:1"
output_is_on = "simgpu:0"
number_of_copies = 3
