"""Counts a copy for every line of forward."""

relu1_computes_on = "device1"
output_is_on = "device0"
number_of_copies = 5
